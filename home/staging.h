/* Private to outer: blobs on their way in, in memory, until somebody names the whole.
 *
 * An upload belongs to a lease (its token) or to the job itself (0). `owner` says whose
 * uploads the calls below are about; those of the job are found by all. So nobody can
 * fill, damage or drop the uploads of another lease, and a lease has a share of the
 * room.
 *
 * One thread. Whoever takes a blob out owns it, but it goes on counting against the
 * limit until it is given to staging_free.
 *
 * A few large blocks stay for the next uploads, which are as large as those before: the
 * kernel would clear each anew, and that costs as much as to encrypt half of it. They
 * count against the limit too, and go when there is no room, or nobody used them. */
#ifndef PL_HOME_STAGING_H
#define PL_HOME_STAGING_H
#include "base/base.h"

enum { STAGING_KEPT = 4 };

typedef struct staging_blob {
    pl_hash hash;
    uint64_t owner;
    uint8_t *data;
    uint64_t bytes, room; /* of its block, which counts */
    bool *pieces;         /* [ceil(bytes / PL_WIRE_DATA_MAX)] */
    bool complete;
    int64_t touched_ms;
    struct staging_blob *next;
} staging_blob;

typedef struct staging {
    const char *keeper, *key; /* "the home", and what raises its limit: for errors */
    uint64_t limit, bytes;    /* the latter without kept blocks */
    uint64_t owner;           /* of the uploads that the next calls are about */
    uint64_t share;           /* most bytes of this owner's uploads; 0: the limit */
    staging_blob *first;
    struct {
        uint8_t *data; /* or NULL */
        uint64_t room;
        int64_t since_ms;
    } kept[STAGING_KEPT];
} staging;

/* Memory of the kept blocks. */
uint64_t staging_kept_bytes(const staging *s);

/* What PUT_BLOB says; `data` is the message's. */
typedef struct staging_piece {
    pl_hash hash;
    uint64_t total, offset;
    const pl_buf *data;
} staging_piece;

/* ERR_PROTO: fields are missing, or the piece does not fit its blob. */
pl_status staging_read(const pl_message *put_blob, staging_piece *out);
/* A piece that is there already is dropped. ERR_CONFIG: larger than the limit;
 * ERR_BUSY: no room now; ERR_PROTO: more than the owner's share, or two sizes for one
 * blob. */
pl_status staging_put(staging *s, const staging_piece *piece);
bool staging_has(const staging *s, const pl_hash *hash);           /* any piece of it */
staging_blob *staging_find(const staging *s, const pl_hash *hash); /* complete ones */
staging_blob *staging_take(staging *s, const pl_hash *hash);       /* or NULL */
void staging_free(staging *s, staging_blob *taken);                /* accepts NULL */
void staging_drop(staging *s, const pl_hash *hash);
void staging_expire(staging *s, bool all); /* untouched for long, or all */

#endif
