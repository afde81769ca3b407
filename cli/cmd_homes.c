/* pathloom homes: shows which home has which names, also while the job runs, and gives
 * a stopped job another number of homes (job/run_homes.c). */
#include "cli/cli.h"
#include "cli/row.h"

typedef struct homes_call {
    const char *dir;
    cli_words words;
    bool json;
    pl_run r;
} homes_call;

static const cli_option options[] = {
    CLI_OPTION("run", CLI_TEXT, homes_call, dir, "RUN",
               "folder of the run (default: pathloom-run)"),
    CLI_JSON(homes_call, json),
};

typedef struct inventory {
    pl_json *names;
    int n, n_objects;
} inventory;

typedef struct listing {
    pl_store *store;
    inventory homes[PL_HOMES_MAX];
} listing;

static pl_status count_name(void *context, const char *name)
{
    listing *l = context;
    const int home = pl_store_part_of(l->store, name);
    if (pl_starts_with(name, "arm/") || home < 0)
        return PL_OK;
    inventory *v = &l->homes[home];
    v->n++;
    v->n_objects += pl_starts_with(name, "shard/") || pl_starts_with(name, "router/") ||
                    pl_starts_with(name, "tag/");
    pl_json_push(v->names, pl_json_make_text(name));
    return PL_OK;
}

static pl_status list_homes(homes_call *h)
{
    char folder[PL_PATH_MAX];
    listing l = {.store = NULL};
    pl_status status = PL_OK;
    int n = 0;
    PL_CHECK(pl_store_homes(run_file(&h->r, "store", folder), &n));
    PL_CHECK(pl_store_open(folder, PL_STORE_READ, &l.store));
    for (int i = 0; i < n; i++)
        l.homes[i].names = pl_json_array();
    PL_TRY(pl_store_each_name(l.store, count_name, &l));
    if (!h->json)
        say("home  modules and paths  objects  address");
    for (int i = 0; i < n; i++) {
        inventory *v = &l.homes[i];
        char file[64], address[PL_ADDRESS_MAX];
        row r = row_begin(h->json);
        run_home_file(i, n, file);
        /* the file is removed when the job stops */
        if (run_await_address(h->r.dir, file, 0, address) != PL_OK)
            pl_copy_text(address, sizeof address, h->json ? "" : "stopped");
        row_int(&r, "home", i + 1, "%4s");
        row_int(&r, NULL, v->n - v->n_objects, " %17s");
        row_int(&r, NULL, v->n_objects, " %8s");
        row_text(&r, "address", address, "  %s");
        if (r.json) {
            pl_json_set(r.json, "names", v->names);
            v->names = NULL;
        }
        row_finish(&r);
    }
done:
    for (int i = 0; i < n; i++)
        pl_json_destroy(&l.homes[i].names);
    pl_store_close(&l.store);
    return status;
}

static pl_status set_homes(homes_call *h)
{
    int64_t n = 0;
    pl_divide_report report;
    const char *text = h->words.n > 1 ? h->words.at[1] : "nothing";
    if (pl_parse_int(text, &n) != PL_OK || n < 1 || n > PL_HOMES_MAX)
        return pl_fail(PL_ERR_USAGE,
                       "homes set takes the number of homes, 1 to %d, not %s",
                       PL_HOMES_MAX, text);
    PL_CHECK(forget_finish(h->r.dir));
    pl_status status = pl_lock_folder(h->r.dir, &h->r.lock);
    if (status == PL_OK)
        status = run_set_homes(&h->r, (int)n, &report);
    if (status == PL_ERR_BUSY)
        return pl_fail(PL_ERR_BUSY,
                       "the number of homes can be changed only while the job is "
                       "stopped (%s): press Ctrl+C in `pathloom train`, give this "
                       "command again, then the same `pathloom train`",
                       pl_last_error());
    PL_CHECK(status);
    row r = row_begin(h->json);
    row_int(&r, "homes", n, "homes of the run: %s");
    row_count(&r, "names", report.n_names, "; %s names");
    row_count(&r, "rows", report.n_rows, ", %s records");
    row_bytes(&r, "bytes", report.bytes, ", %s were copied");
    row_finish(&r);
    return PL_OK;
}

static pl_status run_homes(int argc, char **argv)
{
    homes_call h = {.dir = "pathloom-run", .r = {.lock = -1}};
    PL_CHECK(cli_read(&verb_homes, argc, argv, &h, &h.words));
    const char *wanted = h.words.n > 0 ? h.words.at[0] : "list";
    pl_status status = run_look(h.dir, &h.r);
    if (status == PL_OK && strcmp(wanted, "set") == 0)
        status = set_homes(&h);
    else if (status == PL_OK && strcmp(wanted, "list") == 0 && h.words.n < 2)
        status = list_homes(&h);
    else if (status == PL_OK)
        status = pl_fail(PL_ERR_USAGE, "homes takes list or set N, not `%s`", wanted);
    run_close(&h.r);
    return status;
}

const cli_verb verb_homes = {
    .name = "homes",
    .usage = "homes [list | set N] [--run RUN] [--json]",
    .help = "show which home has which modules; change the number of homes",
    CLI_TABLE(options),
    .notes = "  list    lists the homes and how much each has\n"
             "  set N   gives a stopped job N homes: copies its store, then replaces "
             "it by\n          the copy\n"
             "\n"
             "If `set` is killed, the run has the old homes or the new ones, and the "
             "same command continues.",
    .most_words = 2,
    .run = run_homes};
