/* Checks the invariants of a store (check.h). If damage makes a record unreadable, the
 * invariant that needed the record gets a finding, and the check goes on. */
#include "job/check.h"
#include "job/forget.h"
#include "job/stages.h"

#include <math.h>
#include <stdarg.h>

const char *const check_verdicts[] = {"holds", "broken", "unproven"};

typedef struct checker {
    const check_wish *wish;
    pl_store *store;
    check_result *now;
    /* the arm that is checked now */
    pl_arm arm;
    pl_topology *topology;
    int module;               /* whose versions are checked now */
    char device[PL_TEXT_MAX]; /* of the arm's first contribution; "": there was none */
    forgotten forgotten;      /* documents that no shard may have */
    pl_draws draws;
    /* the store has shards or states of paths, so it is the store of a run */
    bool has_data;
    /* rows were compared with the commits from this one on (pl_audit_report); 0: not */
    uint64_t covered_from;
    pl_status (*each)(struct checker *c);
} checker;

static void PL_PRINTF(2, 3) note_violation(checker *c, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pl_findings_add(&c->now->broken, text);
}

static void note_unproven(checker *c, const char *why)
{
    c->now->n_unproven++;
    if (!c->now->why[0])
        pl_copy_text(c->now->why, sizeof c->now->why, why);
}

/* Turns a failure that the store's content has caused into a finding. Returns every
 * other failure. */
static pl_status judge_failure(checker *c, pl_status status)
{
    if (status != PL_ERR_DAMAGED && status != PL_ERR_NOT_FOUND &&
        status != PL_ERR_PROTO && status != PL_ERR_DATA)
        return status;
    note_violation(c, "%s", pl_last_error());
    return PL_OK;
}

/* ---- walking over the arms ---- */
static pl_status check_arm(void *context, const pl_object *object)
{
    checker *c = context;
    pl_status status =
        pl_read_arm(c->store, object->name + strlen("arm/"), &c->arm, &c->topology);
    if (status == PL_OK)
        status = c->each(c);
    pl_topology_destroy(&c->topology);
    pl_arm_clear(&c->arm);
    return judge_failure(c, status);
}

static pl_status each_arm(checker *c, pl_status (*fn)(checker *c))
{
    c->each = fn;
    return pl_store_each_object(c->store, "arm/", check_arm, c);
}

static pl_status each_version(checker *c, pl_version_fn fn)
{
    char name[PL_MODULE_NAME_MAX];
    for (c->module = 0; c->module < pl_topology_n_modules(c->topology); c->module++) {
        pl_arm_module_name(&c->arm, c->topology, c->module, name);
        PL_CHECK(judge_failure(c, pl_store_each_version(c->store, name, fn, c)));
    }
    return PL_OK;
}

static pl_status check_hashes(checker *c)
{
    pl_audit_report report;
    PL_CHECK(pl_store_audit_firmly(c->wish->folder, &c->store, true, &c->now->broken,
                                   &report));
    c->now->n_checked = report.n_rows;
    c->covered_from = report.covered_from;
    if (report.covered_from == 0)
        note_unproven(
            c, "the newest commit has no sum of rows, because an older release made "
               "it, so rows that were changed on purpose would not be found");
    return PL_OK;
}

/* Returns whether base model and router know a document that the paths have
 * forgotten. */
static bool is_only_of_paths(const checker *c)
{
    for (size_t i = 0; i < c->forgotten.n; i++)
        if (!c->forgotten.starts[i])
            return true;
    return false;
}

/* ---- data ---- */
static void check_named(checker *c, const pl_hash *blob, const char *what,
                        const char *whose)
{
    if (pl_hash_none(blob))
        return;
    const bool found = pl_store_has_blob(c->store, blob);
    c->now->n_checked += found || c->has_data;
    if (!found && c->has_data)
        note_violation(c, "%s of %s is not in the store", what, whose);
    else if (!found)
        note_unproven(c, "the store has versions but no data, as after a push");
}

static pl_status check_arm_data(checker *c)
{
    char path[PL_MODULE_NAME_MAX];
    for (int p = 0; p < c->arm.n_shards; p++) {
        pl_arm_path_name(&c->arm, c->topology, p, 0, path);
        if (strcmp(c->arm.name, "base") == 0 && is_only_of_paths(c) &&
            !pl_store_has_blob(c->store, &c->arm.shards[p]))
            note_unproven(c, "`forget` removed the text of the base model");
        else
            check_named(c, &c->arm.shards[p], "the data shard", path);
        if (c->arm.held)
            check_named(c, &c->arm.held[p], "the held-out text for curves", path);
    }
    check_named(c, &c->arm.moments, "the base model's optimizer state", c->arm.name);
    check_named(c, &c->arm.states, "the list of first states", c->arm.name);
    return PL_OK;
}

static pl_status find_shard(void *context, const pl_object *object)
{
    (void)object;
    *(bool *)context = true;
    return PL_OK;
}

static pl_status find_path_state(void *context, const pl_path_state *state)
{
    (void)state;
    *(bool *)context = true;
    return PL_OK;
}

static pl_status check_data(checker *c)
{
    PL_CHECK(pl_store_each_object(c->store, "shard/", find_shard, &c->has_data));
    PL_CHECK(pl_store_each_path(c->store, "", find_path_state, &c->has_data));
    return each_arm(c, check_arm_data);
}

/* ---- beginnings ---- */
static pl_status read_arm_params(checker *c, const char *module, uint64_t number,
                                 const pl_slot *slot, float *out)
{
    pl_version v;
    PL_CHECK(pl_store_get_version(c->store, module, number, &v));
    const pl_hash params = v.params;
    const bool gone = v.params_gone;
    pl_version_clear(&v);
    if (gone)
        return PL_ERR_STALE;
    return pl_store_read_blob(c->store, &params, 0, slot->n_params * sizeof *out, out);
}

/* Reads the parameters with which this module should have begun to the front of `out`,
 * which has room for the parameters of a whole path. ERR_STALE: garbage collection has
 * deleted these parameters. */
static pl_status read_beginning(checker *c, const pl_arm *before,
                                const pl_topology *from, int module, int64_t start,
                                float *out)
{
    const int slot = pl_topology_module_slot(c->topology, module);
    const bool base = strcmp(before->name, "base") == 0;
    char name[PL_MODULE_NAME_MAX];
    if (!before->name[0]) {
        pl_topology_init(c->topology, slot, c->arm.seed, out);
        return PL_OK;
    }
    if (!base) {
        int m = pl_topology_ancestor_module(c->topology, &c->arm.descent, from, module);
        const pl_slot *own = pl_topology_slot(c->topology, slot);
        const pl_slot *its = pl_topology_slot(from, pl_topology_module_slot(from, m));
        PL_CHECK(read_arm_params(
            c, pl_arm_module_name(before, from, m, name),
            pl_arm_beginning(&c->arm, module, start, before, from, m), its, out));
        memmove(out, out + (own->offset - its->offset), own->n_params * sizeof *out);
        return PL_OK;
    }
    /* The base model's slots may have different bounds than the slots of this arm.
     * Reads each slot of the base model that overlaps this slot into its place in the
     * path, and then moves this slot's parameters to the front of `out`. */
    const pl_slot *own = pl_topology_slot(c->topology, slot);
    for (int s = 0; s < pl_topology_n_slots(from); s++) {
        const int m = pl_topology_module_of_path(from, s, 0);
        const pl_slot *part = pl_topology_slot(from, s);
        if (part->offset + part->n_params <= own->offset ||
            part->offset >= own->offset + own->n_params)
            continue;
        pl_arm_module_name(before, from, m, name);
        PL_CHECK(read_arm_params(c, name, pl_contract_of(before, from, m).n_rounds,
                                 part, out + part->offset));
    }
    memmove(out, out + own->offset, own->n_params * sizeof *out);
    return PL_OK;
}

static pl_status check_beginning(checker *c, const pl_arm *before,
                                 const pl_topology *from, int module, int64_t start,
                                 float *params)
{
    pl_version v;
    pl_hash began;
    char name[PL_MODULE_NAME_MAX];
    const bool base = !before->name[0];
    pl_arm_module_name(&c->arm, c->topology, module, name);
    PL_CHECK(pl_store_get_version(c->store, name, 0, &v));
    const pl_hash first = v.params;
    pl_version_clear(&v);
    pl_status status = read_beginning(c, before, from, module, start, params);
    if (status == PL_ERR_STALE) {
        note_unproven(c, "garbage collection has dropped the versions from which "
                         "these modules began");
        return PL_OK;
    }
    PL_CHECK(status);
    const pl_slot *slot =
        pl_topology_slot(c->topology, pl_topology_module_slot(c->topology, module));
    pl_blob_hash(params, slot->n_params * sizeof *params, &began);
    if (pl_hash_equal(&began, &first))
        c->now->n_checked++;
    else if (base)
        note_unproven(c, "the base model does not begin with the random numbers of its "
                         "seed; that is correct if it was imported, but the store does "
                         "not have the imported file");
    else
        note_violation(c, "%s@0 differs from the version of %s that it continues", name,
                       before->name);
    return PL_OK;
}

static pl_status check_arm_beginning(checker *c)
{
    char name[PL_ARM_NAME_MAX];
    pl_arm before = {.n_shards = 0};
    pl_topology *from = NULL;
    float *params = NULL;
    int64_t start = 0;
    pl_status status = PL_OK;
    /* the arm that this arm continues; "" for the base model */
    const pl_arm *arm = &c->arm;
    const int chapter = pl_arm_chapter(arm->name);
    char scoring[PL_ARM_NAME_MAX];
    pl_copy_text(name, PL_ARM_NAME_MAX, strcmp(arm->name, "base") == 0 ? "" : "base");
    if (chapter > 0)
        pl_chapter_name(chapter - 1, name);
    for (int i = 1; pl_arm_scores(arm) && i <= PL_CHAPTERS_MAX; i++) {
        if (strcmp(pl_scoring_name(i, scoring), arm->name) == 0)
            pl_chapter_name(i - 1, name);
    }
    if (name[0])
        status = pl_read_arm(c->store, name, &before, &from);
    /* a push may copy an arm without the arm that it continues */
    if (status == PL_ERR_NOT_FOUND && !c->has_data) {
        note_unproven(c, "the store does not have the arm that these modules continue");
        status = PL_OK;
        goto done;
    }
    PL_TRY(status);
    /* Checks that the arm can descend from `before`: otherwise damaged bytes of a store
     * could mislead the functions that find a module's ancestor. */
    const bool is_base = strcmp(before.name, "base") == 0;
    if (name[0] &&
        !(is_base
              ? pl_topology_path_params(from) == pl_topology_path_params(c->topology)
              : pl_topology_descends(c->topology, &c->arm.descent, from))) {
        note_violation(c,
                       "the modules of %s do not fit those of %s, which it continues",
                       c->arm.name, name);
        goto done;
    }
    PL_TRY(pl_try_alloc(pl_topology_path_params(c->topology) * sizeof *params,
                        "a path's parameters", (void **)&params));
    if (before.name[0] && !is_base)
        PL_TRY(pl_arm_start(c->store, arm, name, &start));
    for (int m = 0; m < pl_topology_n_modules(c->topology); m++)
        PL_TRY(judge_failure(c, check_beginning(c, &before, from, m, start, params)));
done:
    pl_free(params);
    pl_topology_destroy(&from);
    pl_arm_clear(&before);
    return status;
}

/* ---- rounds ---- */
static void check_rolled_back(checker *c, const pl_version *v)
{
    pl_version source;
    uint64_t number;
    pl_rollback_proof proof;
    if (!pl_version_source(v, &number)) {
        note_violation(c, "%s@%llu has no contribution, and no rollback made it",
                       v->module, (unsigned long long)v->number);
        return;
    }
    if (pl_store_get_version(c->store, v->module, number, &source) != PL_OK) {
        note_violation(c, "%s", pl_last_error());
        return;
    }
    if (!pl_hash_equal(&source.params, &v->params))
        note_violation(
            c, "%s@%llu differs from version %llu, to which it was rolled back",
            v->module, (unsigned long long)v->number, (unsigned long long)number);
    pl_version_clear(&source);
    if (pl_store_find_rollback(c->store, v, &proof) != PL_OK)
        note_violation(c, "%s", pl_last_error());
    else if (proof == PL_ROLLBACK_RECORDED)
        c->now->n_given_up++;
    else if (proof == PL_ROLLBACK_UNKNOWN && !c->has_data)
        note_unproven(c, "the store does not have the records of rollbacks, as after a "
                         "push");
    else if (proof == PL_ROLLBACK_COPIED || c->covered_from == 0 ||
             v->sequence < c->covered_from)
        note_unproven(c, "an older release made rollbacks without a record");
    else
        note_violation(c, "%s@%llu says that it is a rollback, but no rollback made it",
                       v->module, (unsigned long long)v->number);
}

/* Checks that each contribution is by a contributor of this module, in this round.
 * Under delayed-nesterov each version has a single update of any round; then repeated
 * contributors and the round are not checked. */
static void check_contributions(checker *c, const pl_version *v)
{
    const pl_contract of = pl_contract_of(&c->arm, c->topology, c->module);
    const unsigned long long number = v->number;
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *d = &v->contributions[i];
        const bool passes = d->path >= 0 &&
                            d->path < pl_topology_n_paths(c->topology) &&
                            pl_topology_path_has(c->topology, (int)d->path, c->module);
        const double weight = passes ? pl_round_record_weight(&of, (int)d->path) : 0;
        bool is_repeated = false;
        for (int k = 0; k < i; k++)
            is_repeated |= v->contributions[k].path == d->path &&
                           v->contributions[k].replica == d->replica;
        if (!passes)
            note_violation(c,
                           "%s@%llu has an update of path %lld, which does not pass "
                           "through this module",
                           v->module, number, (long long)d->path);
        else if (!of.by_arrival && is_repeated)
            note_violation(c, "%s@%llu has two updates of path %lld, replica %lld",
                           v->module, number, (long long)d->path,
                           (long long)d->replica);
        /* rounding may differ between machines */
        else if (!(fabs(d->weight - weight) <= 1e-9 * weight))
            note_violation(c,
                           "%s@%llu has an update of path %lld with weight %g, which "
                           "its arm does not give",
                           v->module, number, (long long)d->path, d->weight);
        else if (!of.by_arrival && d->phase != (int64_t)v->number - 1)
            note_violation(c,
                           "%s@%llu has an update of round %lld instead of round %llu",
                           v->module, number, (long long)d->phase, number - 1);
    }
    if (v->n_contributions < of.quorum)
        note_violation(c, "%s@%llu has %d updates, but needs %d", v->module, number,
                       v->n_contributions, of.quorum);
}

static pl_status check_round(void *context, const pl_version *v)
{
    checker *c = context;
    if (v->number == 0)
        return PL_OK;
    c->now->n_checked++;
    if (v->n_contributions == 0)
        check_rolled_back(c, v);
    else
        check_contributions(c, v);
    if (!pl_hash_equal(&v->config, &c->arm.config))
        note_violation(c, "%s@%llu was made with a different configuration than %s",
                       v->module, (unsigned long long)v->number, c->arm.name);
    return PL_OK;
}

static pl_status check_arm_rounds(checker *c)
{
    return pl_arm_scores(&c->arm) ? PL_OK : each_version(c, check_round);
}

static pl_status check_arm_phases(checker *c)
{
    const int n =
        pl_topology_n_paths(c->topology) * pl_topology_n_replicas(c->topology);
    if (pl_arm_scores(&c->arm))
        return PL_OK;
    pl_coverage *paths = pl_alloc((size_t)n * sizeof *paths);
    pl_status status = pl_coverage_of(c->store, &c->arm, c->topology, paths);
    for (int i = 0; status == PL_OK && i < n; i++) {
        const pl_coverage *p = &paths[i];
        c->now->n_checked += (uint64_t)p->n_checked;
        if (p->n_lost + p->n_repeated + p->n_wrong > 0)
            note_violation(c,
                           "%s: %lld records of its phases are missing, %lld are "
                           "repeated, %lld are wrong: %s",
                           p->path, (long long)p->n_lost, (long long)p->n_repeated,
                           (long long)p->n_wrong, p->example);
        if (p->n_ahead > 0 && c->forgotten.n > 0)
            note_unproven(c, "a path continues before phases that are merged, as after "
                             "`forget`");
        else if (p->n_ahead > 0 && c->has_data)
            note_violation(
                c, "%s has finished %lld phases, but later phases of it are merged: %s",
                p->path, (long long)p->phases, p->example);
        if (p->n_left_out > 0) {
            note_unproven(c, "a quorum merged some rounds without all their updates");
            c->now->n_unproven += (uint64_t)p->n_left_out - 1;
        }
        if (p->phases > c->arm.inner.phases)
            note_violation(c, "%s has done %lld phases, but its arm has only %d",
                           p->path, (long long)p->phases, c->arm.inner.phases);
    }
    pl_free(paths);
    return status;
}

/* Compares the tasks that were audited with those that the homes' secrets draw. */
static pl_status check_arm_draws(checker *c)
{
    const int replicas = pl_topology_n_replicas(c->topology);
    const int n = pl_topology_n_paths(c->topology) * replicas;
    pl_buf text = {0};
    pl_status status = PL_OK;
    if (c->draws.n_secret > 0)
        note_unproven(c,
                      "a home was killed before it published the secret of its draws");
    for (int i = 0; status == PL_OK && i < n; i++) {
        pl_path_state state = {.phase = 0};
        pl_audit row = {.tries = 1};
        char name[PL_TEXT_MAX];
        pl_arm_path_name(&c->arm, c->topology, i / replicas, i % replicas, row.path);
        status = pl_store_get_path(c->store, row.path, &state);
        for (; row.phase < state.phase; row.phase++) {
            bool has_row = false;
            for (int k = 0; k < 2;
                 k++) { /* a result that counts, or one that does not */
                row.verdict = k == 0 ? PL_VERDICT_AGREED : PL_VERDICT_ODD;
                pl_audit_name(&row, name);
                pl_buf_clear(&text);
                has_row = has_row || pl_store_get_ref(c->store, name, &text) == PL_OK;
            }
            c->now->n_checked++;
            if (!pl_draws_explain(&c->draws, &c->arm, i / replicas, i % replicas,
                                  row.phase, has_row))
                note_violation(c, "phase %lld of %s was %s, against the draw",
                               (long long)row.phase, row.path,
                               has_row ? "audited" : "not audited");
        }
        status = status == PL_ERR_NOT_FOUND ? PL_OK : status;
    }
    pl_buf_destroy(&text);
    return status;
}

/* Computes a module's newest versions again, except version 0 and versions that a
 * rollback made: the invariants "beginnings" and "rounds" check those. */
static pl_status check_newest_versions(void *context, const pl_version *head)
{
    checker *c = context;
    const int64_t n = c->wish->recompute;
    for (int64_t i = 0; (n < 0 || i < n) && (uint64_t)i <= head->number; i++) {
        pl_version v;
        const uint64_t number = head->number - (uint64_t)i;
        pl_status status = pl_store_get_version(c->store, head->module, number, &v);
        if (status == PL_OK && (v.n_contributions > 0 || pl_version_is_merged(&v))) {
            pl_replay got;
            pl_replay_verdict verdict = PL_REPLAY_UNKNOWN;
            status = pl_home_verify(c->store, &v, &got, &verdict);
            if (status == PL_OK && verdict == PL_REPLAY_UNKNOWN)
                note_unproven(c, pl_last_error());
            c->now->n_checked += status == PL_OK && verdict != PL_REPLAY_UNKNOWN;
            if (status == PL_OK && verdict == PL_REPLAY_OTHER)
                note_violation(c,
                               "%s@%llu has a different hash than the parameters that "
                               "are computed from its record",
                               v.module, (unsigned long long)v.number);
        }
        pl_version_clear(&v);
        if (status != PL_OK)
            PL_CHECK(judge_failure(c, pl_fail_in(status, "%s@%llu", head->module,
                                                 (unsigned long long)number)));
    }
    return PL_OK;
}

static pl_status check_versions(checker *c)
{
    return pl_store_each_head(c->store, "", check_newest_versions, c);
}

/* ---- forgotten documents ---- */
static pl_status check_device(void *context, const pl_version *v)
{
    checker *c = context;
    for (int i = 0; i < v->n_contributions; i++) {
        const char *device = v->contributions[i].device;
        if (!c->device[0])
            pl_copy_text(c->device, sizeof c->device, device);
        else if (strcmp(c->device, device) != 0)
            note_unproven(c, "devices of two kinds trained an arm, so a run that never "
                             "had the documents may end with different bytes");
    }
    return PL_OK;
}

static pl_status check_arm_devices(checker *c)
{
    c->device[0] = '\0';
    return each_version(c, check_device);
}

static pl_status check_arm_blank(checker *c)
{
    char object[PL_MODULE_NAME_MAX], first[PL_ARM_NAME_MAX];
    const bool reads = strcmp(c->arm.name, "base") == 0 ||
                       strcmp(c->arm.name, pl_features_name(0, first)) == 0;
    pl_status status = PL_OK;
    for (int p = 0; status == PL_OK && p < c->arm.n_shards; p++) {
        pl_buf bytes = {0};
        pl_tokens *shard = NULL;
        stages_path_object("shard", &c->arm, c->topology, p, object);
        status = pl_store_read_object(c->store, object, &bytes);
        if (status == PL_OK)
            status = pl_tokens_view(bytes.data, bytes.len, object, &shard);
        for (size_t i = 0; status == PL_OK && i < c->forgotten.n; i++)
            for (uint32_t d = 0; d < pl_tokens_n_docs(shard); d++)
                if (pl_tokens_doc(shard, d)->hash == c->forgotten.hashes[i] &&
                    !pl_tokens_is_blank(shard, d) && (c->forgotten.starts[i] || !reads))
                    note_violation(c, "%s has the text of document %016llx", object,
                                   (unsigned long long)c->forgotten.hashes[i]);
        c->now->n_checked += status == PL_OK;
        pl_tokens_close(&shard);
        pl_buf_destroy(&bytes);
    }
    return status;
}

static pl_status check_forgotten(checker *c)
{
    PL_CHECK(each_arm(c, check_arm_devices));
    /* What was made from the text and stays: the list tells this; shards do not,
     * because `forget` blanks the shard of the base model, too. */
    pl_run r;
    bool own = true;
    if (c->wish->run) {
        /* check_files reports a run that cannot be read */
        own = run_look(c->wish->run, &r) != PL_OK || !r.cfg.tokenizer[0];
        run_close(&r);
    }
    if (is_only_of_paths(c))
        note_unproven(c, own ? "base model, router and tokenizer were made from the "
                               "text of forgotten documents"
                             : "base model and router were made from the text of "
                               "forgotten documents");
    else if (own)
        note_unproven(c, "the tokenizer was made from the text of forgotten documents, "
                         "unless data.tokenizer named one");
    return each_arm(c, check_arm_blank);
}

/* ---- files beside the store ---- */
static pl_status check_files(checker *c)
{
    pl_run r;
    char folder[PL_PATH_MAX], list[PL_PATH_MAX];
    c->now->n_checked = 1;
    pl_status status = run_look(c->wish->run, &r);
    if (status == PL_OK) {
        /* checks that run.yaml describes the model that the run has trained */
        char chapter[PL_ARM_NAME_MAX];
        pl_shape s;
        const pl_shape *own = &c->arm.shape;
        pl_newest_chapter(c->store, chapter);
        status = pl_read_arm(c->store, chapter, &c->arm, &c->topology);
        const bool trained = status != PL_ERR_NOT_FOUND;
        if (status == PL_OK)
            status = config_shape(&r.cfg, &s);
        if (status == PL_OK &&
            (s.width != own->width || s.n_heads != own->n_heads ||
             s.n_blocks != own->n_blocks || s.context != own->context))
            note_violation(c,
                           "%s/run.yaml describes a model of width %d with %d blocks, "
                           "but the run has trained a model of width %d with %d blocks",
                           r.dir, s.width, s.n_blocks, own->width, own->n_blocks);
        status = trained ? status : PL_OK;
        pl_topology_destroy(&c->topology);
        pl_arm_clear(&c->arm);
    }
    run_close(&r);
    if (status != PL_OK)
        note_violation(c, "%s", pl_last_error());
    pl_join(folder, c->wish->run, "data");
    if (!pl_path_exists(pl_join(list, folder, "data.json")))
        return PL_OK; /* `train` makes the data again */
    c->now->n_checked += 4;
    if (pl_data_check(folder) != PL_OK)
        note_violation(c, "%s", pl_last_error());
    return PL_OK;
}

/* ---- all invariants ---- */
static const struct {
    const char *name, *claim, *unit;
    pl_status (*check)(checker *c);  /* of the whole store, or */
    pl_status (*of_arm)(checker *c); /* of each arm */
} invariants[] = {
    {"hashes",
     "no accidental damage: all bytes match their hashes, the commits follow one "
     "another and left exactly these rows, tags name versions that exist",
     "records", check_hashes, NULL},
    {"data", "the store has all shards and states that its arms name", "objects",
     check_data, NULL},
    {"beginnings",
     "version 0 of each module has the parameters of the version that it continues",
     "modules", NULL, check_arm_beginning},
    {"rounds",
     "each version has one update of each contributor, or of as many as its quorum "
     "needs, from its own round",
     "versions", NULL, check_arm_rounds},
    {"phases",
     "each finished phase counts exactly once in each module of its path, unless a "
     "rollback dropped it",
     "records of phases", NULL, check_arm_phases},
    {"draws", "the tasks that were audited are those that the homes' secrets draw",
     "tasks", NULL, check_arm_draws},
    {"versions", "versions that are computed again have the same hash", "versions",
     check_versions, NULL},
    {"forgotten", "no path has the text of a forgotten document", "shards",
     check_forgotten, NULL},
    {"files", "the configuration and the data of the run can be used", "files",
     check_files, NULL},
};

static pl_status refuse_writer(const checker *c)
{
    if (!pl_store_has_writer(c->wish->folder))
        return PL_OK;
    return pl_fail(PL_ERR_BUSY,
                   "a running job writes to %s; stop it first (Ctrl+C in `pathloom "
                   "train`; the same `train` command resumes the job later), or check "
                   "a backup",
                   c->wish->folder);
}

pl_status check_store(const check_wish *wish, check_fn fn, void *context, int *n_broken)
{
    checker c = {.wish = wish};
    pl_buf list = {0};
    pl_status status = PL_OK;
    *n_broken = 0;
    PL_TRY(refuse_writer(&c));
    PL_TRY(pl_store_open(wish->folder, PL_STORE_READ, &c.store));
    status = pl_store_read_object(c.store, "forgotten", &list);
    if (status == PL_OK)
        status = forgotten_parse("the object forgotten", &list, &c.forgotten);
    PL_TRY(status == PL_ERR_NOT_FOUND ? PL_OK : status);
    PL_TRY(pl_draws_read(c.store, &c.draws));
    for (size_t i = 0; i < sizeof invariants / sizeof *invariants; i++) {
        check_result result;
        if ((invariants[i].check == check_forgotten && c.forgotten.n == 0) ||
            (invariants[i].of_arm == check_arm_draws && c.draws.n == 0) ||
            (invariants[i].check == check_files && !wish->run))
            continue;
        result = (check_result){.name = invariants[i].name,
                                .claim = invariants[i].claim,
                                .unit = invariants[i].unit};
        c.now = &result;
        status = invariants[i].of_arm ? each_arm(&c, invariants[i].of_arm)
                                      : invariants[i].check(&c);
        status = judge_failure(&c, status);
        if (status == PL_OK)
            result.verdict = result.broken.n > 0     ? CHECK_BROKEN
                             : result.n_unproven > 0 ? CHECK_UNPROVEN
                                                     : CHECK_HOLDS;
        /* A job that has begun meanwhile could be the cause of a finding. */
        if (status == PL_OK && result.verdict == CHECK_BROKEN)
            status = refuse_writer(&c);
        if (status == PL_OK)
            fn(context, &result);
        *n_broken += result.verdict == CHECK_BROKEN;
        pl_findings_clear(&result.broken);
        PL_TRY(status);
    }
done:
    pl_buf_destroy(&list);
    forgotten_clear(&c.forgotten);
    pl_free(c.draws.items);
    pl_store_close(&c.store);
    return status;
}
