/* Private to home: uploads. Blobs are kept in memory, piece by piece, until a message
 * names the complete blob.
 *
 * An upload belongs to a lease (its token) or to the job itself (0). `owner` says to
 * whose uploads the calls below refer; uploads of the job are found by all. So no lease
 * can fill, damage or drop the uploads of another one, and each has a share of the
 * room. All leases of one key have a share together, because a worker could give leases
 * back and take new ones without end.
 *
 * One thread uses it. A caller that takes a blob out owns it, but the blob counts
 * against the limit until it is given to staging_free.
 *
 * A few large blocks are kept for the next uploads, which usually have the same size:
 * the kernel would have to clear new ones, which costs as much as encrypting half of
 * them. They count against the limit, too, and are freed if room is needed or if they
 * stay unused. */
#ifndef PL_HOME_STAGING_H
#define PL_HOME_STAGING_H
#include "base/base.h"

enum { STAGING_KEPT = 4 };

typedef struct staging_blob {
    pl_hash hash;
    uint64_t owner;
    pl_pubkey holder;
    uint8_t *data;
    /* room: the size of its block, which counts against the limit */
    uint64_t bytes, room;
    bool *pieces; /* [ceil(bytes / PL_WIRE_DATA_MAX)] */
    bool complete;
    int64_t touched_ms;
    struct staging_blob *next;
} staging_blob;

typedef struct staging {
    /* who keeps it ("the home"), and the key that raises the limit: for errors */
    const char *keeper, *key;
    uint64_t limit, bytes; /* the bytes do not include kept blocks */
    uint64_t owner;        /* to whose uploads the next calls refer */
    uint64_t share;        /* the most bytes of this owner's uploads; 0: the limit */
    pl_pubkey holder;      /* whose lease it is; zeros: the key has no limit */
    staging_blob *first;
    struct {
        uint8_t *data; /* or NULL */
        uint64_t room;
        int64_t since_ms;
    } kept[STAGING_KEPT];
} staging;

/* The memory of kept blocks. */
uint64_t staging_kept_bytes(const staging *s);

/* The fields of PUT_BLOB; `data` belongs to the message. */
typedef struct staging_piece {
    pl_hash hash;
    uint64_t total, offset;
    pl_bytes lease; /* NULL: none */
    const pl_buf *data;
} staging_piece;

/* ERR_PROTO: fields are missing, or the piece does not fit its blob. */
pl_status staging_read(pl_message *put_blob, staging_piece *out);
/* A piece that is already there is ignored. ERR_CONFIG: the blob is larger than the
 * limit. ERR_BUSY: there is no room now. ERR_PROTO: the owner's share is exceeded, or a
 * blob came with two sizes. */
pl_status staging_put(staging *s, const staging_piece *piece);
/* whether any piece of it is there */
bool staging_has(const staging *s, const pl_hash *hash);
/* complete ones only */
staging_blob *staging_find(const staging *s, const pl_hash *hash);
staging_blob *staging_take(staging *s, const pl_hash *hash); /* or NULL */
void staging_free(staging *s, staging_blob *taken);          /* accepts NULL */
void staging_drop(staging *s, const pl_hash *hash);
/* drops uploads that were not touched for long, or all */
void staging_expire(staging *s, bool all);

#endif
