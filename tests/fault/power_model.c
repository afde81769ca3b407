#include "tests/fault/power_model.h"
#include "tests/fault/power_trace.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { SECTOR = 512, FD_MAX = 65536 };

/* A change of a file: a write, or, if data is NULL, a new length. */
typedef struct change {
    const uint8_t *data;
    uint64_t offset, len;
} change;

/* A file or a folder. It exists as long as the model, even after its last name was
 * removed. */
typedef struct node {
    bool is_folder;
    change *changes;
    size_t n_changes, cap_changes, n_flushed;
    pl_buf flushed; /* the bytes of the file after the first n_folded changes */
    size_t n_folded;
    struct entry *entries; /* the entries of a folder, in order */
    size_t n_entries, cap_entries, n_entries_flushed;
    uint64_t number; /* the random choices for this node depend on it */
} node;

/* A change of a folder: a name that is made, or that is removed (node is NULL). If
 * `with_next` is set, the same call made the next entry. */
typedef struct entry {
    char name[256];
    node *node;
    bool with_next;
} entry;

struct power_model {
    const uint8_t *at, *end;
    node *root;
    node *by_fd[FD_MAX];
    node **all;
    size_t n_all, cap_all;
    pl_buf shown;
};

static void *grow(void *items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return items;
    *cap = *cap ? 2 * *cap : 16;
    return pl_grow(items, *cap * size);
}

static node *new_node(power_model *m, bool is_folder)
{
    node *made = pl_alloc(sizeof *made);
    made->is_folder = is_folder;
    made->number = m->n_all;
    m->all = grow(m->all, m->n_all, &m->cap_all, sizeof(node *));
    return m->all[m->n_all++] = made;
}

/* ---- names ---- */
static node *entry_of(const node *folder, const char *name, size_t len)
{
    for (size_t i = folder->n_entries; i-- > 0;) {
        const entry *e = &folder->entries[i];
        if (strlen(e->name) == len && memcmp(e->name, name, len) == 0)
            return e->node;
    }
    return NULL;
}

/* Returns the folder that contains the last name of the path, or NULL if there is no
 * such folder. */
static node *parent_of(power_model *m, const char *path, const char **name)
{
    node *at = m->root;
    for (const char *slash; at && (slash = strchr(path, '/')); path = slash + 1)
        at = entry_of(at, path, (size_t)(slash - path));
    *name = path;
    return at;
}

static node *find(power_model *m, const char *path)
{
    const char *name;
    node *parent = parent_of(m, path, &name);
    if (!*path)
        return m->root;
    return parent ? entry_of(parent, name, strlen(name)) : NULL;
}

static void put_entry(node *folder, const char *name, node *of, bool with_next)
{
    folder->entries = grow(folder->entries, folder->n_entries, &folder->cap_entries,
                           sizeof *folder->entries);
    entry *e = &folder->entries[folder->n_entries++];
    *e = (entry){.node = of, .with_next = with_next};
    pl_copy_text(e->name, sizeof e->name, name);
}

static void name_it(power_model *m, const char *path, node *of, bool with_next)
{
    const char *name;
    node *parent = parent_of(m, path, &name);
    if (parent)
        put_entry(parent, name, of, with_next);
}

/* ---- bytes ---- */
static void add_change(node *file, change c)
{
    file->changes = grow(file->changes, file->n_changes, &file->cap_changes, sizeof c);
    file->changes[file->n_changes++] = c;
}

static void set_length(pl_buf *bytes, uint64_t len)
{
    size_t old = bytes->len;
    if (len > old) {
        pl_buf_reserve(bytes, (size_t)len - old);
        memset(bytes->data + old, 0, (size_t)len - old);
    }
    bytes->len = (size_t)len;
}

/* Applies the first `len` bytes of a write. A new length is always applied. */
static void apply(pl_buf *bytes, const change *c, uint64_t len)
{
    if (!c->data) {
        set_length(bytes, c->offset);
        return;
    }
    if (bytes->len < c->offset + len)
        set_length(bytes, c->offset + len);
    memcpy(bytes->data + c->offset, c->data, (size_t)len);
}

/* Returns the bytes that the file had at its last flush. The file keeps them, so that
 * each change is applied once. */
static const pl_buf *flushed_bytes(node *file)
{
    for (; file->n_folded < file->n_flushed; file->n_folded++)
        apply(&file->flushed, &file->changes[file->n_folded],
              file->changes[file->n_folded].len);
    return &file->flushed;
}

static void copy_bytes(pl_buf *to, const pl_buf *from)
{
    pl_buf_clear(to);
    pl_buf_append(to, from->data, from->len);
}

static void all_bytes(node *file, pl_buf *out)
{
    copy_bytes(out, flushed_bytes(file));
    for (size_t i = file->n_flushed; i < file->n_changes; i++)
        apply(out, &file->changes[i], file->changes[i].len);
}

/* ---- a file after a power cut ---- */
static uint64_t roll(uint64_t seed, uint64_t number, uint64_t n, uint64_t below)
{
    return below ? pl_random_u32(seed, number, n) % below : 0;
}

/* Applies some whole changes, and then a part of the next change that ends at the end
 * of a sector. */
static void prefix_bytes(node *file, uint64_t seed, pl_buf *out)
{
    size_t pending = file->n_changes - file->n_flushed;
    size_t whole = (size_t)roll(seed, file->number, 0, pending + 1);
    const change *c = &file->changes[file->n_flushed];
    for (size_t i = 0; i < whole; i++)
        apply(out, &c[i], c[i].len);
    if (whole == pending || !c[whole].data)
        return;
    c += whole;
    uint64_t sectors = (c->offset % SECTOR + c->len + SECTOR - 1) / SECTOR;
    uint64_t kept = roll(seed, file->number, 1, sectors + 1) * SECTOR;
    kept = kept > c->offset % SECTOR ? kept - c->offset % SECTOR : 0;
    apply(out, c, kept < c->len ? kept : c->len);
}

/* Gives each sector its new or its old bytes at random. If `none` is set, every sector
 * has its old bytes. */
static void sector_bytes(node *file, uint64_t seed, bool none, pl_buf *out)
{
    pl_buf full = {0};
    all_bytes(file, &full);
    size_t old = out->len;
    set_length(out, full.len);
    if (old < out->len && roll(seed, file->number, 2, 4) == 0 && !none)
        set_length(out, old); /* keeps the old length */
    for (size_t at = 0; at < out->len; at += SECTOR) {
        size_t n = out->len - at < SECTOR ? out->len - at : SECTOR;
        if (!none && roll(seed, file->number, 3 + at / SECTOR, 2))
            memcpy(out->data + at, full.data + at, n);
    }
    pl_buf_destroy(&full);
}

static void left_of_file(node *file, power_loss loss, uint64_t seed, pl_buf *out)
{
    copy_bytes(out, flushed_bytes(file));
    if (file->n_flushed == file->n_changes)
        return;
    switch (loss) {
    case POWER_ALL:
        all_bytes(file, out);
        break;
    case POWER_PREFIX:
        prefix_bytes(file, seed, out);
        break;
    case POWER_SECTORS:
        sector_bytes(file, seed, false, out);
        break;
    case POWER_LENGTH:
        sector_bytes(file, seed, true, out);
        break;
    case POWER_NOTHING_MORE:
    case POWER_LOSSES:
    default:
        break;
    }
}

/* ---- a folder after a power cut ---- */
static size_t left_of_entries(const node *folder, power_loss loss, uint64_t seed)
{
    size_t pending = folder->n_entries - folder->n_entries_flushed;
    size_t kept = loss == POWER_NOTHING_MORE
                      ? 0
                      : (size_t)roll(seed, folder->number, 0, pending + 1);
    size_t n = folder->n_entries_flushed + (loss == POWER_ALL ? pending : kept);
    while (n > 0 && folder->entries[n - 1].with_next)
        n--; /* a rename makes two entries, which belong together */
    return n;
}

static pl_status write_plain(const char *path, const pl_buf *bytes)
{
    FILE *file = fopen(path, "wb");
    bool done = file && (bytes->len == 0 ||
                         fwrite(bytes->data, 1, bytes->len, file) == bytes->len);
    if (file && fclose(file) != 0)
        done = false;
    return done ? PL_OK : pl_fail(PL_ERR_IO, "cannot write %s", path);
}

static bool is_last_of_name(const node *folder, size_t i, size_t n)
{
    for (size_t k = i + 1; k < n; k++)
        if (strcmp(folder->entries[k].name, folder->entries[i].name) == 0)
            return false;
    return true;
}

static pl_status write_folder(node *folder, power_loss loss, uint64_t seed,
                              const char *path)
{
    char inner[PL_PATH_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    size_t n = left_of_entries(folder, loss, seed);
    PL_TRY(pl_make_folders(path));
    for (size_t i = 0; i < n; i++) {
        const entry *e = &folder->entries[i];
        if (!e->node || !is_last_of_name(folder, i, n))
            continue;
        pl_join(inner, path, e->name);
        if (e->node->is_folder) {
            PL_TRY(write_folder(e->node, loss, seed, inner));
            continue;
        }
        left_of_file(e->node, loss, seed, &bytes);
        PL_TRY(write_plain(inner, &bytes));
    }
done:
    pl_buf_destroy(&bytes);
    return status;
}

pl_status power_model_cut(power_model *m, power_loss loss, uint64_t seed,
                          const char *folder)
{
    return write_folder(m->root, loss, seed, folder);
}

bool power_model_loose(const power_model *m)
{
    for (size_t i = 0; i < m->n_all; i++)
        if (m->all[i]->n_flushed < m->all[i]->n_changes)
            return true;
    return false;
}

const char *power_loss_name(power_loss loss)
{
    static const char *const names[] = {"flushed", "all", "prefix", "sectors",
                                        "length"};
    return loss < POWER_LOSSES ? names[loss] : "?";
}

const pl_buf *power_model_file(power_model *m, const char *path)
{
    node *file = find(m, path);
    if (!file)
        return NULL;
    all_bytes(file, &m->shown);
    return &m->shown;
}

/* ---- playing the trace ---- */
static void play_open(power_model *m, int fd, const char *path)
{
    node *file = find(m, path);
    if (!file)
        name_it(m, path, file = new_node(m, false), false);
    m->by_fd[fd] = file;
}

void power_model_step(power_model *m)
{
    power_entry e;
    char text[2 * PL_PATH_MAX] = "";
    if ((size_t)(m->end - m->at) < sizeof e)
        return;
    memcpy(&e, m->at, sizeof e);
    const uint8_t *data = m->at + sizeof e;
    m->at = data + e.len;
    if (e.kind != POWER_WRITE)
        memcpy(text, data, e.len < sizeof text ? (size_t)e.len : sizeof text - 1);
    node *file = e.fd >= 0 && e.fd < FD_MAX ? m->by_fd[e.fd] : NULL;
    switch ((power_kind)e.kind) {
    case POWER_OPEN:
        play_open(m, e.fd, text);
        break;
    case POWER_CUT_SHORT:
        if (file)
            add_change(file, (change){NULL, e.offset, 0});
        break;
    case POWER_WRITE:
        if (file)
            add_change(file, (change){data, e.offset, e.len});
        break;
    case POWER_SYNC:
        if (file) {
            file->n_flushed = file->n_changes;
            file->n_entries_flushed = file->n_entries;
        }
        break;
    case POWER_RENAME:
        file = find(m, text);
        name_it(m, text, NULL, true);
        name_it(m, text + strlen(text) + 1, file, false);
        break;
    case POWER_LINK:
        name_it(m, text + strlen(text) + 1, find(m, text), false);
        break;
    case POWER_REMOVE:
        name_it(m, text, NULL, false);
        break;
    case POWER_FOLDER:
        name_it(m, text, new_node(m, true), false);
        break;
    default:
        break;
    }
}

uint64_t power_model_take(power_model *m, const pl_buf *trace)
{
    power_entry e;
    uint64_t n = 0;
    m->at = trace->data;
    m->end = trace->data + trace->len;
    for (const uint8_t *at = m->at; at < m->end; n++) {
        memcpy(&e, at, sizeof e);
        at += sizeof e + e.len;
    }
    return n;
}

/* ---- from a folder ---- */
static void load(power_model *m, node *into, const char *path)
{
    char inner[PL_PATH_MAX];
    DIR *entries = opendir(path);
    for (struct dirent *e; entries && (e = readdir(entries));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        pl_join(inner, path, e->d_name);
        node *of = new_node(m, pl_path_is_folder(inner));
        if (of->is_folder)
            load(m, of, inner);
        else if (pl_read_file(inner, &of->flushed) != PL_OK)
            pl_buf_clear(&of->flushed);
        put_entry(into, e->d_name, of, false);
    }
    if (entries)
        closedir(entries);
    into->n_entries_flushed = into->n_entries;
}

power_model *power_model_create(const char *folder)
{
    power_model *m = pl_alloc(sizeof *m);
    m->root = new_node(m, true);
    if (folder)
        load(m, m->root, folder);
    return m;
}

void power_model_destroy(power_model **handle)
{
    power_model *m = *handle;
    *handle = NULL;
    for (size_t i = 0; m && i < m->n_all; i++) {
        pl_buf_destroy(&m->all[i]->flushed);
        pl_free(m->all[i]->changes);
        pl_free(m->all[i]->entries);
        pl_free(m->all[i]);
    }
    if (m) {
        pl_free(m->all);
        pl_buf_destroy(&m->shown);
    }
    pl_free(m);
}
