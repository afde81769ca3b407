/* pathloom store: looks into a module store, also while training runs.
 *
 * It opens the store as a reader: nothing it does can disturb or change a job. What it
 * shows is one consistent state, that of the moment of opening. */
#include "cli/cli.h"
#include "cli/store_print.h"

#include <getopt.h>

typedef struct inspection {
    const char *verb, *name; /* name: a module, or a prefix for ls; NULL if none */
    char folder[PL_PATH_MAX];
    bool json;
    enum { LS_MODULES, LS_REFS, LS_OBJECTS, LS_PATHS } list;
    pl_store *store;
    char module[PL_MODULE_NAME_MAX];
    uint64_t version;
    bool has_version;
    int width;
} inspection;

/* ---- options ---- */
enum { OPT_STORE = 256, OPT_RUN, OPT_JSON, OPT_REFS, OPT_OBJECTS, OPT_PATHS };

static const struct option longs[] = {{"store", required_argument, NULL, OPT_STORE},
                                      {"run", required_argument, NULL, OPT_RUN},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"refs", no_argument, NULL, OPT_REFS},
                                      {"objects", no_argument, NULL, OPT_OBJECTS},
                                      {"paths", no_argument, NULL, OPT_PATHS},
                                      {NULL, 0, NULL, 0}};

static pl_status take(int option, inspection *q, char **argv)
{
    switch (option) {
    case OPT_STORE:
        pl_copy_text(q->folder, sizeof q->folder, optarg);
        return PL_OK;
    case OPT_RUN:
        pl_join(q->folder, optarg, "store");
        return PL_OK;
    case OPT_JSON:
        q->json = true;
        return PL_OK;
    case OPT_REFS:
        q->list = LS_REFS;
        return PL_OK;
    case OPT_OBJECTS:
        q->list = LS_OBJECTS;
        return PL_OK;
    case OPT_PATHS:
        q->list = LS_PATHS;
        return PL_OK;
    default:
        return cli_bad_option(option, argv, longs);
    }
}

static pl_status check_verb(const inspection *q)
{
    static const char *const known[] = {"ls", "log", "show", "stat"};
    const size_t n_known = sizeof known / sizeof *known;
    if (!q->verb)
        return pl_fail(PL_ERR_USAGE, "store needs a verb: ls, log, show or stat");
    for (size_t i = 0; i < n_known; i++)
        if (strcmp(q->verb, known[i]) == 0) {
            bool needs_name = q->verb[0] == 'l' ? q->verb[1] == 'o' : q->verb[1] == 'h';
            if (needs_name && !q->name)
                return pl_fail(PL_ERR_USAGE, "store %s needs a module, like mix/L1.E0",
                               q->verb);
            return PL_OK;
        }
    const char *near = pl_nearest(q->verb, known, n_known);
    return pl_fail(PL_ERR_USAGE, "store has no verb `%s`; did you mean `%s`?", q->verb,
                   near ? near : "ls");
}

static pl_status parse(int argc, char **argv, inspection *q)
{
    int option;
    memset(q, 0, sizeof *q);
    pl_join(q->folder, "pathloom-run", "store");
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take(option, q, argv));
    q->verb = optind < argc ? argv[optind] : NULL;
    q->name = optind + 1 < argc ? argv[optind + 1] : NULL;
    if (optind + 2 < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind + 2]);
    return check_verb(q);
}

/* ---- names of modules ---- */
typedef struct name_list {
    char (*names)[PL_MODULE_NAME_MAX];
    size_t count;
} name_list;

static pl_status add_name(void *context, const pl_version *version)
{
    name_list *list = context;
    list->names = pl_grow(list->names, (list->count + 1) * sizeof *list->names);
    pl_copy_text(list->names[list->count++], PL_MODULE_NAME_MAX, version->module);
    return PL_OK;
}

static bool is_listed(const name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}

static const char *without_arm(const char *module)
{
    const char *slash = strchr(module, '/');
    return slash ? slash + 1 : module;
}

/* The nearest is sought among full names if a full one was asked, else among short
 * ones. */
static pl_status no_such_module(const name_list *list, const char *asked)
{
    const char **names = pl_alloc((list->count + 1) * sizeof *names);
    bool qualified = strchr(asked, '/');
    for (size_t i = 0; i < list->count; i++)
        names[i] = qualified ? list->names[i] : without_arm(list->names[i]);
    const char *near = pl_nearest(asked, names, list->count);
    pl_status status =
        near ? pl_fail(PL_ERR_NOT_FOUND, "there is no module %s; did you mean %s?",
                       asked, near)
             : pl_fail(PL_ERR_NOT_FOUND,
                       "there is no module %s; `pathloom store ls` lists all", asked);
    pl_free(names);
    return status;
}

/* "" if it does not fit: no module has that name. */
static void join_name(char out[PL_MODULE_NAME_MAX], const char *head, const char *tail)
{
    int used = snprintf(out, PL_MODULE_NAME_MAX, "%s%s", head, tail);
    if (used < 0 || used >= PL_MODULE_NAME_MAX)
        out[0] = 0;
}

/* The mixture's module, or that of the only arm that has one of this name. */
static pl_status complete_name(const name_list *list, const char *asked,
                               const char *full, char out[PL_MODULE_NAME_MAX])
{
    const char *found = NULL, *second = NULL;
    join_name(out, "mix/", full);
    if (is_listed(list, out))
        return PL_OK;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(without_arm(list->names[i]), full) == 0) {
            second = found;
            found = list->names[i];
        }
    if (second)
        return pl_fail(PL_ERR_USAGE, "several arms have a module %s: say %s or %s",
                       asked, second, found);
    if (!found)
        return no_such_module(list, asked);
    pl_copy_text(out, PL_MODULE_NAME_MAX, found);
    return PL_OK;
}

/* "L1.E0", "embed", "mix/embed" -> the name in the store. */
static pl_status resolve_in(const name_list *list, const char *asked,
                            char out[PL_MODULE_NAME_MAX])
{
    char full[PL_MODULE_NAME_MAX];
    join_name(full, asked, strchr(asked, '.') ? "" : ".E0");
    pl_copy_text(out, PL_MODULE_NAME_MAX, is_listed(list, asked) ? asked : full);
    if (is_listed(list, out))
        return PL_OK;
    if (strchr(asked, '/'))
        return no_such_module(list, asked);
    return complete_name(list, asked, full, out);
}

static pl_status resolve(inspection *q)
{
    name_list list = {0};
    char asked[PL_MODULE_NAME_MAX];
    pl_status status = PL_OK;
    int64_t number = 0;
    if (!pl_copy_text(asked, sizeof asked, q->name))
        return pl_fail(PL_ERR_USAGE, "`%.40s...` is too long for a module's name",
                       q->name);
    char *at = strchr(asked, '@');
    if (at) {
        *at = 0;
        if (pl_parse_int(at + 1, &number) != PL_OK || number < 0)
            return pl_fail(PL_ERR_USAGE, "`%s` is no version number", at + 1);
        q->version = (uint64_t)number;
        q->has_version = true;
    }
    PL_TRY(pl_store_each_head(q->store, "", add_name, &list));
    PL_TRY(resolve_in(&list, asked, q->module));
done:
    pl_free(list.names);
    return status;
}

/* ---- ls: the first pass measures the names, the second prints ---- */
static void widen(inspection *q, const char *name)
{
    if ((int)strlen(name) > q->width)
        q->width = (int)strlen(name);
}

static pl_status measure_head(void *context, const pl_version *v)
{
    widen(context, v->module);
    return PL_OK;
}

static pl_status measure_path(void *context, const pl_path_state *p)
{
    widen(context, p->name);
    return PL_OK;
}

static pl_status measure_object(void *context, const pl_object *o)
{
    widen(context, o->name);
    return PL_OK;
}

static pl_status measure_ref(void *context, const char *name, const char *target)
{
    (void)target;
    widen(context, name);
    return PL_OK;
}

static pl_status show_head(void *context, const pl_version *v)
{
    inspection *q = context;
    uint64_t bytes;
    PL_RETURN_IF(pl_store_blob_bytes(q->store, &v->params, &bytes));
    if (q->json)
        print_head_json(v, bytes);
    else
        print_head(v, bytes, q->width);
    return PL_OK;
}

static pl_status show_path(void *context, const pl_path_state *p)
{
    const inspection *q = context;
    if (q->json)
        print_path_json(p);
    else
        print_path(p, q->width);
    return PL_OK;
}

static pl_status show_object(void *context, const pl_object *o)
{
    const inspection *q = context;
    if (q->json)
        print_object_json(o);
    else
        print_object(o, q->width);
    return PL_OK;
}

static pl_status show_ref(void *context, const char *name, const char *target)
{
    const inspection *q = context;
    if (q->json)
        print_ref_json(name, target);
    else
        print_ref(name, target, q->width);
    return PL_OK;
}

static pl_status list_names(inspection *q)
{
    const char *prefix = q->name ? q->name : "";
    switch (q->list) {
    case LS_REFS:
        PL_RETURN_IF(pl_store_each_ref(q->store, prefix, measure_ref, q));
        return pl_store_each_ref(q->store, prefix, show_ref, q);
    case LS_OBJECTS:
        PL_RETURN_IF(pl_store_each_object(q->store, prefix, measure_object, q));
        return pl_store_each_object(q->store, prefix, show_object, q);
    case LS_PATHS:
        PL_RETURN_IF(pl_store_each_path(q->store, prefix, measure_path, q));
        return pl_store_each_path(q->store, prefix, show_path, q);
    case LS_MODULES:
        break;
    }
    PL_RETURN_IF(pl_store_each_head(q->store, prefix, measure_head, q));
    return pl_store_each_head(q->store, prefix, show_head, q);
}

/* ---- log, show, stat ---- */
static pl_status show_version(inspection *q, const pl_version *v, bool full)
{
    uint64_t bytes, momentum_bytes = 0;
    PL_RETURN_IF(pl_store_blob_bytes(q->store, &v->params, &bytes));
    if (!pl_hash_none(&v->momentum))
        PL_RETURN_IF(pl_store_blob_bytes(q->store, &v->momentum, &momentum_bytes));
    if (q->json)
        print_version_json(v, bytes, momentum_bytes);
    else if (full)
        print_version_full(v, bytes, momentum_bytes);
    else
        print_version(v);
    return PL_OK;
}

static pl_status show_one(inspection *q)
{
    pl_version v;
    PL_RETURN_IF(resolve(q));
    PL_RETURN_IF(q->has_version
                     ? pl_store_get_version(q->store, q->module, q->version, &v)
                     : pl_store_head(q->store, q->module, &v));
    pl_status status = show_version(q, &v, true);
    pl_version_clear(&v);
    return status;
}

/* Newest first; from @VERSION downwards if one was named. */
static pl_status show_log(inspection *q)
{
    pl_version v;
    PL_RETURN_IF(resolve(q));
    PL_RETURN_IF(pl_store_head(q->store, q->module, &v));
    uint64_t number = q->has_version ? q->version : v.number;
    pl_version_clear(&v);
    for (;; number--) {
        PL_RETURN_IF(pl_store_get_version(q->store, q->module, number, &v));
        pl_status status = show_version(q, &v, false);
        pl_version_clear(&v);
        if (status != PL_OK || number == 0)
            return status;
    }
}

static pl_status show_stats(inspection *q)
{
    pl_store_stats stats;
    PL_RETURN_IF(pl_store_count(q->store, &stats));
    if (q->json)
        print_stats_json(q->store, &stats);
    else
        print_stats(q->store, &stats);
    return PL_OK;
}

static pl_status inspect(inspection *q)
{
    if (strcmp(q->verb, "ls") == 0)
        return list_names(q);
    if (strcmp(q->verb, "log") == 0)
        return show_log(q);
    if (strcmp(q->verb, "show") == 0)
        return show_one(q);
    return show_stats(q);
}

static pl_status open_store(inspection *q)
{
    if (!pl_path_is_folder(q->folder))
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "there is no store at %s; give --run RUN of a run that has begun "
            "to train, or --store FOLDER",
            q->folder);
    return pl_store_open(q->folder, PL_STORE_READ, &q->store);
}

int cmd_store(int argc, char **argv)
{
    inspection q;
    pl_status status = parse(argc, argv, &q);
    if (status == PL_OK)
        status = open_store(&q);
    if (status == PL_OK)
        status = inspect(&q);
    int code = status == PL_OK ? 0 : cli_fail(status);
    pl_store_close(&q.store);
    return code;
}
