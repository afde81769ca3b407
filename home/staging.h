/* Private to home: uploads. Blobs are collected in memory, piece by piece, until a
 * message names the complete blob.
 *
 * An upload belongs to a lease (its token) or to the job itself (0). `owner` says whose
 * uploads the following calls use; uploads of the job are visible to all. So no lease
 * can fill up, damage or drop the uploads of another lease, and the memory of each is
 * limited. All leases of one key together have a limit, too; otherwise a worker could
 * give leases back and take new ones without end.
 *
 * One thread uses a staging. A caller that takes a blob out owns it, but the blob
 * counts against the limit until staging_free.
 *
 * A few large blocks of memory are kept for the next uploads, which usually have the
 * same size: the kernel would have to clear new blocks, which costs half as much as
 * encrypting them. Kept blocks count against the limit. Kept blocks are freed if room
 * is needed or if they stay unused. */
#ifndef PL_HOME_STAGING_H
#define PL_HOME_STAGING_H
#include "base/base.h"

enum { STAGING_KEPT = 4 };

typedef struct staging_blob {
    pl_hash hash;
    uint64_t owner;
    pl_pubkey holder;
    uint8_t *data;
    /* `room` is the size of the memory block; it counts against the limit */
    uint64_t bytes, room;
    /* [ceil(bytes / PL_WIRE_DATA_MAX)] for each piece, whether it has arrived */
    bool *pieces;
    bool complete;
    int64_t touched_ms;
    struct staging_blob *next;
} staging_blob;

typedef struct staging {
    /* used in errors: the name of the process ("the home"), and the configuration key
     * that raises the limit */
    const char *keeper, *key;
    uint64_t limit, bytes; /* size of all uploads, without kept blocks */
    uint64_t owner;        /* the owner of the uploads that the next calls use */
    /* the most bytes of uploads of this owner; 0: only the limit counts */
    uint64_t share;
    pl_pubkey holder; /* the key that holds the lease; zeros: no limit per key */
    staging_blob *first;
    struct {
        uint8_t *data; /* or NULL */
        uint64_t room;
        int64_t since_ms;
    } kept[STAGING_KEPT];
} staging;

/* Number of bytes in kept blocks. */
uint64_t staging_kept_bytes(const staging *s);

/* The fields of PUT_BLOB; `data` belongs to the message. */
typedef struct staging_piece {
    pl_hash hash;
    uint64_t total, offset;
    pl_bytes lease; /* NULL: the upload came without a lease */
    const pl_buf *data;
} staging_piece;

/* ERR_PROTO: fields are missing, or the piece does not fit its blob. */
pl_status staging_read(pl_message *put_blob, staging_piece *out);
/* Stores a piece; a piece that is already there is ignored. ERR_CONFIG: the blob is
 * larger than the limit. ERR_BUSY: there is no room now. ERR_PROTO: the owner's share
 * is exceeded, or pieces of the same blob give different sizes. */
pl_status staging_put(staging *s, const staging_piece *piece);
/* whether any piece of the blob has arrived */
bool staging_has(const staging *s, const pl_hash *hash);
/* Finds a blob of which all pieces have arrived; NULL if there is none. */
staging_blob *staging_find(const staging *s, const pl_hash *hash);
staging_blob *staging_take(staging *s, const pl_hash *hash); /* or NULL */
void staging_free(staging *s, staging_blob *taken);          /* accepts NULL */
void staging_drop(staging *s, const pl_hash *hash);
/* drops uploads that received no piece for a long time; with `all`, drops every
 * upload */
void staging_expire(staging *s, bool all);

#endif
