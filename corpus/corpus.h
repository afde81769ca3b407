/* The door of corpus: from files to batches.
 *
 * documents (txt, jsonl, folders, compressed, stdin, the machine's own text)
 *   -> tokenizer (SentencePiece) -> token file (memory-mapped, document index)
 *   -> sampler (which windows a step trains on: a pure function of seed and step).
 *
 * A document's `domain` is a label for judging the router; it never reaches
 * training. Read in this order: reader, system_text, tokenizer, tokens, sampler,
 * packing, prepare, encode.
 */
#ifndef PL_CORPUS_CORPUS_H
#define PL_CORPUS_CORPUS_H
#include "base/base.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- reader ---- */
typedef struct pl_document {
    const char *text; /* valid UTF-8 (bad bytes became U+FFFD), not terminated */
    size_t len;
    const char *domain; /* "" if unknown */
    const char *source; /* file it came from */
} pl_document;          /* borrowed for the call */

/* The identity of a document in token files: it depends on its text alone. */
uint64_t pl_document_hash(const pl_document *document);

typedef struct pl_read_stats {
    uint64_t n_files, n_documents, n_bytes;
    uint64_t n_empty, n_replaced_bytes,
        n_skipped_files; /* in folders binary files are skipped */
    uint64_t n_cuts;     /* cuts between the documents of a single text file */
    /* if n_cuts > 0: the hash of the file's whole text as one document */
    pl_hash whole;
} pl_read_stats;

typedef pl_status (*pl_document_fn)(void *context, const pl_document *document);

/* A text file is one document. *.jsonl gives one document per line ("text", optional
 * "domain"). A folder is walked in order of names (hidden files are skipped; domain =
 * name of the first folder below). gz, zst, xz and bz2 are decompressed. "-" is stdin
 * (JSON lines if the first byte is '{'). Parquet is refused, with the command that
 * converts it. ERR_NOT_FOUND, ERR_DATA (names file and line), ERR_IO. A single text
 * file (or stdin) with more than cut_bytes is cut into documents of at most this
 * length, at paragraphs if possible; 0: never. One piece at a time is in memory. */
PL_MUST_CHECK pl_status pl_documents_cut(const char *path, size_t cut_bytes,
                                         pl_document_fn fn, void *context,
                                         pl_read_stats *stats);

/* World-readable text below /usr (C headers, man pages, changelogs, licences, CMake,
 * Perl, Python), up to max_bytes, spread evenly over the domains, in a fixed order on a
 * given machine. Home directories are never read. `describe` gets one line per domain
 * for the user. ERR_NOT_FOUND, with a line for apt, if there are fewer than 3 domains
 * or less than 2 MB. */
PL_MUST_CHECK pl_status pl_system_text_read(uint64_t max_bytes, pl_document_fn fn,
                                            void *context, pl_buf *describe);

/* ---- tokenizer ---- */
typedef struct pl_tokenizer pl_tokenizer;
/* Trains BPE with byte fallback on at most sample_bytes of text; writes model_path.
 * `texts` are NUL-free pieces. Exact round trip. ERR_DATA says what is missing
 * (fewer distinct pieces than vocab: the largest vocab that would do). */
PL_MUST_CHECK pl_status pl_tokenizer_train(const char *const *texts, const size_t *lens,
                                           size_t n, int vocab, int n_threads,
                                           const char *model_path);
PL_MUST_CHECK pl_status pl_tokenizer_load(const char *model_path, pl_tokenizer **out);
PL_MUST_CHECK pl_status pl_tokenizer_load_bytes(const void *data, size_t len,
                                                pl_tokenizer **out);
void pl_tokenizer_destroy(pl_tokenizer **tokenizer);
int pl_tokenizer_vocab(const pl_tokenizer *tokenizer);
enum { PL_TOKEN_UNK = 0, PL_TOKEN_BOS = 1, PL_TOKEN_EOS = 2 };
/* Thread safe. Appends int32 tokens (no BOS/EOS) to `out`. */
PL_MUST_CHECK pl_status pl_tokenizer_encode(const pl_tokenizer *tokenizer,
                                            const char *text, size_t len, pl_buf *out);
/* Appends the text bytes of the tokens; control tokens give nothing. */
PL_MUST_CHECK pl_status pl_tokenizer_decode(const pl_tokenizer *tokenizer,
                                            const int32_t *tokens, size_t n,
                                            pl_buf *out);

/* ---- token files (docs/PROTOCOL.md section 5) ---- */
typedef struct pl_tokens pl_tokens;
typedef struct pl_token_doc {
    uint64_t first;    /* index of its first token */
    uint32_t n_tokens; /* BOS first, EOS last */
    uint32_t domain;   /* index into the domain names */
    uint64_t hash;     /* first 8 bytes of the document's identity hash */
} pl_token_doc;

PL_MUST_CHECK pl_status pl_tokens_open(const char *path, bool verify, pl_tokens **out);
/* For a file that was opened and verified: ERR_DAMAGED if a token that was read since
 * lay in a page that has changed. Call it before a result is kept. */
PL_MUST_CHECK pl_status pl_tokens_check(const pl_tokens *tokens);
/* The same over bytes in memory, borrowed until close (a shard from the store). */
PL_MUST_CHECK pl_status pl_tokens_view(const void *data, size_t len, const char *what,
                                       pl_tokens **out);
void pl_tokens_close(pl_tokens **tokens);
/* Lets the tokens leave memory until they are read again. */
void pl_tokens_rest(const pl_tokens *tokens);
uint64_t pl_tokens_count(const pl_tokens *tokens);
uint32_t pl_tokens_n_docs(const pl_tokens *tokens);
int pl_tokens_vocab(const pl_tokens *tokens);
const pl_token_doc *pl_tokens_doc(const pl_tokens *tokens, uint32_t doc);
void pl_tokens_copy(const pl_tokens *tokens, uint64_t first, size_t n, int32_t *out);
uint32_t pl_tokens_n_domains(const pl_tokens *tokens);
const char *pl_tokens_domain(const pl_tokens *tokens, uint32_t domain);
/* Appends to out a token file of these documents, in the given order. A document may be
 * listed several times. */
PL_MUST_CHECK pl_status pl_tokens_subset(const pl_tokens *tokens, const uint32_t *docs,
                                         size_t n, pl_buf *out);

/* Appends to `file` a token file of all documents at `path` (as pl_documents_cut reads
 * it, without cuts), and to `sources` the file of each, NUL-terminated. Documents of
 * more than 1024 domains count under the last of these. ERR_DATA: there is no text, or
 * more than 2^30 tokens. */
PL_MUST_CHECK pl_status pl_documents_encode(const char *path,
                                            const pl_tokenizer *tokenizer, pl_buf *file,
                                            pl_buf *sources);

/* ---- sampler ----
 * Each document is cut into windows of `context` targets from its start (window w
 * covers targets w*T+1 .. of the document; the last may be short). A window is a row of
 * a batch; with `pack`, short windows share rows, and the first token of each but the
 * first carries PL_TEXT_BEGINS. What is left of a row is padded with token 0 and
 * target -1. Sample i of replica r is row perm(epoch, k) with k = i * replicas + r, an
 * epoch being one keyed permutation of all rows. With skip_prefix > 0 the first targets
 * of a document (index < skip_prefix) are -1. */
typedef struct pl_sampler pl_sampler;
typedef struct pl_sampler_options {
    int context;     /* T */
    uint64_t seed;   /* of the run */
    uint64_t stream; /* of the arm and path */
    int replica, n_replicas;
    int skip_prefix; /* 0: train on the prefix too */
    bool pack;       /* short windows share rows */
} pl_sampler_options;
/* Rows of an epoch over these documents, each of which is listed once. */
PL_MUST_CHECK pl_status pl_sampler_count_rows(const pl_tokens *tokens,
                                              const uint32_t *docs, uint32_t n,
                                              const pl_sampler_options *options,
                                              uint64_t *out);
/* Borrows tokens. ERR_DATA if no window has a target. */
PL_MUST_CHECK pl_status pl_sampler_create(const pl_tokens *tokens,
                                          const pl_sampler_options *options,
                                          pl_sampler **out);
void pl_sampler_destroy(pl_sampler **sampler);
uint64_t pl_sampler_rows(const pl_sampler *sampler);
/* Counted targets of n samples; *marked gets those of documents that are marked
 * (marks [n_docs]). */
uint64_t pl_sampler_count(const pl_sampler *sampler, uint64_t first_sample, uint64_t n,
                          const bool *marks, uint64_t *marked);
/* tokens, targets [B,T]; returns the number of counted targets. */
int64_t pl_sampler_fill(const pl_sampler *sampler, uint64_t first_sample, int B,
                        int32_t *tokens, int32_t *targets);

/* ---- prepare: corpus -> folder with tokenizer.model, train.tok, valid.tok, data.json
 * ---- */
typedef struct pl_prepare_options {
    const char *corpus;    /* path, "-", or "" for the machine's own text */
    const char *valid;     /* path, or "" to split by document hash */
    double valid_share;    /* of documents, by hash, when `valid` is "" */
    const char *tokenizer; /* a model to load, or "" to train one */
    int vocab;             /* of the tokenizer to train; the largest for one to load */
    /* a single text file is cut into documents of at most this length; 0: one document
     */
    uint64_t cut_bytes;
    uint64_t n_paths; /* with fewer training documents it fails */
    int n_threads;
    uint64_t max_bytes; /* of training text; 0: all */
    uint64_t seed;
    /* shorter documents are left out of valid (they have no target after the prefix) */
    int min_document_tokens;
    /* gets one finished fact per line */
    void (*progress)(void *context, const char *line);
    void *progress_context;
    const volatile sig_atomic_t *stop; /* NULL, or not 0: end with ERR_CANCELLED */
} pl_prepare_options;

typedef struct pl_prepare_result {
    uint64_t train_documents, train_tokens, valid_documents, valid_tokens, bytes;
    int vocab;
    pl_hash train_hash, valid_hash, tokenizer_hash;
} pl_prepare_result;

/* It may be called again: a complete folder that was made with the same options
 * (data.json) is verified and used. Each product is written beside its place and
 * renamed. ERR_DATA: the corpus is empty, has one document, or leaves nothing for
 * validation; the sentence has the remedy. */
PL_MUST_CHECK pl_status pl_prepare(const pl_prepare_options *options,
                                   const char *folder, pl_prepare_result *out);

/* Whether tokenizer.model in a prepared folder has the hash in data.json: with another
 * tokenizer every token of a trained model would mean another text. ERR_DAMAGED. */
PL_MUST_CHECK pl_status pl_data_check_tokenizer(const char *folder);

#ifdef __cplusplus
}
#endif
#endif
