/* The public header of corpus: from files to batches.
 *
 * documents (txt, jsonl, folders, compressed files, stdin, the machine's own text) ->
 * tokenizer (SentencePiece) -> token file (memory-mapped, with an index of documents)
 * -> sampler (which windows a step trains on; a pure function of seed and step).
 *
 * A document's `domain` is a label, such as the name of its folder. Domains are used
 * only to evaluate the router, never for training. Read in this order: reader,
 * json_line, system_text, tokenizer, tokens, sampler, packing, prepare, encode. */
#pragma once
#include "base/base.h"
#include <signal.h>
PL_C_BEGIN

/* ---- reader ---- */
typedef struct pl_document {
    /* valid UTF-8, not terminated; invalid bytes were replaced by U+FFFD */
    const char *text;
    size_t len;
    const char *domain; /* "" if it is unknown */
    const char *source; /* name of the document's file */
} pl_document;          /* the texts are valid only during the call that gets them */

/* Returns a document's number in token files, which depends only on its text. */
uint64_t pl_document_hash(const pl_document *document);

typedef struct pl_read_stats {
    uint64_t n_files, n_documents, n_bytes;
    /* n_empty: left out; n_replaced_bytes: not valid UTF-8, now U+FFFD */
    uint64_t n_empty, n_replaced_bytes,
        n_skipped_files; /* binary files in folders, which are skipped */
    uint64_t n_cuts; /* number of cuts if a single text file was cut into documents */
    uint64_t n_bad_lines;     /* JSON lines that were skipped (skip_bad) */
    char first_bad_line[400]; /* the reason for which the first of them was skipped */
    /* if n_cuts > 0: the hash of the whole file, as for one document */
    pl_hash whole;
} pl_read_stats;

typedef pl_status (*pl_document_fn)(void *context, const pl_document *document);

/* How documents are read. A struct of zeros, and NULL, mean the defaults. */
typedef struct pl_reading {
    /* If the path is a text file (or stdin) with more bytes, it is cut into documents
     * of at most this length, at paragraphs if possible; 0: it is never cut. */
    size_t cut_bytes;
    const char *text_key; /* the key of the text in JSON lines; NULL: "text" */
    bool skip_bad; /* whether JSON lines without a text are skipped and counted */
} pl_reading;

/* Reads documents:
 * - A text file is one document.
 * - JSON lines (*.jsonl, *.ndjson, or any file whose first line is an object with a
 *   text) have one document per line: "text", optional "domain". Other keys are
 * ignored.
 * - A folder is walked in the order of names. Hidden files are skipped. The domain of a
 *   file in a subfolder is the name of the topmost subfolder.
 * - gz, zst, xz and bz2 are decompressed.
 * - "-" is stdin (JSON lines if the first byte is '{').
 * - Parquet, UTF-16, UTF-32 and JSON arrays are refused; the error has the command that
 *   converts the file.
 *
 * Only one document at a time is in memory; it may have 64 MiB. Control characters in a
 * domain are written as \xHH. Errors: ERR_NOT_FOUND, ERR_NOPERM, ERR_DATA (the message
 * names file and line), ERR_UNSUPPORTED (Parquet), ERR_IO. */
pl_status pl_documents_cut(const char *path, const pl_reading *reading,
                           pl_document_fn fn, void *context, pl_read_stats *stats);

/* ERR_DATA for a Git LFS pointer, which stands for a large file in some clones. */
pl_status pl_refuse_pointer(const char *path, const void *bytes, size_t len);

/* Reads text files below /usr that every user may read (C headers, man pages,
 * changelogs, licences, CMake, Perl, Python). Reads up to max_bytes, the same amount
 * for each domain if possible, in an order that is always the same on a given machine.
 * Home directories are never read. Appends to `describe`, for the user, the domains and
 * their numbers of documents, separated by commas. ERR_NOT_FOUND if there are fewer
 * than 3 domains or less than 2 MB; the error says what to install. */
pl_status pl_system_text_read(uint64_t max_bytes, pl_document_fn fn, void *context,
                              pl_buf *describe);

/* ---- tokenizer ---- */
typedef struct pl_tokenizer pl_tokenizer;
/* Trains BPE with byte fallback on a sample of at most 8 MiB of the texts, and writes
 * the model to model_path. The texts must not contain NUL. With this model, decoding
 * gives exactly the text that was encoded. The message of ERR_DATA says what is
 * missing. If the texts have too few distinct pieces for `vocab`, the message names the
 * largest vocab that works. */
pl_status pl_tokenizer_train(const char *const *texts, const size_t *lens, size_t n,
                             int vocab, int n_threads, const char *model_path);
/* Loads a SentencePiece model, or a tokenizer.json of SentencePiece's BPE kind. */
pl_status pl_tokenizer_load(const char *model_path, pl_tokenizer **out);
pl_status pl_tokenizer_load_bytes(const void *data, size_t len, pl_tokenizer **out);
void pl_tokenizer_destroy(pl_tokenizer **tokenizer);
int pl_tokenizer_vocab(const pl_tokenizer *tokenizer);
/* Whether the tokenizer puts a blank before each text (as those of Llama 2 and Mistral
 * do), so that the decoded text begins with a blank that the text did not have. */
bool pl_tokenizer_puts_blank(const pl_tokenizer *tokenizer);
enum { PL_TOKEN_UNK = 0, PL_TOKEN_BOS = 1, PL_TOKEN_EOS = 2 };
/* Appends int32 tokens (without BOS and EOS) to `out`. Any thread may call it. */
pl_status pl_tokenizer_encode(const pl_tokenizer *tokenizer, const char *text,
                              size_t len, pl_buf *out);
/* Appends the text of the tokens; control tokens have no text. */
pl_status pl_tokenizer_decode(const pl_tokenizer *tokenizer, const int32_t *tokens,
                              size_t n, pl_buf *out);

/* ---- token files (docs/PROTOCOL.md section 5) ---- */
typedef struct pl_tokens pl_tokens;
typedef struct pl_token_doc {
    uint64_t first;    /* index of the document's first token in the file */
    uint32_t n_tokens; /* number of tokens, with BOS at the start and EOS at the end */
    uint32_t domain;   /* index of the document's domain in the list of names */
    uint64_t hash;     /* first 8 bytes of the document's identity hash */
} pl_token_doc;

/* With `verify` the checksum of the file and all tokens are checked, and later changes
 * of the file are noticed (pl_tokens_check). */
pl_status pl_tokens_open(const char *path, bool verify, pl_tokens **out);
/* ERR_DAMAGED: after the file was opened, one of its pages changed, and tokens were
 * read from this page. Call it before you keep a result that depends on tokens. */
pl_status pl_tokens_check(const pl_tokens *tokens);
/* Opens a token file that is in memory (a shard from the store). The bytes are borrowed
 * until close. Error texts use `what` as the name of the file. */
pl_status pl_tokens_view(const void *data, size_t len, const char *what,
                         pl_tokens **out);
void pl_tokens_close(pl_tokens **tokens);
/* Releases the memory of the file's tokens, which are read again when needed. */
void pl_tokens_rest(const pl_tokens *tokens);
uint64_t pl_tokens_count(const pl_tokens *tokens);
uint32_t pl_tokens_n_docs(const pl_tokens *tokens);
int pl_tokens_vocab(const pl_tokens *tokens);
const pl_token_doc *pl_tokens_doc(const pl_tokens *tokens, uint32_t doc);
const pl_token_doc *pl_tokens_find(const pl_tokens *tokens, uint64_t hash);
void pl_tokens_copy(const pl_tokens *tokens, uint64_t first, size_t n, int32_t *out);
uint32_t pl_tokens_n_domains(const pl_tokens *tokens);
const char *pl_tokens_domain(const pl_tokens *tokens, uint32_t domain);
/* Appends a token file of these documents in this order, maybe repeatedly. */
pl_status pl_tokens_subset(const pl_tokens *tokens, const uint32_t *docs, size_t n,
                           pl_buf *out);

/* A list of documents that were forgotten. Such documents become blank: all their
 * tokens become PL_TOKEN_UNK, and no sampler counts their targets. Blank documents keep
 * places and lengths, so the samples of all others stay the same. */
typedef struct pl_doc_list {
    const uint64_t *hashes; /* identities, as in pl_token_doc */
    size_t n;
} pl_doc_list;
bool pl_doc_listed(const pl_doc_list *list, uint64_t hash);
bool pl_tokens_is_blank(const pl_tokens *tokens, uint32_t doc);
/* Appends to `out` a copy of the token file in which the listed documents are blank. */
pl_status pl_tokens_blank(const pl_tokens *tokens, const pl_doc_list *list,
                          pl_buf *out);
/* Makes the listed documents blank in train.tok of a prepared folder. After an
 * interruption, call the function again. *changed becomes true if at least one of the
 * documents was not blank before. After this change the folder is valid even if the
 * files from which it was made have changed. */
pl_status pl_data_blank(const char *folder, const pl_doc_list *list, bool *changed);

/* Appends to `file` a token file of all documents at `path`, and to `sources` the name
 * of each document's file, NUL-terminated. If there are more than 1024 domains, all
 * further domains count as the last one. ERR_DATA: there is no text, there are more
 * than 2^30 tokens, or more than 1 % of them are unknown to the tokenizer. */
pl_status pl_documents_encode(const char *path, const pl_reading *reading,
                              const pl_tokenizer *tokenizer, pl_buf *file,
                              pl_buf *sources);

/* ---- sampler ----
 *
 * Each document is cut into windows of T = `context` targets, from its start: window w
 * has the targets from w*T+1 on, and the last window may be short. A window is a row of
 * a batch. With `pack`, several short windows share a row; then the first token of each
 * window except the first of the row has the flag PL_TEXT_BEGINS (modules/model.h). The
 * rest of a row is padded with token 0 and target -1.
 *
 * Sample i of replica r is the row at place k mod n_rows of a permutation of all rows,
 * with k = i * n_replicas + r. The number of the epoch is k / n_rows, rounded down, and
 * each epoch has its own permutation. Targets that do not count are -1: targets among
 * the first skip_prefix tokens of a document, and all targets of a blank document. */
typedef struct pl_sampler pl_sampler;
typedef struct pl_sampler_options {
    int context;     /* T */
    uint64_t seed;   /* seed of the run, for permutations */
    uint64_t stream; /* the random stream of this arm and path */
    int replica, n_replicas;
    /* number of tokens at a document's start that do not count as targets */
    int skip_prefix;
    bool pack; /* whether short windows share rows */
} pl_sampler_options;
/* Counts the rows of an epoch over these documents; none may be listed twice. */
pl_status pl_sampler_count_rows(const pl_tokens *tokens, const uint32_t *docs,
                                uint32_t n, const pl_sampler_options *options,
                                uint64_t *out);
/* Borrows `tokens`. ERR_DATA if no window has a target. */
pl_status pl_sampler_create(const pl_tokens *tokens, const pl_sampler_options *options,
                            pl_sampler **out);
void pl_sampler_destroy(pl_sampler **sampler);
uint64_t pl_sampler_rows(const pl_sampler *sampler);
/* Returns how many targets count in the samples first_sample .. first_sample + n - 1,
 * and adds those in document d to counts[part_of[d]], or to counts[d] if part_of is
 * NULL. */
uint64_t pl_sampler_count(const pl_sampler *sampler, uint64_t first_sample, uint64_t n,
                          const uint32_t *part_of, uint64_t *counts);
/* Fills tokens and targets [B,T]; returns the number of targets that count. */
int64_t pl_sampler_fill(const pl_sampler *sampler, uint64_t first_sample, int B,
                        int32_t *tokens, int32_t *targets);

/* ---- prepare ----
 *
 * Makes a data folder with tokenizer.model, train.tok, valid.tok and data.json. */
typedef struct pl_prepare_options {
    /* a path, "-" for standard input, or "" for the machine's own text */
    const char *corpus;
    const char *valid; /* a path, or "" to hold out documents by hash */
    /* if `valid` is "": the fraction of documents that is held out, chosen by hash */
    double valid_share;
    const char *tokenizer; /* tokenizer model to load; "" to train one */
    /* size of the vocabulary to train; for a loaded tokenizer, the largest size */
    int vocab;
    pl_reading reading;
    /* number of paths; fewer training documents than this are an error */
    uint64_t n_paths;
    int n_threads;
    uint64_t max_bytes; /* limit on the bytes of training text; 0: no limit */
    uint64_t seed;
    /* held-out documents with fewer tokens have no target after the prefix */
    int min_document_tokens;
    /* called with each line of progress */
    void (*progress)(void *context, const char *line);
    void *progress_context;
    /* when the flag becomes nonzero, preparing ends with ERR_CANCELLED; may be NULL */
    const volatile sig_atomic_t *stop;
} pl_prepare_options;

typedef struct pl_prepare_result {
    /* bytes: size of the text of all documents that were used */
    uint64_t train_documents, train_tokens, valid_documents, valid_tokens, bytes;
    int vocab;
    pl_hash train_hash, valid_hash, tokenizer_hash;
} pl_prepare_result;

/* Prepares a data folder. If the folder is complete and was made with the same options
 * (data.json records them), the function only verifies it. Each file of the folder is
 * written under a temporary name and renamed. ERR_DATA: the corpus is empty, has only
 * one document, leaves no held-out documents, or has more than 1 % of tokens that the
 * tokenizer does not know; the error says what to do. */
pl_status pl_prepare(const pl_prepare_options *options, const char *folder,
                     pl_prepare_result *out);

/* Checks that tokenizer.model in a prepared folder has the hash that is in data.json:
 * with a different tokenizer, every token of a trained model would have a different
 * meaning. ERR_DAMAGED if the hash differs. */
pl_status pl_data_check_tokenizer(const char *folder);
/* The same for all files of the folder. */
pl_status pl_data_check(const char *folder);

PL_C_END
