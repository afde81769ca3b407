/* Turns a corpus into a data folder, in these steps:
 *
 * - read: documents go to the spool (text on disk, index in memory). Duplicates are
 *   dropped. A document's hash decides whether it is held out.
 * - tokenizer: the tokenizer is trained on the training documents only, or copied from
 *   a file.
 * - tokenise: batches of documents are encoded in parallel, and the tokens are written
 *   in the order of the corpus.
 * - manifest: data.json is written last; a folder that has it counts as prepared.
 *
 * The products depend only on the documents and the options, not on the number of
 * threads or the time. After a failure there is no manifest, so the next attempt starts
 * from the beginning. */
#include "corpus/data_manifest.h"
#include "corpus/spool.h"
#include "corpus/tokenizer.h"
#include "corpus/tokens_write.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_DOCS = 1024, BATCH_BYTES = 8 << 20, SAY_SECONDS = 5, CUT_LEAST = 256 };

/* If a larger share of a text is not UTF-8, the text has another encoding. */
#define BAD_SHARE 0.01

typedef struct preparation {
    const pl_prepare_options *options;
    const char *folder;
    pl_prepare_result *result;
    document_spool *spool;
    pl_tokenizer *tokenizer;
    token_writer *train, *valid;
    bool reading_valid; /* whether the documents being read come from options->valid */
    bool full;          /* whether reading stopped because max_bytes was reached */
    uint64_t train_bytes, n_duplicates, n_replaced, n_empty, n_skipped;
    uint64_t n_train, n_held_out, n_too_short;
    uint64_t n_cuts; /* number of cuts in long text files (reading.cut_bytes) */
    uint64_t n_read_bytes, n_bad_lines, n_unknown, n_tokens;
    uint64_t whole; /* hash of the whole held-out file, if it was cut */
    bool valid_cut; /* whether the held-out text is a single file that was cut */
    /* whether the corpus is a single file that was cut and all of it is held out */
    bool corpus_held;
    /* began: when the current step began; said: when progress was last printed */
    double began, said;
} preparation;

static void say(const preparation *work, const char *format, ...) PL_PRINTF(2, 3);
static void say(const preparation *work, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!work->options->progress)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    work->options->progress(work->options->progress_context, line);
}

static double rate(uint64_t bytes, double seconds)
{
    return (double)bytes / 1e6 / (seconds > 1e-6 ? seconds : 1e-6);
}

/* Writes a size, such as "11.5 MB"; small sizes are in kB. */
static const char *amount(uint64_t bytes, char out[24])
{
    if (bytes < 1000000)
        snprintf(out, 24, "%.1f kB", (double)bytes / 1e3);
    else
        snprintf(out, 24, "%.1f MB", (double)bytes / 1e6);
    return out;
}

static void begin_work_step(preparation *work)
{
    work->began = work->said = pl_now();
}

/* Prints a line every few seconds, and returns an error if the user asked to stop. */
static pl_status tick(preparation *work, const char *step, uint64_t bytes)
{
    char text[24];
    double now = pl_now();
    if (work->options->stop && *work->options->stop)
        return pl_fail(PL_ERR_CANCELLED, "stopped on request");
    if (now - work->said < SAY_SECONDS)
        return PL_OK;
    work->said = now;
    say(work, "%-8s %s so far, %.1f MB/s", step, amount(bytes, text),
        rate(bytes, now - work->began));
    return PL_OK;
}

/* ---- reading and splitting ---- */
/* Returns the number in [0, 1) that decides whether a document is held out. */
static double split_draw(const preparation *work, uint64_t hash)
{
    return pl_random_uniform(work->options->seed, pl_stream("split", 0, 0), hash);
}

/* Adds a document to its set. When max_bytes have been read, stops the reader with
 * ERR_CANCELLED and sets work->full, so that read_path does not treat this status as an
 * error. The last document may exceed the limit, so that even a small limit gives one
 * training document. */
static pl_status collect_document(void *context, const pl_document *document)
{
    preparation *work = context;
    uint64_t hash = pl_document_hash(document);
    PL_CHECK(tick(work, "data", work->result->bytes));
    if (spool_has(work->spool, hash) || (work->valid_cut && hash == work->whole)) {
        work->n_duplicates++;
        return PL_OK;
    }
    /* If the options name no held-out text, only the hash of the document decides, so
     * it stays in the same set (training or held-out) when other documents of the
     * corpus change. */
    bool valid = work->reading_valid;
    if (!valid && work->options->valid[0] == '\0')
        valid = split_draw(work, hash) < work->options->valid_share;
    work->full = !valid && work->options->max_bytes > 0 &&
                 work->train_bytes >= work->options->max_bytes;
    if (work->full)
        return PL_ERR_CANCELLED;
    PL_CHECK(spool_add(work->spool, document, hash, valid));
    work->result->bytes += document->len;
    work->train_bytes += valid ? 0 : document->len;
    work->n_train += !valid;
    work->n_held_out += valid;
    return PL_OK;
}

static const char *source_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static pl_status read_path(preparation *work, const char *path)
{
    pl_read_stats stats;
    uint64_t cut = work->options->reading.cut_bytes;
    pl_status status =
        pl_documents_cut(path, &work->options->reading, collect_document, work, &stats);
    if (work->n_bad_lines == 0 && stats.n_bad_lines > 0)
        say(work, "data     skipped: %s", stats.first_bad_line);
    if (stats.n_cuts > 0)
        say(work, "data     %.300s: cut into %llu documents of at most %llu bytes",
            source_name(path), (unsigned long long)stats.n_documents,
            (unsigned long long)cut);
    if (status == PL_OK && stats.n_cuts > 0) {
        /* tells whether the same file is used for training and as the held-out text */
        uint64_t whole = spool_identity(&stats.whole);
        if (work->reading_valid) {
            work->valid_cut = true;
            work->whole = whole;
        } else {
            work->corpus_held = spool_has(work->spool, whole);
        }
    }
    work->n_cuts += stats.n_cuts;
    work->n_read_bytes += stats.n_bytes;
    work->n_bad_lines += stats.n_bad_lines;
    work->n_replaced += stats.n_replaced_bytes;
    work->n_empty += stats.n_empty;
    work->n_skipped += stats.n_skipped_files;
    return work->full ? PL_OK : status;
}

static const char *corpus_name(const preparation *work)
{
    const char *corpus = work->options->corpus;
    return corpus[0] == '\0' ? "this machine" : source_name(corpus);
}

/* Reads all documents, and reports what was read. The held-out file is read first: its
 * documents are never trained on, even if the corpus contains them, too. */
static pl_status read_documents(preparation *work)
{
    const pl_prepare_options *options = work->options;
    if (options->valid[0] != '\0') {
        work->reading_valid = true;
        PL_CHECK(read_path(work, options->valid));
        work->reading_valid = false;
    }
    if (options->corpus[0] == '\0') {
        pl_buf domains = {0};
        uint64_t max = options->max_bytes ? options->max_bytes : UINT64_MAX;
        pl_status status = pl_system_text_read(max, collect_document, work, &domains);
        if (domains.len > 0)
            say(work, "data     %s", pl_buf_text(&domains));
        pl_buf_destroy(&domains);
        PL_CHECK(work->full ? PL_OK : status);
    } else
        PL_CHECK(read_path(work, options->corpus));
    PL_CHECK(spool_seal(work->spool));
    char text[24];
    double seconds = pl_now() - work->began;
    uint64_t bytes = work->result->bytes;
    say(work, "data     %s, %zu documents, %zu domains from %.200s, %.1f s, %.1f MB/s",
        amount(bytes, text), work->spool->n_docs, work->spool->n_domains,
        corpus_name(work), seconds, rate(bytes, seconds));
    /* U+FFFD has three bytes */
    const double bad = (double)work->n_replaced,
                 share = bad / ((double)work->n_read_bytes - 2 * bad + 1e-9);
    if (work->n_replaced > 0)
        say(work,
            "data     %s%.0f bytes that are not UTF-8 (%.2g %%) were replaced by "
            "U+FFFD%s",
            share > BAD_SHARE ? "warning: " : "", bad, 100 * share,
            share > BAD_SHARE ? "; convert the text, for example: iconv -f latin1 -t "
                                "utf-8 FILE"
                              : "");
    if (work->n_bad_lines > 0)
        say(work, "data     left out: %llu JSON lines without a text",
            (unsigned long long)work->n_bad_lines);
    if (work->n_duplicates + work->n_empty + work->n_skipped > 0)
        say(work,
            "data     left out: %llu duplicate and %llu empty documents, %llu binary "
            "or UTF-16 files",
            (unsigned long long)work->n_duplicates, (unsigned long long)work->n_empty,
            (unsigned long long)work->n_skipped);
    return PL_OK;
}

/* Reports what can be found before the tokenizer is trained, which may take minutes. */
static pl_status check_split(const preparation *work)
{
    size_t n = work->spool->n_docs;
    const char *shorter = work->n_cuts > 0 ? "lower data.cut, " : "";
    if (n == 0)
        return pl_fail(PL_ERR_DATA,
                       "there is no text in %.300s: give a text file, JSON lines, or a "
                       "folder of them",
                       corpus_name(work));
    if (n == 1 && work->options->valid[0] == '\0')
        return pl_fail(PL_ERR_DATA,
                       "%.300s holds only one document, but one document must be held "
                       "out: give more text (a text file is cut into documents of "
                       "data.cut = %llu bytes; 0: it is not cut), several files or "
                       "JSON lines, or held-out text by data.valid",
                       corpus_name(work),
                       (unsigned long long)work->options->reading.cut_bytes);
    if ((work->n_train == 0 || work->corpus_held) && work->options->valid[0] != '\0')
        return pl_fail(
            PL_ERR_DATA,
            "nothing is left to train on, because all documents of %.200s are also in "
            "the held-out text %.200s; give different text for one of the two",
            corpus_name(work), work->options->valid);
    if (work->n_train == 0)
        return pl_fail(PL_ERR_DATA,
                       "none of %zu documents is left to train on (%llu held out, %llu "
                       "duplicates): add documents or lower data.valid_share",
                       n, (unsigned long long)work->n_held_out,
                       (unsigned long long)work->n_duplicates);
    if (work->n_train < work->options->n_paths)
        return pl_fail(PL_ERR_CONFIG,
                       "there are %llu documents to train on but %llu paths: %sgive "
                       "more text, or fewer paths by topology.levels",
                       (unsigned long long)work->n_train,
                       (unsigned long long)work->options->n_paths, shorter);
    return PL_OK;
}

/* ---- the tokenizer ---- */
/* The tokenizer is part of the model: it never trains on held-out documents. */
static pl_status train_tokenizer(preparation *work, const char *path)
{
    size_t n = 0, n_docs = work->spool->n_docs;
    void *texts = NULL, *lens = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(n_docs * sizeof(char *), "the list of documents", &texts));
    PL_TRY(pl_try_alloc(n_docs * sizeof(size_t), "the list of documents", &lens));
    for (size_t i = 0; i < n_docs; i++) {
        const spool_doc *doc = &work->spool->docs[i];
        if (doc->held_out)
            continue;
        ((const char **)texts)[n] = spool_text(work->spool, i);
        ((size_t *)lens)[n++] = doc->len;
    }
    PL_TRY(pl_tokenizer_train(texts, lens, n, work->options->vocab,
                              work->options->n_threads, path));
done:
    pl_free(texts);
    pl_free(lens);
    return status;
}

/* Copies the user's tokenizer. The file is checked before it is copied, so that an
 * error names the user's file. `most`: the largest vocabulary allowed; 0: any. */
static pl_status copy_tokenizer(const char *from, int most, const char *to)
{
    pl_buf bytes = {0};
    pl_tokenizer *tokenizer = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_tokenizer_load(from, &tokenizer));
    int vocab = pl_tokenizer_vocab(tokenizer);
    if (most > 0 && vocab > most)
        PL_TRY(pl_fail(
            PL_ERR_CONFIG,
            "the tokenizer '%s' has %d pieces, but data.vocab is %d; set data.vocab=%d",
            from, vocab, most, vocab));
    PL_TRY(tokenizer_read(from, &bytes));
    PL_TRY(pl_replace_file(to, bytes.data, bytes.len));
done:
    pl_tokenizer_destroy(&tokenizer);
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status get_tokenizer(preparation *work)
{
    char path[PL_PATH_MAX];
    const char *given = work->options->tokenizer;
    begin_work_step(work);
    pl_join(path, work->folder, DATA_TOKENIZER);
    if (given[0] == '\0')
        say(work, "token    a vocabulary of %d pieces is being learnt",
            work->options->vocab);
    pl_status status = given[0] != '\0'
                           ? copy_tokenizer(given, work->options->vocab, path)
                           : train_tokenizer(work, path);
    if (status != PL_OK)
        return given[0] != '\0' ? pl_fail_in(status, "data.tokenizer") : status;
    PL_CHECK(pl_tokenizer_load(path, &work->tokenizer));
    work->result->vocab = pl_tokenizer_vocab(work->tokenizer);
    if (given[0] != '\0')
        say(work, "token    %d pieces from %.300s", work->result->vocab, given);
    else
        say(work, "token    bpe %d trained in %.1f s", work->result->vocab,
            pl_now() - work->began);
    return PL_OK;
}

/* ---- tokenising ---- */
/* Each thread writes only the buffers of its own documents, and the caller then writes
 * all buffers to the file in the order of the documents. So the file does not depend on
 * which thread finishes first. */
typedef struct token_batch {
    const preparation *work;
    size_t first, n;
    pl_buf ids[BATCH_DOCS]; /* for each document, its int32 tokens */
} token_batch;

static pl_status encode_item(void *context, size_t item, int thread)
{
    token_batch *batch = context;
    size_t i = batch->first + item;
    (void)thread;
    pl_buf_clear(&batch->ids[item]);
    return pl_tokenizer_encode(batch->work->tokenizer,
                               spool_text(batch->work->spool, i),
                               batch->work->spool->docs[i].len, &batch->ids[item]);
}

static pl_status tokenise(preparation *work)
{
    token_batch *batch = pl_alloc(sizeof *batch);
    uint64_t bytes = 0;
    pl_status status = PL_OK;
    batch->work = work;
    begin_work_step(work);
    const size_t n_docs = work->spool->n_docs;
    for (size_t at = 0; at < n_docs; at += batch->n) {
        PL_TRY(tick(work, "token", bytes));
        /* a single document may be longer than the limit of a batch */
        const uint64_t end = bytes + BATCH_BYTES;
        batch->first = at;
        batch->n = 0;
        while (at + batch->n < n_docs && batch->n < BATCH_DOCS && bytes < end)
            bytes += work->spool->docs[at + batch->n++].len;
        PL_TRY(pl_parallel(work->options->n_threads, batch->n, encode_item, batch));
        for (size_t item = 0; item < batch->n; item++) {
            const spool_doc *doc = &work->spool->docs[at + item];
            size_t n = batch->ids[item].len / sizeof(int32_t);
            const int32_t *ids = (const void *)batch->ids[item].data;
            work->n_tokens += n;
            work->n_unknown += tokenizer_count_unknown(ids, n);
            /* a held-out document without a target after the prefix cannot be scored */
            bool too_short =
                doc->held_out && n + 2 < (size_t)work->options->min_document_tokens;
            work->n_too_short += too_short;
            if (!too_short)
                PL_TRY(token_writer_add(doc->held_out ? work->valid : work->train, ids,
                                        n, doc->domain, doc->hash));
        }
    }
    PL_TRY(tokenizer_check_unknown(work->n_unknown, work->n_tokens));
    if (work->n_unknown > 0)
        say(work,
            "token    %.2g %% of the tokens stand for text that the tokenizer does "
            "not know",
            100 * (double)work->n_unknown / (double)work->n_tokens);
done:
    for (size_t item = 0; item < BATCH_DOCS; item++)
        pl_buf_destroy(&batch->ids[item]);
    pl_free(batch);
    return status;
}

static void say_split(const preparation *work, const char *remark)
{
    char tokens[16];
    const pl_prepare_result *result = work->result;
    say(work, "split    %llu documents, %s tokens to train, %llu held out%s",
        (unsigned long long)result->train_documents,
        pl_human_count((double)result->train_tokens, tokens),
        (unsigned long long)result->valid_documents, remark);
}

/* ---- all steps ---- */
/* Makes the data folder. Always deletes temporary files and the spool. */
static pl_status build(preparation *work)
{
    char path[PL_PATH_MAX], remark[48] = "";
    pl_prepare_result *result = work->result;
    pl_status status = PL_OK;
    begin_work_step(work);
    PL_TRY(spool_create(work->folder, &work->spool));
    PL_TRY(read_documents(work));
    const size_t n_docs = work->spool->n_docs;
    if (work->n_held_out == 0 && n_docs > 1 && work->options->valid[0] == '\0') {
        /* the share chose no document, so that with the smallest draw is held out */
        spool_doc *docs = work->spool->docs;
        size_t first = 0;
        for (size_t i = 1; i < n_docs; i++)
            if (split_draw(work, docs[i].hash) < split_draw(work, docs[first].hash))
                first = i;
        docs[first].held_out = true;
        work->n_held_out++;
        work->n_train--;
        say(work,
            "data     one document is held out, because the share %g "
            "(data.valid_share) chose none of %zu",
            work->options->valid_share, n_docs);
    }
    PL_TRY(check_split(work));
    PL_TRY(get_tokenizer(work));
    const uint32_t vocab = (uint32_t)result->vocab;
    PL_TRY(token_writer_open(pl_join(path, work->folder, DATA_TRAIN), vocab,
                             &work->train));
    PL_TRY(token_writer_open(pl_join(path, work->folder, DATA_VALID), vocab,
                             &work->valid));
    PL_TRY(tokenise(work));
    token_writer_count(work->train, &result->train_documents, &result->train_tokens);
    token_writer_count(work->valid, &result->valid_documents, &result->valid_tokens);
    if (result->valid_documents == 0)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "all %llu held-out documents are shorter than %d tokens: give longer "
            "documents, raise data.valid_share, or lower router.prefix",
            (unsigned long long)work->n_held_out, work->options->min_document_tokens));
    /* both files get the same list of domains, so their indices agree */
    const char *const *domains = (const char *const *)work->spool->domains;
    const size_t n_domains = work->spool->n_domains;
    PL_TRY(token_writer_end(work->train, domains, n_domains));
    PL_TRY(token_writer_end(work->valid, domains, n_domains));
    const double seconds = pl_now() - work->began;
    const uint64_t n_tokens = result->train_tokens + result->valid_tokens;
    say(work, "token    %.2f bytes/token, %.1f s, %.1f MB/s",
        (double)result->bytes / (double)n_tokens, seconds,
        rate(result->bytes, seconds));
    if (work->n_too_short > 0)
        snprintf(remark, sizeof remark, " (%llu more were too short)",
                 (unsigned long long)work->n_too_short);
    say_split(work, remark);
    PL_TRY(data_manifest_write(work->folder, work->options, result));
done:
    token_writer_close(&work->train);
    token_writer_close(&work->valid);
    pl_tokenizer_destroy(&work->tokenizer);
    spool_destroy(&work->spool);
    return status;
}

pl_status pl_prepare(const pl_prepare_options *options, const char *folder,
                     pl_prepare_result *out)
{
    preparation work = {.options = options, .folder = folder, .result = out};
    char manifest[PL_PATH_MAX];
    int lock = -1;
    *out = (pl_prepare_result){0};
    if (strlen(folder) > PL_PATH_MAX - 32)
        return pl_fail(PL_ERR_ARG, "the path '%.100s...' is too long", folder);
    if (options->valid[0] == '\0' &&
        !(options->valid_share > 0 && options->valid_share < 1))
        return pl_fail(PL_ERR_CONFIG,
                       "data.valid_share is %g: it must be between 0 and 1 if "
                       "data.valid gives no held-out text",
                       options->valid_share);
    if (options->tokenizer[0] == '\0' && options->vocab < 1)
        return pl_fail(PL_ERR_CONFIG, "data.vocab is %d: it must be positive",
                       options->vocab);
    if (options->reading.cut_bytes > 0 && options->reading.cut_bytes < CUT_LEAST)
        return pl_fail(PL_ERR_CONFIG,
                       "data.cut is %llu: it must be 0 or at least %d bytes",
                       (unsigned long long)options->reading.cut_bytes, CUT_LEAST);
    if (strcmp(options->corpus, "-") == 0 && strcmp(options->valid, "-") == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "data.corpus and data.valid cannot both be standard input");
    bool ready = pl_path_exists(pl_join(manifest, folder, DATA_MANIFEST));
    if (!ready) {
        PL_CHECK(pl_make_folders(folder));
        PL_CHECK(pl_lock_folder(folder, &lock));
        /* another process may have finished the folder meanwhile */
        ready = pl_path_exists(manifest);
    }
    const pl_status status =
        ready ? data_manifest_reuse(folder, options, out) : build(&work);
    if (ready && status == PL_OK)
        say_split(&work, "; prepared before, verified");
    pl_unlock_folder(&lock);
    return status;
}
