/* folder: store
 *
 * The database of a store (store/kv.h) in the memory of the process, for fuzz targets.
 *
 * RocksDB needs 55 ms to make a database and about 10 ms to open one. A fuzz target
 * that is linked with this file instead of store/kv.c does twenty times as many
 * sequences per second. Everything above kv.h is the same: rows, checksums, the chain
 * of commits, the mark, and what a process reads when it starts again. What was not
 * committed is lost when the database is closed.
 *
 * A database is found again under its path until it is made anew (KV_MAKE). There are
 * no readers beside the writer, and no table files: blobs of fuzz targets are small. */
#include "store/kv.h"
#include "store/row_sum.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    size_t key_len, value_len;
    bool is_deleted; /* only in a batch */
    uint8_t bytes[]; /* the key, then the value */
} row;

/* Rows in rising order of keys. */
typedef struct table {
    row **rows;
    size_t n, cap;
} table;

typedef struct tables {
    table of[KV_FAMILY_COUNT];
    char path[PL_PATH_MAX];
    struct tables *next;
} tables;

struct kv {
    tables *kept;
};

struct kv_batch {
    kv *db;
    table changes[KV_FAMILY_COUNT]; /* the newest operation on each key */
    size_t n;
    uint64_t bytes;
    row_sum *sum; /* the sum of rows after the operations, or NULL */
};

typedef struct cursor {
    kv_cursor at;                /* first, so that a pointer to it is one to this */
    const table *rows, *changes; /* changes: NULL without a batch */
    pl_buf prefix, key, value;   /* key, value: of the newest row */
    bool ready;                  /* whether `key` itself may be the next row */
} cursor;

static tables *databases;

static const struct {
    const char *name;
    uint8_t id;
} FAMILIES[KV_FAMILY_COUNT] = {{"default", 0},
#define KV_FAMILY_ROW(name, text, id) {text, id},
                               KV_FAMILY_TABLE(KV_FAMILY_ROW)
#undef KV_FAMILY_ROW
};

const char *kv_family_name(kv_family family)
{
    return FAMILIES[family].name;
}

uint8_t kv_family_id(kv_family family)
{
    return FAMILIES[family].id;
}

int kv_order(kv_slice a, kv_slice b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* ---- tables ---- */
static kv_slice key_of(const row *r)
{
    return (kv_slice){r->bytes, r->key_len};
}

static kv_slice value_of(const row *r)
{
    return (kv_slice){r->bytes + r->key_len, r->value_len};
}

/* Returns the position of the first row whose key is not below `key`. */
static size_t find_place(const table *t, kv_slice key)
{
    size_t low = 0, high = t->n;
    if (t->n > 0 && kv_order(key_of(t->rows[t->n - 1]), key) < 0)
        return t->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (kv_order(key_of(t->rows[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static row *find_row(const table *t, kv_slice key)
{
    const size_t at = find_place(t, key);
    return at < t->n && kv_order(key_of(t->rows[at]), key) == 0 ? t->rows[at] : NULL;
}

static row *make_row(kv_slice key, const kv_slice *value)
{
    const size_t len = value ? value->len : 0;
    row *r = pl_alloc(sizeof *r + key.len + len + 1);
    r->key_len = key.len;
    r->value_len = len;
    r->is_deleted = value == NULL;
    if (key.len > 0)
        memcpy(r->bytes, key.data, key.len);
    if (len > 0)
        memcpy(r->bytes + key.len, value->data, len);
    return r;
}

/* Takes the row; it replaces the row with the same key. */
static void put_row(table *t, row *r)
{
    const size_t at = find_place(t, key_of(r));
    if (at < t->n && kv_order(key_of(t->rows[at]), key_of(r)) == 0) {
        pl_free(t->rows[at]);
        t->rows[at] = r;
        return;
    }
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        t->rows = pl_grow(t->rows, t->cap * sizeof(row *));
    }
    memmove(t->rows + at + 1, t->rows + at, (t->n - at) * sizeof(row *));
    t->rows[at] = r;
    t->n++;
}

static void drop_row(table *t, kv_slice key)
{
    const size_t at = find_place(t, key);
    if (at == t->n || kv_order(key_of(t->rows[at]), key) != 0)
        return;
    pl_free(t->rows[at]);
    t->n--;
    memmove(t->rows + at, t->rows + at + 1, (t->n - at) * sizeof(row *));
}

static void clear_table(table *t)
{
    for (size_t i = 0; i < t->n; i++)
        pl_free(t->rows[i]);
    pl_free(t->rows);
    *t = (table){0};
}

/* ---- open and close ---- */
static void free_databases(void)
{
    while (databases) {
        tables *kept = databases;
        databases = kept->next;
        for (int f = 0; f < KV_FAMILY_COUNT; f++)
            clear_table(&kept->of[f]);
        pl_free(kept);
    }
}

pl_status kv_open(const char *path, kv_mode mode, const char *scratch, kv **out)
{
    tables *kept = databases;
    (void)scratch;
    *out = NULL;
    if (mode != KV_MAKE && mode != KV_WRITE)
        return pl_fail(PL_ERR_INTERNAL, "a database in memory has no readers");
    while (kept && strcmp(kept->path, path) != 0)
        kept = kept->next;
    if (!kept && mode == KV_WRITE)
        return pl_fail(PL_ERR_DAMAGED, "the database %s is missing", path);
    if (!kept) {
        if (!databases)
            atexit(free_databases);
        kept = pl_alloc(sizeof *kept);
        pl_copy_text(kept->path, sizeof kept->path, path);
        kept->next = databases;
        databases = kept;
    }
    for (int f = 0; mode == KV_MAKE && f < KV_FAMILY_COUNT; f++)
        clear_table(&kept->of[f]);
    *out = pl_alloc(sizeof **out);
    (*out)->kept = kept;
    return PL_OK;
}

void kv_close(kv **db, bool abandon)
{
    (void)abandon;
    pl_free(*db);
    *db = NULL;
}

int kv_folder(const kv *db)
{
    (void)db;
    return -1;
}

pl_status kv_refresh(kv *db)
{
    (void)db;
    return PL_OK;
}

/* ---- reading ---- */
static void pin_row(const row *r, kv_pin *out)
{
    *out = (kv_pin){0};
    if (!r || r->is_deleted)
        return;
    uint8_t *copy = pl_alloc(r->value_len + 1);
    memcpy(copy, value_of(r).data, r->value_len);
    *out = (kv_pin){.data = copy, .len = r->value_len, .handle = copy, .copied = true};
}

pl_status kv_get(kv *db, kv_family family, kv_slice key, kv_pin *out)
{
    pin_row(find_row(&db->kept->of[family], key), out);
    return PL_OK;
}

void kv_unpin(kv_pin *pin)
{
    pl_free(pin->handle);
    *pin = (kv_pin){0};
}

kv_cursor *kv_cursor_open(kv *db, kv_batch *batch, kv_family family, kv_slice prefix)
{
    cursor *walk = pl_alloc(sizeof *walk);
    walk->rows = &db->kept->of[family];
    walk->changes = batch ? &batch->changes[family] : NULL;
    pl_buf_reserve(&walk->prefix, prefix.len + 1);
    pl_buf_append(&walk->prefix, prefix.data, prefix.len);
    kv_cursor_seek(&walk->at, prefix);
    return &walk->at;
}

void kv_cursor_close(kv_cursor **handle)
{
    cursor *walk = (cursor *)*handle;
    *handle = NULL;
    if (!walk)
        return;
    pl_buf_destroy(&walk->prefix);
    pl_buf_destroy(&walk->key);
    pl_buf_destroy(&walk->value);
    pl_free(walk);
}

void kv_cursor_seek(kv_cursor *at, kv_slice key)
{
    cursor *walk = (cursor *)at;
    pl_buf_reserve(&walk->key, key.len + 1);
    pl_buf_clear(&walk->key);
    pl_buf_append(&walk->key, key.data, key.len);
    walk->ready = true;
}

/* Returns the row at or after the cursor's key. */
static const row *row_at(const table *t, const cursor *walk)
{
    const kv_slice key = {walk->key.data, walk->key.len};
    size_t at = t ? find_place(t, key) : 0;
    if (t && at < t->n && !walk->ready && kv_order(key_of(t->rows[at]), key) == 0)
        at++;
    return t && at < t->n ? t->rows[at] : NULL;
}

bool kv_cursor_next(kv_cursor *at)
{
    cursor *walk = (cursor *)at;
    const row *next;
    do {
        const row *changed = row_at(walk->changes, walk);
        next = row_at(walk->rows, walk);
        if (!next || (changed && kv_order(key_of(changed), key_of(next)) <= 0))
            next = changed;
        if (next)
            kv_cursor_seek(at, key_of(next));
        walk->ready = false;
    } while (next && next->is_deleted);
    at->valid = next != NULL;
    if (!next)
        return false;
    pl_buf_reserve(&walk->value, next->value_len + 1);
    pl_buf_clear(&walk->value);
    pl_buf_append(&walk->value, value_of(next).data, next->value_len);
    at->key = (kv_slice){walk->key.data, walk->key.len};
    at->value = (kv_slice){walk->value.data, walk->value.len};
    at->valid = at->key.len >= walk->prefix.len &&
                memcmp(at->key.data, walk->prefix.data, walk->prefix.len) == 0;
    return at->valid;
}

pl_status kv_last_key(kv *db, kv_family family, pl_buf *out)
{
    const table *t = &db->kept->of[family];
    pl_buf_clear(out);
    if (t->n > 0)
        pl_buf_append(out, t->rows[t->n - 1]->bytes, t->rows[t->n - 1]->key_len);
    return PL_OK;
}

/* ---- writing ---- */
kv_batch *kv_batch_create(kv *db)
{
    kv_batch *batch = pl_alloc(sizeof *batch);
    batch->db = db;
    return batch;
}

void kv_batch_destroy(kv_batch **batch)
{
    for (int f = 0; *batch && f < KV_FAMILY_COUNT; f++)
        clear_table(&(*batch)->changes[f]);
    pl_free(*batch);
    *batch = NULL;
}

/* Only copies of a store ask for the operations of a batch. */
void kv_batch_keep(kv_batch *batch)
{
    (void)batch;
}

kv_slice kv_batch_kept(const kv_batch *batch)
{
    (void)batch;
    return (kv_slice){"", 0};
}

void kv_batch_sum(kv_batch *batch, row_sum *sum)
{
    batch->sum = sum;
}

pl_status kv_batch_summed(const kv_batch *batch)
{
    (void)batch;
    return PL_OK;
}

static const row *row_in(const kv_batch *batch, kv_family family, kv_slice key)
{
    const row *changed = find_row(&batch->changes[family], key);
    return changed ? changed : find_row(&batch->db->kept->of[family], key);
}

static void change_row(kv_batch *batch, kv_family family, kv_slice key,
                       const kv_slice *value)
{
    const row *old =
        batch->sum && row_sum_covers(family) ? row_in(batch, family, key) : NULL;
    if (old && !old->is_deleted)
        row_sum_change(batch->sum, family, key, value_of(old), false);
    if (batch->sum && value && row_sum_covers(family))
        row_sum_change(batch->sum, family, key, *value, true);
    put_row(&batch->changes[family], make_row(key, value));
    batch->n++;
    batch->bytes += key.len + (value ? value->len : 0);
}

void kv_put(kv_batch *batch, kv_family family, kv_slice key, kv_slice value)
{
    change_row(batch, family, key, &value);
}

void kv_delete(kv_batch *batch, kv_family family, kv_slice key)
{
    change_row(batch, family, key, NULL);
}

pl_status kv_batch_get(kv_batch *batch, kv_family family, kv_slice key, kv_pin *out)
{
    pin_row(row_in(batch, family, key), out);
    return PL_OK;
}

uint64_t kv_batch_bytes(const kv_batch *batch)
{
    return batch->bytes;
}

size_t kv_batch_count(const kv_batch *batch)
{
    return batch->n;
}

/* Hashes the rows, not the operations in their order: nothing compares this digest with
 * that of a store on a disk. */
void kv_batch_digest(kv_batch *batch, pl_hash *out)
{
    pl_hasher digest;
    pl_hasher_init(&digest, "commit");
    for (int f = 0; f < KV_FAMILY_COUNT; f++)
        for (size_t i = 0; f != KV_PACK && i < batch->changes[f].n; i++)
            pl_hasher_add(&digest, batch->changes[f].rows[i]->bytes,
                          batch->changes[f].rows[i]->key_len +
                              batch->changes[f].rows[i]->value_len);
    pl_hasher_end(&digest, out);
}

pl_status kv_commit(kv *db, kv_batch *batch)
{
    for (int f = 0; f < KV_FAMILY_COUNT; f++) {
        table *from = &batch->changes[f];
        for (size_t i = 0; i < from->n; i++)
            if (from->rows[i]->is_deleted) {
                drop_row(&db->kept->of[f], key_of(from->rows[i]));
                pl_free(from->rows[i]);
            } else {
                put_row(&db->kept->of[f], from->rows[i]);
            }
        from->n = 0;
    }
    return PL_OK;
}

/* ---- table files ---- */
static pl_status no_files(void)
{
    return pl_fail(PL_ERR_INTERNAL, "a database in memory has no table files");
}

pl_status kv_file_create(const char *path, kv_file **out)
{
    (void)path;
    *out = NULL;
    return no_files();
}

pl_status kv_file_put(kv_file *file, const char *path, kv_slice key, kv_slice value)
{
    (void)file, (void)path, (void)key, (void)value;
    return no_files();
}

pl_status kv_file_finish(kv_file **file, const char *path)
{
    (void)file, (void)path;
    return no_files();
}

void kv_file_drop(kv_file **file)
{
    *file = NULL;
}

pl_status kv_take_in(kv *db, kv_family family, const char *const *paths, size_t n)
{
    (void)db, (void)family, (void)paths, (void)n;
    return no_files();
}

pl_status kv_drop_files(kv *db, kv_family family, kv_slice first, kv_slice last)
{
    (void)db, (void)family, (void)first, (void)last;
    return no_files();
}

pl_status kv_compact(kv *db, kv_family family)
{
    (void)db, (void)family;
    return PL_OK;
}
