/* The public header of store: a store of versions of modules, built on RocksDB. A store
 * contains:
 *
 * - blob: immutable bytes named by their hash, cut into chunks of at most 1 MiB. Equal
 *   chunks are stored once, even if they belong to different versions.
 * - version: state number n of a module. Its record names a blob of parameters, a blob
 *   of optimizer state, the parent version, and the contributions that made the
 *   version.
 * - head: the newest version of a module.
 * - pending: contributions that were accepted and are not merged yet.
 * - path state: for one replica of one path, the state of the inner optimizer and the
 *   position in the training data (data cursor).
 * - object: a named blob, such as an arm's definition, a router, a tokenizer, a data
 *   shard.
 * - ref: a short text that is stored under a name.
 *
 * One writer (the home process) makes atomic, synced commits. While the writer runs,
 * any number of readers may open the same folder (as secondary instances of RocksDB).
 * docs/PROTOCOL.md section 4 defines the layout and the formats of records. The name of
 * a module is "ARM/SLOT.Ek", for example "mix/L1.E0".
 *
 * Only one thread may use an open store and its transaction, with one exception:
 * pl_store_head, the pl_store_get_ functions and the functions that read blobs may be
 * called by several threads at once, as long as no thread refreshes or closes the
 * store.
 *
 * Read the files in this order: kv (all calls of RocksDB), rows (keys and checksums),
 * records, chunk, blob, txn, watermark, store_open, stores (a list), store (reading).
 */
#pragma once
#include "base/base.h"
#include "store/findings.h"
#include "store/work.h"

enum { PL_CHUNK_BYTES = 1 << 20, PL_MODULE_NAME_MAX = 96, PL_TEXT_MAX = 96 };

typedef struct pl_store pl_store;
typedef struct pl_txn pl_txn;

typedef enum pl_store_mode {
    PL_STORE_CREATE,
    PL_STORE_WRITE,
    PL_STORE_READ
} pl_store_mode;

/* Returns ERR_NOPERM if this user may not enter the folder. Without this check, such a
 * folder would look as if it contained no store. */
pl_status pl_store_check_access(const char *folder);
/* CREATE makes a new store, or opens an existing store for writing. WRITE only opens an
 * existing store for writing. READ shows a consistent state and works while a writer
 * runs. The errors are ERR_BUSY if a running job has locked the store, ERR_UNSUPPORTED
 * if the store has a different format, and ERR_DAMAGED if commits were lost. (The text
 * of ERR_DAMAGED has the number of the last commit found and the number expected.)
 * WRITE and CREATE raise the store's epoch by 1, so every opening for writing has its
 * own epoch. */
pl_status pl_store_open(const char *folder, pl_store_mode mode, pl_store **out);
void pl_store_close(pl_store **store);
/* A run with several homes has a store in parts: FOLDER/home-1 .. home-N, each with its
 * own writer. With READ, pl_store_open takes FOLDER and shows all parts as one store.
 * With WRITE or CREATE, pl_store_open takes the folder of one part. */
enum { PL_PARTS_MAX = 16 };
/* Writes the path of part `part` (from 0) to `out`, and returns `out`. */
char *pl_store_part(const char *folder, int part, char out[PL_PATH_MAX]);
/* Gets the number of parts of a store; *n is 0 for a store in one piece. */
pl_status pl_store_parts(const char *folder, int *n);
/* The number of homes of a store is that of its parts, and 1 for a store in one piece.
 * pl_store_home writes the path of the store of one home (from 0) of n to `out`, and
 * returns `out`. */
pl_status pl_store_homes(const char *folder, int *n);
char *pl_store_home(const char *folder, int home, int n, char out[PL_PATH_MAX]);
/* Returns the number (from 0) of the part that has this module, path or object; -1 if
 * no part has it; 0 for a store in one piece that has it. Only for readers. */
int pl_store_part_of(pl_store *store, const char *name);
/* ERR_UNSUPPORTED: an earlier release has moved names between the parts, so a name may
 * be in a part where clients do not look for it. `part` is an open part. */
pl_status pl_store_check_placement(pl_store *part);
/* Makes the folder a store of n parts. Each part is created later, when its writer
 * opens it. ERR_EXISTS if it is a store with another number of parts. */
pl_status pl_store_make_parts(const char *folder, int n);
/* Makes the folder a store whose chunks lie in a storage engine, `rados://...` or
 * `s3://...` (docs/ENGINES.md). Each part of a store gets its own namespace in the
 * engine. If `place` is `rocksdb`, this function makes nothing; pl_store_open makes the
 * store. ERR_EXISTS if the folder holds a store that is not on that engine. */
pl_status pl_store_make_on(const char *folder, const char *place);
/* Checks the address. If patience_ms is not NULL, it gets the time for which a request
 * that gets no answer is repeated; 0 for `rocksdb`. */
pl_status pl_store_check_engine(const char *place, int64_t *patience_ms);
/* Describes the damage in the log that was repaired when the store was opened for
 * writing; NULL if there was no damage. After a power cut the log may end with
 * incomplete commits, which were never acknowledged. */
const char *pl_store_mended(const pl_store *store);
/* Returns the arguments of the rollback over several parts that was finished when this
 * part was opened for writing; NULL if there was no unfinished rollback. */
const char *pl_store_resumed(const pl_store *store);
/* Whether the (first parts of the) stores were made as one: one is a copy of the other,
 * maybe with other commits since. */
bool pl_store_same_birth(const pl_store *a, const pl_store *b);
uint64_t pl_store_epoch(const pl_store *store);
uint64_t pl_store_sequence(const pl_store *store); /* number of commits so far */
/* Updates a READ store to the writer's newest commit. */
pl_status pl_store_refresh(pl_store *store);

/* ---- records ---- */
typedef struct pl_contribution {
    char worker[PL_TEXT_MAX];
    char device[PL_TEXT_MAX];
    pl_pubkey key; /* the worker's key; zero if its connection was not encrypted */
    int64_t path, replica, phase;
    pl_work work;
    double norm;           /* L2 norm of the update */
    double weight;         /* weight in the mean, not normalised: the shard's size */
    uint64_t token;        /* the token of the lease */
    char codec[16];        /* name of the update's codec: "f32", "i8", ... */
    pl_hash update;        /* blob with the encoded update */
    uint64_t update_bytes; /* size of the encoded update */
    /* noloco: the mate came too late, so each holder took the outer step alone */
    bool split;
} pl_contribution;

typedef struct pl_version {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number; /* 0 is the initial version */
    pl_hash params; /* blob of the parameters; its hash is called "the module's hash" */
    /* blob: momentum, followed by any other vectors that the next outer step needs */
    pl_hash momentum;
    /* blob: the encoded difference from the parent; zero: it is not kept */
    pl_hash change;
    /* hash of the parameters of version number - 1; zero for version 0 */
    pl_hash parent;
    pl_hash config;  /* hash of the run's canonical configuration */
    char method[32]; /* "init", "nesterov", ... */
    double lr, outer_momentum;
    uint64_t n_params;
    double params_norm, update_norm; /* L2 norms of the parameters and of the update */
    /* L2 norm of the outer step that made the version; 0 if it was not kept */
    double displacement;
    int64_t arrivals; /* delayed-nesterov: updates since the last momentum step */
    int64_t wall_ms;
    /* number of the commit that made the version. The store sets this field and
     * has_updates; the caller need not set them. */
    uint64_t sequence;
    /* garbage collection has dropped the data; only the record is left */
    bool params_gone;
    bool has_updates; /* whether the store has the contributions' update blobs */
    int n_contributions;
    /* [n_contributions] owned; pl_version_clear frees it */
    pl_contribution *contributions;
} pl_version;
void pl_version_clear(pl_version *version);

typedef struct pl_path_state {
    char name[PL_MODULE_NAME_MAX]; /* "ARM/p01.r0" */
    int64_t phase;                 /* number of finished phases */
    /* the work of all phases; n_samples is the data cursor: samples consumed */
    pl_work work;
    /* blob of the newest state that was uploaded: first moments, then second moments,
     * then the path's other vectors */
    pl_hash moments;
    /* the worker that finished the last phase, and its key, zero if its connection was
     * not encrypted; later the name may belong to a different key */
    char worker[PL_TEXT_MAX];
    pl_pubkey key;
    /* work.held, the newest, was measured after `held_phase` phases */
    int64_t held_phase;
    /* The number of phases that the path has finished after the phase that made
     * `moments`. If it is above 0, `made` is the hash of the path's present state,
     * which was not uploaded and can be made again by repeating these phases. Otherwise
     * `moments` is the present state, and `made` is zero. */
    int64_t repeats;
    pl_hash made;
} pl_path_state;
extern const pl_field pl_path_state_fields[];

typedef struct pl_object {
    char name[PL_MODULE_NAME_MAX]; /* "arm/mix", "router/mix", "shard/mix/p01" */
    pl_hash blob;
    uint64_t bytes;
} pl_object;

/* ---- reading, in any mode; the text of ERR_NOT_FOUND names the missing thing ---- */
pl_status pl_store_blob_bytes(pl_store *store, const pl_hash *blob, uint64_t *bytes);
bool pl_store_has_blob(pl_store *store, const pl_hash *blob);
/* Reads the bytes [offset, offset+len) of the blob and checks the hashes of the chunks.
 * The text of ERR_DAMAGED names the blob and the chunk. */
pl_status pl_store_read_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             size_t len, void *out);
/* Reads the first bytes of several blobs. In a store that is open for writing, the
 * chunks of all blobs are hashed together, which is several times faster if each blob
 * has few chunks. */
typedef struct pl_blob_read {
    const pl_hash *blob;
    size_t bytes;
    void *out;
} pl_blob_read;
pl_status pl_store_read_blobs(pl_store *store, const pl_blob_read *reads, size_t n);
/* Reads like pl_store_read_blob, but does not check hashes; only the database's own
 * checksums are checked. Use this function only for bytes that are sent to a process
 * that checks the hash of the whole blob. */
pl_status pl_store_copy_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             size_t len, void *out);
/* Whether the store has an engine that signs URLs (s3). Then each process with a URL
 * can read or write one chunk for 15 minutes. PL_SIGNED_CHUNKS is the number of URLs of
 * a call; each has '\n' after it. */
bool pl_store_signs(const pl_store *store);
enum { PL_SIGNED_CHUNKS = 16 };
/* Appends URLs to read the blob, from the chunk at byte `offset` on. Returns
 * ERR_UNSUPPORTED, without an error text, if one of these chunks is compressed, or if
 * the store that has the blob does not sign. */
pl_status pl_store_sign_blob(pl_store *store, const pl_hash *blob, uint64_t offset,
                             pl_buf *urls);
/* Appends URLs to write the chunks of an upload, to which the caller gives a new id.
 * pl_store_pull_upload reads the chunks in [from, to) of what was written to the same
 * place in `out`; only lengths are checked. pl_store_drop_upload lets a commit drop the
 * first `bytes` when no URL is valid any more. */
pl_status pl_store_sign_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint64_t offset, pl_buf *urls);
pl_status pl_store_pull_upload(pl_store *store, uint64_t id, uint64_t bytes,
                               uint64_t from, uint64_t to, uint8_t *out);
void pl_store_drop_upload(pl_store *store, uint64_t id, uint64_t bytes);
pl_status pl_store_get_version(pl_store *store, const char *module, uint64_t number,
                               pl_version *out);
pl_status pl_store_head(pl_store *store, const char *module, pl_version *out);
pl_status pl_store_get_path(pl_store *store, const char *name, pl_path_state *out);
pl_status pl_store_get_object(pl_store *store, const char *name, pl_object *out);
pl_status pl_store_read_object(pl_store *store, const char *name, pl_buf *out);
pl_status pl_store_get_ref(pl_store *store, const char *name, pl_buf *target);

/* Iteration in key order. A callback ends the iteration if it returns a failure. An
 * empty `prefix` selects everything. The arguments of callbacks are borrowed. */
typedef pl_status (*pl_version_fn)(void *context, const pl_version *version);
typedef pl_status (*pl_path_fn)(void *context, const pl_path_state *path);
typedef pl_status (*pl_object_fn)(void *context, const pl_object *object);
typedef pl_status (*pl_pending_fn)(void *context, const char *module,
                                   const pl_contribution *c);
typedef pl_status (*pl_ref_fn)(void *context, const char *name, const char *target);
pl_status pl_store_each_head(pl_store *s, const char *prefix, pl_version_fn fn,
                             void *ctx);
pl_status pl_store_each_version(pl_store *s, const char *module, pl_version_fn fn,
                                void *ctx);
pl_status pl_store_each_path(pl_store *s, const char *prefix, pl_path_fn fn, void *ctx);
pl_status pl_store_each_object(pl_store *s, const char *prefix, pl_object_fn fn,
                               void *ctx);
/* Visits the names of all modules, then of all paths, then of all objects. */
typedef pl_status (*pl_name_fn)(void *context, const char *name);
pl_status pl_store_each_name(pl_store *s, pl_name_fn fn, void *context);
/* Visits the pending contributions of modules whose names start with `prefix`. They are
 * sorted by (module, phase, path, replica), and a round always adds its updates in this
 * order. */
pl_status pl_store_each_pending(pl_store *s, const char *prefix, pl_pending_fn fn,
                                void *ctx);
pl_status pl_store_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn, void *ctx);

/* ---- tags: named consistent sets of versions of an arm ---- */
/* A tag is the object "tag/NAME", because any client can ask the home of a running job
 * to store an object. A tag without bytes counts as deleted. */
typedef struct pl_snapshot_item {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
    pl_hash params;
} pl_snapshot_item;
typedef struct pl_snapshot {
    char name[PL_TEXT_MAX], arm[PL_TEXT_MAX], note[PL_TEXT_MAX];
    /* the phase that all paths had finished; -1: the newest versions at one commit */
    int64_t phase;
    uint64_t sequence; /* the commit whose state was read */
    int64_t wall_ms;
    size_t n_items;
    pl_snapshot_item *items; /* [n_items] owned; pl_snapshot_clear frees it */
} pl_snapshot;
void pl_snapshot_clear(pl_snapshot *tag);
void pl_snapshot_encode(const pl_snapshot *tag, pl_buf *out);
pl_status pl_snapshot_decode(const char *name, const void *data, size_t len,
                             pl_snapshot *out);
/* ERR_NOT_FOUND if garbage collection removed the data of a version that the tag names;
 * versions that the store does not have are not checked. The second function returns
 * this error for one entry of the tag. */
pl_status pl_snapshot_check(pl_store *store, const pl_snapshot *tag);
pl_status pl_snapshot_collected(const pl_snapshot *tag, const pl_snapshot_item *item);
const pl_snapshot_item *pl_snapshot_find(const pl_snapshot *tag,
                                         const char *module); /* or NULL */
/* Returns the tag's entry for `module`. If there is none and `module` belongs to the
 * tag's arm, returns the entry for the merged module (history/merged.h) that has the
 * same name after the slash. Returns NULL if the tag has neither entry. */
const pl_snapshot_item *pl_snapshot_place(const pl_snapshot *tag, const char *module);
pl_status pl_store_get_tag(pl_store *store, const char *name, pl_snapshot *out);
typedef pl_status (*pl_snapshot_fn)(void *context, const pl_snapshot *tag);
pl_status pl_store_each_tag(pl_store *store, pl_snapshot_fn fn, void *ctx);

typedef struct pl_store_stats {
    /* blob_bytes, chunk_bytes: uncompressed sizes of all blobs, of all chunks */
    uint64_t n_modules, n_versions, n_blobs, n_chunks, blob_bytes, chunk_bytes,
        stored_bytes, /* size of all chunks as stored (compressed) */
        disk_bytes;   /* size of the files in the store's folder and in its db */
} pl_store_stats;
pl_status pl_store_count(pl_store *store, pl_store_stats *out);

/* The uses of stored chunks. If a chunk has several uses, its bytes are counted for the
 * first of these uses in this order. */
typedef enum pl_use {
    PL_USE_HEADS,    /* parameters of the newest versions */
    PL_USE_TAGS,     /* parameters of versions that tags name */
    PL_USE_PATHS,    /* states of paths: the moments of the optimizer */
    PL_USE_OBJECTS,  /* data shards, routers, definitions of arms */
    PL_USE_PENDING,  /* updates that wait for a merge */
    PL_USE_MOMENTUM, /* states of the outer optimizer */
    PL_USE_HISTORY,  /* parameters of older versions */
    /* encoded differences of versions, for workers that have the previous version */
    PL_USE_CHANGES,
    PL_USE_UPDATES, /* merged updates that were kept */
    /* chunks that are needed only as bases of compressed chunks (chunk.h), and further
     * copies of a chunk that several parts have */
    PL_USE_OTHER,
    PL_USES
} pl_use;
typedef struct pl_store_usage {
    uint64_t n[PL_USES];     /* number of blobs per use */
    uint64_t bytes[PL_USES]; /* bytes of the chunks as stored (compressed) */
} pl_store_usage;
pl_status pl_store_use(pl_store *store, pl_store_usage *out);
const char *pl_use_name(pl_use use); /* "heads" */

/* Limits the stored bytes of all chunks of a store that is open for writing; 0: no
 * limit. A commit that would exceed the limit fails with ERR_NOSPACE, unless it frees
 * at least as much as it adds. The function reads the records of all chunks, so it
 * should be called only once. */
pl_status pl_store_set_quota(pl_store *store, uint64_t bytes);
/* Returns the stored bytes that are compared with the limit; 0 if there is no limit. */
uint64_t pl_store_stored_bytes(const pl_store *store);
/* Sets *passes to whether the commit of this transaction would exceed the limit. Call
 * the function only after the transaction has records that name all its new blobs: a
 * blob that no record names is dropped and does not count. */
pl_status pl_txn_passes_quota(pl_txn *txn, bool *passes);

/* ---- making old versions smaller ---- */
/* Compresses old versions in one commit that reads about `budget_bytes` of parameters.
 * *more is false when nothing is left to do. The parameters of the newest versions stay
 * uncompressed, and no blob changes its name. */
pl_status pl_store_recode(pl_store *store, uint64_t budget_bytes, bool *more);
/* Frees the space of dropped or compressed data of a store that is open for writing. */
pl_status pl_store_compact(pl_store *store);

/* ---- collecting old data ---- */
typedef struct pl_gc_report {
    uint64_t n_versions; /* versions whose data can be dropped, or are dropped now */
    /* n_kept: versions that keep their data; n_gone: versions without data before */
    uint64_t n_kept, n_gone;
    /* blobs, chunks and bytes that are freed; a chunk that other blobs use stays */
    uint64_t n_blobs, n_chunks, bytes;
    uint64_t n_garbage, garbage_bytes; /* objects in the engine that no record names */
} pl_gc_report;
/* Whether this version's data must stay. Those of the newest versions always stay. */
typedef bool (*pl_keep_fn)(void *context, const pl_version *version);
/* Counts the data that need not be kept. If `run` is true, also drops the data, in many
 * commits, and frees the disk space; the store must then be open for writing. The
 * process may be killed at any time; the next call continues. */
pl_status pl_store_collect(pl_store *store, pl_keep_fn keep, void *context, bool run,
                           pl_gc_report *out);

/* Does the same as pl_store_collect inside an open transaction that passes the quota,
 * but frees no disk space, and drops no more than one commit may hold: the next ones
 * drop the rest. *n is the number of versions whose data are dropped. */
pl_status pl_txn_collect(pl_txn *txn, pl_keep_fn keep, void *context, uint64_t *n);

/* ---- copying ---- */
typedef struct pl_mirror_report {
    /* number of records and chunks copied; `bytes`: size of the copied chunks */
    uint64_t n_records, n_chunks, bytes;
} pl_mirror_report;
/* Makes the store in `folder` equal to the state that `from`, opened with READ, shows,
 * with the same number of parts. The function compares the rows of both stores and
 * copies only what is missing. A folder that does not exist is made.
 *
 * Without `force`, ERR_EXISTS if the folder contains anything other than an earlier
 * state of the same store. With `force`, a later state of the same store is also
 * changed row by row. Any other store is replaced by a complete copy, which is first
 * made in FOLDER/new. ERR_UNSUPPORTED if the `db` of the store to be replaced is a link
 * or a mount point; the folder itself may be a link or a mount point.
 *
 * If the process is killed, the folder either has its old state, or cannot be opened
 * (ERR_BUSY) until this function or pl_store_end_copy has finished the copy. */
pl_status pl_store_mirror(pl_store *from, const char *folder, bool force,
                          pl_mirror_report *out);

/* Finishes a copy into this folder if the copy was decided before its process was
 * killed. Does nothing if there is no such copy. */
pl_status pl_store_end_copy(const char *folder);
/* ERR_UNSUPPORTED: `path`, the folder of a store or of a part in `folder`, is a link or
 * a mount point, so a copy cannot be put in its place. */
pl_status pl_store_check_movable(const char *folder, const char *path);
/* Removes the new parts that a copy left beside the existing ones if its process was
 * killed before the copy was decided, that is, before the file COPY was written
 * (mirror_set.c). Does nothing if another process has the folder open, or if a part is
 * missing. Files that an undecided copy left inside a store or a part are removed when
 * that store or part is opened for writing. */
pl_status pl_store_clear_copy(const char *folder);
uint64_t pl_store_part_sequence(const pl_store *store, int part);
/* Returns the number of parts of an open reader; 0: the store is in one piece. */
int pl_store_n_parts(const pl_store *store);

/* ---- rebuilding ---- */
typedef struct pl_rebuild_report {
    uint64_t sequence;  /* number of the newest commit that was restored */
    uint64_t n_commits; /* number of commits read from the engine's log */
    uint64_t n_records; /* rows written */
} pl_rebuild_report;
/* Restores in `folder` the store whose chunks lie in the engine `place`, with every
 * commit that was acknowledged. The folder must be empty or not exist. Once the folder
 * is opened for writing, the store's old home can no longer write. ERR_NOT_FOUND: no
 * store in `place`; ERR_DAMAGED: bytes do not match their hashes. */
pl_status pl_store_rebuild(const char *place, const char *folder,
                           pl_rebuild_report *out);

/* ---- checking ---- */
typedef struct pl_audit_report {
    uint64_t n_rows, n_versions, n_blobs, n_chunks, bytes, n_problems;
    /* From this commit on, commits have a sum of all rows, with which the rows were
     * compared; rows that are older were taken as this commit found them. With parts,
     * the highest number. 0: the newest commit (of a part) has no such sum. */
    uint64_t covered_from;
    /* the newest commit's log hash; with parts, the hash "parts" of theirs, in order */
    pl_hash log_hash;
} pl_audit_report;
typedef void (*pl_problem_fn)(void *context, const char *sentence);
/* Checks every record. It checks that the chain of commits is complete up to the newest
 * acknowledged commit, that the rows are those that the commits wrote, that the
 * versions of a module have no gap and name their parents, that the counts of
 * references are right, and that everything that a record names exists. With `bytes` it
 * also checks every chunk against its hash. `fn` gets one sentence per fault. If the
 * function returns an error, the check could not be made. While a writer runs, a reader
 * may see some rows of a commit before the others; so repeat the check after a refresh
 * before you rely on a reported fault. */
pl_status pl_store_audit(pl_store *store, bool bytes, pl_problem_fn fn, void *context,
                         pl_audit_report *out);
/* Calls pl_store_audit. If the audit finds faults while a process has the store open
 * for writing, the function opens the store again and repeats the audit. *out then has
 * only the faults that all audits found. `*store` is then a new reader, or NULL if the
 * store could not be opened again. Always call pl_findings_clear afterwards. */
pl_status pl_store_audit_firmly(const char *folder, pl_store **store, bool bytes,
                                pl_findings *out, pl_audit_report *report);
/* Opens the database of a reader again, from exactly the files that a writer would use.
 * (While a log file exists, a reader can show its rows although the table file with the
 * same rows is damaged; a writer cannot.) ERR_DAMAGED if one of these files is missing
 * or has a different size; the reader then stays as it is. pl_store_audit calls this
 * function. While a writer runs, it may delete files during the call, so repeat the
 * call before you rely on the error. */
pl_status pl_store_look_as_writer(pl_store *store);
/* Returns whether a process has the store, or a part of it, open for writing now. */
bool pl_store_has_writer(const char *folder);

/* ---- writing: one transaction = one atomic, synced commit ---- */
/* A store has one transaction at a time. An operation that is refused with ERR_ARG,
 * ERR_STALE, ERR_EXISTS or ERR_NOT_FOUND leaves the transaction as it was. If a commit
 * fails after it began to write to the disk, pl_txn_begin fails from then on, and the
 * process must be restarted. */
pl_status pl_txn_begin(pl_store *store, pl_txn **out);
void pl_txn_abort(pl_txn **txn); /* discards all changes; accepts NULL */
/* After OK all changes of the transaction are durable. After a failure this process
 * sees none of the changes; only reopening the store shows whether they are on disk.
 * After ERR_NOSPACE the store can still be read. The transaction is always freed. */
pl_status pl_txn_commit(pl_txn **txn);

/* Adds a blob to the transaction. Equal bytes are stored only once. If no record names
 * the blob at the commit, the blob is not kept. The transaction keeps at most some
 * hundred MiB of blobs in memory; further bytes wait on the disk, or in the engine. */
pl_status pl_txn_put_blob(pl_txn *txn, const void *data, uint64_t bytes, pl_hash *out);
/* Appends a version. Its number must be the number of the newest version + 1 (0 for a
 * new module), else ERR_STALE. `parent` must be the hash of the newest version's
 * parameters, else ERR_ARG. In this and the following functions, blobs that a record
 * names must be in the store or in the transaction, else ERR_NOT_FOUND.
 *
 * The pending contributions of phase `number` - 1 are removed. Their update blobs are
 * removed, too, unless keep.updates is set. The momentum and the change of version
 * `number` - 2 and of older versions are dropped unless keep.momentum is set. keep.late
 * delays the dropping of updates, momentum and change by this number of versions; it
 * must be the same for all versions of a module. */
typedef struct pl_keep {
    bool updates, momentum;
    int late;
} pl_keep;
pl_status pl_txn_put_version(pl_txn *txn, const pl_version *version, pl_keep keep);
/* Adds a pending contribution. ERR_EXISTS if there already is one with the same module,
 * phase, path and replica. */
pl_status pl_txn_put_pending(pl_txn *txn, const char *module, const pl_contribution *c);
/* Replaces the state of that path and releases the old blob of moments. */
pl_status pl_txn_put_path(pl_txn *txn, const pl_path_state *path);
pl_status pl_txn_put_object(pl_txn *txn, const char *name, const pl_hash *blob);
pl_status pl_txn_put_ref(pl_txn *txn, const char *name, const char *target);

/* ---- dropping data; the records of versions stay ---- */
pl_status pl_txn_drop_ref(pl_txn *txn, const char *name);
pl_status pl_txn_drop_object(pl_txn *txn, const char *name);
/* Drops all pending contributions of a module, with their updates. */
pl_status pl_txn_drop_pending(pl_txn *txn, const char *module);
/* Drops the pending contribution with the key of `c`, and its update. ERR_NOT_FOUND:
 * there is none. */
pl_status pl_txn_drop_update(pl_txn *txn, const char *module, const pl_contribution *c);
/* Drops the parameters, momentum, change and updates of a version. ERR_ARG if the
 * version is the head. The function may be called again for the same version. */
pl_status pl_txn_drop_data(pl_txn *txn, const char *module, uint64_t number);

/* ---- rollback: it is done in all parts of a store, or in no part ---- */
/* Returns whether a rollback made this version. *source is then the number of the older
 * version that has the same parameters. */
bool pl_version_source(const pl_version *version, uint64_t *source);
/* Finds out whether the record of a rollback names this version. A record that `homes
 * set` made for a version that an older release rolled back proves nothing. */
typedef enum pl_rollback_proof {
    PL_ROLLBACK_UNKNOWN,
    PL_ROLLBACK_COPIED,
    PL_ROLLBACK_RECORDED
} pl_rollback_proof;
pl_status pl_store_find_rollback(pl_store *store, const pl_version *version,
                                 pl_rollback_proof *out);
/* A pl_writers has a store in one piece, or all parts of a store, open for writing.
 * pl_writers_open returns ERR_BUSY if another process has the store or a part open, and
 * it finishes an earlier rollback that was decided but not yet done in every part. */
typedef struct pl_writers pl_writers;
pl_status pl_writers_open(const char *folder, pl_writers **out);
void pl_writers_close(pl_writers **writers);
/* `part` counts from 0; owned by the writers */
pl_store *pl_writers_part(pl_writers *writers, int part);
/* Returns a reader that shows all parts of the store as they were when the writers were
 * opened; for a store in one piece, returns the writer. The writers own the result. */
pl_store *pl_writers_view(pl_writers *writers);
/* Names the earlier rollback that pl_writers_open has finished, or NULL. */
const char *pl_writers_resumed(const pl_writers *writers);

typedef struct pl_rollback_module {
    char name[PL_MODULE_NAME_MAX];
    /* versions head + 1 to `last` get the parameters of version `source` */
    uint64_t head, source, last;
    int part;
} pl_rollback_module;
typedef struct pl_rollback_path {
    char name[PL_MODULE_NAME_MAX];
    uint64_t samples; /* data cursor */
    int part;
} pl_rollback_path;
typedef struct pl_rollback {
    char words[PL_TEXT_MAX]; /* arguments of the command, for messages */
    /* All paths continue after this phase, and pending updates are dropped. -1: the
     * paths and the pending updates stay as they are. */
    int64_t phase;
    pl_rollback_module *modules;
    pl_rollback_path *paths;
    size_t n_modules, n_paths;
} pl_rollback;
/* Carries out the plan. Call it at most once after pl_writers_open. If the process is
 * killed, the next opening for writing shows either all versions of the plan or none of
 * them. ERR_NOT_FOUND: garbage collection removed parameters that the plan needs. */
pl_status pl_writers_roll_back(pl_writers *writers, const pl_rollback *plan);
/* Writes the record of an older release's rollbacks into a copy of its store. */
pl_status pl_txn_put_rollbacks(pl_txn *txn, const char *copy,
                               const pl_rollback_module *modules, size_t n);

/* ---- the rows of a name, to be copied into another store ---- */
/* A row that belongs to a module, path or object: a version, a pending update, a path's
 * state, an object, or a ref whose name begins with the parameter `refs` of the
 * functions below. The bytes are borrowed. */
typedef struct pl_row {
    int family;                 /* a kv_family (kv.h) */
    const uint8_t *key, *value; /* the value includes its envelope (rows.h) */
    size_t key_len, value_len;
} pl_row;
typedef pl_status (*pl_row_fn)(void *context, const pl_row *row);
typedef pl_status (*pl_blob_fn)(void *context, const pl_hash *blob);
/* Visits the rows of `name`, in an order in which pl_txn_put_row accepts them. Rows of
 * an open transaction are not included. */
pl_status pl_store_each_row(pl_store *store, const char *name, const char *refs,
                            pl_row_fn fn, void *context);
/* Visits the blobs that the row names; a blob may be visited several times. */
pl_status pl_row_each_blob(const pl_row *row, pl_blob_fn fn, void *context);
bool pl_store_has_name(pl_store *store, const char *name);
/* Writes a row of another store; this store must not have the row yet. Versions must
 * come in rising order, and each becomes the newest one of its module. `name` is for
 * the error. ERR_NOT_FOUND: a blob is missing. ERR_DAMAGED: the row is damaged. */
pl_status pl_txn_put_row(pl_txn *txn, const char *name, const pl_row *row);

/* Computes the name of a blob without storing the blob. The name is a hash over the
 * blob's length and the hashes of its chunks. */
void pl_blob_hash(const void *data, uint64_t bytes, pl_hash *out);
/* Computes the name of a blob that arrives piece by piece. Set the struct to zeros
 * first. Call pl_blob_hash_some whenever more bytes have arrived; `data` has the first
 * `there` bytes of the blob. At the end pl_blob_hash_end writes the hash of all `bytes`
 * to `out` and frees the struct's memory. */
typedef struct pl_blob_hashing {
    pl_buf chunks;
    uint64_t hashed;
} pl_blob_hashing;
void pl_blob_hash_some(pl_blob_hashing *h, const void *data, uint64_t there);
void pl_blob_hash_end(pl_blob_hashing *h, const void *data, uint64_t bytes,
                      pl_hash *out);
