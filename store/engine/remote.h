/* A store whose chunks lie in an engine: its objects, and the order in which they are
 * written (PROTOCOL 4.12).
 *
 *   chunk/HASH.EPOCH.PACK.NUMBER   one chunk, with the bytes that a pack would hold
 *   log/SEQUENCE.LOGHASH           the rows that one commit wrote
 *   base/EPOCH.SEQUENCE.PART       all rows as of one commit
 *   upload/EPOCH.ID.NUMBER         a chunk of an upload, by a signed URL (signed.c)
 *   head                           names the newest commit and the base; changed by
 *                                  compare-and-swap
 *
 * Records stay in the local database. A record that names a chunk is committed after
 * the chunk was written, and a commit is acknowledged after the head names the commit.
 * So every acknowledged commit can be rebuilt from the engine alone.
 *
 * No name is used twice: each opening of the store has its own epoch, because a new
 * opening moves the head to a higher epoch. An object is dropped only after the head
 * names a commit that does not need the object. A home that takes the store over starts
 * from that head or from a later one. So a home that was replaced, but does not know
 * this yet, cannot drop an object that its successor needs. */
#pragma once
#include "store/engine/engine.h"
#include "store/chunk.h"

typedef struct remote_head {
    uint8_t store[16];  /* the store's id */
    uint8_t holder[16]; /* a random number, chosen at each opening */
    uint64_t epoch, sequence;
    pl_hash log; /* the hash of commit `sequence`; zero if there is no commit */
    /* epoch and newest commit when the base was written, and its number of objects */
    uint64_t base_epoch, base_sequence, base_parts;
    pl_hash base; /* the hash of all bytes of the base */
    /* base_bytes: size of the base; log_bytes: size of all commits since the base */
    uint64_t base_bytes, log_bytes;
    int64_t wall_ms;
    char host[64];
} remote_head;

/* Objects that will be dropped soon (remote_doom). */
typedef struct remote_doomed {
    engine_object *names;
    int64_t *since_ms; /* when remote_doom marked each object, in rising order */
    size_t n;
} remote_doomed;

typedef struct remote_end {
    engine *service;
    remote_head head; /* the head that this process last wrote or read */
    pl_buf bytes;     /* the encoded head; empty if there is no head */
    remote_doomed doomed;
    /* objects of uploads; they are dropped when their URLs have expired */
    remote_doomed uploads;
} remote_end;

/* Objects of an open transaction. puts[i] is chunk number i of the transaction's pack,
 * with a copy of the chunk's bytes until the chunk is written to the engine. The first
 * n_written are written. A chunk that was released before that has no bytes. */
typedef struct remote_work {
    engine_objects puts, drops;
    size_t n_written;
    uint64_t staged_bytes; /* size of the copies */
} remote_work;

/* ---- where the chunks of a store are ---- */
pl_status remote_write_place(const char *folder, const char *url);
/* Sets *out to NULL if the store's chunks are in the database. */
pl_status remote_open(const char *folder, bool to_write, remote_end **out);
/* Accepts NULL. First drops the objects of remote_doom, unless `abandon`. */
void remote_close(remote_end **r, bool abandon);

/* ---- chunks: remote_places (chunk.h) puts, gets and drops them ---- */
/* Frees a transaction's lists. Without a commit, written objects are garbage. */
void remote_work_clear(remote_work *work);
/* Copies the chunks that must still be written to `out`, and returns their number.
 * There is room for one further object. The caller frees *out. */
size_t remote_work_left(const remote_work *work, engine_object **out);

/* remote_doom marks objects that no commit needs any more. A marked object is dropped
 * by the first commit that is at least REMOTE_LINGER_MS later, or at the latest by
 * pl_store_close, so readers that are a little behind the writer still find the object.
 * If the process is killed before that, the object stays, and `store gc` finds it. */
enum { REMOTE_LINGER_MS = 10000 };
void remote_doom(remote_doomed *list, const engine_objects *objects);
void remote_drop_doomed(remote_end *r);

/* ---- names ---- */
void remote_chunk_name(const pl_hash *id, const chunk_record *chunk,
                       char out[ENGINE_NAME_MAX]);
void remote_log_name(uint64_t sequence, const pl_hash *log, char out[ENGINE_NAME_MAX]);
void remote_base_name(const remote_head *head, uint64_t part,
                      char out[ENGINE_NAME_MAX]);

/* ---- the head (remote_head.c) ---- */
/* Reads the head; *found is false if there is none. */
pl_status remote_read_head(remote_end *r, bool *found);
