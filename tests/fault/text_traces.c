/* folder: store; label: tool
 *
 * Looks for a text in all files below some folders: for its bytes, and for the tokens
 * that a token file has for it. In a store it looks into every blob, also into blobs
 * that no record names. Prints each place, and exits with 0 if there is none, with 1 if
 * there are some.
 *
 *   text_traces TEXT TOKENS HASH FOLDER...   TEXT is a part of the document HASH of the
 *                                            token file TOKENS
 *   text_traces --plant STORE NAME OBJECT    makes an object with the bytes of OBJECT
 */
#include "corpus/corpus.h"
#include "store/store_internal.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The sequence is taken from the end of the document, which no other document has. */
enum { SEQUENCE = 20 };

typedef struct seeking {
    const char *text;
    uint16_t tokens[SEQUENCE];
    int n_found, n_blobs, n_files;
} seeking;

static bool has_bytes(const uint8_t *data, size_t len, const void *want, size_t n)
{
    for (size_t i = 0; n > 0 && i + n <= len; i++) {
        const uint8_t *at = memchr(data + i, *(const uint8_t *)want, len - n + 1 - i);
        if (!at)
            return false;
        i = (size_t)(at - data);
        if (memcmp(at, want, n) == 0)
            return true;
    }
    return false;
}

static void look_at_bytes(seeking *s, const char *file, const char *blob,
                          const pl_buf *bytes)
{
    const bool text = has_bytes(bytes->data, bytes->len, s->text, strlen(s->text));
    const bool tokens = has_bytes(bytes->data, bytes->len, s->tokens, sizeof s->tokens);
    s->n_found += text || tokens;
    if (text || tokens)
        printf("%s%s has the %s\n", file, blob, text ? "text" : "tokens");
}

static pl_status look_at_store(seeking *s, const char *folder)
{
    pl_store *store = NULL;
    pl_buf bytes = {0};
    kv_cursor *cursor = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_store_open(folder, PL_STORE_READ, &store));
    cursor = kv_cursor_open(store->db, NULL, KV_BLOB, (kv_slice){"", 0});
    while (kv_cursor_next(cursor)) {
        char text[PL_HASH_TEXT + 8] = ", blob ";
        uint64_t size = 0;
        pl_hash blob;
        memcpy(blob.bytes, cursor->key.data, sizeof blob.bytes);
        pl_hash_format(&blob, text + strlen(text));
        pl_buf_clear(&bytes);
        PL_TRY(pl_store_blob_bytes(store, &blob, &size));
        pl_buf_reserve(&bytes, (size_t)size + 1);
        PL_TRY(pl_store_read_blob(store, &blob, 0, (size_t)size, bytes.data));
        bytes.len = (size_t)size;
        look_at_bytes(s, folder, text, &bytes);
        s->n_blobs++;
    }
    status = cursor->status;
done:
    kv_cursor_close(&cursor);
    pl_store_close(&store);
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status look_below(seeking *s, const char *folder)
{
    char path[PL_PATH_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return pl_fail(PL_ERR_IO, "%s cannot be opened", folder);
    if (pl_path_exists(pl_join(path, folder, "db/CURRENT")))
        PL_TRY(look_at_store(s, folder));
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        pl_join(path, folder, e->d_name);
        if (pl_path_is_folder(path)) {
            PL_TRY(look_below(s, path));
            continue;
        }
        PL_TRY(pl_read_file(path, &bytes));
        look_at_bytes(s, path, "", &bytes);
        s->n_files++;
    }
done:
    closedir(dir);
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status read_sequence(seeking *s, const char *file, const char *hash)
{
    int32_t own[SEQUENCE];
    uint64_t number = 0;
    pl_tokens *tokens = NULL;
    PL_CHECK(pl_tokens_open(file, true, &tokens));
    const pl_token_doc *doc = sscanf(hash, "%16" SCNx64, &number) == 1
                                  ? pl_tokens_find(tokens, number)
                                  : NULL;
    const bool fits =
        doc && doc->n_tokens > 2 * SEQUENCE && pl_tokens_vocab(tokens) <= UINT16_MAX;
    if (fits)
        pl_tokens_copy(tokens, doc->first + doc->n_tokens - SEQUENCE - 1, SEQUENCE,
                       own);
    for (int i = 0; fits && i < SEQUENCE; i++)
        s->tokens[i] = (uint16_t)own[i];
    pl_tokens_close(&tokens);
    return fits ? PL_OK : pl_fail(PL_ERR_NOT_FOUND, "%s has no long %s", file, hash);
}

static pl_status plant(const char *folder, const char *name, const char *object)
{
    pl_store *store = NULL;
    pl_txn *txn = NULL;
    pl_object from;
    pl_status status = PL_OK;
    PL_TRY(pl_store_open(folder, PL_STORE_WRITE, &store));
    PL_TRY(pl_store_get_object(store, object, &from));
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_object(txn, name, &from.blob));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    pl_store_close(&store);
    return status;
}

int main(int argc, char **argv)
{
    seeking s = {.n_found = 0};
    pl_status status = PL_OK;
    if (argc < 5)
        return 64;
    if (strcmp(argv[1], "--plant") == 0)
        status = plant(argv[2], argv[3], argv[4]);
    else {
        s.text = argv[1];
        status = read_sequence(&s, argv[2], argv[3]);
        for (int i = 4; status == PL_OK && i < argc; i++)
            status = look_below(&s, argv[i]);
        printf("%d files, %d blobs, %d traces\n", s.n_files, s.n_blobs, s.n_found);
    }
    if (status != PL_OK)
        fprintf(stderr, "text_traces: %s\n", pl_last_error());
    return status != PL_OK ? pl_status_exit_code(status) : s.n_found > 0;
}
