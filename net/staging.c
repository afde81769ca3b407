/* Keeps uploads in memory until a message names the complete blob (staging.h). */
#include "net/staging.h"
#include "net/net.h"

enum {
    EXPIRE_MS = 120000,       /* an upload whose owner sends nothing is dropped then */
    WANTED_MS = 30000,        /* the same, while another upload waits for room */
    COUNTED_BYTES = 64 << 10, /* while others wait, fewer new bytes keep no room */
    KEPT_MS = 30000,          /* an unused kept block is freed after this time */
    KEEP_FROM = 4 << 20,      /* smaller blocks are not kept */
    KEEP_TO = 256 << 20,      /* limit for the bytes of all kept blocks */
    /* the leases of one key may together use 1/HOLDER_PART of the limit, or the share
     * of one lease if that is more */
    HOLDER_PART = 8,
    /* most uploads of one key: each message searches the list of all uploads */
    HOLDER_UPLOADS_MAX = 4 * STAGING_UPLOADS_MAX
};

static staging_blob *find_of(const staging *s, uint64_t token, const pl_hash *hash)
{
    for (staging_blob *b = s->first; b; b = b->next)
        if (b->owner.token == token && pl_hash_equal(&b->hash, hash))
            return b;
    return NULL;
}

/* Adds up the uploads of this owner, or of all owners with its key. */
static uint64_t staged_bytes(const staging *s, bool by_key, int *n)
{
    uint64_t sum = 0;
    *n = 0;
    for (const staging_blob *b = s->first; b; b = b->next)
        if (by_key ? pl_pubkey_equal(&b->owner.holder, &s->owner.holder)
                   : b->owner.token == s->owner.token) {
            sum += b->bytes;
            ++*n;
        }
    return sum;
}

static uint64_t holder_limit(const staging *s)
{
    uint64_t part = s->limit / HOLDER_PART;
    return s->owner.share > part ? s->owner.share : part;
}

bool staging_holder_is_full(const staging *s, uint64_t bytes)
{
    int n = 0;
    if (pl_pubkey_none(&s->owner.holder))
        return false;
    /* the sum of a relay may be larger than the limit, if it is the only upload */
    const bool is_over = bytes + staged_bytes(s, true, &n) > holder_limit(s);
    return (is_over && (n > 0 || s->owner.share > 0)) || n >= HOLDER_UPLOADS_MAX;
}

pl_status staging_read(pl_message *m, pl_msg_put_blob *out)
{
    PL_CHECK(PL_HEAR(m, put_blob, out));
    if (out->offset > out->total || m->data.len > out->total - out->offset)
        return pl_fail(PL_ERR_PROTO,
                       "a piece of %zu bytes at offset %llu does not fit into a blob "
                       "of %llu bytes",
                       m->data.len, (unsigned long long)out->offset,
                       (unsigned long long)out->total);
    return PL_OK;
}

/* ---- kept blocks of memory ---- */
uint64_t staging_kept_bytes(const staging *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < STAGING_KEPT; i++)
        sum += s->kept[i].room;
    return sum;
}

static void free_kept(staging *s, int i)
{
    pl_free(s->kept[i].data);
    s->kept[i].data = NULL;
    s->kept[i].room = 0;
}

static int oldest_kept(const staging *s)
{
    int oldest = -1;
    for (int i = 0; i < STAGING_KEPT; i++)
        if (s->kept[i].data &&
            (oldest < 0 || s->kept[i].since_ms < s->kept[oldest].since_ms))
            oldest = i;
    return oldest;
}

/* Gets a block of memory for an upload: a kept block that fits, or a new one. For a new
 * block kept ones are freed, the oldest first, until it fits into the limit, and until
 * it can be allocated. */
static pl_status get_upload_block(staging *s, uint64_t bytes, staging_blob *b)
{
    for (int i = 0; i < STAGING_KEPT; i++) {
        const uint64_t room = s->kept[i].room;
        if (!s->kept[i].data || room < bytes || room - bytes > room / 8)
            continue;
        b->data = s->kept[i].data;
        b->room = room;
        s->kept[i].data = NULL;
        s->kept[i].room = 0;
        return PL_OK;
    }
    for (int i = oldest_kept(s); i >= 0; i = oldest_kept(s)) {
        if (bytes <= s->limit && s->bytes + staging_kept_bytes(s) <= s->limit - bytes)
            break;
        free_kept(s, i);
    }
    pl_status status;
    while ((status = pl_try_alloc_bare(bytes ? (size_t)bytes : 1, "an upload",
                                       (void **)&b->data)) == PL_ERR_NOMEM &&
           oldest_kept(s) >= 0)
        free_kept(s, oldest_kept(s));
    b->room = bytes;
    return status;
}

/* ---- pieces of uploads ---- */
/* Uploads of one lease stay as long as one of them begins or receives bytes, because a
 * task on a slow link needs long for all of them. Those without a lease have nothing in
 * common. A question how far an upload is does not count: where no large packet passes,
 * small ones still do. */
void staging_touch(staging *s, staging_blob *moved)
{
    const int64_t now = pl_now_ms();
    const uint64_t token = s->owner.token;
    uint64_t arrived = 0;
    for (staging_blob *b = s->first; b; b = b->next)
        if (b == moved || (token != 0 && b->owner.token == token))
            arrived += b->there - b->counted;
    if (s->wanted && !pl_pubkey_none(&s->owner.holder) && arrived < COUNTED_BYTES)
        return;
    for (staging_blob *b = s->first; b; b = b->next)
        if (b == moved || (token != 0 && b->owner.token == token)) {
            b->counted = b->there;
            b->touched_ms = now;
        }
}

pl_status staging_open(staging *s, const pl_msg_put_blob *p, staging_blob **out)
{
    const uint64_t bytes = p->total;
    staging_blob *b = find_of(s, s->owner.token, &p->blob);
    int n = 0;
    *out = NULL;
    if (b && b->bytes != bytes)
        return pl_fail(PL_ERR_PROTO,
                       "two messages give different sizes for one uploaded blob: %llu "
                       "and %llu bytes",
                       (unsigned long long)b->bytes, (unsigned long long)bytes);
    *out = b;
    if (b)
        return PL_OK;
    const uint64_t owned = staged_bytes(s, false, &n);
    if (bytes > s->limit)
        return pl_fail(PL_ERR_CONFIG,
                       "an upload of %llu bytes is larger than the limit of %s (%llu "
                       "bytes); raise %s",
                       (unsigned long long)bytes, s->keeper,
                       (unsigned long long)s->limit, s->key);
    if (s->owner.share > 0 &&
        (bytes + owned > s->owner.share || n >= STAGING_UPLOADS_MAX))
        return pl_fail(
            PL_ERR_PROTO,
            "an upload of %llu bytes is more than this lease may upload: its task "
            "needs at most %llu bytes in %d uploads, and %llu bytes in %d are here",
            (unsigned long long)bytes, (unsigned long long)s->owner.share,
            STAGING_UPLOADS_MAX, (unsigned long long)owned, n);
    if (staging_holder_is_full(s, bytes)) {
        const uint64_t held = staged_bytes(s, true, &n);
        return pl_fail(PL_ERR_BUSY,
                       "the processes with this key have %llu bytes in %d uploads "
                       "here, and at most %llu in %d are allowed per key; send this "
                       "upload later",
                       (unsigned long long)held, n, (unsigned long long)holder_limit(s),
                       HOLDER_UPLOADS_MAX);
    }
    if (bytes > s->limit - s->bytes)
        return pl_fail(
            PL_ERR_BUSY,
            "%s holds %llu bytes of uploads and may hold at most %llu bytes; "
            "send this upload later or raise %s",
            s->keeper, (unsigned long long)s->bytes, (unsigned long long)s->limit,
            s->key);
    b = pl_alloc(sizeof *b);
    const pl_status status = get_upload_block(s, bytes, b);
    if (status != PL_OK) {
        pl_free(b);
        return status;
    }
    b->hash = p->blob;
    b->owner = s->owner;
    b->bytes = bytes;
    b->next = s->first;
    s->first = b;
    s->bytes += b->room;
    b->begun_ms = b->touched_ms = pl_now_ms();
    staging_touch(s, b);
    *out = b;
    return PL_OK;
}

pl_status staging_put(staging *s, const pl_msg_put_blob *p, const pl_buf *piece,
                      staging_blob **out)
{
    staging_blob *b = find_of(s, s->owner.token, &p->blob);
    *out = NULL;
    if (p->offset > (b ? b->there : 0))
        return pl_fail(PL_ERR_BUSY,
                       "a piece at offset %llu came, but only %llu bytes before it are "
                       "here; ask how far the upload is",
                       (unsigned long long)p->offset,
                       (unsigned long long)(b ? b->there : 0));
    PL_CHECK(staging_open(s, p, &b));
    if (p->offset + piece->len > b->there) {
        memcpy(b->data + p->offset, piece->data, piece->len);
        b->there = p->offset + piece->len;
        staging_touch(s, b);
    }
    *out = b;
    return PL_OK;
}

/* own uploads first, then those that belong to nobody */
static staging_blob *find_upload(const staging *s, const pl_hash *hash)
{
    staging_blob *b = find_of(s, s->owner.token, hash);
    return b ? b : find_of(s, 0, hash);
}

bool staging_has(const staging *s, const pl_hash *hash)
{
    return find_upload(s, hash) != NULL;
}

staging_blob *staging_find(const staging *s, const pl_hash *hash)
{
    staging_blob *b = find_upload(s, hash);
    return b && b->there == b->bytes ? b : NULL;
}

static void unlink_blob(staging *s, const staging_blob *victim)
{
    staging_blob **at = &s->first;
    while (*at != victim)
        at = &(*at)->next;
    *at = victim->next;
}

staging_blob *staging_take(staging *s, const pl_hash *hash)
{
    staging_blob *b = staging_find(s, hash);
    if (b)
        unlink_blob(s, b);
    return b;
}

/* The block of memory is kept if its size is between KEEP_FROM and KEEP_TO. If there
 * are too many kept blocks or bytes, the oldest ones are freed. */
void staging_free(staging *s, staging_blob *b)
{
    if (!b)
        return;
    if (b->engine_id)
        s->gone(s->context, b);
    s->bytes -= b->room;
    if (b->room < KEEP_FROM || b->room > KEEP_TO) {
        pl_free(b->data);
    } else {
        int at = 0;
        while (staging_kept_bytes(s) > KEEP_TO - b->room)
            free_kept(s, oldest_kept(s));
        while (at < STAGING_KEPT && s->kept[at].data)
            at++;
        if (at == STAGING_KEPT)
            free_kept(s, at = oldest_kept(s));
        s->kept[at].data = b->data;
        s->kept[at].room = b->room;
        s->kept[at].since_ms = pl_now_ms();
    }
    pl_free(b);
}

void staging_remove(staging *s, staging_blob *b)
{
    unlink_blob(s, b);
    staging_free(s, b);
}

void staging_drop(staging *s, const pl_hash *hash)
{
    staging_blob *b = find_of(s, s->owner.token, hash);
    if (b)
        staging_remove(s, b);
}

pl_pubkey staging_evict(staging *s)
{
    pl_pubkey holder = {{0}};
    uint64_t most = 0;
    int n;
    s->owner = (staging_owner){0};
    for (const staging_blob *b = s->first; b; b = b->next) {
        if (pl_pubkey_none(&b->owner.holder) ||
            pl_pubkey_equal(&b->owner.holder, &s->owner.holder))
            continue; /* no key, or the key of the upload before this one */
        s->owner = b->owner;
        const uint64_t bytes = staged_bytes(s, true, &n);
        holder = bytes > most ? b->owner.holder : holder;
        most = bytes > most ? bytes : most;
    }
    staging_blob *next;
    for (staging_blob *b = most > 0 ? s->first : NULL; b; b = next) {
        next = b->next;
        if (pl_pubkey_equal(&b->owner.holder, &holder))
            staging_remove(s, b);
    }
    return holder;
}

void staging_stand_still(staging *s, int64_t ms)
{
    for (staging_blob *b = s->first; b; b = b->next)
        b->begun_ms += ms, b->touched_ms += ms;
}

void staging_expire(staging *s, bool all)
{
    int64_t now = pl_now_ms();
    staging_blob *b = s->first;
    while (b) {
        staging_blob *next = b->next;
        const int64_t took_ms = b->owner.path ? b->touched_ms - b->begun_ms : 0,
                      most_ms = s->wanted             ? WANTED_MS
                                : took_ms > EXPIRE_MS ? took_ms
                                                      : EXPIRE_MS;
        if (all || now - b->touched_ms > most_ms)
            staging_remove(s, b);
        b = next;
    }
    for (int i = 0; i < STAGING_KEPT; i++)
        if (s->kept[i].data && (all || now - s->kept[i].since_ms > KEPT_MS))
            free_kept(s, i);
}
