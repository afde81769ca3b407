/* pathloom store ls, log, show, stat: list what a store has, show single items. */
#include "cli/store_print.h"

#include <math.h>

typedef struct look {
    pl_store *store;
    bool json, noting; /* noting: only collects names and prints nothing */
    int width;         /* width of the column of names */
    /* prefix of the tags to list: the store cannot select tags by name */
    const char *prefix;
    pl_module_set names; /* all names of the kind that is listed */
} look;

/* ---- ls: the first pass collects all names, the second prints those that were asked
 * for ---- */
static bool is_noted(look *q, const char *name)
{
    if (q->noting)
        pl_module_set_add(&q->names, name, 0);
    return q->noting;
}

static row begin_item(const look *q, const char *kind, const char *name)
{
    row r = row_begin(q->json);
    r.width = q->width;
    row_text(&r, kind, name, "%-*s");
    return r;
}

static pl_status list_head(void *context, const pl_version *v)
{
    look *q = context;
    uint64_t bytes;
    if (is_noted(q, v->module))
        return PL_OK;
    PL_CHECK(pl_store_blob_bytes(q->store, &v->params, &bytes));
    row r = begin_item(q, "module", v->module);
    row_count(&r, "version", v->number, "  version %-6s");
    row_hash(&r, "hash", &v->params, " %s");
    row_int(&r, "contributions", v->n_contributions, "  %3s contributions");
    row_bytes(&r, "bytes", bytes, "  %10s");
    row_age(&r, "wall_ms", v->wall_ms, "  %s ago");
    row_finish(&r);
    return PL_OK;
}

static pl_status list_path(void *context, const pl_path_state *p)
{
    look *q = context;
    if (is_noted(q, p->name))
        return PL_OK;
    row r = begin_item(q, "path", p->name);
    row_int(&r, "phase", p->phase, "  phase %-5s");
    row_count(&r, "samples", p->work.n_samples, " %8s samples");
    row_tokens(&r, "tokens", p->work.n_tokens, "  %7s tokens");
    row_real(&r, "loss", p->work.loss, "  loss %8.4f");
    row_seconds(&r, "seconds", p->work.seconds, "  %8s");
    row_hash(&r, "moments", &p->moments, NULL);
    if (p->repeats > 0)
        row_int(&r, "repeats", p->repeats, "  state %s phases old");
    row_text(&r, "worker", p->worker, "  last by %s");
    row_finish(&r);
    return PL_OK;
}

static pl_status list_object(void *context, const pl_object *o)
{
    look *q = context;
    if (is_noted(q, o->name))
        return PL_OK;
    row r = begin_item(q, "object", o->name);
    row_hash(&r, "hash", &o->blob, "  %s");
    row_bytes(&r, "bytes", o->bytes, "  %10s");
    row_finish(&r);
    return PL_OK;
}

static pl_status list_ref_row(void *context, const char *name, const char *target)
{
    look *q = context;
    if (is_noted(q, name))
        return PL_OK;
    row r = begin_item(q, "ref", name);
    row_text(&r, "target", target, "  %s");
    row_finish(&r);
    return PL_OK;
}

static pl_status list_tag(void *context, const pl_snapshot *tag)
{
    look *q = context;
    if (!is_noted(q, tag->name) && pl_starts_with(tag->name, q->prefix))
        print_tag(q->json, tag, q->width, false);
    return PL_OK;
}

enum { MODULES, REFS, OBJECTS, PATHS, TAGS, KINDS };
static const struct {
    const char *noun;
    int option;
    bool of_arms; /* names have the form ARM/REST; ARM/ may be left out */
} kinds[KINDS] = {[MODULES] = {"module", -1, true},
                  [REFS] = {"ref", STORE_OPT_REFS, false},
                  [OBJECTS] = {"object", STORE_OPT_OBJECTS, false},
                  [PATHS] = {"path", STORE_OPT_PATHS, true},
                  [TAGS] = {"tag", STORE_OPT_TAGS, false}};

static pl_status each(look *q, int kind, const char *prefix)
{
    q->prefix = prefix;
    switch (kind) {
    case REFS:
        return pl_store_each_ref(q->store, prefix, list_ref_row, q);
    case OBJECTS:
        return pl_store_each_object(q->store, prefix, list_object, q);
    case PATHS:
        return pl_store_each_path(q->store, prefix, list_path, q);
    case TAGS:
        return pl_store_each_tag(q->store, list_tag, q);
    default:
        return pl_store_each_head(q->store, prefix, list_head, q);
    }
}

static bool begins_any(const look *q, const char *prefix)
{
    for (size_t i = 0; i < q->names.n; i++)
        if (pl_starts_with(q->names.at[i].module, prefix))
            return true;
    return false;
}

static pl_status nothing_like(const look *q, int kind, const char *asked)
{
    for (int k = 0; k < KINDS; k++) { /* `ls paths` means `ls --paths` */
        const char *option =
            kinds[k].option >= 0 ? store_option_row(kinds[k].option)->name : "";
        if (kind == MODULES && strcmp(option, asked) == 0)
            return pl_fail(PL_ERR_NOT_FOUND,
                           "no module begins with %s; did you mean --%s?", asked,
                           option);
    }
    const char *near = pl_module_set_nearest(&q->names, kinds[kind].of_arms, asked);
    const char *noun = kinds[kind].noun, *dashes = kind == MODULES ? "" : " --";
    return near ? pl_fail(PL_ERR_NOT_FOUND, "no %s begins with %s; did you mean %s?",
                          noun, asked, near)
                : pl_fail(PL_ERR_NOT_FOUND,
                          "no %s begins with %s; `pathloom store ls%s%s` lists all",
                          noun, asked, dashes,
                          kind == MODULES ? ""
                                          : store_option_row(kinds[kind].option)->name);
}

/* Completes a name that the user gave. Tries the name unchanged, then with the
 * mixture's arm, then with any other arm if only one arm has the name. */
static pl_status complete_asked_name(const look *q, int kind, const char *asked,
                                     char out[PL_PATH_MAX])
{
    char arm[PL_MODULE_NAME_MAX];
    const char *found = NULL;
    pl_copy_text(out, PL_PATH_MAX, asked);
    if (!*asked || begins_any(q, out))
        return PL_OK;
    if (!kinds[kind].of_arms)
        return nothing_like(q, kind, asked);
    char chapter[PL_ARM_NAME_MAX];
    pl_newest_chapter(q->store, chapter);
    snprintf(out, PL_PATH_MAX, "%s/%s", chapter, asked);
    if (begins_any(q, out))
        return PL_OK;
    for (size_t i = 0; i < q->names.n; i++) {
        if (!pl_starts_with(pl_module_place(q->names.at[i].module), asked))
            continue;
        if (found && !pl_starts_with(q->names.at[i].module, out))
            return pl_fail(PL_ERR_USAGE, "several arms have %ss %s: give %s or %s",
                           kinds[kind].noun, asked, found, q->names.at[i].module);
        found = found ? found : q->names.at[i].module;
        pl_arm_of_module(found, arm, sizeof arm);
        snprintf(out, PL_PATH_MAX, "%s/%s", arm, asked);
    }
    return found ? PL_OK : nothing_like(q, kind, asked);
}

static pl_status list_kind(store_call *call, int kind, const char *asked)
{
    look q = {.store = call->store, .json = call->json, .prefix = ""};
    char prefix[PL_PATH_MAX];
    pl_status status = PL_OK;
    q.noting = true;
    PL_TRY(each(&q, kind, ""));
    PL_TRY(complete_asked_name(&q, kind, asked, prefix));
    for (size_t i = 0; i < q.names.n; i++)
        if (pl_starts_with(q.names.at[i].module, prefix) &&
            (int)strlen(q.names.at[i].module) > q.width)
            q.width = (int)strlen(q.names.at[i].module);
    q.noting = false;
    PL_TRY(each(&q, kind, prefix));
done:
    pl_free(q.names.at);
    return status;
}

pl_status look_at_tags(store_call *call)
{
    return list_kind(call, TAGS, "");
}

pl_status store_ls(store_call *call)
{
    int kind = MODULES;
    for (int i = MODULES + 1; i < KINDS; i++) {
        if (!call->values[kinds[i].option])
            continue;
        if (kind != MODULES)
            return pl_fail(PL_ERR_USAGE,
                           "store ls lists one kind at a time: --%s or --%s",
                           store_option_row(kinds[kind].option)->name,
                           store_option_row(kinds[i].option)->name);
        kind = i;
    }
    return list_kind(call, kind, call->words[0] ? call->words[0] : "");
}

/* ---- log, show, stat ---- */
/* Finds the size of a blob; 0 if garbage collection has deleted the blob. */
static pl_status bytes_of(pl_store *store, const pl_hash *blob, uint64_t *bytes)
{
    *bytes = 0;
    if (pl_hash_none(blob))
        return PL_OK;
    pl_status status = pl_store_blob_bytes(store, blob, bytes);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

static pl_status keep_tag(void *context, const pl_snapshot *tag)
{
    store_call *call = context;
    call->tags = pl_grow(call->tags, (call->n_tags + 1) * sizeof *call->tags);
    PL_CHECK(pl_store_get_tag(call->store, tag->name, &call->tags[call->n_tags]));
    call->n_tags++;
    return PL_OK;
}

/* Prints a version, and if `last` the chapter in which the module no longer exists. */
static pl_status show_version(store_call *call, const pl_version *v, bool full,
                              bool last)
{
    uint64_t bytes, momentum_bytes;
    char end[PL_ARM_NAME_MAX] = "";
    pl_buf paths = {0}, tags = {0};
    PL_CHECK(bytes_of(call->store, &v->params, &bytes));
    PL_CHECK(bytes_of(call->store, &v->momentum, &momentum_bytes));
    if (last)
        PL_CHECK(pl_module_end(call->store, v->module, end));
    for (size_t i = 0; i < call->n_tags; i++) {
        /* if the tag names the version, notes path pNN of a tag "best-ARM-pNN", or the
         * tag */
        const pl_snapshot *tag = &call->tags[i];
        const pl_snapshot_item *item = pl_snapshot_find(tag, v->module);
        char prefix[PL_MODULE_NAME_MAX];
        if (!item || item->number != v->number)
            continue;
        snprintf(prefix, sizeof prefix, "best-%.24s-", tag->arm);
        const bool best = pl_starts_with(tag->name, prefix);
        pl_buf *list = best ? &paths : &tags;
        pl_buf_printf(list, "%s%s", list->len > 0 ? ", " : "",
                      tag->name + (best ? strlen(prefix) : 0));
    }
    print_version(call, v, bytes, momentum_bytes, full,
                  (version_notes){pl_buf_text(&paths), end, pl_buf_text(&tags)});
    pl_buf_destroy(&paths);
    pl_buf_destroy(&tags);
    return PL_OK;
}

/* Shows a version of a module, or a tag. A tag hides an arm, which cannot be shown. */
pl_status store_show(store_call *call)
{
    pl_version v;
    pl_module_at at;
    pl_name_kind kind;
    pl_snapshot tag;
    PL_CHECK(pl_names_kind(call->store, call->words[0], &kind));
    if (kind == PL_NAME_MODULE)
        pl_names_warn_of_tag(call->store, call->words[0], kind);
    pl_status status = kind == PL_NAME_MODULE
                           ? PL_ERR_NOT_FOUND
                           : pl_store_get_tag(call->store, call->words[0], &tag);
    if (status == PL_OK) {
        print_tag(call->json, &tag, 0, true);
        pl_snapshot_clear(&tag);
    }
    if (status != PL_ERR_NOT_FOUND)
        return status;
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    PL_CHECK(pl_store_each_tag(call->store, keep_tag, call));
    PL_CHECK(pl_store_get_version(call->store, at.module, at.number, &v));
    status = show_version(call, &v, true, true);
    pl_version_clear(&v);
    return status;
}

static void print_health_number(row *r, const char *key, const char *title,
                                double value)
{
    if (isfinite(value))
        row_say(r, "  %s %8.4f", title, value);
    else
        row_say(r, "  %s %8s", title, "-");
    row_real(r, key, value, NULL);
}

/* Prints the versions of a module from the newest, or from @VERSION, down to 0. Version
 * 0 of a chapter is a copy of a version of a module of the previous chapter, so that
 * version and those before it follow. */
pl_status store_log(store_call *call)
{
    pl_version v;
    pl_module_at at;
    pl_lineage from;
    PL_CHECK(pl_names_module(call->store, call->words[0], &at));
    if (call->values[STORE_OPT_GRAPH])
        return store_graph(call, at.module, at.number);
    if (call->values[STORE_OPT_HEALTH]) {
        /* prints a row per version, down to version 1 */
        pl_health *all = NULL;
        pl_status status = pl_module_health(call->store, at.module, at.number, &all);
        for (uint64_t number = at.number; status == PL_OK && number > 0; number--) {
            const pl_health *h = &all[number];
            row r = row_begin(call->json);
            row_text(&r, "module", at.module, "%s");
            row_count(&r, "version", number, "@%-5s");
            print_health_number(&r, "lag_correlation", "lag", h->lag);
            print_health_number(&r, "gain", "gain", h->gain);
            print_health_number(&r, "relative_step", "step", h->relative);
            print_health_number(&r, "transverse", "transverse", h->transverse);
            row_finish(&r);
        }
        pl_free(all);
        return status;
    }
    PL_CHECK(pl_store_each_tag(call->store, keep_tag, call));
    for (bool first = true;; first = false) {
        PL_CHECK(pl_store_get_version(call->store, at.module, at.number, &v));
        pl_status status = show_version(call, &v, false, first);
        if (status == PL_OK && at.number == 0)
            status = pl_lineage_of(call->store, &v, &from);
        pl_version_clear(&v);
        PL_CHECK(status);
        if (at.number-- > 0)
            continue;
        if (from.kind != PL_LINEAGE_BEGIN ||
            pl_starts_with(from.sources[0].module, "base/"))
            return PL_OK;
        at = from.sources[0];
    }
}

pl_status store_stat(store_call *call)
{
    pl_store_stats s;
    PL_CHECK(pl_store_count(call->store, &s));
    row r = row_begin(call->json);
    row_count(&r, "modules", s.n_modules, "modules     %s\n");
    row_count(&r, "versions", s.n_versions, "versions    %s\n");
    row_count(&r, "blobs", s.n_blobs, "blobs       %s");
    row_bytes(&r, "blob_bytes", s.blob_bytes, ", %s\n");
    row_count(&r, "chunks", s.n_chunks, "chunks      %s");
    row_bytes(&r, "chunk_bytes", s.chunk_bytes, ", %s\n");
    row_bytes(&r, "stored_bytes", s.stored_bytes, "compressed  %s\n");
    row_bytes(&r, "disk_bytes", s.disk_bytes, "on disk     %s\n");
    row_count(&r, "sequence", pl_store_sequence(call->store), "commits     %s");
    row_count(&r, "epoch", pl_store_epoch(call->store), ", epoch %s");
    row_finish(&r);
    return PL_OK;
}

pl_status store_du(store_call *call)
{
    static const char *const texts[PL_USES] = {
        [PL_USE_HEADS] = "newest versions",
        [PL_USE_TAGS] = "other versions that tags name",
        [PL_USE_PATHS] = "states of paths (moments of the optimizer)",
        [PL_USE_OBJECTS] = "data shards, routers, definitions",
        [PL_USE_PENDING] = "updates that wait for a merge",
        [PL_USE_MOMENTUM] = "states of the outer optimizer",
        [PL_USE_HISTORY] = "older versions, which `pathloom store gc` frees",
        [PL_USE_CHANGES] = "changes between versions (codec.down)",
        [PL_USE_UPDATES] = "merged updates that were kept",
        [PL_USE_OTHER] = "bases of compressed chunks, copies of chunks"};
    static const char *const names[] = {"data", "cache", "log", "tensorboard"};
    pl_store_usage usage;
    PL_CHECK(pl_store_use(call->store, &usage));
    for (int use = 0; use < PL_USES; use++) {
        row r = row_begin(call->json);
        row_text(&r, "use", pl_use_name((pl_use)use), "%-9s");
        row_bytes(&r, "bytes", usage.bytes[use], " %10s");
        row_count(&r, "blobs", usage.n[use], "  %6s blobs");
        row_say(&r, "  %s", texts[use]);
        row_finish(&r);
    }
    /* the run's folders beside the store: token files, workers' data shards, logs */
    char run[PL_PATH_MAX], folder[PL_PATH_MAX];
    for (size_t i = 0; !call->values[STORE_OPT_STORE] && i < CLI_COUNT(names); i++) {
        pl_join(folder, pl_path_above(run, call->folder), names[i]);
        if (!pl_path_is_folder(folder))
            continue;
        row r = row_begin(call->json);
        row_text(&r, "folder", names[i], "%-9s");
        row_bytes(&r, "bytes", pl_folder_bytes(folder), " %10s");
        row_say(&r, "                 beside the store, in %s", folder);
        row_finish(&r);
    }
    return PL_OK;
}
