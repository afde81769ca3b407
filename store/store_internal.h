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
    kv *db;             /* NULL in a store in parts */
    remote_end *remote; /* the engine that holds the chunks; NULL: `db` holds them */
    pl_store **parts; /* the parts of a store in parts, opened for reading (parts.h) */
    int n_parts;
    pl_store *whole; /* in a part: the store in parts that opened it; else NULL */
    pl_store_mode mode;
    char folder[PL_PATH_MAX];
    scratch own;         /* reader: its temporary folder */
    int lock;            /* writer: the locked folder; -1 if none */
    watermark_file mark; /* writer */
    /* reader: the log is damaged, and no writer has repaired it yet */
    bool frozen;
    int database; /* reader: descriptor of the database's folder; -1 if none */
    uint64_t epoch, sequence;
    pl_hash log_hash; /* hash of log row `sequence`; zero if `sequence` is 0 */
    /* pl_store_set_quota: the limit (0: none), and the stored bytes of all chunks as of
     * the last commit (0 without a limit) */
    uint64_t quota, stored;
    bool in_txn;
    /* the sequence at which pl_store_recode had nothing left to do */
    uint64_t recoded_at;
    /* a blob with at least this many new bytes gets a table file of its own */
    uint64_t bulk_bytes;
    struct bulk_dropping *dropping; /* files that are being dropped, or NULL (bulk.h) */
    /* number of table files since opening; also the name of the next one */
    uint64_t n_bulk;
    pl_status refusal; /* not OK after a failed write, until the store is closed */
    char refusal_text[512];
    /* damage of the log that opening repaired; "" if there was none */
    char mended[512];
    char resumed[PL_TEXT_MAX]; /* the rollback that opening has finished, or "" */
};

typedef struct bulk_file bulk_file;
typedef struct bulk_dropping bulk_dropping;
typedef struct bulk_place bulk_place;

/* `loose` lists blobs that may have no references at the end of the transaction. */
struct pl_txn {
    pl_store *store;
    kv_batch *batch;
    uint64_t sequence; /* number of the coming commit, and of its pack */
    uint32_t n_chunks; /* number of chunks in the pack of the coming commit */
    remote_work work;  /* objects for the engine, if there is one */
    uint64_t staged_bytes;
    /* grown: stored bytes of chunks that it adds, less those that it frees; thinned:
     * those that pl_txn_collect freed */
    int64_t grown, thinned;
    bulk_file *files; /* table files, the newest first (bulk.h) */
    bool in_file;     /* whether chunks are being written into the newest file */
    /* whether this transaction may spend time on finding table files whose chunks were
     * all deleted one by one */
    bool tidies;
    bulk_place *gone; /* places of chunks that were released */
    size_t n_gone, cap_gone;
    pl_hash *loose;
    size_t n_loose, cap_loose;
    pl_status spoiled; /* a step failed half-way, so the commit will be refused */
};

/* A key in the meta family. The key exists while a copy is being made, when some pack
 * rows may have no record that names them. */
#define STORE_MIRROR_ROW "mirror"

row_source store_source(const pl_store *store);
row_source txn_source(const pl_txn *txn);
/* The part that has the blob, or the first part if none has it. A store without parts
 * is its own part. */
pl_store *store_part_of_blob(pl_store *store, const pl_hash *blob);

/* Returns the number at the start of a key. */
uint64_t store_key_number(const uint8_t *key, size_t len);
/* Checks one step of the chain: the row must be commit number `expected`, and must name
 * `previous` as its predecessor (not checked if `previous` is none). Leaves the row's
 * own hash in `previous`. */
PL_MUST_CHECK pl_status store_check_link(kv_slice key, kv_slice value,
                                         uint64_t expected, pl_hash *previous);

/* Free space that must remain after a commit. */
#define STORE_SPARE_BYTES ((uint64_t)64 << 20)
/* The space check of PROTOCOL 4.7. The error of ERR_NOSPACE has both numbers and
 * `purpose`, such as "the commit". */
PL_MUST_CHECK pl_status store_check_space(const pl_store *store, const char *purpose,
                                          uint64_t need_bytes);

/* ERR_NOSPACE if the commit of this transaction would pass the quota (usage.c). */
PL_MUST_CHECK pl_status store_check_quota(const pl_txn *txn);

/* Makes a batch durable and then moves the mark to (sequence, epoch, log hash). After
 * a failure the store refuses every further write. */
PL_MUST_CHECK pl_status store_write(pl_store *store, kv_batch *batch,
                                    const watermark *after);

/* Notes that a step failed half-way, so that the commit will refuse. Returns `status`.
 */
pl_status txn_spoil(pl_txn *txn, pl_status status);
/* Gets the blob that a row of the path or object family names; zero if there is no
 * row. */
PL_MUST_CHECK pl_status txn_old_blob(const pl_txn *txn, kv_family family,
                                     const char *name, pl_hash *out);

/* ---- a store with an engine (remote_head.c) ---- */
/* Called before the epoch is raised: checks that the engine holds this store and
 * nothing newer. ERR_STALE if the store was opened elsewhere since. */
PL_MUST_CHECK pl_status remote_check(pl_store *store);
/* Called after the epoch was raised: writes the epoch into the head. After this call no
 * other process may move the head. */
PL_MUST_CHECK pl_status remote_claim(pl_store *store);
/* Called before the local commit: writes the chunks and the commit's rows. After a
 * failure nothing of the commit has happened. */
PL_MUST_CHECK pl_status remote_bring(pl_txn *txn, const pl_hash *log);
/* Called after the local commit: moves the head, then drops objects that are not
 * needed. A failure to move the head is permanent. */
PL_MUST_CHECK pl_status remote_advance(pl_txn *txn);

/* Counts objects of the engine that nothing names. A home leaves such objects if it is
 * killed between writing them and its commit, or between moving the head and dropping
 * objects. With `run` (WRITE) these objects are dropped. */
PL_MUST_CHECK pl_status remote_sweep(pl_store *store, bool run, pl_gc_report *out);

/* ---- dropping data (retire.c) ---- */
/* Drops the pending rows of one phase of a module. With keep_updates the update blobs
 * stay, because the new version names them. */
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
/* Computes the name that the blob must have, from its record. */
void blob_name(const blob_record *blob, pl_hash *out);
pl_hash blob_chunk(const blob_record *blob, size_t i);

/* ---- blobs inside a transaction ---- */
/* blob_hold adds a reference, blob_release drops one; they ignore a zero hash.
 * blob_check returns ERR_NOT_FOUND if the blob is missing; the error contains `use`
 * ("the parameters of mix/L1.E0"). */
PL_MUST_CHECK pl_status blob_check(const pl_txn *txn, const pl_hash *id,
                                   const char *use, const char *name);
PL_MUST_CHECK pl_status blob_hold(pl_txn *txn, const pl_hash *id);
PL_MUST_CHECK pl_status blob_release(pl_txn *txn, const pl_hash *id);
/* Deletes blobs without references; the last step before a commit. */
PL_MUST_CHECK pl_status blob_sweep(pl_txn *txn);

#endif
