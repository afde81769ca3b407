/* Uploads at a home or a relay. Blobs are collected in memory, piece by piece and in
 * order, until a message names the complete blob.
 *
 * An upload belongs to a lease or to the job itself. The caller sets staging.owner to
 * choose the uploads that the next calls use.
 * Uploads of the job are visible to all owners. So no lease can fill up, damage or drop
 * the uploads of another lease, and the memory of each lease is limited. All leases of
 * one key together have a limit, too. Otherwise a worker could get more and more memory
 * by returning leases and taking new ones.
 *
 * Only one thread may use a `staging`. A caller owns a blob that staging_take returned,
 * but the blob counts against the limit until staging_free.
 *
 * A few large blocks of memory are kept for the next uploads, which usually have the
 * same size. The kernel would have to clear new blocks, and that takes half as long as
 * the encryption of the upload. Kept blocks count against the limit. They are freed if
 * an upload needs the room or if they stay unused. */
#pragma once
#include "net/messages.h"

/* A lease may have this many uploads: more than two phases of any path send. Small
 * uploads take more memory than their bytes. */
enum { STAGING_KEPT = 4, STAGING_UPLOADS_MAX = 1024 };

struct home_path;

typedef struct staging_owner {
    uint64_t token; /* of the lease; 0: the job */
    /* path and phase of the lease; path is NULL without a lease */
    struct home_path *path;
    int64_t phase;
    /* limit for the bytes of uploads of this owner; 0: only staging.limit counts */
    uint64_t share;
    /* the key to which the lease was granted; zeros: no limit per key */
    pl_pubkey holder;
} staging_owner;

typedef struct staging_blob {
    pl_hash hash;
    staging_owner owner; /* staging.owner when the upload began */
    uint8_t *data;
    /* bytes: of the blob; room: of its memory block, which counts against the limit */
    uint64_t bytes, room;
    uint64_t there;     /* bytes that have arrived, from the beginning on */
    int64_t touched_ms; /* when the last new piece of it, or of its lease, arrived */
    int64_t begun_ms;
    uint64_t counted; /* how many bytes had arrived at touched_ms */
    /* If the sender writes the bytes into the store's engine: engine_id names the
     * objects (0: it does not), it has URLs for the first engine_bytes bytes, and after
     * a failure it gets no more. */
    uint64_t engine_id, engine_bytes;
    bool engine_failed;
    struct staging_blob *next;
} staging_blob;

typedef struct staging {
    /* for error messages: `keeper` names the process ("the home"), `key` the
     * configuration key or option that sets the limit */
    const char *keeper, *key;
    uint64_t limit, bytes; /* bytes: memory of all uploads, without kept blocks */
    staging_owner owner;   /* of the uploads that the next calls use */
    staging_blob *first;
    /* whether an upload waits for room; idle uploads are then dropped earlier */
    bool wanted;
    /* called for an upload with engine_id before it is freed */
    void (*gone)(void *context, const staging_blob *b);
    void *context;
    struct {
        uint8_t *data;    /* NULL: no block */
        uint64_t room;    /* bytes of the block */
        int64_t since_ms; /* when the block was last used */
    } kept[STAGING_KEPT];
} staging;

uint64_t staging_kept_bytes(const staging *s);

/* Reads the fields of a PUT_BLOB message. Its data are the piece, the bytes from
 * `offset` on; a message without data asks for room. ERR_PROTO: fields are missing, or
 * the piece does not fit into the blob. */
pl_status staging_read(pl_message *m, pl_msg_put_blob *out);
/* Finds the upload of the present owner, and begins it unless it has begun. ERR_CONFIG:
 * the blob is larger than the limit. ERR_BUSY: the uploads of the home or of this key
 * have reached their limit; send the upload later. ERR_PROTO: the upload would exceed
 * the owner's share, or messages about the same blob give different sizes. */
pl_status staging_open(staging *s, const pl_msg_put_blob *p, staging_blob **out);
/* Stores a piece, which must begin at or before the end of the bytes that have arrived.
 * ERR_BUSY: it begins later, or its upload has not begun; the sender asks how far the
 * upload is. Otherwise as staging_open, which the first piece may replace. */
pl_status staging_put(staging *s, const pl_msg_put_blob *p, const pl_buf *piece,
                      staging_blob **out);
/* Returns whether the uploads of s->holder leave no room for so many bytes. */
bool staging_holder_is_full(const staging *s, uint64_t bytes);
bool staging_has(const staging *s, const pl_hash *hash);
/* Finds a blob if all its bytes have arrived; otherwise returns NULL. */
staging_blob *staging_find(const staging *s, const pl_hash *hash);
/* Like staging_find, but the caller then owns the blob. */
staging_blob *staging_take(staging *s, const pl_hash *hash);
void staging_free(staging *s, staging_blob *taken); /* accepts NULL */
void staging_drop(staging *s, const pl_hash *hash);
void staging_remove(staging *s, staging_blob *b);
/* Notes that bytes of `moved` have arrived, or, with NULL, other bytes of the owner, so
 * that the owner's uploads stay. */
void staging_touch(staging *s, staging_blob *moved);
/* Drops the uploads of the key that has most bytes here. Returns the key, or zeros if
 * no key has any. */
pl_pubkey staging_evict(staging *s);
/* Call this after `ms` in which nothing could arrive: uploads do not age in it. */
void staging_stand_still(staging *s, int64_t ms);
/* Drops the uploads of leases that sent no new byte for two minutes (at a home, for as
 * long as the upload has taken, if that is more), or for 30 s if their room is wanted;
 * without a lease, uploads that got no new byte. If `all` is true, drops every upload.
 */
void staging_expire(staging *s, bool all);
