/* Private to the store: the structs of an open store and an open transaction, and the
 * functions that the files of this folder share. */
#pragma once
#include "store/engine/remote.h"
#include "store/scratch.h"
#include "store/watermark.h"

struct pl_store {
    /* The stores that this pl_store reads (stores.h): itself, or the parts of a store
     * in parts. A pl_store of parts has no database of its own. */
    pl_store *stores[PL_PARTS_MAX];
    int n_stores;
    pl_store *whole; /* the pl_store that lists this store: itself, or all parts */
    char label[16];  /* names this store in faults: "home-2: "; "" in one piece */
    kv *db;
    const chunk_places *places; /* where the bytes of chunks are (chunk.h) */
    remote_end *engine; /* the engine that holds the chunks; NULL: `db` holds them */
    pl_store_mode mode;
    char folder[PL_PATH_MAX];
    scratch own;         /* reader: the reader's temporary folder */
    int lock;            /* writer: the locked folder; -1 if none */
    watermark_file mark; /* writer: the file of the newest acknowledged commit */
    /* reader: whether the log is damaged and no writer has repaired it yet */
    bool frozen;
    uint64_t epoch, sequence;
    pl_hash log_hash; /* hash of log row `sequence`; zero if `sequence` is 0 */
    row_sum rows;     /* writer: the sum of all rows after commit `sequence` */
    /* `quota` is the limit of pl_store_set_quota; 0: no limit. `stored` is the number
     * of stored bytes of all chunks after the last commit; 0 without a limit. */
    uint64_t quota, stored;
    bool in_txn;
    /* the value of `sequence` when pl_store_recode last had nothing left to do */
    uint64_t recoded_at;
    /* chunks of a blob with this many new bytes get a separate table file */
    uint64_t bulk_bytes;
    /* table files that are being dropped, or NULL (bulk.h) */
    struct bulk_dropping *dropping;
    /* table files made since the store was opened; the next one's name */
    uint64_t n_bulk;
    /* OK, or the error of a failed write: all later writes are refused with it */
    pl_status refusal;
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
    /* the number of the commit that this transaction will make, and of its pack */
    uint64_t sequence;
    row_sum rows;      /* the sum of all rows after the operations so far */
    uint32_t n_chunks; /* number of chunks in that pack so far */
    remote_work work;  /* objects to write to the engine, if the store has one */
    /* grown: stored bytes of the chunks that this transaction adds, minus those of the
     * chunks that it frees; thinned: stored bytes that pl_txn_collect freed */
    int64_t grown, thinned;
    bulk_file *files; /* table files, the newest first (bulk.h) */
    bool in_file;     /* whether chunks are being written into the newest file */
    /* may search for table files whose chunks were all deleted one by one */
    bool tidies;
    bulk_place *gone; /* the places of the released chunks */
    size_t n_gone;
    pl_hash *loose;
    size_t n_loose;
    /* OK, or the error of a half-done step; it cannot be committed then */
    pl_status spoiled;
};

/* The key of a row in the meta family. The row exists while a copy into the store is
 * being made. During that time the store may have pack rows that no record names. */
#define STORE_MIRROR_ROW "mirror"

row_source store_source(const pl_store *store);
row_source txn_source(const pl_txn *txn);

/* One store, in one folder (store_open.c). store_open takes a pl_store with its folder
 * and mode; after a failure the caller closes it. store_refresh is for readers. */
pl_status store_open(pl_store *store);
pl_status store_refresh(pl_store *store);
pl_status store_look_as_writer(pl_store *store);
/* Opens the database of a folder into which a store is copied, and makes it if there is
 * none. A damaged end of its log is cut off, as when a store is opened for writing. */
pl_status store_open_target(const char *folder, kv **out);
void store_close(pl_store *store);

/* Returns the number in the first 8 bytes of a key, or in all its bytes if there are
 * fewer. The number is big-endian. */
uint64_t store_key_number(const uint8_t *key, size_t len);
/* Checks one row of the chain of commits, at which the cursor is. The row must be
 * commit number `expected`, and must contain the hash `previous` of the row before it
 * (not checked if `previous` is a zero hash). Afterwards `previous` is the hash of this
 * row, and `out` is the row. */
pl_status store_check_link(const kv_cursor *at, uint64_t expected, pl_hash *previous,
                           log_record *out);

/* Free space that must remain after a commit. */
#define STORE_SPARE_BYTES ((uint64_t)64 << 20)
/* The same after a commit that frees data (garbage collection). */
#define STORE_FREEING_BYTES ((uint64_t)1 << 20)
/* Checks the free disk space (PROTOCOL 4.7). The text of ERR_NOSPACE has the bytes that
 * are free, the bytes that are needed, and `purpose`, such as "the commit". */
pl_status store_check_space(const char *folder, const char *purpose,
                            uint64_t need_bytes);

/* ERR_NOSPACE if this transaction's commit would exceed the quota (usage.c). */
pl_status store_check_quota(const pl_txn *txn);

/* Makes a batch durable, then writes `after` as the new mark (watermark.h). After a
 * failure the store refuses every further write. */
pl_status store_write(pl_store *store, kv_batch *batch, const watermark *after);

/* Records that a step failed after it had changed the transaction, so that the commit
 * will be refused. Returns `status`. */
pl_status txn_spoil(pl_txn *txn, pl_status status);
/* Gets the blob that a row of the path or object family names; zero: no row. */
pl_status txn_old_blob(const pl_txn *txn, kv_family family, const char *name,
                       pl_hash *out);

/* ---- a store with an engine (remote_head.c); each function does nothing if the store
 * has none ---- */
/* Called before the epoch is raised. Checks that the engine has this store and no newer
 * state of it. ERR_STALE if another home has opened the store after this one last had
 * it open. */
pl_status remote_check(pl_store *store);
/* Called after the epoch was raised: writes the epoch into the head. After this call no
 * other process may move the head. */
pl_status remote_claim(pl_store *store);
/* Called before the local commit: writes the chunks that wait and the commit's rows.
 * After a failure the store has no part of the commit; objects that were already
 * written are garbage. */
pl_status remote_bring(pl_txn *txn, const pl_hash *log);
/* Called after the local commit: moves the head, then drops objects that are not
 * needed. If the head cannot be moved, the store refuses all later writes. */
pl_status remote_advance(pl_txn *txn);

/* Counts objects of the engine that the store does not need. A home leaves such objects
 * if it is killed between writing them and its commit, or between moving the head and
 * dropping objects. If `run` is true, these objects are dropped; the store must then be
 * open for writing. */
pl_status remote_sweep(pl_store *store, bool run, pl_gc_report *out);

/* ---- dropping data (retire.c) ---- */
/* Drops the pending rows whose keys begin with `prefix`. With keep_updates the update
 * blobs stay, because the module's new version names them. */
pl_status retire_pending(pl_txn *txn, const row_key *prefix, bool keep_updates);
/* Drops the update blobs of an existing version; its record still names them. */
pl_status retire_updates(pl_txn *txn, const char *module, uint64_t number);
/* Drops momentum and change of old versions. The newest version, its parent and the
 * `late` versions before the parent keep them. */
pl_status retire_states(pl_txn *txn, const char *module, uint64_t late,
                        head_record *head);

/* ---- blobs and chunks ---- */
/* Computes the blob's name from its record: length and hashes of the chunks. */
void blob_name(const blob_record *blob, pl_hash *out);
pl_hash blob_chunk(const blob_record *blob, size_t i);
/* How many chunks a blob of so many bytes has, and how many bytes the chunk that begins
 * at `offset` has. */
size_t blob_chunks(uint64_t bytes);
size_t chunk_bytes_at(uint64_t bytes, uint64_t offset);

/* ---- blobs inside a transaction ---- */
/* blob_hold adds a reference to a blob, blob_release drops a reference; both ignore a
 * zero hash. blob_check returns ERR_NOT_FOUND if the blob is missing; the error
 * contains `use` ("the parameters of mix/L1.E0"). */
pl_status blob_check(const pl_txn *txn, const pl_hash *id, const char *use,
                     const char *name);
pl_status blob_hold(pl_txn *txn, const pl_hash *id);
pl_status blob_release(pl_txn *txn, const pl_hash *id);
/* Deletes blobs without references. This is the last step before a commit. */
pl_status blob_sweep(pl_txn *txn);
