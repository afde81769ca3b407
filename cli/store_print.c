/* Prints versions and tags for `pathloom store` (store_print.h). */
#include "cli/store_print.h"

#include <math.h>

void print_tag(bool json, const pl_snapshot *tag, int width, bool full)
{
    char place[32];
    row r = row_begin(json);
    r.width = width;
    if (tag->phase < 0)
        snprintf(place, sizeof place, "commit %llu", (unsigned long long)tag->sequence);
    else
        snprintf(place, sizeof place, "phase %lld", (long long)tag->phase);
    row_text(&r, "tag", tag->name, full ? "tag         %s\n" : "%-*s");
    row_text(&r, "arm", tag->arm, full ? "arm         %s\n" : "  %s");
    row_int(&r, "phase", tag->phase, NULL);
    row_count(&r, "sequence", tag->sequence, NULL);
    if (full) {
        row_say(&r, "state       %s\ncommit      %llu, ", place,
                (unsigned long long)tag->sequence);
        row_date(&r, "wall_ms", tag->wall_ms,
                 tag->wall_ms > 0 ? "%s\n" : "made by `pathloom train`\n");
    } else {
        row_say(&r, "  %-14s %3zu modules", place, tag->n_items);
        row_age(&r, "wall_ms", tag->wall_ms, tag->wall_ms > 0 ? "  %s ago" : NULL);
    }
    row_text(&r, "note", tag->note, full ? "note        %s" : "  %s");
    row_break(&r);
    row_list(&r, "modules");
    for (size_t i = 0; i < tag->n_items && (json || full); i++) {
        row item = row_item(&r);
        row_text(&item, "module", tag->items[i].module, "    %s");
        row_count(&item, "version", tag->items[i].number, "@%s");
        row_hash(&item, "hash", &tag->items[i].params, "  %s");
        row_finish(&item);
    }
    row_finish(&r);
}

const char *path_text(store_call *call, const char *module, int64_t path,
                      char out[PL_NAME_MAX])
{
    char arm_name[PL_MODULE_NAME_MAX];
    pl_arm_of_module(module, arm_name, sizeof arm_name);
    if (strcmp(call->arm, arm_name) != 0) {
        pl_arm arm;
        pl_topology_destroy(&call->topology);
        (void)pl_read_arm(call->store, arm_name, &arm, &call->topology);
        pl_arm_clear(&arm);
        pl_copy_text(call->arm, sizeof call->arm, arm_name);
    }
    snprintf(out, PL_NAME_MAX, "path %lld", (long long)path);
    if (call->topology && path >= 0 && path < pl_topology_n_paths(call->topology))
        pl_topology_path_name(call->topology, (int)path, out);
    return out;
}

void print_task(row *r, store_call *call, const char *module, int64_t path,
                int64_t replica, bool shown)
{
    char name[PL_NAME_MAX];
    row_int(r, "path", path, NULL);
    row_int(r, "replica", replica, NULL);
    if (shown && !r->json)
        row_say(r, "  %s.r%-2lld", path_text(call, module, path, name),
                (long long)replica);
}

static void print_contributions(row *r, const pl_version *v, store_call *call)
{
    size_t width = 0;
    for (int i = 0; i < v->n_contributions; i++)
        if (strlen(v->contributions[i].worker) > width)
            width = strlen(v->contributions[i].worker);
    row_list(r, "contributions");
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        const bool trained = !pl_version_is_merged(v);
        row item = row_item(r);
        item.width = (int)width;
        row_text(&item, "worker", c->worker, "    %-*s");
        row_text(&item, "device", c->device, NULL);
        print_task(&item, call, v->module, c->path, c->replica, trained);
        row_int(&item, "phase", c->phase, NULL);
        row_count(&item, "first_sample", c->work.first_sample,
                  trained ? " samples %6s" : NULL);
        row_count(&item, "n_samples", c->work.n_samples, trained ? " +%-5s" : NULL);
        row_tokens(&item, "tokens", c->work.n_tokens, trained ? " %7s tokens" : NULL);
        row_real(&item, "loss", c->work.loss, trained ? "  loss %8.4f" : NULL);
        row_real(&item, "norm", c->norm, "  norm %10.4g");
        row_real(&item, "weight", c->weight, "  weight %-8.6g");
        row_real(&item, "seconds", c->work.seconds, NULL);
        for (int k = 0; k < PL_WORK_N_MEASURES; k++) {
            const pl_work_measure *m = &pl_work_measures[k];
            if (m->is_count)
                row_count(&item, m->name,
                          (uint64_t)fmin(pl_work_value(&c->work, m), m->most), NULL);
            else
                row_real(&item, m->name, pl_work_value(&c->work, m), NULL);
        }
        row_count(&item, "token", c->token, NULL);
        row_text(&item, "codec", c->codec, pl_contribution_is_base(c) ? "  %s" : NULL);
        row_hash(&item, "update", &c->update, " %s");
        row_count(&item, "bytes", c->update_bytes, NULL);
        row_flag(&item, "split", c->split, "  split from its mate");
        row_finish(&item);
    }
}

void print_version(store_call *call, const pl_version *v, uint64_t bytes,
                   uint64_t momentum_bytes, bool full, version_notes notes)
{
    row r = row_begin(call->json);
    uint64_t source;
    /* `stepped`: an outer step made this version, not a rollback or a merge. Version 0
     * may have no norm. */
    bool stepped =
        v->number > 0 && !pl_version_source(v, &source) && !pl_version_is_merged(v);
    if (call->json) {
        row_text(&r, "module", v->module, NULL);
        row_count(&r, "version", v->number, NULL);
        row_hash(&r, "hash", &v->params, NULL);
        row_hash(&r, "parent", &v->parent, NULL);
        print_contributions(&r, v, call);
        row_text(&r, "method", v->method, NULL);
        row_real(&r, "lr", v->lr, NULL);
        row_real(&r, "momentum", v->outer_momentum, NULL);
        row_hash(&r, "config", &v->config, NULL);
        row_count(&r, "n_params", v->n_params, NULL);
        row_real(&r, "params_norm", v->params_norm > 0 ? v->params_norm : NAN, NULL);
        row_real(&r, "update_norm", stepped ? v->update_norm : NAN, NULL);
        row_bytes(&r, "bytes", bytes, NULL);
        row_hash(&r, "momentum_hash", &v->momentum, NULL);
        row_bytes(&r, "momentum_bytes", momentum_bytes, NULL);
        row_flag(&r, "collected", v->params_gone, NULL);
        row_text(&r, "best_of", notes.best, NULL);
        row_text(&r, "ended", notes.end, NULL);
        row_text(&r, "tags", notes.tags, NULL);
        row_count(&r, "sequence", v->sequence, NULL);
        row_age(&r, "wall_ms", v->wall_ms, NULL);
        row_finish(&r);
        return;
    }
    const pl_blend_method blend = pl_version_blend(v);
    bool has_norm = v->params_norm > 0;
    row_text(&r, NULL, v->module, full ? "module      %s\n" : "%s");
    row_count(&r, NULL, v->number, full ? "version     %s\n" : "@%s");
    if (full) {
        row_hash(&r, NULL, &v->params, "hash        %h");
        row_bytes(&r, NULL, bytes, bytes > 0 ? "  %s" : NULL);
        row_hash(&r, NULL, &v->parent, "\nparent      %h");
        row_hash(&r, NULL, &v->momentum, "\nmomentum    %h");
        row_bytes(&r, NULL, momentum_bytes, momentum_bytes > 0 ? "  %s" : NULL);
        row_hash(&r, NULL, &v->config, "\nconfig      %h");
        row_count(&r, NULL, v->n_params, "\nparameters  %s\n");
        row_real(&r, NULL, v->params_norm, has_norm ? "norm        %.9g\n" : NULL);
        if (stepped)
            row_real(&r, NULL, v->update_norm, "update norm %.9g\n");
        row_text(&r, NULL, v->method, "method      %s");
        if (stepped)
            row_say(&r, ", lr %g, momentum %g", v->lr, v->outer_momentum);
        if (pl_blend_needs_base(blend))
            row_say(&r, ", scale %g", v->lr);
        if (pl_blend_uses_density(blend))
            row_say(&r, ", density %g", v->outer_momentum);
        row_count(&r, NULL, v->sequence, "\ncommit      %s, ");
    } else {
        row_hash(&r, NULL, &v->params, "  %s  ");
    }
    row_date(&r, NULL, v->wall_ms, "%s");
    row_age(&r, NULL, v->wall_ms, " (%s ago)\n");
    if (full) {
        row_int(&r, NULL, v->n_contributions, "contributions %s");
    } else {
        row_text(&r, NULL, v->method, "    %s");
        if (stepped)
            row_say(&r, "  lr %g  momentum %g  update norm %.4g", v->lr,
                    v->outer_momentum, v->update_norm);
        if (pl_blend_needs_base(blend))
            row_say(&r, "  scale %g", v->lr);
        if (pl_blend_uses_density(blend))
            row_say(&r, "  density %g", v->outer_momentum);
        if (v->number > 0)
            row_hash(&r, NULL, &v->parent, "  from %s");
        row_real(&r, NULL, v->params_norm, has_norm ? "  norm %.6g" : NULL);
        row_flag(&r, NULL, v->params_gone, "  (parameters deleted by gc)");
    }
    row_text(&r, NULL, notes.best, *notes.best ? "  best of %s" : NULL);
    row_text(&r, NULL, notes.tags, *notes.tags ? "  tag %s" : NULL);
    row_text(&r, NULL, notes.end,
             *notes.end ? "  ended; %s continues without it" : NULL);
    row_break(&r);
    print_contributions(&r, v, call);
    row_finish(&r);
}
