/* Computes what a rollback writes. A rollback makes a new version with the parameters
 * of an older version.
 *
 * Purpose. A user finds that training went wrong after some version and wants to
 * continue from an older one. Nothing is rewritten: a rollback appends new versions
 * that have the old parameters, so the old versions and the chain of commits stay as
 * they were. This file computes what must be written. store/rollback.c writes it, in
 * all homes or in none. cli/store_rollback.c prints what was done.
 *
 * Which modules. The command's argument names a module or a whole arm; --to names a
 * version or a tag. Every other module of the arm keeps its newest parameters.
 *
 * Which versions and phases. The number of a version is the number of finished rounds
 * of its module, and each path counts its phases. So if the arm is still in training,
 * all modules and paths must continue at one common phase that no worker has begun.
 * Example: L1.E0 goes back to version 3 while the arm is in phase 6 or 7:
 *
 *                  before            after "rollback L1.E0 --to 3"
 *   L1.E0          ... 3 .. 7        version 8: parameters of version 3
 *   other modules  ... 6 or 7        versions up to 8: their newest parameters
 *   paths          phase 6 or 7      phase 8, where training continues
 *
 *   arm is finished, or unknown      only the named modules get one new version;
 *                                    the paths stay as they are
 *
 * The common phase is one more than the highest number of a version or phase. With co2
 * it is higher by outer.delay, because updates are relative to older versions. The
 * rollback is refused if the arm has too few phases left, or if with the arm's method
 * paths also keep parameters that are not in versions (pl_versions_suffice is false).
 *
 * Ownership. The plan borrows the store and the names that the user gave. It owns the
 * changes, the arm and the arm's topology; pl_rollback_plan_clear frees these. */
#include "history/rollback_plan.h"
#include "history/merged.h"
#include <stdio.h>
#include <string.h>

static pl_status add_head(void *context, const pl_version *head)
{
    pl_rollback_plan *r = context;
    r->changes = pl_grow(r->changes, (r->n + 1) * sizeof *r->changes);
    pl_rollback_change *c = &r->changes[r->n++];
    pl_copy_text(c->module, sizeof c->module, head->module);
    c->source = c->head = c->last = head->number;
    return PL_OK;
}

/* Decides the phase in which paths continue. Refuses a method whose paths keep
 * parameters that are not in versions, or whose versions do not correspond to phases:
 * paths would not continue from the parameters to which the user rolls back. */
static pl_status plan_resumption(pl_rollback_plan *r, int64_t most)
{
    const pl_method_settings *m = &r->arm.outer.method;
    uint64_t last = (uint64_t)most;
    if (!pl_versions_suffice(&r->arm.outer))
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "arm %s trains with %s: its paths would continue from their own "
            "parameters instead of the rolled-back ones; roll back after the "
            "arm has finished, or export %s@%s",
            r->arm_name, pl_method_name(m->method), r->what, r->to);
    for (size_t i = 0; i < r->n; i++)
        last = r->changes[i].head > last ? r->changes[i].head : last;
    last += 1 + (uint64_t)m->delay;
    if ((int64_t)last > r->arm.inner.phases)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "after this rollback training would continue in phase %llu of arm %s, "
            "which has only %d phases; let the arm finish, then roll back",
            (unsigned long long)last, r->arm_name, r->arm.inner.phases);
    r->phase = (int64_t)last;
    for (size_t i = 0; i < r->n; i++)
        r->changes[i].last = last;
    return PL_OK;
}

/* Plans the old version for the modules that the user named, the newest parameters for
 * the others. plan_resumption decides how many versions are written. */
static pl_status plan_named(pl_rollback_plan *r)
{
    char asked[2 * PL_MODULE_NAME_MAX], prefix[PL_MODULE_NAME_MAX + 1];
    char tag[PL_MODULE_NAME_MAX];
    pl_module_set set;
    int64_t number;
    pl_status status = PL_OK;
    snprintf(asked, sizeof asked, "%s@%s", r->what, r->to);
    PL_CHECK(pl_names_set(r->store, asked, &set));
    /* merged modules are not trained, so they have no training to undo */
    for (size_t i = 0; i < set.n; i++) {
        if (!pl_merged_tag(set.at[i].module, tag))
            continue;
        PL_TRY(
            pl_parse_int(r->to, &number) == PL_OK
                ? pl_fail(PL_ERR_USAGE,
                          "%s was made by `pathloom store merge` for tag %s and is not "
                          "trained, so it cannot be rolled back; merge again with "
                          "--force, or use its older version as the source of a new "
                          "merge",
                          set.at[i].module, tag)
                : pl_fail(PL_ERR_USAGE,
                          "tag %s names merged modules, but a rollback needs versions "
                          "of the modules themselves; to use the tag, give it to a "
                          "command with --at",
                          r->to));
    }
    pl_arm_of_module(set.at[0].module, r->arm_name, sizeof r->arm_name);
    snprintf(prefix, sizeof prefix, "%s/", r->arm_name);
    PL_TRY(pl_store_each_head(r->store, prefix, add_head, r));
    for (size_t i = 0; i < set.n; i++) {
        const pl_module_at *target = &set.at[i];
        size_t k = 0;
        while (k < r->n && strcmp(r->changes[k].module, target->module) != 0)
            k++;
        if (k == r->n)
            PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "there is no module %s", target->module));
        r->changes[k].source = target->number;
        r->changes[k].last = r->changes[k].head + 1;
    }
done:
    pl_free(set.at);
    return status;
}

pl_status pl_rollback_plan_make(pl_rollback_plan *r)
{
    char newest[PL_ARM_NAME_MAX];
    int64_t least = INT64_MAX, most = 0; /* the phases of the arm's paths */
    bool any = false;
    r->phase = -1;
    PL_CHECK(plan_named(r));
    pl_status status = pl_read_arm(r->store, r->arm_name, &r->arm, &r->topology);
    PL_CHECK(status == PL_ERR_NOT_FOUND ? PL_OK : status);
    if (!r->topology)
        return PL_OK;
    /* a later chapter of the mixture began with the last versions of this arm */
    const int chapter = pl_arm_chapter(r->arm_name);
    pl_newest_chapter(r->store, newest);
    if (chapter >= 0 && chapter != pl_arm_chapter(newest))
        return pl_fail(PL_ERR_CONFIG,
                       "%s has ended, and %s continued from its last versions; roll "
                       "back %s instead",
                       r->arm_name, newest, newest);
    const int replicas = pl_topology_n_replicas(r->topology);
    for (int i = 0; i < pl_topology_n_paths(r->topology) * replicas; i++) {
        char name[PL_MODULE_NAME_MAX];
        pl_path_state state = {.phase = 0};
        pl_arm_path_name(&r->arm, r->topology, i / replicas, i % replicas, name);
        status = pl_store_get_path(r->store, name, &state);
        if (status != PL_OK && status != PL_ERR_NOT_FOUND)
            return status;
        any = any || status == PL_OK;
        least = state.phase < least ? state.phase : least;
        most = state.phase > most ? state.phase : most;
    }
    /* a store without the arm's paths is a copy that no job trains, as if finished */
    const bool is_finished = !any || least >= r->arm.inner.phases;
    status = is_finished ? PL_OK : plan_resumption(r, most);
    /* a frozen module keeps version 0, so the rollback writes no version of it */
    for (size_t i = 0; i < r->n; i++) {
        pl_rollback_change *c = &r->changes[i];
        const char *name = strchr(c->module, '/');
        const int m = name ? pl_topology_find_module(r->topology, name + 1) : -1;
        if (m >= 0 && pl_arm_is_frozen(&r->arm, m))
            c->source = c->last = c->head;
    }
    return status;
}

void pl_rollback_words(const pl_rollback_plan *r, char out[PL_TEXT_MAX])
{
    snprintf(out, PL_TEXT_MAX, "%s --to %s", r->what, r->to);
}

pl_status pl_rollback_plan_commit(const pl_rollback_plan *r, pl_writers *writers)
{
    pl_rollback plan = {.phase = r->phase};
    pl_rollback_words(r, plan.words);
    plan.modules = pl_alloc((r->n + 1) * sizeof *plan.modules);
    for (size_t i = 0; i < r->n; i++) {
        pl_rollback_module *c = &plan.modules[plan.n_modules++];
        pl_copy_text(c->name, sizeof c->name, r->changes[i].module);
        c->head = r->changes[i].head;
        c->source = r->changes[i].source;
        c->last = r->changes[i].last;
        c->part = pl_names_part(r->store, c->name);
    }
    for (int path = 0; r->phase >= 0 && path < pl_topology_n_paths(r->topology); path++)
        for (int i = 0; i < pl_topology_n_replicas(r->topology); i++) {
            plan.paths = pl_grow(plan.paths, (plan.n_paths + 1) * sizeof *plan.paths);
            pl_rollback_path *p = &plan.paths[plan.n_paths++];
            memset(p, 0, sizeof *p);
            pl_arm_path_name(&r->arm, r->topology, path, i, p->name);
            p->samples = (uint64_t)r->phase * pl_phase_samples(&r->arm);
            p->part = pl_names_part(r->store, p->name);
        }
    pl_status status = pl_writers_roll_back(writers, &plan);
    pl_free_all(plan.modules, plan.paths);
    return status;
}

void pl_rollback_plan_clear(pl_rollback_plan *r)
{
    pl_free(r->changes);
    pl_topology_destroy(&r->topology);
    pl_arm_clear(&r->arm);
}
