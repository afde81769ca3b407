/* The door of store: RocksDB as a versioned module store.
 *
 * blob       immutable bytes named by their hash, cut into chunks of at most 1 MiB
 *            that are stored once each, also between versions
 * version    module state number n: blob of parameters, blob of optimizer state,
 *            parent, the contributions that made it
 * head       the newest version of a module
 * pending    contributions accepted but not yet merged
 * path state inner optimizer state and data cursor of one (path, replica)
 * object     a named blob: arm definition, router, tokenizer, data shard
 * ref        a name for a set of versions
 *
 * One writer (the home process) makes atomic, synced commits; any number of readers
 * open the same folder while it runs (secondary instance). Layout and record
 * formats: docs/PROTOCOL.md section 4. Names of modules are "ARM/SLOT.Ek".
 *
 * An open store and its transaction belong to one thread, but for the functions that
 * read blobs and the getters, which several threads may call at once while nobody
 * refreshes or closes.
 *
 * Read in this order: kv (RocksDB behind one file), rows (keys, checksums), records,
 * blob, txn, watermark, store_open, store (reading).
 */
#ifndef PL_STORE_STORE_H
#define PL_STORE_STORE_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_CHUNK_BYTES = 1 << 20, PL_MODULE_NAME_MAX = 96, PL_TEXT_MAX = 96 };

typedef struct pl_store pl_store;

typedef enum pl_store_mode {
    PL_STORE_CREATE,
    PL_STORE_WRITE,
    PL_STORE_READ
} pl_store_mode;

/* ERR_NOPERM: this user may not enter the folder, which then looks like none. */
PL_MUST_CHECK pl_status pl_store_check_access(const char *folder);
/* CREATE makes a new store or opens an existing one for writing; WRITE needs it to
 * exist; READ sees a consistent state and may run beside a writer. A store locked by
 * a running job is ERR_BUSY, one of another format ERR_UNSUPPORTED, lost commits
 * ERR_DAMAGED with both numbers. WRITE and CREATE raise the store's epoch by 1. */
PL_MUST_CHECK pl_status pl_store_open(const char *folder, pl_store_mode mode,
                                      pl_store **out);
void pl_store_close(pl_store **store);
/* A run with several homes has a store in parts: FOLDER/home-1 .. home-N, each with its
 * own writer. READ of FOLDER shows all as one store; WRITE and CREATE take a part. */
enum { PL_PARTS_MAX = 16 };
char *pl_store_part(const char *folder, int part, char out[PL_PATH_MAX]); /* from 0 */
PL_MUST_CHECK pl_status pl_store_parts(const char *folder,
                                       int *n); /* 0: none; ERR_DAMAGED */
/* Of a reader: the part (from 0) whose a module, path or object is; -1: nobody's yet.
 */
int pl_store_part_of(pl_store *store, const char *name);
/* A job that was given homes more has more parts than it began with; the last of them
 * may not have been made yet. */
typedef struct pl_parts {
    int n, begun;
} pl_parts;
PL_MUST_CHECK pl_status pl_store_count_parts(const char *folder, pl_parts *out);
/* Whether that part (from 0) is one to be found: of those that were added, one that was
 * asked for may not have been made yet. A store in one piece has begun. */
bool pl_store_part_begun(const char *folder, const pl_parts *parts, int part);
/* How many, from part 0 on, have begun; 0 for a store in one piece. */
int pl_store_n_begun(const char *folder, const pl_parts *parts);
/* One part more: `n` is the number then. Again is fine. */
PL_MUST_CHECK pl_status pl_store_grow_parts(const char *folder, int n);
/* ERR_UNSUPPORTED where part n's chunks lie in a storage engine: it stays. */
PL_MUST_CHECK pl_status pl_store_check_removal(const char *folder, int n);
/* One part less, the last: `n` is the number then, at least 2. Nobody has any part
 * open, and nothing in the last is needed. Again is fine. */
PL_MUST_CHECK pl_status pl_store_remove_part(const char *folder, int n);
/* Makes a store in one piece, which nobody has open, the first of two parts. Killed
 * half-way, the store does not open until it is called again, or the other, which does
 * nothing to a store that nobody has begun to divide. */
PL_MUST_CHECK pl_status pl_store_divide(const char *folder);
PL_MUST_CHECK pl_status pl_store_end_division(const char *folder);
/* Makes the folder a store of n parts, which their writers create. ERR_EXISTS if it is
 * a store of another number. */
PL_MUST_CHECK pl_status pl_store_make_parts(const char *folder, int n);
/* Makes the folder a store whose chunks lie in an engine, `rados://...` or `s3://...`
 * (docs/ENGINES.md), a part of a store in a namespace of its own; `rocksdb` leaves it
 * to pl_store_open. One that is there must be on that engine: ERR_EXISTS. */
PL_MUST_CHECK pl_status pl_store_make_on(const char *folder, const char *place);
PL_MUST_CHECK pl_status pl_store_check_engine(const char *place); /* its spelling */
/* What was wrong with the log that opening for writing has mended: the tail that a
 * power cut leaves of commits that nobody was told of. NULL if nothing was. */
const char *pl_store_mended(const pl_store *store);
/* What was asked of the rollback over several parts that opening this part for writing
 * has ended. NULL: none was under way. */
const char *pl_store_resumed(const pl_store *store);
uint64_t pl_store_epoch(const pl_store *store);
uint64_t pl_store_sequence(const pl_store *store); /* number of commits so far */
PL_MUST_CHECK pl_status
pl_store_refresh(pl_store *store); /* READ: catch up with the writer */

/* ---- what is stored ---- */
enum { PL_CONTRIBUTION_CELLS = 128 };
typedef struct pl_contribution {
    char worker[PL_TEXT_MAX];
    char device[PL_TEXT_MAX];
    int64_t path, replica, phase;
    uint64_t first_sample, n_samples; /* data range, in samples of the path's stream */
    uint64_t n_tokens;                /* counted targets */
    double loss;                      /* mean nats per token over the phase */
    double norm;                      /* L2 of the update */
    double weight;                    /* alpha before normalisation (shard size) */
    double seconds;                   /* of inner steps */
    uint64_t token;                   /* fencing token of its lease */
    char codec[16];                   /* "f32", "bf16" */
    pl_hash update;                   /* blob */
    uint64_t update_bytes;            /* encoded */
    bool split; /* its mate came too late, so both went on alone (noloco) */
    /* What its home noted for an audit by another kind of device (outer/likeness.h);
     * seed 0: nothing. */
    uint64_t seed;
    float likeness[PL_CONTRIBUTION_CELLS];
} pl_contribution;

typedef struct pl_version {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;  /* 0 is the initial one */
    pl_hash params;   /* blob; what "the module's hash" means */
    pl_hash momentum; /* blob: momentum, then whatever else its next step needs */
    pl_hash change;   /* blob: what its parent lost to become it, encoded; or none */
    pl_hash parent;   /* params of number-1, none for version 0 */
    pl_hash config;   /* of the run's canonical configuration */
    char method[32];  /* "init", "nesterov", ... */
    double lr, outer_momentum;
    uint64_t n_params;
    double params_norm, update_norm; /* L2 */
    double displacement;             /* L2 of the step that made it, 0 if not kept */
    int64_t arrivals; /* delayed-nesterov: since the last momentum step */
    int64_t wall_ms;
    uint64_t sequence; /* commit that made it; set by the store, as is has_updates */
    bool params_gone;  /* collected: only the record is left */
    bool has_updates;  /* the update blobs that it names are in the store */
    int n_contributions;
    pl_contribution *contributions; /* owned; pl_version_clear */
} pl_version;
void pl_version_clear(pl_version *version);

typedef struct pl_path_state {
    char name[PL_MODULE_NAME_MAX]; /* "ARM/p01.r0" */
    int64_t phase;                 /* finished phases */
    uint64_t samples;              /* data cursor: samples consumed */
    uint64_t n_tokens;             /* trained in all */
    double loss;                   /* of the last phase */
    double seconds;                /* of inner steps, in all */
    pl_hash moments;               /* blob: m then v */
    char worker[PL_TEXT_MAX];
} pl_path_state;

typedef struct pl_object {
    char name[PL_MODULE_NAME_MAX]; /* "arm/mix", "router/mix", "shard/mix/p01" */
    pl_hash blob;
    uint64_t bytes;
} pl_object;

/* ---- reading (any mode); ERR_NOT_FOUND names the thing ---- */
PL_MUST_CHECK pl_status pl_store_blob_bytes(pl_store *store, const pl_hash *blob,
                                            uint64_t *bytes);
bool pl_store_has_blob(pl_store *store, const pl_hash *blob);
/* Reads [offset, offset+len) and checks chunk hashes; ERR_DAMAGED names blob and chunk.
 */
PL_MUST_CHECK pl_status pl_store_read_blob(pl_store *store, const pl_hash *blob,
                                           uint64_t offset, size_t len, void *out);
/* The first bytes of several blobs: chunks of all of them are hashed side by side,
 * which is several times faster where each blob has few. */
typedef struct pl_blob_read {
    const pl_hash *blob;
    size_t bytes;
    void *out;
} pl_blob_read;
PL_MUST_CHECK pl_status pl_store_read_blobs(pl_store *store, const pl_blob_read *reads,
                                            size_t n);
/* As pl_store_read_blob without the hashes (the database has checksums of its own): to
 * be sent to somebody who checks that of the whole blob. */
PL_MUST_CHECK pl_status pl_store_copy_blob(pl_store *store, const pl_hash *blob,
                                           uint64_t offset, size_t len, void *out);
PL_MUST_CHECK pl_status pl_store_get_version(pl_store *store, const char *module,
                                             uint64_t number, pl_version *out);
PL_MUST_CHECK pl_status pl_store_head(pl_store *store, const char *module,
                                      pl_version *out);
PL_MUST_CHECK pl_status pl_store_get_path(pl_store *store, const char *name,
                                          pl_path_state *out);
PL_MUST_CHECK pl_status pl_store_get_object(pl_store *store, const char *name,
                                            pl_object *out);
PL_MUST_CHECK pl_status pl_store_get_ref(pl_store *store, const char *name,
                                         pl_buf *target);

/* Iteration in key order; the callback stops it by returning a failure. `prefix` ""
 * is all. Callback arguments are borrowed. */
typedef pl_status (*pl_version_fn)(void *context, const pl_version *version);
typedef pl_status (*pl_path_fn)(void *context, const pl_path_state *path);
typedef pl_status (*pl_object_fn)(void *context, const pl_object *object);
typedef pl_status (*pl_pending_fn)(void *context, const char *module,
                                   const pl_contribution *c);
typedef pl_status (*pl_ref_fn)(void *context, const char *name, const char *target);
PL_MUST_CHECK pl_status pl_store_each_head(pl_store *s, const char *prefix,
                                           pl_version_fn fn, void *ctx);
PL_MUST_CHECK pl_status pl_store_each_version(pl_store *s, const char *module,
                                              pl_version_fn fn, void *ctx);
PL_MUST_CHECK pl_status pl_store_each_path(pl_store *s, const char *prefix,
                                           pl_path_fn fn, void *ctx);
PL_MUST_CHECK pl_status pl_store_each_object(pl_store *s, const char *prefix,
                                             pl_object_fn fn, void *ctx);
/* Pending contributions of modules whose name starts with prefix, by (module, phase,
 * path, replica): the canonical order of sums. */
PL_MUST_CHECK pl_status pl_store_each_pending(pl_store *s, const char *prefix,
                                              pl_pending_fn fn, void *ctx);
PL_MUST_CHECK pl_status pl_store_each_ref(pl_store *s, const char *prefix, pl_ref_fn fn,
                                          void *ctx);

/* ---- tags: named consistent sets of versions of an arm ---- */
/* A tag is the object "tag/NAME", so that a running job's home can be asked to keep it.
 * One without bytes counts as deleted. */
typedef struct pl_snapshot_item {
    char module[PL_MODULE_NAME_MAX];
    uint64_t number;
    pl_hash params;
} pl_snapshot_item;
typedef struct pl_snapshot {
    char name[PL_TEXT_MAX], arm[PL_TEXT_MAX], note[PL_TEXT_MAX];
    int64_t phase;     /* that all its paths had finished; -1: heads of one commit */
    uint64_t sequence; /* of the commit whose state was looked at */
    int64_t wall_ms;
    size_t n_items;
    pl_snapshot_item *items; /* owned; pl_snapshot_clear */
} pl_snapshot;
void pl_snapshot_clear(pl_snapshot *tag);
void pl_snapshot_encode(const pl_snapshot *tag, pl_buf *out);
const pl_snapshot_item *pl_snapshot_find(const pl_snapshot *tag,
                                         const char *module); /* or NULL */
PL_MUST_CHECK pl_status pl_store_get_tag(pl_store *store, const char *name,
                                         pl_snapshot *out);
typedef pl_status (*pl_snapshot_fn)(void *context, const pl_snapshot *tag);
PL_MUST_CHECK pl_status pl_store_each_tag(pl_store *store, pl_snapshot_fn fn,
                                          void *ctx);

typedef struct pl_store_stats {
    uint64_t n_modules, n_versions, n_blobs, n_chunks, blob_bytes, chunk_bytes,
        stored_bytes, /* of chunks, coded */
        disk_bytes;
} pl_store_stats;
PL_MUST_CHECK pl_status pl_store_count(pl_store *store, pl_store_stats *out);

/* ---- making old versions smaller ---- */
/* Codes what has become old, up to about `budget_bytes` in one commit; *more is false
 * when nothing is left to do. Parameters of newest versions stay as they are, and no
 * name changes. */
PL_MUST_CHECK pl_status pl_store_recode(pl_store *store, uint64_t budget_bytes,
                                        bool *more);
/* Gives the space of what was dropped and recoded back to the disk (WRITE). */
PL_MUST_CHECK pl_status pl_store_compact(pl_store *store);

/* ---- collecting old data ---- */
typedef struct pl_gc_report {
    uint64_t n_versions;               /* whose data go, or went */
    uint64_t n_kept, n_gone;           /* that stay; that went before */
    uint64_t n_blobs, n_chunks, bytes; /* freed; shared ones stay */
    uint64_t n_garbage, garbage_bytes; /* objects of an engine that nothing names */
} pl_gc_report;
/* Whether the data of this version must stay; heads always do. */
typedef bool (*pl_keep_fn)(void *context, const pl_version *version);
/* Counts what is not to be kept; with `run` (WRITE) it is dropped, in many commits, and
 * the disk space given back. May be killed at any time and done again. */
PL_MUST_CHECK pl_status pl_store_collect(pl_store *store, pl_keep_fn keep,
                                         void *context, bool run, pl_gc_report *out);

/* ---- copying ---- */
typedef struct pl_mirror_report {
    uint64_t n_records, n_chunks, bytes; /* that had to be brought; bytes of chunks */
} pl_mirror_report;
/* Makes the store in `folder` the state that `from` (READ) shows, row by row; only what
 * it lacks is brought. A folder that does not exist is made. One that holds something
 * else than an earlier state of the same store is ERR_EXISTS, unless `force`: then what
 * is neither that nor a later one is copied as a whole, in FOLDER/new at first
 * (ERR_UNSUPPORTED if its `db` is a link or a disk of its own; its folder may be). May
 * be killed at any time: the folder then holds its old state, or refuses to open
 * (ERR_BUSY) until this or pl_store_end_copy has done the rest. */
PL_MUST_CHECK pl_status pl_store_mirror(pl_store *from, const char *folder, bool force,
                                        pl_mirror_report *out);

/* The same of all parts of a store, as they were when it was opened or last refreshed:
 * the folder becomes a store of as many. Killed as above. A store in one piece is
 * copied as above. */
PL_MUST_CHECK pl_status pl_store_mirror_parts(pl_store *from, const char *folder,
                                              bool force, pl_mirror_report *out);
/* Does the rest of a copy into this folder that was decided; nothing if there is none.
 */
PL_MUST_CHECK pl_status pl_store_end_copy(const char *folder);
/* Removes parts that a copy into a store in parts made beside the others, and that was
 * killed before it was decided. Does nothing beside somebody who has the folder, or if
 * a part is missing. What was made inside a store or a part goes when that is opened to
 * be written. */
PL_MUST_CHECK pl_status pl_store_clear_copy(const char *folder);
/* How many commits part `part` (from 0) of a reader shows. */
uint64_t pl_store_part_sequence(const pl_store *store, int part);
int pl_store_n_parts(
    const pl_store *store); /* that a reader has open; 0: in one piece */

/* ---- rebuilding ---- */
typedef struct pl_rebuild_report {
    uint64_t sequence;  /* of the newest commit */
    uint64_t n_commits; /* taken from the log of commits */
    uint64_t n_records; /* rows written */
} pl_rebuild_report;
/* Makes `folder`, which must not be there or be empty, the store whose chunks lie in
 * `place`: all that was acknowledged. Its old home is fenced once the folder is opened
 * for writing. ERR_NOT_FOUND if no store is there, ERR_DAMAGED if what is there does
 * not have its hashes. */
PL_MUST_CHECK pl_status pl_store_rebuild(const char *place, const char *folder,
                                         pl_rebuild_report *out);

/* ---- checking ---- */
typedef struct pl_audit_report {
    uint64_t n_rows, n_versions, n_blobs, n_chunks, bytes, n_problems;
} pl_audit_report;
typedef void (*pl_problem_fn)(void *context, const char *sentence);
/* Looks at every record: the chain of commits up to the mark, versions without a gap,
 * each naming its parent, references as counted, names that resolve; with `bytes` also
 * at every chunk, against its hash. Each damaged thing is one sentence. A failure means
 * that it could not be checked. Beside a writer call it again after a refresh before
 * believing it: a follower may see parts of a commit early. */
PL_MUST_CHECK pl_status pl_store_audit(pl_store *store, bool bytes, pl_problem_fn fn,
                                       void *context, pl_audit_report *out);

/* ---- writing: one transaction = one atomic, synced commit ---- */
typedef struct pl_txn pl_txn;
/* One at a time. An operation that is refused with ERR_ARG, ERR_STALE, ERR_EXISTS or
 * ERR_NOT_FOUND leaves the transaction as it was. After a failed commit that reached
 * the disk, begin fails for good: restart the process. */
PL_MUST_CHECK pl_status pl_txn_begin(pl_store *store, pl_txn **out);
void pl_txn_abort(pl_txn **txn); /* accepts NULL; nothing happened */
/* After OK everything in it is durable; after a failure nothing of it is visible to
 * this process (ask again after reopening: the outcome is then known). ERR_NOSPACE
 * leaves the store readable. Frees the transaction in every case. */
PL_MUST_CHECK pl_status pl_txn_commit(pl_txn **txn);

/* The blob becomes part of the transaction; equal bytes are stored once. A blob that no
 * record names when the transaction is committed is not kept. ERR_UNSUPPORTED if the
 * transaction would grow beyond 3 GiB. */
PL_MUST_CHECK pl_status pl_txn_put_blob(pl_txn *txn, const void *data, uint64_t bytes,
                                        pl_hash *out);
/* Appends a version: number must be head + 1 (or 0 for a new module), else ERR_STALE;
 * `parent` must be the parameters of the head, else ERR_ARG; blobs that it names must
 * be in the store or in the transaction, else ERR_NOT_FOUND (here and below).
 * Its pending contributions of phase number-1 are removed, with the update blobs
 * unless keep.updates. Momentum and change of version number-2 and older are dropped
 * unless keep.momentum. Both happen keep.late versions later; it is the same for all
 * versions of a module. */
typedef struct pl_keep {
    bool updates, momentum;
    int late;
} pl_keep;
PL_MUST_CHECK pl_status pl_txn_put_version(pl_txn *txn, const pl_version *version,
                                           pl_keep keep);
/* ERR_EXISTS if (module, phase, path, replica) is pending already. */
PL_MUST_CHECK pl_status pl_txn_put_pending(pl_txn *txn, const char *module,
                                           const pl_contribution *c);
/* Replaces the state of that path; the old moments blob is released. */
PL_MUST_CHECK pl_status pl_txn_put_path(pl_txn *txn, const pl_path_state *path);
PL_MUST_CHECK pl_status pl_txn_put_object(pl_txn *txn, const char *name,
                                          const pl_hash *blob);
PL_MUST_CHECK pl_status pl_txn_put_ref(pl_txn *txn, const char *name,
                                       const char *target);

/* ---- taking away; the log goes on, records of versions stay ---- */
PL_MUST_CHECK pl_status pl_txn_drop_ref(pl_txn *txn, const char *name);
PL_MUST_CHECK pl_status pl_txn_drop_object(pl_txn *txn, const char *name);
/* All pending contributions of a module, with their updates. */
PL_MUST_CHECK pl_status pl_txn_drop_pending(pl_txn *txn, const char *module);
/* Parameters, momentum and updates of a version that is not the head (ERR_ARG). Doing
 * it again is fine. */
PL_MUST_CHECK pl_status pl_txn_drop_data(pl_txn *txn, const char *module,
                                         uint64_t number);

/* ---- going back: in all parts of a store, or in none ---- */
/* Whether a rollback made this version; *source is the one whose parameters it has. */
bool pl_version_source(const pl_version *version, uint64_t *source);
/* A store in one piece, or all parts of one, opened for writing (ERR_BUSY if anybody
 * has one of them). What was decided and not made everywhere is made. */
typedef struct pl_writers pl_writers;
PL_MUST_CHECK pl_status pl_writers_open(const char *folder, pl_writers **out);
void pl_writers_close(pl_writers **writers);
int pl_writers_count(const pl_writers *writers);
pl_store *pl_writers_part(pl_writers *writers, int part); /* from 0; the writers' own */
/* All of it as it was when it was opened; the writers' own. */
pl_store *pl_writers_view(pl_writers *writers);
/* What was asked of a rollback that was ended by opening; NULL. */
const char *pl_writers_resumed(const pl_writers *writers);

typedef struct pl_rollback_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t source, last; /* versions from head + 1 to `last` get these parameters */
    int part;
} pl_rollback_module;
typedef struct pl_rollback_path {
    char name[PL_MODULE_NAME_MAX];
    uint64_t samples; /* data cursor */
    int part;
} pl_rollback_path;
typedef struct pl_rollback {
    char words[PL_TEXT_MAX]; /* what was asked for */
    int64_t phase; /* that the paths move on to, and pending updates go; -1: neither */
    pl_rollback_module *modules;
    pl_rollback_path *paths;
    size_t n_modules, n_paths;
} pl_rollback;
/* Appends versions; once for each opening. Killed at any moment nothing of it is there,
 * or all of it when the parts are opened for writing again. ERR_NOT_FOUND: parameters
 * were collected. */
PL_MUST_CHECK pl_status pl_writers_roll_back(pl_writers *writers,
                                             const pl_rollback *plan);

/* ---- a name's rows, on their way to another store ---- */
/* Everything that belongs to a module, path or object: versions, pending updates, the
 * state, the object, and the refs below `refs`. Bytes are borrowed. */
typedef struct pl_row {
    int family;
    const uint8_t *key, *value; /* the value is sealed */
    size_t key_len, value_len;
    pl_hash digest; /* equal where two stores have the same row */
} pl_row;
typedef pl_status (*pl_row_fn)(void *context, const pl_row *row);
typedef pl_status (*pl_blob_fn)(void *context, const pl_hash *blob);
/* In an order in which they may be put. What is not committed is not seen. */
PL_MUST_CHECK pl_status pl_store_each_row(pl_store *store, const char *name,
                                          const char *refs, pl_row_fn fn,
                                          void *context);
/* Blobs that the row holds, one of them perhaps several times. */
PL_MUST_CHECK pl_status pl_row_each_blob(const pl_row *row, pl_blob_fn fn,
                                         void *context);
bool pl_store_has_name(pl_store *store, const char *name);
/* Replaces a row that is there. Versions come in order; a new one is the head then.
 * ERR_DATA: it is no row of this name; ERR_NOT_FOUND: a blob is missing; ERR_DAMAGED.
 */
PL_MUST_CHECK pl_status pl_txn_put_row(pl_txn *txn, const char *name, const char *refs,
                                       const pl_row *row);
/* Any row but a version; only its key is looked at. */
PL_MUST_CHECK pl_status pl_txn_drop_row(pl_txn *txn, const char *name, const char *refs,
                                        const pl_row *row);
/* All of a name, also its versions: another store has them. */
PL_MUST_CHECK pl_status pl_txn_drop_name(pl_txn *txn, const char *name,
                                         const char *refs);

/* Identity of a blob without storing it: hash over length and chunk hashes. */
void pl_blob_hash(const void *data, uint64_t bytes, pl_hash *out);
/* The same of a blob whose bytes come one after another: `there` bytes of it lie at
 * `data` by now. Starts as zeros; the end gives the hash of all `bytes` and frees. */
typedef struct pl_blob_hashing {
    pl_buf chunks;
    uint64_t hashed;
} pl_blob_hashing;
void pl_blob_hash_some(pl_blob_hashing *h, const void *data, uint64_t there);
void pl_blob_hash_end(pl_blob_hashing *h, const void *data, uint64_t bytes,
                      pl_hash *out);

#ifdef __cplusplus
}
#endif
#endif
