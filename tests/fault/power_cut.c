/* folder: store
 *
 * Simulates power cuts. A process commits to a store while a library records every
 * write and flush (power_trace.c). From this record, power_model.c makes folders that a
 * disk may contain after a power cut at some moment. Each of these folders is opened
 * and checked.
 *
 *   power_cut play WORK LIBRARY COMMITS CUTS SEED    WORK is a folder, which is removed
 *                                                    at the end, or -: a folder in
 *                                                    memory, if the machine has such a
 *                                                    folder
 *   power_cut record ROOT COMMITS SEED         the process that commits
 *   power_cut open ROOT ACKED ALL              opens a store after a cut
 *   power_cut check ROOT ACKED ALL             opens such a store and checks it
 *
 * The store must open. Every acknowledged commit must be there, and the last commit
 * must be complete. The audit of all bytes must find nothing. The store must accept
 * another commit, which must be there after the store is opened again. The same must
 * hold if the power fails while the store is opened after a power cut. ALL is a file
 * with the log hashes of all commits; the first ACKED of these commits were
 * acknowledged. */
#include "store/store_internal.h"
#include "tests/fault/power_model.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MODULES = 3,
    SMALL = 3000,
    MIDDLE = 40000,
    LARGE = 1200000,
    BULK = 20000, /* size of a blob that is stored in its own file */
    REOPEN_EVERY = 13,
    AGAIN_EVERY = 8, /* after every AGAIN_EVERY-th cut there is a second one */
    AGAIN = 3,
    EXIT_MENDED = 10
};

static const char *store_of(const char *root)
{
    static char path[PL_PATH_MAX];
    return pl_join(path, root, "run/store");
}

static int complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, pl_last_error());
    return 1;
}

/* ---- the process that commits ---- */
typedef struct recorder {
    pl_store *store;
    int acks;
    uint64_t seed, n, acked;
} recorder;

/* Opens a store whose files are small, so that it has many files. */
static pl_status open_store(const char *root, pl_store_mode mode, pl_store **out)
{
    PL_CHECK(pl_store_open(store_of(root), mode, out));
    (*out)->bulk_bytes = BULK;
    return PL_OK;
}

static uint32_t choose(recorder *r, uint64_t what, uint32_t below)
{
    return pl_random_u32(r->seed, r->n, what) % below;
}

static pl_status put_random(recorder *r, pl_txn *txn, uint64_t what, pl_hash *out)
{
    static uint8_t bytes[LARGE];
    uint32_t kind = choose(r, what, 16);
    size_t n = kind == 0 ? LARGE : kind < 6 ? MIDDLE : SMALL;
    for (uint64_t at = 0; at < n; at += 4) {
        uint32_t word = pl_random_u32(r->seed + what, r->n, at);
        memcpy(bytes + at, &word, 4);
    }
    return pl_txn_put_blob(txn, bytes, n, out);
}

static pl_status put_version(recorder *r, pl_txn *txn)
{
    pl_version v = {.number = 0}, head;
    pl_contribution c = {.path = (int64_t)choose(r, 3, 4)};
    pl_status status = PL_OK;
    snprintf(v.module, sizeof v.module, "a/x%u", choose(r, 1, MODULES));
    if (pl_store_head(r->store, v.module, &head) == PL_OK) {
        v.number = head.number + 1;
        v.parent = head.params;
        pl_version_clear(&head);
        PL_TRY(put_random(r, txn, 11, &v.momentum));
    }
    PL_TRY(put_random(r, txn, 12, &v.params));
    PL_TRY(pl_txn_put_version(txn, &v, (pl_keep){false, choose(r, 4, 2), 0}));
    c.phase = (int64_t)v.number;
    PL_TRY(put_random(r, txn, 13, &c.update));
    PL_TRY(pl_txn_put_pending(txn, v.module, &c));
done:
    return status;
}

static pl_status put_rest(recorder *r, pl_txn *txn)
{
    pl_path_state path = {.phase = (int64_t)r->n};
    pl_hash blob;
    char target[32];
    snprintf(path.name, sizeof path.name, "a/p%u", choose(r, 1, 4));
    snprintf(target, sizeof target, "%" PRIu64, r->n);
    PL_CHECK(put_random(r, txn, 14, &path.moments));
    PL_CHECK(pl_txn_put_path(txn, &path));
    PL_CHECK(put_random(r, txn, 15, &blob));
    PL_CHECK(pl_txn_put_object(txn, choose(r, 5, 2) ? "o/1" : "o/2", &blob));
    return pl_txn_put_ref(txn, choose(r, 6, 2) ? "newest" : "other", target);
}

static pl_status commit_some(recorder *r)
{
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_txn_begin(r->store, &txn));
    if (choose(r, 2, 4) == 0)
        PL_TRY(put_rest(r, txn));
    else
        PL_TRY(put_version(r, txn));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    return status;
}

static bool is_late(void *context, const pl_version *v)
{
    (void)context;
    return v->number % 4 != 1;
}

/* Does what a home does between commits: writes, moves and removes files. */
static pl_status tend(recorder *r)
{
    bool more;
    pl_gc_report report;
    switch (choose(r, 7, 8)) {
    case 0:
        return pl_store_recode(r->store, 1 << 20, &more);
    case 1:
        return pl_store_collect(r->store, is_late, NULL, true, &report);
    case 2:
        return pl_store_compact(r->store);
    default:
        return PL_OK;
    }
}

static pl_status row_hash(pl_store *store, uint64_t sequence, pl_hash *out)
{
    kv_pin pin;
    row_key key = key_of_number(sequence);
    *out = (pl_hash){{0}};
    PL_CHECK(kv_get(store->db, KV_LOG, key_slice(&key), &pin));
    if (pin.data)
        pl_hash_of("log", pin.data, pin.len, out);
    kv_unpin(&pin);
    return PL_OK;
}

/* Notes that commits were acknowledged: writes their hashes into a file of the root, so
 * that the trace contains this write, too. */
static pl_status acknowledge(recorder *r)
{
    pl_hash hash;
    while (r->acked < pl_store_sequence(r->store)) {
        PL_CHECK(row_hash(r->store, ++r->acked, &hash));
        if (write(r->acks, hash.bytes, sizeof hash.bytes) != sizeof hash.bytes ||
            fsync(r->acks) != 0)
            return pl_fail(PL_ERR_IO, "cannot write the acknowledged commits");
    }
    return PL_OK;
}

static int record(const char *root, uint64_t n, uint64_t seed)
{
    char acks[PL_PATH_MAX];
    recorder r = {.seed = seed};
    pl_status status = PL_OK;
    r.acks = open(pl_join(acks, root, "ACKS"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    PL_TRY(open_store(root, PL_STORE_CREATE, &r.store));
    for (; r.n < n; r.n++) {
        PL_TRY(commit_some(&r));
        PL_TRY(acknowledge(&r));
        PL_TRY(tend(&r));
        PL_TRY(acknowledge(&r));
        if (r.n % REOPEN_EVERY != REOPEN_EVERY - 1)
            continue;
        pl_store_close(&r.store);
        PL_TRY(open_store(root, PL_STORE_WRITE, &r.store));
    }
done:
    pl_store_close(&r.store);
    return status == PL_OK ? 0 : complain("record");
}

/* ---- the process that checks ---- */
static void print_problem(void *context, const char *sentence)
{
    (void)context;
    fprintf(stderr, "audit: %s\n", sentence);
}

static pl_status audit(pl_store *store)
{
    pl_audit_report report;
    PL_CHECK(pl_store_audit(store, true, print_problem, NULL, &report));
    return report.n_problems == 0
               ? PL_OK
               : pl_fail(PL_ERR_DAMAGED, "%" PRIu64 " problems", report.n_problems);
}

/* Checks that the store's newest commit is one of ALL and not older than commit
 * `acked`. */
static pl_status compare(pl_store *store, uint64_t acked, const pl_buf *all)
{
    pl_hash hash;
    uint64_t sequence = pl_store_sequence(store), n = all->len / sizeof hash.bytes;
    if (sequence < acked || sequence > n)
        return pl_fail(PL_ERR_DAMAGED,
                       "the store ends at commit %" PRIu64 "; %" PRIu64
                       " commits were acknowledged, and %" PRIu64 " made",
                       sequence, acked, n);
    if (sequence == 0)
        return PL_OK;
    PL_CHECK(row_hash(store, sequence, &hash));
    return memcmp(hash.bytes, all->data + (sequence - 1) * sizeof hash.bytes,
                  sizeof hash.bytes) == 0
               ? PL_OK
               : pl_fail(PL_ERR_DAMAGED, "commit %" PRIu64 " has a wrong log hash",
                         sequence);
}

/* Opens the store for reading before the writer opens it and repairs the log. */
static pl_status look_first(const char *root, uint64_t acked, const pl_buf *all)
{
    pl_store *store;
    pl_status status = pl_store_open(store_of(root), PL_STORE_READ, &store);
    if (status == PL_ERR_NOT_FOUND && acked == 0)
        return PL_OK; /* the power failed before the store was complete */
    if (status == PL_OK)
        status = compare(store, acked, all);
    pl_store_close(&store);
    return status;
}

static pl_status open_again(const char *root, pl_store_mode mode, pl_store **out,
                            bool *mended)
{
    PL_CHECK(open_store(root, mode, out));
    *mended = *mended || (*out)->mended[0];
    return PL_OK;
}

static pl_status go_on(const char *root, bool *mended)
{
    recorder r = {.n = 1000000, .seed = 5};
    uint64_t sequence;
    pl_status status = PL_OK;
    PL_TRY(open_again(root, PL_STORE_WRITE, &r.store, mended));
    sequence = pl_store_sequence(r.store);
    PL_TRY(commit_some(&r));
    pl_store_close(&r.store);
    PL_TRY(open_again(root, PL_STORE_WRITE, &r.store, mended));
    if (pl_store_sequence(r.store) != sequence + 1)
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "a commit after the power cut was lost"));
    PL_TRY(audit(r.store));
done:
    pl_store_close(&r.store);
    return status;
}

static int check(const char *root, uint64_t acked, const char *path, bool only_open)
{
    pl_store *store = NULL;
    pl_buf all = {0};
    bool mended = false;
    pl_status status = PL_OK;
    pl_store_mode mode = acked > 0 ? PL_STORE_WRITE : PL_STORE_CREATE;
    PL_TRY(pl_read_file(path, &all));
    if (!only_open)
        PL_TRY(look_first(root, acked, &all));
    PL_TRY(open_again(root, mode, &store, &mended));
    PL_TRY(compare(store, acked, &all));
    if (only_open)
        goto done;
    PL_TRY(audit(store));
    pl_store_close(&store);
    PL_TRY(go_on(root, &mended));
done:
    pl_store_close(&store);
    pl_buf_destroy(&all);
    if (status != PL_OK)
        return complain("check");
    return mended ? EXIT_MENDED : 0;
}

/* ---- the cuts ---- */
typedef struct player {
    char root[PL_PATH_MAX], trace[PL_PATH_MAX], all[PL_PATH_MAX], cut[PL_PATH_MAX],
        again_trace[PL_PATH_MAX], again[PL_PATH_MAX];
    const char *library;
    uint64_t seed, n_cuts, n_commits;
    uint64_t n[POWER_LOSSES], n_again, n_mended;
} player;

/* Runs this program with these arguments, and with the library if `trace` is given.
 * Returns the exit code, or 128 plus the signal that ended the process. */
static int run_self(const player *p, const char *trace, const char *root,
                    char *const words[])
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (trace) {
            setenv("POWER_ROOT", root, 1);
            setenv("POWER_TRACE", trace, 1);
            /* A blank ends a name in LD_PRELOAD, so the folder is in the other
             * variable. */
            const char *slash = strrchr(p->library, '/');
            if (!slash)
                _exit(98);
            char *folder = strndup(p->library, (size_t)(slash - p->library));
            setenv("LD_LIBRARY_PATH", folder, 1);
            setenv("LD_PRELOAD", slash + 1, 1);
        }
        execv("/proc/self/exe", words);
        _exit(99);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 98;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_check(player *p, const char *trace, char *root, uint64_t acked)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRIu64, acked);
    char me[] = "power_cut", open_word[] = "open", check_word[] = "check";
    char *words[] = {me, trace ? open_word : check_word, root, number, p->all, NULL};
    int code = run_self(p, trace, root, words);
    p->n_mended += code == EXIT_MENDED;
    return code == EXIT_MENDED ? 0 : code;
}

static void play_to(power_model *m, uint64_t *at, uint64_t to)
{
    for (; *at < to; ++*at)
        power_model_step(m);
}

/* Plays entries until a file has a write that was not flushed. Most cuts should happen
 * at such moments. */
static void play_until_loose(power_model *m, uint64_t *at, uint64_t end)
{
    for (; *at < end && !power_model_loose(m); ++*at)
        power_model_step(m);
}

static int failed_cut(const player *p, const char *root, uint64_t entry,
                      power_loss loss, uint64_t seed, uint64_t acked, int code)
{
    printf("FAILED: power cut after entry %" PRIu64 " of %s, %s, dice %" PRIu64
           ": %" PRIu64 " commits acknowledged, code %d; power_cut check %s %" PRIu64
           " %s\n",
           entry, p->trace, power_loss_name(loss), seed, acked, code, root, acked,
           p->all);
    return 1;
}

/* Cuts the power a second time while the store is opened after the first cut. */
static int cut_again(player *p, uint64_t acked, uint64_t seed)
{
    pl_buf trace = {0};
    uint64_t at = 0;
    int code = 0;
    power_model *m = power_model_create(p->cut);
    if (pl_remove_tree(p->again_trace) != PL_OK ||
        run_check(p, p->again_trace, p->cut, acked) != 0 ||
        pl_read_file(p->again_trace, &trace) != PL_OK)
        code = complain("cannot note how a store is opened");
    uint64_t n = code == 0 ? power_model_take(m, &trace) : 0;
    for (uint64_t i = 0; code == 0 && i < AGAIN; i++) {
        power_loss loss = (power_loss)(pl_random_u32(seed, 1, i) % POWER_LOSSES);
        play_to(m, &at, (i * n + pl_random_u32(seed, 2, i) % n) / AGAIN);
        play_until_loose(m, &at, n);
        if (power_model_cut(m, loss, seed + i, p->again) != PL_OK)
            code = complain("cannot make a cut");
        else
            code = run_check(p, NULL, p->again, acked);
        p->n_again++;
        if (code != 0)
            failed_cut(p, p->again, at, loss, seed + i, acked, code);
        else if (pl_remove_tree(p->again) != PL_OK)
            code = complain("cannot clear up");
    }
    power_model_destroy(&m);
    pl_buf_destroy(&trace);
    return code;
}

static int cut_once(player *p, power_model *m, uint64_t i, uint64_t at)
{
    power_loss loss = (power_loss)(i % POWER_LOSSES);
    const pl_buf *acks = power_model_file(m, "ACKS");
    uint64_t acked = acks ? acks->len / sizeof(pl_hash) : 0;
    uint64_t seed = p->seed + i * AGAIN;
    if (pl_remove_tree(p->cut) != PL_OK ||
        power_model_cut(m, loss, seed, p->cut) != PL_OK)
        return complain("cannot make a cut");
    p->n[loss]++;
    if (i % AGAIN_EVERY == AGAIN_EVERY - 1)
        return cut_again(p, acked, seed);
    int code = run_check(p, NULL, p->cut, acked);
    return code == 0 ? 0 : failed_cut(p, p->cut, at, loss, seed, acked, code);
}

static int cut_all(player *p, const pl_buf *trace)
{
    uint64_t at = 0;
    int code = 0;
    power_model *m = power_model_create(NULL);
    uint64_t n = power_model_take(m, trace);
    for (uint64_t i = 0; code == 0 && i < p->n_cuts; i++) {
        uint64_t within = pl_random_u32(p->seed, 99, i) % n;
        play_to(m, &at, (i * n + within) / p->n_cuts);
        if (i % 4 != 0)
            play_until_loose(m, &at, n);
        code = cut_once(p, m, i, at);
    }
    power_model_destroy(&m);
    if (code != 0)
        return code;
    printf("%" PRIu64 " writes, flushes and changes of names in %" PRIu64
           " commits\n%" PRIu64 " power cuts (",
           n, p->n_commits, p->n_cuts);
    for (int k = 0; k < POWER_LOSSES; k++)
        printf("%s%s %" PRIu64, k ? ", " : "", power_loss_name((power_loss)k), p->n[k]);
    printf("), %" PRIu64 " more while a store was opened after a cut; %" PRIu64
           " logs were repaired, no acknowledged commit was lost\n",
           p->n_again, p->n_mended);
    return 0;
}

/* Writes the file ALL with the commits that the process acknowledged. */
static pl_status keep_all(player *p)
{
    char acks[PL_PATH_MAX];
    pl_buf all = {0};
    pl_status status = pl_read_file(pl_join(acks, p->root, "ACKS"), &all);
    if (status == PL_OK)
        status = pl_replace_file(p->all, all.data, all.len);
    p->n_commits = all.len / sizeof(pl_hash);
    pl_buf_destroy(&all);
    return status;
}

static int play(const char *work, const char *library, char *commits, uint64_t n_cuts,
                char *seed)
{
    player p = {.library = library, .n_cuts = n_cuts, .seed = strtoull(seed, NULL, 10)};
    pl_buf trace = {0};
    int code = 1;
    pl_join(p.root, work, "root");
    pl_join(p.trace, work, "trace");
    pl_join(p.all, work, "all");
    pl_join(p.cut, work, "cut");
    pl_join(p.again_trace, work, "again-trace");
    pl_join(p.again, work, "again");
    char me[] = "power_cut", verb[] = "record";
    char *words[] = {me, verb, p.root, commits, seed, NULL};
    if (pl_remove_tree(work) != PL_OK || pl_make_folders(p.root) != PL_OK)
        return complain("cannot begin");
    code = run_self(&p, p.trace, p.root, words);
    if (code != 0)
        printf("FAILED: the process that commits ended with %d\n", code);
    else if (keep_all(&p) != PL_OK || pl_read_file(p.trace, &trace) != PL_OK)
        code = complain("no trace");
    else
        code = cut_all(&p, &trace);
    pl_buf_destroy(&trace);
    return code;
}

static int play_in_memory(char **argv, uint64_t n_cuts)
{
    char work[] = "/dev/shm/pathloom-power-XXXXXX";
    char on_disk[] = "/tmp/pathloom-power-XXXXXX";
    char *folder = pl_path_is_folder("/dev/shm") ? work : on_disk;
    if (!mkdtemp(folder))
        return complain("cannot make a folder");
    int code = play(folder, argv[3], argv[4], n_cuts, argv[6]);
    if (code == 0 && pl_remove_tree(folder) != PL_OK)
        return complain("cannot clear up");
    return code;
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 7 && strcmp(argv[1], "play") == 0 && strcmp(argv[2], "-") == 0)
        return play_in_memory(argv, number(argv[5]));
    if (argc == 7 && strcmp(argv[1], "play") == 0)
        return play(argv[2], argv[3], argv[4], number(argv[5]), argv[6]);
    if (argc == 5 && strcmp(argv[1], "record") == 0)
        return record(argv[2], number(argv[3]), number(argv[4]));
    if (argc == 5 && (strcmp(argv[1], "check") == 0 || strcmp(argv[1], "open") == 0))
        return check(argv[2], number(argv[3]), argv[4], argv[1][0] == 'o');
    fprintf(stderr, "usage: power_cut play WORK LIBRARY COMMITS CUTS SEED\n");
    return 64;
}
