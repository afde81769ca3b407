/* pathloom store tag: names a consistent set of versions of an arm.
 *
 * While a job runs its home holds the store, so the home is asked to store the tag;
 * else this process writes it. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"

enum { HOME_PATIENCE_MS = 10000 };

/* ---- which versions ---- */
/* The number of versions that all phases below `phase` have made of a module. */
static uint64_t version_after(const pl_arm *arm, const pl_topology *t, int module,
                              int64_t phase)
{
    for (int64_t p = phase; p-- > 0;) {
        int64_t round = pl_round_of(arm, t, module, p);
        if (round >= 0)
            return (uint64_t)round + 1;
    }
    return 0;
}

typedef struct arm_view {
    pl_arm arm;
    pl_topology *topology;
    uint64_t *heads; /* [M] */
    int n;
} arm_view;

static void close_arm(arm_view *v)
{
    pl_free(v->heads);
    pl_topology_destroy(&v->topology);
    pl_arm_clear(&v->arm);
}

static pl_status open_arm(pl_store *store, const char *name, arm_view *out)
{
    memset(out, 0, sizeof *out);
    pl_status status = pl_read_arm(store, name, &out->arm, &out->topology);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(
            status, "there is no arm %s; `pathloom store ls --objects arm/` lists all",
            name);
    PL_CHECK(status);
    out->n = pl_topology_n_modules(out->topology);
    out->heads = pl_alloc((size_t)out->n * sizeof *out->heads);
    for (int m = 0; m < out->n; m++) {
        pl_version head;
        char module[PL_MODULE_NAME_MAX];
        pl_arm_module_name(&out->arm, out->topology, m, module);
        PL_CHECK(pl_store_head(store, module, &head));
        out->heads[m] = head.number;
        pl_version_clear(&head);
    }
    return PL_OK;
}

static bool has_phase(const arm_view *v, int64_t phase)
{
    for (int m = 0; m < v->n; m++)
        if (version_after(&v->arm, v->topology, m, phase) > v->heads[m])
            return false;
    return true;
}

/* The newest phase that all modules have finished. */
static int64_t newest_phase(const arm_view *v)
{
    int64_t phase = v->arm.inner.phases;
    while (phase > 0 && !has_phase(v, phase))
        phase--;
    return phase;
}

/* Whether a rollback after that version went back to older parameters. */
static pl_status module_left(pl_store *store, const char *module, uint64_t head,
                             uint64_t number, bool *out)
{
    pl_version old, v;
    uint64_t source;
    PL_CHECK(pl_store_get_version(store, module, number, &old));
    pl_status status = PL_OK;
    for (uint64_t n = head; status == PL_OK && n > number && !*out; n--) {
        status = pl_store_get_version(store, module, n, &v);
        *out = status == PL_OK && pl_version_source(&v, &source) &&
               !pl_hash_equal(&v.params, &old.params);
        pl_version_clear(&v);
    }
    pl_version_clear(&old);
    return status;
}

static pl_status default_phase(pl_store *store, const arm_view *v, int64_t *out)
{
    bool left;
    int64_t phase = newest_phase(v);
    /* Whether a rollback replaced any version of that phase. */
    char module[PL_MODULE_NAME_MAX];
    left = false;
    for (int m = 0; m < v->n && !left; m++) {
        pl_arm_module_name(&v->arm, v->topology, m, module);
        PL_CHECK(module_left(store, module, v->heads[m],
                             version_after(&v->arm, v->topology, m, phase), &left));
    }
    *out = left ? -1 : phase;
    return PL_OK;
}

/* -1: the heads. Rounds of delayed-nesterov do not correspond to phases. */
static pl_status choose_phase(pl_store *store, const arm_view *v, const char *at,
                              int64_t *out)
{
    bool arrivals = pl_traits(v->arm.outer.method.method)->arrives;
    *out = -1;
    if (at && strcmp(at, "head") == 0)
        return PL_OK;
    if (!at)
        return arrivals ? PL_OK : default_phase(store, v, out);
    if (arrivals)
        return pl_fail(
            PL_ERR_USAGE,
            "arm %s counts arrivals, not phases; only its head can be tagged",
            v->arm.name);
    if (pl_parse_int(at, out) != PL_OK || *out < 0)
        return pl_fail(PL_ERR_USAGE, "`%s` is no phase; say a number, or head", at);
    if (!has_phase(v, *out) || *out > v->arm.inner.phases)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "phase %lld of arm %s is not complete; %lld is", (long long)*out,
                       v->arm.name, (long long)newest_phase(v));
    return PL_OK;
}

static pl_status add_item(pl_store *store, const arm_view *v, int module, int64_t phase,
                          pl_snapshot *tag)
{
    pl_version version;
    pl_snapshot_item *item = &tag->items[tag->n_items++];
    pl_arm_module_name(&v->arm, v->topology, module, item->module);
    item->number = phase < 0 ? v->heads[module]
                             : version_after(&v->arm, v->topology, module, phase);
    PL_CHECK(pl_store_get_version(store, item->module, item->number, &version));
    item->params = version.params;
    bool gone = version.params_gone;
    pl_version_clear(&version);
    if (gone)
        return pl_fail(PL_ERR_NOT_FOUND, "%s@%llu was collected", item->module,
                       (unsigned long long)item->number);
    return PL_OK;
}

/* Heads of several homes belong together only if they are of one moment: a module may
 * be made from a version that the older state of another home does not have yet.
 * Versions of one phase always belong together. */
static pl_status look_at_one_moment(store_call *call, const char *arm, arm_view *v)
{
    int64_t held_ms;
    PL_CHECK(store_look_at_one_moment(call, &held_ms));
    close_arm(v);
    return open_arm(call->store, arm, v);
}

static pl_status fill_tag(store_call *call, pl_snapshot *tag)
{
    arm_view v;
    const char *arm = call->values[STORE_OPT_ARM], *note = call->values[STORE_OPT_NOTE];
    pl_status status = PL_OK;
    pl_copy_text(tag->arm, sizeof tag->arm, arm ? arm : "mix");
    PL_TRY(open_arm(call->store, tag->arm, &v));
    PL_TRY(choose_phase(call->store, &v, call->words[1], &tag->phase));
    if (tag->phase < 0)
        PL_TRY(look_at_one_moment(call, tag->arm, &v));
    if (!pl_copy_text(tag->note, sizeof tag->note, note ? note : ""))
        PL_TRY(pl_fail(PL_ERR_USAGE, "a note has at most %d bytes", PL_TEXT_MAX - 1));
    tag->sequence = pl_store_sequence(call->store);
    tag->wall_ms = pl_wall_ms();
    tag->items = pl_alloc((size_t)v.n * sizeof *tag->items);
    for (int m = 0; m < v.n; m++)
        PL_TRY(add_item(call->store, &v, m, tag->phase, tag));
done:
    close_arm(&v);
    return status;
}

/* ---- keeping it ---- */
static pl_status write_here(pl_store *store, const char *object, const pl_buf *bytes)
{
    pl_txn *txn = NULL;
    pl_hash blob;
    pl_status status = PL_OK;
    PL_TRY(pl_txn_begin(store, &txn));
    if (bytes->len > 0) {
        PL_TRY(pl_txn_put_blob(txn, bytes->data, bytes->len, &blob));
        PL_TRY(pl_txn_put_object(txn, object, &blob));
    } else
        PL_TRY(pl_txn_drop_object(txn, object));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    return status;
}

static pl_status connect_homes(pl_buf *addresses, int n, pl_client **out)
{
    const char *homes[PL_HOMES_MAX];
    for (int i = 0; i < n; i++)
        homes[i] = pl_buf_text(&addresses[i]);
    pl_client_options options = {
        .homes = homes, .n_homes = n, .patience_ms = HOME_PATIENCE_MS};
    PL_CHECK(pl_client_create(&options, out));
    pl_status status = pl_client_learn_places(*out);
    if (status != PL_OK)
        pl_client_destroy(out);
    return status;
}

bool store_try_again(pl_status status, int64_t begun_ms)
{
    enum { SOON_MS = 5000, STEP_MS = 50 };
    if (status != PL_ERR_BUSY || pl_now_ms() - begun_ms > SOON_MS)
        return false;
    pl_sleep_ms(STEP_MS);
    return true;
}

/* The store of a run lies beside the addresses of its processes. */
pl_status store_ask_homes(const store_call *call, pl_client **out)
{
    char above[PL_PATH_MAX], path[PL_PATH_MAX], file[64];
    pl_buf addresses[PL_HOMES_MAX] = {{0}};
    pl_status status = PL_OK;
    pl_parts parts;
    *out = NULL;
    PL_CHECK(pl_store_count_parts(call->folder, &parts));
    int n = parts.n > 0 ? pl_store_n_begun(call->folder, &parts) : 1;
    pl_path_above(above, call->folder);
    PL_CHECK(run_use_keys(above));
    for (int i = 0; status == PL_OK && i < n; i++) {
        run_home_file(i, parts.n > 0 ? parts.n : 1, file);
        status = pl_read_file(pl_join(path, above, file), &addresses[i]);
    }
    if (status == PL_OK)
        status = connect_homes(addresses, n, out);
    else
        status = pl_fail(PL_ERR_BUSY,
                         "another process holds the store %s, and %s does not say how "
                         "to ask it; try again when it has ended",
                         call->folder, path);
    for (int i = 0; i < n; i++)
        pl_buf_destroy(&addresses[i]);
    return status;
}

static pl_status keep_by_home(const store_call *call, const char *object,
                              const pl_buf *bytes)
{
    pl_client *client = NULL;
    pl_hash blob;
    PL_CHECK(store_ask_homes(call, &client));
    pl_status status =
        pl_client_put_object(client, object, bytes->data, bytes->len, &blob);
    pl_client_destroy(&client);
    return status;
}

pl_status store_placement(const char *folder, pl_places *out)
{
    char part[PL_PATH_MAX];
    pl_store *first = NULL;
    pl_parts parts;
    *out = (pl_places){0};
    PL_CHECK(pl_store_count_parts(folder, &parts));
    if (parts.n == 0)
        return PL_OK;
    PL_CHECK(pl_store_open(pl_store_part(folder, 0, part), PL_STORE_READ, &first));
    pl_status status = pl_places_of_store(first, true, out);
    pl_store_close(&first);
    if (out->n == 0)
        pl_places_equal(out, parts.begun);
    return status;
}

/* Without bytes the tag is removed. A home keeps an empty tag, which counts as none. */
static pl_status keep_tag(store_call *call, const char *name, const pl_buf *bytes)
{
    char object[PL_MODULE_NAME_MAX], part[PL_PATH_MAX];
    pl_store *writer = NULL;
    if ((size_t)snprintf(object, sizeof object, "tag/%s", name) >= sizeof object)
        return pl_fail(PL_ERR_USAGE, "`%.40s...` is too long for a tag's name", name);
    pl_places places;
    PL_CHECK(store_placement(call->folder, &places));
    pl_copy_text(part, PL_PATH_MAX, call->folder);
    if (places.n != 0) {
        int owner = pl_store_part_of(call->store, object);
        if (owner < 0)
            owner = pl_places_home(&places, object);
        pl_store_part(call->folder, owner, part);
    }
    int64_t begun = pl_now_ms();
    for (bool asked_last = false;;) {
        pl_status status = pl_store_open(part, PL_STORE_WRITE, &writer);
        if (status == PL_OK)
            status = write_here(writer, object, bytes);
        else if (status == PL_ERR_BUSY)
            status = keep_by_home(call, object, bytes);
        pl_store_close(&writer);
        if (status == PL_ERR_TIMEOUT && !asked_last)
            asked_last = true; /* the home may have ended since */
        else if (!store_try_again(status, begun))
            return status;
    }
}

/* ---- the verb ---- */
/* Refuses a name that would be ambiguous: a version number, part of a path, the word
 * for the newest versions, an arm, or a module. */
static pl_status check_tag_name(const store_call *call, const char *name)
{
    int64_t number;
    name_kind kind;
    if (!*name || strpbrk(name, "@/. \t") || strcmp(name, "head") == 0 ||
        pl_parse_int(name, &number) == PL_OK)
        return pl_fail(
            PL_ERR_USAGE,
            "`%s` cannot name a tag: no numbers, not head, and no @ / . or blanks",
            name);
    PL_CHECK(names_kind(call->store, name, &kind));
    if (run_may_have_arm(name))
        kind = NAME_ARM;
    if (kind == NAME_NONE)
        return PL_OK;
    return pl_fail(
        PL_ERR_USAGE,
        "`%s` cannot name a tag: it names %s; take another word, like %s-tag", name,
        kind == NAME_ARM ? "an arm" : "a module", name);
}

static pl_status make(store_call *call)
{
    pl_snapshot tag, old;
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    const char *name = call->words[0];
    memset(&tag, 0, sizeof tag);
    pl_copy_text(tag.name, sizeof tag.name, name);
    if (!call->values[STORE_OPT_FORCE] &&
        pl_store_get_tag(call->store, name, &old) == PL_OK) {
        pl_snapshot_clear(&old);
        return pl_fail(PL_ERR_EXISTS, "tag %s exists already; --force moves it", name);
    }
    PL_TRY(fill_tag(call, &tag));
    pl_snapshot_encode(&tag, &bytes);
    PL_TRY(keep_tag(call, name, &bytes));
    print_tag(call->json, &tag, (int)strlen(name), false);
done:
    pl_buf_destroy(&bytes);
    pl_snapshot_clear(&tag);
    return status;
}

static pl_status delete_tag(store_call *call)
{
    pl_snapshot old;
    pl_buf none = {0};
    PL_CHECK(pl_store_get_tag(call->store, call->words[0], &old));
    pl_snapshot_clear(&old);
    PL_CHECK(keep_tag(call, call->words[0], &none));
    row r = row_begin(call->json);
    row_text(&r, "tag", call->words[0], "tag %s");
    row_flag(&r, "deleted", true, " is deleted");
    row_finish(&r);
    return PL_OK;
}

pl_status store_tag(store_call *call)
{
    if (!call->words[0])
        return look_at_tags(call);
    if (call->values[STORE_OPT_DELETE])
        return delete_tag(call);
    PL_CHECK(check_tag_name(call, call->words[0]));
    return make(call);
}
