/* Reads and writes data.json, which tells whether a folder contains the data that the
 * current options would give.
 *
 * When a run is started again, the start must be fast, and training must use the same
 * data as before. So options are compared as text. Inputs are not read: the number and
 * size of their files, and the newest modification time, are compared. The products
 * (the files that training uses) are compared by the hash of all their bytes. */
#include "corpus/data_manifest.h"
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "pathloom data 1"

/* ---- all options that change the products, as text ---- */

/* Options are compared as text, which needs no types and can be shown to the user.
 * n_threads is not compared, because it does not change the data. */
enum { N_OPTIONS = 11 };
typedef struct option_text {
    const char *name;
    char value[PL_PATH_MAX];
} option_text;

static void option_texts(const pl_prepare_options *options, option_text out[N_OPTIONS])
{
    static const char *const names[N_OPTIONS] = {
        "corpus", "valid",     "valid_share", "tokenizer",
        "vocab",  "max_bytes", "seed",        "min_document_tokens",
        "cut",    "text_key",  "bad_lines"};
    const char *paths[] = {options->corpus, options->valid, "", options->tokenizer};
    for (int i = 0; i < N_OPTIONS; i++) {
        out[i].name = names[i];
        pl_copy_text(out[i].value, PL_PATH_MAX, i < 4 ? paths[i] : "");
    }
    snprintf(out[2].value, PL_PATH_MAX, "%.12g", options->valid_share);
    snprintf(out[4].value, PL_PATH_MAX, "%d", options->vocab);
    snprintf(out[5].value, PL_PATH_MAX, "%llu", (unsigned long long)options->max_bytes);
    snprintf(out[6].value, PL_PATH_MAX, "%llu", (unsigned long long)options->seed);
    snprintf(out[7].value, PL_PATH_MAX, "%d", options->min_document_tokens);
    snprintf(out[8].value, PL_PATH_MAX, "%llu",
             (unsigned long long)options->reading.cut_bytes);
    const char *key = options->reading.text_key;
    pl_copy_text(out[9].value, PL_PATH_MAX, key ? key : "text");
    pl_copy_text(out[10].value, PL_PATH_MAX,
                 options->reading.skip_bad ? "skip" : "refuse");
}

/* ---- inputs ---- */

typedef struct input_facts {
    int64_t files, bytes, newest_ms;
} input_facts;

/* Returns the facts of a file, or sums over a folder's files; zeros without `path`. */
static input_facts measure_input(const char *path)
{
    input_facts facts = {0};
    char root[PL_PATH_MAX];
    char *roots[] = {root, NULL};
    if (!pl_copy_text(root, sizeof root, path))
        return facts;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (!walk)
        return facts;
    for (FTSENT *entry = fts_read(walk); entry; entry = fts_read(walk)) {
        struct stat linked;
        const struct stat *info = entry->fts_info == FTS_F ? entry->fts_statp : NULL;
        if (entry->fts_info == FTS_SL && stat(entry->fts_path, &linked) == 0 &&
            S_ISREG(linked.st_mode))
            info = &linked;
        if (!info)
            continue;
        const int64_t ms =
            (int64_t)info->st_mtim.tv_sec * 1000 + info->st_mtim.tv_nsec / 1000000;
        facts.files++;
        facts.bytes += info->st_size;
        if (ms > facts.newest_ms)
            facts.newest_ms = ms;
    }
    fts_close(walk);
    return facts;
}

/* Adds an input to the list. Standard input and the machine's own text are not added,
 * because there is no file that could be compared later. */
static void push_input(pl_json *inputs, const char *path)
{
    if (path[0] == '\0' || strcmp(path, "-") == 0)
        return;
    input_facts facts = measure_input(path);
    pl_json *input = pl_json_object();
    pl_json_set_text(input, "path", path);
    pl_json_set_int(input, "files", facts.files);
    pl_json_set_int(input, "bytes", facts.bytes);
    pl_json_set_int(input, "newest_ms", facts.newest_ms);
    pl_json_push(inputs, input);
}

static int64_t int_or_zero(const pl_json *object, const char *key)
{
    int64_t value = 0;
    return pl_json_int(pl_json_get(object, key), &value) ? value : 0;
}

/* ---- products ---- */

/* Computes size and hash of a product. The hash takes about a second per gigabyte. */
static pl_status measure_product(const char *folder, const char *name, int64_t *bytes,
                                 pl_hash *hash)
{
    char path[PL_PATH_MAX];
    pl_mapping mapping;
    PL_CHECK(pl_map_file(pl_join(path, folder, name), &mapping));
    pl_hash_of("product", mapping.data, mapping.len, hash);
    *bytes = (int64_t)mapping.len;
    pl_unmap_file(&mapping);
    return PL_OK;
}

static pl_status push_product(pl_json *products, const char *folder, const char *name,
                              pl_hash *hash)
{
    int64_t bytes;
    char text[PL_HASH_TEXT];
    PL_CHECK(measure_product(folder, name, &bytes, hash));
    pl_hash_format(hash, text);
    pl_json *product = pl_json_object();
    pl_json_set_text(product, "name", name);
    pl_json_set_int(product, "bytes", bytes);
    pl_json_set_text(product, "hash", text);
    pl_json_push(products, product);
    return PL_OK;
}

static pl_status check_product(const char *folder, const pl_json *products, size_t i,
                               const char *name, const pl_json *blanked, pl_hash *hash)
{
    const pl_json *product = pl_json_at(products, i);
    const char *listed = pl_json_text(pl_json_get(product, "hash"), NULL);
    char found[PL_HASH_TEXT];
    int64_t bytes;
    if (!listed || measure_product(folder, name, &bytes, hash) != PL_OK)
        return pl_fail(
            PL_ERR_DAMAGED,
            "in the data folder '%s', the file %s is missing, unreadable or not listed "
            "in data.json: delete the folder '%s' to have its data made again",
            folder, name, folder);
    pl_hash_format(hash, found);
    /* After documents were made blank, the old hash and the new hash are both valid: a
     * process may be killed after it has written the manifest and before it has
     * replaced train.tok. */
    bool valid = strcmp(found, listed) == 0;
    for (size_t k = 0; k < pl_json_count(blanked); k++)
        valid |= strcmp(pl_json_text(pl_json_at(blanked, k), NULL), found) == 0;
    if (valid)
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED,
                   "'%s/%s' is damaged: its %lld bytes have the hash %.16s instead of "
                   "%.16s; delete the folder '%s' to have its data made again",
                   folder, name, (long long)bytes, found, listed, folder);
}

/* ---- result ---- */

/* The counts of the result; reading and writing both use this table. */
typedef struct count_row {
    const char *name;
    size_t offset;
} count_row;
static const count_row counts[] = {
    {"train_documents", offsetof(pl_prepare_result, train_documents)},
    {"train_tokens", offsetof(pl_prepare_result, train_tokens)},
    {"valid_documents", offsetof(pl_prepare_result, valid_documents)},
    {"valid_tokens", offsetof(pl_prepare_result, valid_tokens)},
    {"bytes", offsetof(pl_prepare_result, bytes)}};
enum { N_COUNTS = sizeof counts / sizeof *counts };

/* ---- the whole manifest ---- */
pl_status data_manifest_write(const char *folder, const pl_prepare_options *options,
                              pl_prepare_result *result)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_json *json = pl_json_object(), *inputs = pl_json_array();
    pl_json *products = pl_json_array(), *asked = pl_json_object();
    pl_json *made = pl_json_object();
    option_text texts[N_OPTIONS];
    pl_status status = PL_OK;
    pl_json_set_text(json, "format", FORMAT);
    option_texts(options, texts);
    for (int i = 0; i < N_OPTIONS; i++)
        pl_json_set_text(asked, texts[i].name, texts[i].value);
    pl_json_set(json, "options", asked);
    push_input(inputs, options->corpus);
    push_input(inputs, options->valid);
    push_input(inputs, options->tokenizer);
    pl_json_set(json, "inputs", inputs);
    pl_json_set(json, "products", products);
    pl_json_set(json, "result", made);
    PL_TRY(push_product(products, folder, DATA_TOKENIZER, &result->tokenizer_hash));
    PL_TRY(push_product(products, folder, DATA_TRAIN, &result->train_hash));
    PL_TRY(push_product(products, folder, DATA_VALID, &result->valid_hash));
    for (size_t i = 0; i < N_COUNTS; i++) {
        uint64_t count;
        memcpy(&count, (const char *)result + counts[i].offset, sizeof count);
        pl_json_set_int(made, counts[i].name, (int64_t)count);
    }
    pl_json_set_int(made, "vocab", result->vocab);
    pl_json_write(json, 2, &text);
    PL_TRY(pl_replace_file(pl_join(path, folder, DATA_MANIFEST), text.data, text.len));
done:
    pl_json_destroy(&json);
    pl_buf_destroy(&text);
    return status;
}

static pl_status read_manifest(const char *folder, pl_json **out)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = PL_OK;
    pl_join(path, folder, DATA_MANIFEST);
    PL_TRY(pl_read_file(path, &text));
    bool is_whole = pl_json_parse((const char *)text.data, text.len, out) == PL_OK;
    const char *format = pl_json_text(pl_json_get(*out, "format"), NULL);
    if (is_whole && (!format || strcmp(format, FORMAT) != 0))
        PL_TRY(
            pl_fail(PL_ERR_UNSUPPORTED,
                    "'%s' has the format '%.60s', but this release reads only the "
                    "format '%s'; delete the folder, or use the release that made it",
                    path, format ? format : "", FORMAT));
    /* the callers use the hashes of blank documents as texts */
    const pl_json *blanked = pl_json_get(*out, "blanked");
    for (size_t i = 0; i < pl_json_count(blanked); i++)
        is_whole = is_whole && pl_json_text(pl_json_at(blanked, i), NULL);
    if (!is_whole)
        PL_TRY(pl_fail(
            PL_ERR_DAMAGED,
            "'%s' is damaged: delete the folder '%s' to have its data made again", path,
            folder));
done:
    if (status != PL_OK)
        pl_json_destroy(out);
    pl_buf_destroy(&text);
    return status;
}

pl_status data_manifest_reuse(const char *folder, const pl_prepare_options *options,
                              pl_prepare_result *result)
{
    pl_json *json = NULL;
    pl_status status = PL_OK;
    PL_TRY(read_manifest(folder, &json));
    /* The products are compared last, because they take the most time. */
    const pl_json *inputs = pl_json_get(json, "inputs");
    const pl_json *products = pl_json_get(json, "products");
    const pl_json *asked = pl_json_get(json, "options");
    option_text texts[N_OPTIONS];
    option_texts(options, texts);
    for (int i = 0; i < N_OPTIONS; i++) {
        const char *there = pl_json_text(pl_json_get(asked, texts[i].name), NULL);
        if (!there && i >= 9) /* the folder is older than these options */
            there = i == 9 ? "text" : "refuse";
        if (!there || strcmp(there, texts[i].value) != 0)
            PL_TRY(pl_fail(
                PL_ERR_EXISTS,
                "the data folder '%s' was made with %s '%.300s', but now this option "
                "is '%.300s': give another --out, or delete the folder",
                folder, texts[i].name, there ? there : "", texts[i].value));
    }
    /* It is no error if an input no longer exists, because the data that were made from
     * it still exist. */
    for (size_t i = 0; i < pl_json_count(inputs); i++) {
        const pl_json *input = pl_json_at(inputs, i);
        const char *path = pl_json_text(pl_json_get(input, "path"), NULL);
        input_facts now = {0};
        input_facts then = {.files = int_or_zero(input, "files"),
                            .bytes = int_or_zero(input, "bytes"),
                            .newest_ms = int_or_zero(input, "newest_ms")};
        if (path)
            now = measure_input(path);
        if (now.files != 0 && (now.files != then.files || now.bytes != then.bytes ||
                               now.newest_ms != then.newest_ms))
            PL_TRY(pl_fail(
                PL_ERR_EXISTS,
                "'%.300s' has changed since the data folder '%s' was made from it "
                "(then %lld bytes in %lld files, now %lld bytes in %lld files; "
                "modification times are compared, too): give another --out, or delete "
                "the folder",
                path, folder, (long long)then.bytes, (long long)then.files,
                (long long)now.bytes, (long long)now.files));
    }
    PL_TRY(check_product(folder, products, 0, DATA_TOKENIZER, NULL,
                         &result->tokenizer_hash));
    PL_TRY(check_product(folder, products, 1, DATA_TRAIN, pl_json_get(json, "blanked"),
                         &result->train_hash));
    PL_TRY(check_product(folder, products, 2, DATA_VALID, NULL, &result->valid_hash));
    const pl_json *made = pl_json_get(json, "result");
    for (size_t i = 0; i < N_COUNTS; i++) {
        uint64_t count = (uint64_t)int_or_zero(made, counts[i].name);
        memcpy((char *)result + counts[i].offset, &count, sizeof count);
    }
    result->vocab = (int)int_or_zero(made, "vocab");
done:
    pl_json_destroy(&json);
    return status;
}

pl_status pl_data_check_tokenizer(const char *folder)
{
    pl_json *json = NULL;
    pl_hash hash;
    pl_status status = read_manifest(folder, &json);
    if (status == PL_OK)
        status = check_product(folder, pl_json_get(json, "products"), 0, DATA_TOKENIZER,
                               NULL, &hash);
    pl_json_destroy(&json);
    return status;
}

pl_status pl_data_check(const char *folder)
{
    static const char *const names[] = {DATA_TOKENIZER, DATA_TRAIN, DATA_VALID};
    pl_json *json = NULL;
    pl_hash hash;
    pl_status status = read_manifest(folder, &json);
    for (size_t i = 0; status == PL_OK && i < sizeof names / sizeof *names; i++)
        status = check_product(folder, pl_json_get(json, "products"), i, names[i],
                               pl_json_get(json, "blanked"), &hash);
    pl_json_destroy(&json);
    return status;
}

/* ---- documents that are made blank ---- */
pl_status pl_data_blank(const char *folder, const pl_doc_list *list, bool *changed)
{
    char path[PL_PATH_MAX], manifest[PL_PATH_MAX], hex[PL_HASH_TEXT];
    pl_tokens *tokens = NULL;
    pl_json *json = NULL;
    pl_hash hash;
    pl_buf bytes = {0}, text = {0};
    pl_status status = PL_OK;
    *changed = false;
    PL_TRY(pl_tokens_open(pl_join(path, folder, DATA_TRAIN), false, &tokens));
    for (uint32_t d = 0; d < pl_tokens_n_docs(tokens) && !*changed; d++)
        *changed = pl_doc_listed(list, pl_tokens_doc(tokens, d)->hash) &&
                   !pl_tokens_is_blank(tokens, d);
    if (!*changed)
        goto done;
    PL_TRY(pl_tokens_blank(tokens, list, &bytes));
    /* Writes into the manifest the hash that train.tok will have. From now on inputs
     * are not compared, because forgotten documents should leave them. */
    PL_TRY(read_manifest(folder, &json));
    pl_json *blanked = pl_json_array();
    const pl_json *before = pl_json_get(json, "blanked");
    for (size_t i = 0; i < pl_json_count(before); i++)
        pl_json_push(blanked,
                     pl_json_make_text(pl_json_text(pl_json_at(before, i), NULL)));
    pl_hash_of("product", bytes.data, bytes.len, &hash);
    pl_hash_format(&hash, hex);
    pl_json_push(blanked, pl_json_make_text(hex));
    pl_json_set(json, "inputs", pl_json_array());
    pl_json_set(json, "blanked", blanked);
    pl_json_write(json, 2, &text);
    PL_TRY(
        pl_replace_file(pl_join(manifest, folder, DATA_MANIFEST), text.data, text.len));
    PL_TRY(pl_failpoint("data.blank.before"));
    PL_TRY(pl_replace_file(path, bytes.data, bytes.len));
done:
    pl_tokens_close(&tokens);
    pl_json_destroy(&json);
    pl_buf_destroy(&text);
    pl_buf_destroy(&bytes);
    return status;
}
