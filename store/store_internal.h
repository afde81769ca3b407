/* Private to the store: the open store and the open transaction, which the files of
 * this folder share. */
#ifndef PL_STORE_STORE_INTERNAL_H
#define PL_STORE_STORE_INTERNAL_H
#include "store/chunk.h"
#include "store/records.h"
#include "store/engine/remote.h"
#include "store/scratch.h"
#include "store/watermark.h"

struct pl_store {
    kv *db;             /* NULL with parts */
    remote_end *remote; /* where the chunks lie; NULL: in db */
    pl_store **parts; /* the parts of a store in parts, opened for reading (parts.h) */
    int n_parts;
    pl_store *whole; /* of a part: the store in parts that opened it; else NULL */
    pl_store_mode mode;
    char folder[PL_PATH_MAX];
    scratch own;         /* READ: the follower's folder */
    int lock;            /* writer: the locked folder; -1 if none */
    watermark_file mark; /* writer */
    /* reader: its log is damaged and has not been repaired by a writer yet */
    bool frozen;
    int database; /* reader: a descriptor of the folder that it follows; -1 if none */
    uint64_t epoch, sequence;
    pl_hash log_hash; /* of row `sequence`; none at 0 */
    bool in_txn;
    uint64_t recoded_at; /* the sequence at which nothing was left to code */
    /* a blob with at least this many new bytes gets a file of its own */
    uint64_t bulk_bytes;
    struct bulk_dropping *dropping; /* files that are being dropped, or NULL (bulk.h) */
    uint64_t n_bulk;   /* number of such files since opening; it names the next one */
    pl_status refusal; /* not OK after a failed write; stays so */
    char refusal_text[512];
    char mended[512]; /* what was wrong with the log when it was opened; "" if nothing
                         was */
    char resumed[PL_TEXT_MAX]; /* the rollback that opening has finished; "" if none */
};

typedef struct bulk_file bulk_file;
typedef struct bulk_dropping bulk_dropping;
typedef struct bulk_place bulk_place;

/* `loose` lists blobs that may have no references at the end of the transaction. */
struct pl_txn {
    pl_store *store;
    kv_batch *batch;
    uint64_t sequence; /* of the coming commit; also the number of its pack */
    uint32_t n_chunks; /* in that pack */
    remote_work work;  /* what goes to the engine, if there is one */
    uint64_t staged_bytes;
    bulk_file *files; /* newest first (bulk.h) */
    bool in_file;     /* true if chunks go into the newest file */
    /* true if there is time to look for files that lost their chunks one by one */
    bool tidies;
    bulk_place *gone; /* places of chunks that were released */
    size_t n_gone, cap_gone;
    pl_hash *loose;
    size_t n_loose, cap_loose;
    pl_status spoiled; /* a step failed half-way, so commit refuses */
};

/* A key in meta that exists while a copy is being made: pack rows may be named by
 * nothing yet. */
#define STORE_MIRROR_ROW "mirror"

row_source store_source(const pl_store *store);
row_source txn_source(const pl_txn *txn);
/* The part that has the blob, or the first part if none has it; the store itself if it has
 * no parts. */
pl_store *store_part_of_blob(pl_store *store, const pl_hash *blob);

/* The number at the start of a key. */
uint64_t store_key_number(const uint8_t *key, size_t len);
/* One step of the chain: the row must be number `expected` and follow `previous`
 * (unless that is none). Leaves the row's own hash in `previous`. */
PL_MUST_CHECK pl_status store_check_link(kv_slice key, kv_slice value,
                                         uint64_t expected, pl_hash *previous);

/* Free space that must remain after a commit. */
#define STORE_SPARE_BYTES ((uint64_t)64 << 20)
/* The space check of PROTOCOL 4.7: ERR_NOSPACE with both numbers. `purpose` is "the
 * commit". */
PL_MUST_CHECK pl_status store_check_space(const pl_store *store, const char *purpose,
                                          uint64_t need_bytes);

/* Makes a batch durable and then moves the mark to (sequence, epoch, log hash). After
 * a failure the store refuses every further write. */
PL_MUST_CHECK pl_status store_write(pl_store *store, kv_batch *batch,
                                    const watermark *after);

/* Notes that a step failed half-way, so that the commit will refuse. Returns `status`.
 */
pl_status txn_spoil(pl_txn *txn, pl_status status);
/* The blob that a row of path or object names; none if there is no row. */
PL_MUST_CHECK pl_status txn_old_blob(const pl_txn *txn, kv_family family,
                                     const char *name, pl_hash *out);

/* ---- a store with an engine (remote_head.c) ---- */
/* Called before the epoch is raised: checks that the engine holds this store and
 * nothing newer. ERR_STALE if the store was opened elsewhere since. */
PL_MUST_CHECK pl_status remote_check(pl_store *store);
/* Called afterwards: the head gets this epoch, and then no other process may move it.
 */
PL_MUST_CHECK pl_status remote_claim(pl_store *store);
/* Called before the local commit: writes the chunks and the commit's rows. After a
 * failure nothing of the commit has happened. */
PL_MUST_CHECK pl_status remote_bring(pl_txn *txn, const pl_hash *log);
/* Called after the local commit: moves the head, then drops objects that are not
 * needed. A failure to move the head is permanent. */
PL_MUST_CHECK pl_status remote_advance(pl_txn *txn);

/* Counts objects that nothing names: a home leaves them if it is killed between writing
 * them and its commit, or between the head and its drops. With `run` (WRITE) they are
 * dropped. */
PL_MUST_CHECK pl_status remote_sweep(pl_store *store, bool run, pl_gc_report *out);

/* ---- dropping data (retire.c) ---- */
/* Drops the pending rows of one phase of a module. With keep_updates their blobs stay,
 * because the new version names them. */
PL_MUST_CHECK pl_status retire_pending(pl_txn *txn, const char *module, uint64_t phase,
                                       bool keep_updates);
/* Drops the update blobs of an existing version; its record still names them. */
PL_MUST_CHECK pl_status retire_updates(pl_txn *txn, const char *module,
                                       uint64_t number);
/* Drops momentum and change of all versions except the parent of the head and `late`
 * versions before it. */
PL_MUST_CHECK pl_status retire_states(pl_txn *txn, const char *module, uint64_t late,
                                      head_record *head);

/* ---- blobs and chunks ---- */
/* Computes what the blob's name must be. */
void blob_name(const blob_record *blob, pl_hash *out);
pl_hash blob_chunk(const blob_record *blob, size_t i);

/* ---- blobs inside a transaction ---- */
/* Adds or drops one reference; a none hash is no reference. The sentence of
 * ERR_NOT_FOUND names `use` ("the parameters of mix/L1.E0"). */
PL_MUST_CHECK pl_status blob_check(const pl_txn *txn, const pl_hash *id,
                                   const char *use, const char *name);
PL_MUST_CHECK pl_status blob_hold(pl_txn *txn, const pl_hash *id);
PL_MUST_CHECK pl_status blob_release(pl_txn *txn, const pl_hash *id);
/* Deletes blobs without references; the last step before a commit. */
PL_MUST_CHECK pl_status blob_sweep(pl_txn *txn);

#endif
