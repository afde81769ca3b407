/* Reads the home's data from the store into memory at start. Reports these data to the
 * hub: all of them when the hub asks (STATE_IS), then each change as one EVENT. */
#include "home/home_internal.h"

int home_n_tasks(const home_arm *arm)
{
    return pl_topology_n_paths(arm->topology) * pl_topology_n_replicas(arm->topology);
}

/* Returns the position of a holder (index = path * R + replica) among the holders of
 * the module. The arrays have one entry per holder: with one entry per path of the arm,
 * memory would grow with the square of the number of paths. */
static int holder_place(const home_arm *arm, const home_module *m, int index)
{
    int replicas = pl_topology_n_replicas(arm->topology);
    int module = (int)(m - arm->modules);
    return pl_topology_path_place(arm->topology, module, index / replicas) * replicas +
           index % replicas;
}

bool *home_flag(const home_arm *arm, const home_module *m, int64_t round, int index)
{
    return m->pending + (round % m->of->window) * m->of->n_holders +
           holder_place(arm, m, index);
}

home_phase_set *home_phases(const home_arm *arm, const home_module *m, int index)
{
    return m->phases ? m->phases + holder_place(arm, m, index) : NULL;
}

bool home_phase_is_in(const home_phase_set *set, int64_t phase)
{
    const int64_t ago = set->next - 1 - phase;
    return ago >= 0 && ago < 64 && (set->newest >> ago & 1) != 0;
}

int *home_count(const home_module *m, int64_t round)
{
    return m->n_pending + round % m->of->window;
}

bool home_has_update(const home_arm *arm, const home_module *m, int64_t round,
                     int index)
{
    return round < (int64_t)m->version ||
           (round < (int64_t)m->version + m->of->window &&
            *home_flag(arm, m, round, index));
}

/* The context of note_version_phases, which finds in a module's versions which phases
 * each holder has contributed (home_module.phases). */
typedef struct phase_scan {
    const home_arm *arm;
    home_module *module;
} phase_scan;

static bool is_holder(const home_arm *arm, const home_module *m,
                      const pl_contribution *c)
{
    return c->path >= 0 && c->path < pl_topology_n_paths(arm->topology) &&
           c->replica >= 0 && c->replica < pl_topology_n_replicas(arm->topology) &&
           pl_topology_path_has(arm->topology, (int)c->path, (int)(m - arm->modules));
}

void home_note_phase(const home_arm *arm, home_module *m, const pl_contribution *c)
{
    int index = (int)(c->path * pl_topology_n_replicas(arm->topology) + c->replica);
    home_phase_set *set = is_holder(arm, m, c) ? home_phases(arm, m, index) : NULL;
    if (!set)
        return;
    const int64_t phase = (int64_t)(c->work.first_sample / pl_phase_samples(&arm->arm));
    if (phase >= set->next) {
        const int64_t shift = phase + 1 - set->next;
        set->newest = shift < 64 ? set->newest << shift : 0;
        set->next = phase + 1;
        set->round = c->phase;
    }
    if (set->next - 1 - phase < 64)
        set->newest |= UINT64_C(1) << (set->next - 1 - phase);
}

static pl_status note_version_phases(void *context, const pl_version *v)
{
    phase_scan *scan = context;
    for (int i = 0; i < v->n_contributions; i++)
        home_note_phase(scan->arm, scan->module, &v->contributions[i]);
    return PL_OK;
}

void home_clear_arm(home_arm *arm)
{
    int n_modules = arm->topology ? pl_topology_n_modules(arm->topology) : 0;
    for (int i = 0; arm->modules && i < n_modules; i++) {
        home_module *m = &arm->modules[i];
        pl_free_all(m->pending, m->n_pending, m->phases, m->meetings);
    }
    pl_free_all(arm->modules, arm->contracts, arm->paths);
    pl_topology_destroy(&arm->topology);
    pl_arm_clear(&arm->arm);
}

pl_status home_read_blob(const home *h, const pl_hash *blob, const char *what,
                         pl_bytes *bytes, void **owned)
{
    uint64_t size = 0;
    *owned = NULL;
    *bytes = (pl_bytes){0};
    PL_CHECK(pl_store_blob_bytes(h->store, blob, &size));
    PL_CHECK(pl_try_alloc(size ? (size_t)size : 1, what, owned));
    *bytes = (pl_bytes){*owned, (size_t)size};
    return pl_store_read_blob(h->store, blob, 0, (size_t)size, *owned);
}

pl_status home_blob_bytes(const home *h, const pl_hash *blob, uint64_t *bytes)
{
    const staging_blob *u = staging_find(&h->uploads, blob);
    *bytes = u ? u->bytes : 0;
    return u ? PL_OK : pl_store_blob_bytes(h->store, blob, bytes);
}

pl_status home_lend_blob(const home *h, const pl_hash *blob, const char *what,
                         pl_bytes *bytes, void **owned)
{
    const staging_blob *u = staging_find(&h->uploads, blob);
    if (!u)
        return home_read_blob(h, blob, what, bytes, owned);
    *owned = NULL;
    *bytes = (pl_bytes){u->data, (size_t)u->bytes};
    return PL_OK;
}

pl_status home_read_arm(home *h, const char *object_name, const pl_hash *blob,
                        home_arm *out)
{
    pl_status status = PL_OK;
    pl_bytes bytes = {0};
    void *owned = NULL;
    memset(out, 0, sizeof *out);
    out->blob = *blob;
    PL_TRY(home_lend_blob(h, blob, "an arm", &bytes, &owned));
    PL_TRY(pl_arm_decode(bytes.at, bytes.len, &out->arm));
    if (strcmp(object_name + strlen("arm/"), out->arm.name) != 0)
        PL_TRY(
            pl_fail(PL_ERR_DATA,
                    "object %s is damaged: it defines an arm with a different name, %s",
                    object_name, out->arm.name));
    PL_TRY(pl_topology_create(&out->arm.shape, &out->arm.spec, &out->topology));
    out->contracts = pl_contracts_create(&out->arm, out->topology);
done:
    pl_free(owned);
    if (status != PL_OK)
        home_clear_arm(out);
    return status;
}

pl_status home_install_arm(home *h, home_arm *arm)
{
    pl_status status = PL_OK;
    int n_modules = pl_topology_n_modules(arm->topology);
    int n_replicas = pl_topology_n_replicas(arm->topology);
    arm->modules = pl_alloc((size_t)n_modules * sizeof *arm->modules);
    arm->paths = pl_alloc((size_t)home_n_tasks(arm) * sizeof *arm->paths);
    for (int i = 0; i < n_modules; i++) {
        pl_version v = {0};
        home_module *m = &arm->modules[i];
        const pl_contract *of = m->of = &arm->contracts[i];
        pl_copy_text(m->name, sizeof m->name, of->name);
        m->n_params = of->n_params;
        const size_t n_holders = (size_t)of->n_holders;
        m->pending = pl_alloc((size_t)of->window * n_holders * sizeof *m->pending);
        m->n_pending = pl_alloc((size_t)of->window * sizeof *m->n_pending);
        if (of->by_arrival || of->quorum < of->n_contributors)
            m->phases = pl_alloc(n_holders * sizeof *m->phases);
        status = pl_store_head(h->store, m->name, &v);
        if (status == PL_ERR_NOT_FOUND)
            continue;
        PL_TRY(status);
        m->exists = true;
        m->version = v.number;
        m->params = v.params;
        m->norm = v.update_norm;
        m->params_norm = v.params_norm;
        pl_version_clear(&v);
        /* the norm gate gets the norms of the contributions to the newest versions */
        uint64_t number = m->version < HOME_NORMS_MAX ? 1 : m->version - HOME_NORMS_MAX;
        for (; number <= m->version; number++) {
            status = pl_store_get_version(h->store, m->name, number, &v);
            for (int k = 0; status == PL_OK && k < v.n_contributions; k++)
                home_note_norm(m, v.contributions[k].norm);
            pl_version_clear(&v);
            /* garbage collection may have removed old versions */
            if (status != PL_ERR_NOT_FOUND)
                PL_TRY(status);
        }
        phase_scan scan = {arm, m};
        if (m->phases)
            PL_TRY(
                pl_store_each_version(h->store, m->name, note_version_phases, &scan));
    }
    for (int i = 0; i < home_n_tasks(arm); i++) {
        pl_path_state stored, *state = &arm->paths[i].state;
        pl_arm_path_name(&arm->arm, arm->topology, i / n_replicas, i % n_replicas,
                         state->name);
        status = pl_store_get_path(h->store, state->name, &stored);
        if (status == PL_ERR_NOT_FOUND)
            continue;
        PL_TRY(status);
        *state = stored;
    }
    status = PL_OK;
    h->arms = pl_grow(h->arms, (size_t)(h->n_arms + 1) * sizeof *h->arms);
    h->arms[h->n_arms++] = *arm;
done:
    if (status != PL_OK)
        home_clear_arm(arm);
    return status;
}

static pl_status on_arm_object(void *context, const pl_object *object)
{
    home_arm arm;
    PL_CHECK(home_read_arm(context, object->name, &object->blob, &arm));
    return home_install_arm(context, &arm);
}

static pl_status note_pending(void *context, const char *module,
                              const pl_contribution *c)
{
    home *h = context;
    home_arm *arm = NULL;
    int index = 0;
    if (home_find_module(h, module, &arm, &index) != PL_OK)
        return PL_OK; /* older homes accepted two spellings of a name */
    home_module *m = &arm->modules[index];
    if (!m->exists) /* its version 0 does not exist yet */
        return PL_OK;
    int slot = (int)(c->path * pl_topology_n_replicas(arm->topology) + c->replica);
    int64_t ahead = c->phase - (int64_t)m->version;
    if (!is_holder(arm, m, c) || ahead < 0 || ahead >= m->of->window)
        return pl_fail(PL_ERR_DAMAGED,
                       "the store has a pending update of %s by path %lld, replica "
                       "%lld for round %lld, but it can have no such update",
                       module, (long long)c->path, (long long)c->replica,
                       (long long)c->phase);
    *home_flag(arm, m, c->phase, slot) = true;
    ++*home_count(m, c->phase);
    home_note_phase(arm, m, c);
    home_note_round(h, arm, m, c->phase);
    return PL_OK;
}

static pl_status on_ref(void *context, const char *name, const char *target)
{
    home *h = context;
    int64_t value = 0;
    const bool is_epoch = strcmp(name, "sys/hub-epoch") == 0;
    if (!is_epoch && strcmp(name, HOME_KEYS_REF) != 0)
        return PL_OK;
    PL_CHECK(pl_parse_int(target, &value));
    if (is_epoch)
        h->hub_epoch = (uint64_t)value;
    else
        h->keys_changed_s = value;
    return PL_OK;
}

pl_status home_load(home *h)
{
    PL_CHECK(pl_store_check_placement(h->store));
    PL_CHECK(pl_store_each_object(h->store, "arm/", on_arm_object, h));
    PL_CHECK(pl_store_each_pending(h->store, "", note_pending, h));
    PL_CHECK(pl_store_each_ref(h->store, PL_MEET_REFS, home_load_meeting, h));
    PL_CHECK(pl_store_each_ref(h->store, PL_AUDIT_REFS, home_load_audit, h));
    PL_CHECK(pl_store_each_ref(h->store, PL_DROPPED_REFS, home_load_dropped, h));
    PL_CHECK(pl_store_each_ref(h->store, PL_FENCED_REFS, home_load_fenced, h));
    return pl_store_each_ref(h->store, "sys/", on_ref, h);
}

void home_unload(home *h)
{
    for (int a = 0; a < h->n_arms; a++)
        home_clear_arm(&h->arms[a]);
    pl_free_all(h->arms, h->due, h->audits, h->fenced);
    h->arms = NULL;
    h->due = NULL;
    h->audits = NULL;
    h->fenced = NULL;
    h->n_arms = 0;
    h->n_due = h->n_audits = h->n_fenced = 0;
}

/* ---- telling the hub ---- */
static pl_msg_path_record record_of_path(const home *h, const home_path *p)
{
    const pl_path_state *next = home_in_audit(h, p->state.name);
    const pl_path_state *s = next ? next : &p->state;
    return (pl_msg_path_record){.name = s->name,
                                .phase = s->phase,
                                .work = s->work,
                                .worker = s->worker[0] ? s->worker : NULL,
                                .key = pl_pubkey_none(&s->key) ? NULL : s->key.bytes,
                                .held_phase = s->held_phase,
                                .in_audit = next != NULL,
                                .repeats = s->repeats};
}

void home_snapshot(home *h, pl_buf *out)
{
    pl_buf_clear(out);
    for (int a = 0; a < h->n_arms; a++) {
        const home_arm *arm = &h->arms[a];
        PL_SAY_RECORD(out, arm_record, .arm = arm->arm.name, .arm_blob = arm->blob);
        for (int i = 0; i < pl_topology_n_modules(arm->topology); i++) {
            const home_module *m = &arm->modules[i];
            if (m->exists)
                PL_SAY_RECORD(out, module_record, .module = m->name,
                              .version = (int64_t)m->version);
        }
        for (int i = 0; i < home_n_tasks(arm); i++) {
            /* an audit may drop the first phase of a path of this home again */
            const char *name = arm->paths[i].state.name;
            if (arm->paths[i].state.phase == 0 && !home_in_audit(h, name) &&
                (!pl_audit_may(&arm->arm) || home_check_here(h, name) != PL_OK))
                continue;
            const pl_msg_path_record record = record_of_path(h, &arm->paths[i]);
            pl_put_nested(out, PL_TAG_RECORD, pl_fields_of_path_record(), &record);
        }
    }
    home_audit_records(h, out);
}

/* The event is sent after the commit, together with the answers of the group. */
void home_tell(home *h, pl_message *event)
{
    if (h->hub.len > 0)
        home_answer_later(h, &h->hub, event);
    else
        pl_message_destroy(event);
}

void home_tell_path(home *h, const home_path *path)
{
    pl_message event = {0};
    const pl_msg_path_record record = record_of_path(h, path);
    pl_message_put(&event, PL_MSG_EVENT, pl_fields_of_path_record(), &record);
    home_tell(h, &event);
}
