/* Rolls back a store of several parts: the rollback is done in all parts or in none.
 *
 * Purpose. `pathloom store rollback` computes a plan: which modules get which old
 * parameters, and after which phase the paths continue. The plan may concern several
 * parts, but a commit changes only one part. So this file carries the plan out in three
 * steps. Whenever the process is killed, either the complete plan is carried out later,
 * or nothing of it.
 *
 * A rollback has a number: the epoch of the first part, which differs each time that
 * part is opened for writing.
 *
 *                          parts 2..N                  part 1
 *   0. try                 the changes are written into a transaction and dropped, so
 *                          that a change that fails in one part is begun in no part
 *   1. prepare             each commits its share of
 *                          the plan as the object
 *                          sys/rollback
 *   2. decide                                          one commit: its own changes, and
 *                                                      the number as sys/rolled-back.
 *                                                      This commit decides
 *   3. make the shares     each, in one commit: the
 *                          changes of its share and
 *                          the number; the object
 *                          is dropped
 *
 * A writer that opens a part with a share carries the share out or drops it
 * (rollback_resume):
 *
 *               part 1's number is the share's       part 1's number is a different one
 *   no share <------ make the share ------ share ------ drop the share ------> no share
 *
 * A process that opens all parts for reading compares the numbers of the last rollbacks
 * of the parts. The result is one of three states (rollback_look; rollback.h explains
 * them). In the state WHOLE the store is shown at once. In the states MIXED and HALF
 * the process waits some seconds for WHOLE. If the state is still MIXED then, the store
 * is shown, because parts that were restored one by one stay in this state. If it is
 * still HALF, opening fails with an error that says what to do, because the process
 * that should finish the rollback may be dead.
 *
 * What a rollback writes. No old version is changed. Each module gets new versions, up
 * to number `last`, with the parameters of the old version. The new versions have no
 * contributions and no momentum (write_module). If the arm is not finished, pending
 * updates are dropped, and the paths continue after the plan's phase with their present
 * optimizer moments.
 *
 * Ownership. pl_writers owns a writer for each part and a reader of all parts. For a
 * store in one piece the writer serves as the reader. */
#include "store/rollback.h"
#include <stdio.h>
#include <string.h>

enum { TAG_NUMBER = 1 };
enum { PLAN_BYTES_MAX = 64 << 20 };

struct pl_writers {
    char folder[PL_PATH_MAX];
    /* the parts, opened with WRITE; a store in one piece is parts[0] */
    pl_store *parts[PL_PARTS_MAX];
    int n;
    pl_store *view; /* opened with READ; for a store in one piece, its writer */
    char resumed[PL_TEXT_MAX];
};

/* ---- the changes of one store ---- */
static const char method[] = "rollback to "; /* followed by the number of the source */

bool pl_version_source(const pl_version *v, uint64_t *source)
{
    int64_t number = 0;
    *source = 0;
    if (!pl_starts_with(v->method, method) ||
        pl_parse_int(v->method + strlen(method), &number) != PL_OK || number < 0 ||
        (uint64_t)number >= v->number)
        return false;
    *source = (uint64_t)number;
    return true;
}

/* Appends versions with the parameters of the source. They have no contributions and no
 * momentum. update_norm stays, because codecs compute their scales from it. */
static pl_status write_module(pl_txn *txn, const pl_rollback *plan,
                              const pl_rollback_module *c)
{
    pl_version head, v;
    pl_status status = PL_OK;
    pl_keep keep = {.updates = false, .momentum = true};
    PL_CHECK(pl_store_head(txn->store, c->name, &head));
    pl_hash parent = head.params;
    uint64_t number = head.number;
    pl_version_clear(&head);
    PL_CHECK(pl_store_get_version(txn->store, c->name, c->source, &v));
    if (v.params_gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "the parameters of %s@%llu were collected as garbage; only the "
                       "record of the version is left",
                       c->name, (unsigned long long)c->source));
    if (plan->phase >= 0)
        PL_TRY(pl_txn_drop_pending(txn, c->name));
    pl_free(v.contributions);
    v.contributions = NULL;
    v.n_contributions = 0;
    v.momentum = v.change = (pl_hash){{0}};
    v.lr = v.outer_momentum = 0;
    v.arrivals = 0;
    snprintf(v.method, sizeof v.method, "%s%llu", method,
             (unsigned long long)c->source);
    while (number < c->last) {
        v.number = ++number;
        v.parent = parent;
        v.wall_ms = pl_wall_ms();
        PL_TRY(pl_txn_put_version(txn, &v, keep));
        parent = v.params;
    }
done:
    pl_version_clear(&v);
    return status;
}

static pl_status write_part(pl_txn *txn, const pl_rollback *plan, int part)
{
    for (size_t i = 0; i < plan->n_modules; i++)
        if (plan->modules[i].part == part)
            PL_CHECK(write_module(txn, plan, &plan->modules[i]));
    /* Moves the paths to the plan's phase. A path keeps its moments, because they
     * describe the size of its gradients, which a rollback hardly changes. If its
     * present state was not uploaded, the path continues with the newest state that
     * was. */
    for (size_t i = 0; i < plan->n_paths; i++) {
        const pl_rollback_path *p = &plan->paths[i];
        pl_path_state state;
        if (p->part != part)
            continue;
        pl_status status = pl_store_get_path(txn->store, p->name, &state);
        if (status == PL_ERR_NOT_FOUND) {
            memset(&state, 0, sizeof state);
            pl_copy_text(state.name, sizeof state.name, p->name);
        } else
            PL_CHECK(status);
        state.phase = plan->phase;
        state.work.n_samples = p->samples;
        state.repeats = 0;
        memset(&state.made, 0, sizeof state.made);
        PL_CHECK(pl_txn_put_path(txn, &state));
    }
    return PL_OK;
}

/* ---- a share of the plan as bytes ---- */
static const pl_field module_fields[] = {
    PL_FIELD(pl_rollback_module, 1, name), PL_FIELD(pl_rollback_module, 2, source),
    PL_FIELD(pl_rollback_module, 3, last),
    PL_FIELD_NONZERO(pl_rollback_module, 4, head), PL_FIELDS_END};
static const pl_field path_fields[] = {PL_FIELD(pl_rollback_path, 1, name),
                                       PL_FIELD(pl_rollback_path, 2, samples),
                                       PL_FIELDS_END};
static const pl_field share_fields[] = {
    PL_FIELD(pl_rollback, 2, words), PL_FIELD(pl_rollback, 3, phase),
    PL_FIELD_LIST(pl_rollback, 4, modules, n_modules, module_fields),
    PL_FIELD_LIST(pl_rollback, 5, paths, n_paths, path_fields), PL_FIELDS_END};

static pl_status put_plan(pl_txn *txn, const char *name, uint64_t number,
                          const pl_rollback *plan)
{
    pl_hash blob;
    pl_buf bytes = {0};
    pl_put_u64(&bytes, TAG_NUMBER, number);
    pl_put_fields(&bytes, share_fields, plan);
    pl_status status = pl_txn_put_blob(txn, bytes.data, bytes.len, &blob);
    pl_buf_destroy(&bytes);
    return status == PL_OK ? pl_txn_put_object(txn, name, &blob) : status;
}

/* Reads what put_plan has written; *number is 0 if there is no such object. */
static pl_status read_plan(pl_store *store, const char *name, uint64_t *number,
                           pl_rollback *out)
{
    pl_object object;
    pl_buf bytes = {0};
    pl_status status = pl_store_get_object(store, name, &object);
    *number = 0;
    *out = (pl_rollback){.phase = -1};
    if (status != PL_OK)
        return status == PL_ERR_NOT_FOUND ? PL_OK : status;
    if (object.bytes > PLAN_BYTES_MAX)
        return pl_fail(
            PL_ERR_DAMAGED,
            "the record of a rollback in %s has %llu bytes, which is impossible",
            store->folder, (unsigned long long)object.bytes);
    pl_buf_reserve(&bytes, (size_t)object.bytes + 1);
    bytes.len = (size_t)object.bytes;
    status = pl_store_read_blob(store, &object.blob, 0, bytes.len, bytes.data);
    if (status == PL_OK) {
        pl_reader r;
        pl_reader_open(&r, "a rollback", bytes.data, bytes.len);
        *number = pl_get_u64(&r, TAG_NUMBER, 0);
        pl_get_fields(&r, share_fields, out);
        status = pl_reader_status(&r);
    }
    pl_buf_destroy(&bytes);
    return status == PL_OK
               ? PL_OK
               : pl_fail_in(status, "the rollback in %s cannot be read", store->folder);
}

/* ---- the records of rollbacks ---- */
typedef struct record_search {
    pl_store *store;
    const pl_version *version;
    uint64_t source;
    pl_rollback_proof proof;
} record_search;

static pl_status look_in_record(void *context, const pl_object *object)
{
    record_search *s = context;
    pl_rollback plan;
    uint64_t number;
    const pl_rollback_proof proof = pl_starts_with(object->name, COPIED_RECORD)
                                        ? PL_ROLLBACK_COPIED
                                        : PL_ROLLBACK_RECORDED;
    pl_status status = read_plan(s->store, object->name, &number, &plan);
    for (size_t i = 0; status == PL_OK && i < plan.n_modules; i++) {
        const pl_rollback_module *m = &plan.modules[i];
        if (strcmp(m->name, s->version->module) == 0 && m->source == s->source &&
            m->head < s->version->number && s->version->number <= m->last &&
            s->proof < proof)
            s->proof = proof;
    }
    pl_free_all(plan.modules, plan.paths);
    return status;
}

pl_status pl_store_find_rollback(pl_store *store, const pl_version *version,
                                 pl_rollback_proof *out)
{
    record_search s = {.store = store, .version = version};
    *out = PL_ROLLBACK_UNKNOWN;
    if (!pl_version_source(version, &s.source))
        return PL_OK;
    PL_CHECK(pl_store_each_object(store, ROLLBACK_RECORD, look_in_record, &s));
    *out = s.proof;
    return PL_OK;
}

pl_status pl_txn_put_rollbacks(pl_txn *txn, const char *copy,
                               const pl_rollback_module *modules, size_t n)
{
    char record[PL_MODULE_NAME_MAX];
    pl_rollback plan = {
        .words = "made by an older release", .phase = -1, .n_modules = n};
    plan.modules = pl_alloc(n * sizeof *modules);
    memcpy(plan.modules, modules, n * sizeof *modules);
    snprintf(record, sizeof record, COPIED_RECORD "%s.%lld", copy,
             (long long)pl_wall_ms());
    pl_status status = put_plan(txn, record, 0, &plan);
    pl_free(plan.modules);
    return status;
}

/* ---- the number of the last rollback ---- */
static pl_status read_made(pl_store *store, uint64_t *number)
{
    pl_buf target = {0};
    unsigned long long made = 0;
    *number = 0;
    pl_status status = pl_store_get_ref(store, ROLLBACK_REF, &target);
    if (status == PL_OK && sscanf(pl_buf_text(&target), "%llu", &made) == 1)
        *number = made;
    else if (status == PL_OK)
        status = pl_fail(PL_ERR_DAMAGED, "ref %s in %s is damaged: it is not a number",
                         ROLLBACK_REF, store->folder);
    pl_buf_destroy(&target);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

static pl_status note_rollback_made(pl_txn *txn, uint64_t number)
{
    char target[48];
    snprintf(target, sizeof target, "%llu", (unsigned long long)number);
    return pl_txn_put_ref(txn, ROLLBACK_REF, target);
}

pl_status rollback_look(pl_store *store, rollback_view *out)
{
    uint64_t decided, made, waiting;
    *out = ROLLBACK_WHOLE;
    PL_CHECK(read_made(store->stores[0], &decided));
    for (int i = 1; i < store->n_stores && *out == ROLLBACK_WHOLE; i++) {
        pl_rollback share;
        PL_CHECK(read_made(store->stores[i], &made));
        if (made != decided)
            *out = ROLLBACK_MIXED;
        if (*out == ROLLBACK_WHOLE || made > decided)
            continue;
        pl_status status =
            read_plan(store->stores[i], ROLLBACK_OBJECT, &waiting, &share);
        pl_free_all(share.modules, share.paths);
        PL_CHECK(status);
        *out = waiting == decided ? ROLLBACK_HALF : ROLLBACK_MIXED;
    }
    return PL_OK;
}

/* ---- a part that still has a share when it is opened ---- */
pl_status rollback_resume(pl_store *store)
{
    char above[PL_PATH_MAX], folder[PL_PATH_MAX];
    pl_store *first = NULL;
    pl_rollback share;
    pl_txn *txn = NULL;
    uint64_t number, decided = 0;
    pl_status status = PL_OK;
    PL_TRY(read_plan(store, ROLLBACK_OBJECT, &number, &share));
    if (number == 0)
        goto done;
    /* asks the first part whether the rollback was decided */
    pl_store_part(pl_path_above(above, store->folder), 0, folder);
    status = pl_store_open(folder, PL_STORE_READ, &first);
    if (status == PL_OK)
        status = read_made(first, &decided);
    pl_store_close(&first);
    if (status != PL_OK)
        PL_TRY(pl_fail_in(status,
                          "%s has an unfinished rollback. %s records whether it was "
                          "decided, and cannot be read",
                          store->folder, folder));
    PL_TRY(pl_txn_begin(store, &txn));
    if (decided == number) {
        PL_TRY(write_part(txn, &share, 0));
        PL_TRY(note_rollback_made(txn, number));
    }
    PL_TRY(pl_txn_drop_object(txn, ROLLBACK_OBJECT));
    PL_TRY(pl_txn_commit(&txn));
    if (decided == number)
        pl_copy_text(store->resumed, sizeof store->resumed, share.words);
done:
    pl_txn_abort(&txn);
    pl_free_all(share.modules, share.paths);
    return status;
}

const char *pl_store_resumed(const pl_store *store)
{
    return store->resumed[0] ? store->resumed : NULL;
}

/* ---- opening all parts, and carrying out a plan ---- */
pl_status pl_writers_open(const char *folder, pl_writers **out)
{
    char home[PL_PATH_MAX];
    int n = 0;
    *out = NULL;
    PL_CHECK(pl_store_homes(folder, &n));
    pl_writers *w = pl_alloc(sizeof *w);
    pl_status status = PL_OK;
    if (!pl_copy_text(w->folder, sizeof w->folder, folder))
        PL_TRY(pl_fail(PL_ERR_ARG, "a store's path has at most %d bytes",
                       PL_PATH_MAX - 1));
    for (; w->n < n; w->n++) {
        pl_store **part = &w->parts[w->n];
        PL_TRY(
            pl_store_open(pl_store_home(folder, w->n, n, home), PL_STORE_WRITE, part));
        if ((*part)->resumed[0])
            pl_copy_text(w->resumed, sizeof w->resumed, (*part)->resumed);
    }
    if (n > 1)
        PL_TRY(pl_store_open(folder, PL_STORE_READ, &w->view));
    else
        w->view = w->parts[0];
    *out = w;
    return PL_OK;
done:
    pl_writers_close(&w);
    return status;
}

void pl_writers_close(pl_writers **handle)
{
    pl_writers *w = *handle;
    *handle = NULL;
    if (!w)
        return;
    if (w->view != w->parts[0])
        pl_store_close(&w->view);
    for (int i = 0; i < w->n; i++)
        pl_store_close(&w->parts[i]);
    pl_free(w);
}

pl_store *pl_writers_part(pl_writers *w, int part)
{
    return w->parts[part];
}

pl_store *pl_writers_view(pl_writers *w)
{
    return w->view;
}

const char *pl_writers_resumed(const pl_writers *w)
{
    return w->resumed[0] ? w->resumed : NULL;
}

static pl_status prepare_share(pl_store *store, const pl_rollback *plan, int part,
                               uint64_t number)
{
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    pl_rollback share = *plan;
    share.modules = pl_alloc((plan->n_modules + 1) * sizeof *share.modules);
    share.paths = pl_alloc((plan->n_paths + 1) * sizeof *share.paths);
    share.n_modules = share.n_paths = 0;
    for (size_t i = 0; i < plan->n_modules; i++)
        if (plan->modules[i].part == part)
            share.modules[share.n_modules++] = plan->modules[i];
    for (size_t i = 0; i < plan->n_paths; i++)
        if (plan->paths[i].part == part)
            share.paths[share.n_paths++] = plan->paths[i];
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(put_plan(txn, ROLLBACK_OBJECT, number, &share));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_free_all(share.modules, share.paths);
    pl_txn_abort(&txn);
    return status;
}

pl_status pl_writers_roll_back(pl_writers *w, const pl_rollback *plan)
{
    const uint64_t number = w->parts[0]->epoch;
    char record[PL_MODULE_NAME_MAX];
    pl_txn *txn = NULL;
    pl_status status = PL_OK;
    for (int i = 0; i < w->n; i++) {
        /* Tries the changes in a transaction that is then aborted: changes that are
         * impossible in one part must not begin in any part. */
        PL_TRY(pl_txn_begin(w->parts[i], &txn));
        PL_TRY(write_part(txn, plan, i));
        pl_txn_abort(&txn);
    }
    for (int i = 1; i < w->n; i++)
        PL_TRY(prepare_share(w->parts[i], plan, i, number));
    /* the commit that decides the rollback: in the first part, or in the only store */
    PL_TRY(pl_txn_begin(w->parts[0], &txn));
    PL_TRY(write_part(txn, plan, 0));
    /* with the time, because a divided or rewound store begins with epoch 1 again */
    snprintf(record, sizeof record, ROLLBACK_RECORD "%llu.%lld",
             (unsigned long long)number, (long long)pl_wall_ms());
    PL_TRY(put_plan(txn, record, number, plan));
    if (w->n > 1)
        PL_TRY(note_rollback_made(txn, number));
    PL_TRY(pl_txn_commit(&txn));
    for (int i = 1; i < w->n; i++) {
        status = rollback_resume(w->parts[i]);
        if (status != PL_OK)
            PL_TRY(pl_fail_in(
                status, "the rollback is decided, but not all parts have carried it "
                        "out; the next command that writes to the store finishes it"));
    }
done:
    pl_txn_abort(&txn);
    return status;
}
