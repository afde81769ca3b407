/* pathloom homes: shows which home owns which names, and moves names. The job may be
 * running or stopped.
 *
 * If the job runs, this command is a further client of its homes. If the job is
 * stopped, the command starts only the homes and stops them at the end. In both cases
 * the command may be killed, and the next call continues. `list` on a stopped job only
 * reads its store; `remove` opens the whole store for writing. */
#include "cli/cli.h"
#include "cli/row.h"

typedef struct homes_call {
    const char *verb, *words[2], *dir;
    int n_words, lock; /* lock: the lock for moving names */
    int64_t weight;
    bool json;
    pl_run r;
    pl_places places; /* the new weights */
    pl_move_report report;
} homes_call;

static const cli_option options[] = {
    CLI_OPTION(
        "run", CLI_TEXT, homes_call, dir, "RUN",
        "folder of the run (default: pathloom-run); the job may be running or stopped"),
    CLI_NUMBER("weight", CLI_INT64, homes_call, weight, "W", 1, PL_WEIGHT_MAX,
               "weight of the home that is added (1)"),
    CLI_JSON(homes_call, json),
};

static pl_status read_weight(const char *text, int64_t *out)
{
    if (pl_parse_int(text, out) == PL_OK && *out >= 1 && *out <= PL_WEIGHT_MAX)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "a weight is a number from 1 to %d, not `%s`; weight 2 means twice "
                   "as many modules as weight 1; to leave a home no modules, use "
                   "`homes drain`",
                   PL_WEIGHT_MAX, text);
}

static pl_status parse_homes_args(int argc, char **argv, homes_call *h)
{
    cli_words words;
    *h =
        (homes_call){.dir = "pathloom-run", .weight = 1, .lock = -1, .r = {.lock = -1}};
    PL_CHECK(cli_read(&verb_homes, argc, argv, h, &words));
    h->verb = words.n > 0 ? words.at[0] : NULL;
    for (int i = 1; i < words.n; i++)
        h->words[h->n_words++] = words.at[i];
    return PL_OK;
}

/* Reads the number of a home: users count homes from 1, the program from 0. */
static pl_status read_home(const homes_call *h, const char *text, int *out)
{
    int64_t number = 0;
    int n = pl_client_n_homes(h->r.client);
    if (pl_parse_int(text, &number) == PL_OK && number >= 1 && number <= n) {
        *out = (int)number - 1;
        return PL_OK;
    }
    return pl_fail(PL_ERR_USAGE,
                   "`%s` is not a home of this job; its homes are 1 to %d", text, n);
}

/* ---- reaching the homes ---- */
/* *running becomes true if a job is running; otherwise this command has locked the
 * run. */
static pl_status look_at_run(homes_call *h, bool *running)
{
    PL_CHECK(run_look(h->dir, &h->r));
    if (h->verb && strcmp(h->verb, "list") != 0)
        PL_CHECK(run_lock_movers(&h->r, &h->lock));
    h->r.stop = cli_stop_flag(true);
    h->r.n_homes = (int)h->r.cfg.homes;
    pl_status status = pl_lock_folder(h->r.dir, &h->r.lock);
    *running = status == PL_ERR_BUSY || h->r.cfg.attach;
    return *running ? PL_OK : status;
}

/* ---- changes ---- */
static void say_moved(void *context, const char *name, int from, int to)
{
    const homes_call *h = context;
    if (!h->json)
        say("%s  home %d -> %d", name, from + 1, to + 1);
}

static void say_report(const homes_call *h)
{
    const pl_move_report *m = &h->report;
    row r = row_begin(h->json);
    row_int(&r, "epoch", (int64_t)h->places.epoch, NULL);
    row_count(&r, "names", m->n_names, "%s names moved");
    row_count(&r, "rows", m->n_rows, ", %s records");
    row_count(&r, "blobs", m->n_blobs, NULL);
    row_bytes(&r, "bytes", m->bytes, ", %s");
    row_int(&r, "longest_hold_ms", m->longest_hold_ms,
            "; messages that change a name waited for at most %s ms");
    row_finish(&r);
}

static pl_status settle(homes_call *h)
{
    int64_t sum = 0;
    for (int i = 0; i < h->places.n; i++)
        sum += h->places.weights[i];
    if (sum == 0)
        return pl_fail(
            PL_ERR_USAGE,
            "all homes would have weight 0; first add a home, or give another home a "
            "weight");
    PL_CHECK(pl_move_to(h->r.client, &h->places, say_moved, h, &h->report));
    say_report(h);
    return PL_OK;
}

/* Checks the number of the home that the user adds. *there becomes true if this home
 * already exists. */
static pl_status check_new_home(const homes_call *h, int n, bool *there)
{
    int64_t wanted = n + 1;
    const char *text = h->words[0];
    if (text && (pl_parse_int(text, &wanted) != PL_OK || wanted < 1 || wanted > n + 1))
        return pl_fail(PL_ERR_USAGE, "only home %d can be added next, not `%s`", n + 1,
                       text);
    *there = wanted <= n;
    if (*there && !h->json)
        say("home %d already exists", (int)wanted);
    return PL_OK;
}

/* Adds the next home. If a home runs that `table` does not have yet, an earlier call
 * has started it, and only its weight is set. An interrupted call may have left a table
 * `next` that already has this home (net/move.h). */
static pl_status add_next_home(homes_call *h)
{
    pl_places table, next;
    int n = pl_client_n_homes(h->r.client);
    bool there = false;
    PL_CHECK(pl_client_get_places(h->r.client, &table, &next));
    int known = table.n > 0 ? table.n : next.n;
    PL_CHECK(check_new_home(h, known > 0 ? known : n, &there));
    if (there)
        return PL_OK;
    if (known == 0 || known >= n)
        PL_CHECK(run_begin_home(&h->r, n));
    else
        n--;
    PL_CHECK(run_home_weights(&h->r, &h->places));
    h->places.weights[n] = (int)h->weight;
    return settle(h);
}

static pl_status weigh_home(homes_call *h, int home, int64_t weight)
{
    PL_CHECK(run_home_weights(&h->r, &h->places));
    h->places.weights[home] = (int)weight;
    return settle(h);
}

static pl_status drain_home(homes_call *h)
{
    int home = 0;
    PL_CHECK(read_home(h, h->words[0], &home));
    return weigh_home(h, home, 0);
}

static pl_status reweigh(homes_call *h)
{
    int home = 0;
    int64_t weight = 0;
    PL_CHECK(read_home(h, h->words[0], &home));
    PL_CHECK(read_weight(h->words[1], &weight));
    return weigh_home(h, home, weight);
}

/* ---- one name ---- */
typedef struct search {
    /* "mix/L1.E0"; or "L1.E0", which means a module of the mixture's newest chapter */
    const char *asked;
    char name[PL_MODULE_NAME_MAX];
    /* home: the home that has the name, or -1; chapter: the chapter of the name;
     * looks_at: the home that is searched now */
    int home, chapter, looks_at;
} search;

static pl_status match(void *context, const char *name)
{
    search *s = context;
    char arm[PL_ARM_NAME_MAX];
    const char *place = pl_arm_of_module(name, arm, sizeof arm);
    const int chapter = pl_arm_chapter(arm);
    bool newer = chapter > s->chapter && strcmp(place, s->asked) == 0;
    if (!newer && strcmp(name, s->asked) != 0)
        return PL_OK;
    s->chapter = chapter;
    s->home = s->looks_at;
    pl_copy_text(s->name, sizeof s->name, name);
    return PL_OK;
}

static pl_status move_to_home(homes_call *h)
{
    search s = {.asked = h->words[0], .home = -1, .chapter = -1};
    int to = 0, n = pl_client_n_homes(h->r.client);
    PL_CHECK(read_home(h, h->words[1], &to));
    PL_CHECK(pl_client_settle_places(h->r.client));
    for (; s.looks_at < n; s.looks_at++)
        PL_CHECK(pl_client_each_name(h->r.client, s.looks_at, match, &s));
    if (s.home < 0)
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "no home has %s; `pathloom homes list --json` lists the names of all homes",
            s.asked);
    const int from = s.home;
    PL_CHECK(run_home_weights(&h->r, &h->places));
    PL_CHECK(pl_move_name(h->r.client, s.name, from, to, &h->report));
    if (from != to)
        say_moved(h, s.name, from, to);
    say_report(h);
    return PL_OK;
}

/* ---- listing ---- */
typedef struct inventory {
    pl_json *names;
    int n, n_objects;
} inventory;

static pl_status count_name(void *context, const char *name)
{
    inventory *v = context;
    if (pl_starts_with(name, "arm/"))
        return PL_OK;
    v->n++;
    v->n_objects += pl_starts_with(name, "shard/") || pl_starts_with(name, "router/") ||
                    pl_starts_with(name, "tag/");
    pl_json_push(v->names, pl_json_make_text(name));
    return PL_OK;
}

static void show_home(const homes_call *h, int home, inventory *v)
{
    row r = row_begin(h->json);
    row_int(&r, "home", home + 1, "%4s");
    row_int(&r, "weight", h->places.weights[home], " %7s");
    row_int(&r, NULL, v->n - v->n_objects, " %17s");
    row_int(&r, NULL, v->n_objects, " %8s");
    row_int(&r, "epoch", (int64_t)h->places.epoch, NULL);
    row_text(&r, "address", h->r.homes_at[home], "  %s");
    if (r.json)
        pl_json_set(r.json, "names", v->names);
    else
        pl_json_destroy(&v->names);
    row_finish(&r);
}

static void say_unfinished(void)
{
    say("a change of weights was interrupted; give its command again, or change the "
        "weights in another way");
}

static pl_status list_homes(homes_call *h)
{
    pl_places table, next;
    PL_CHECK(run_home_weights(&h->r, &h->places));
    PL_CHECK(pl_client_get_places(h->r.client, &table, &next));
    if (!h->json)
        say("home  weight  modules and paths  objects  address");
    for (int i = 0; i < pl_client_n_homes(h->r.client); i++) {
        inventory v = {.names = pl_json_array()};
        pl_status status = pl_client_each_name(h->r.client, i, count_name, &v);
        if (status != PL_OK) {
            pl_json_destroy(&v.names);
            return status;
        }
        show_home(h, i, &v);
    }
    if (!h->json && next.epoch > table.epoch)
        say_unfinished();
    return PL_OK;
}

/* ---- listing a stopped job, from its store ---- */
typedef struct stored {
    pl_store *store;
    inventory homes[PL_HOMES_MAX];
} stored;

static pl_status count_stored(void *context, const char *name)
{
    stored *s = context;
    int home = pl_store_part_of(s->store, name);
    return home < 0 ? PL_OK : count_name(&s->homes[home], name);
}

static pl_status list_stored(homes_call *h)
{
    char folder[PL_PATH_MAX];
    bool unfinished = false;
    stored s = {.store = NULL};
    pl_status status = PL_OK;
    PL_CHECK(pl_store_open(run_file(&h->r, "store", folder), PL_STORE_READ, &s.store));
    int n = pl_store_n_parts(s.store) > 0 ? pl_store_n_parts(s.store) : 1;
    for (int i = 0; i < n; i++)
        s.homes[i].names = pl_json_array();
    PL_TRY(run_stored_weights(folder, n, &h->places, &unfinished));
    PL_TRY(pl_store_each_name(s.store, count_stored, &s));
    if (!h->json)
        say("home  weight  modules and paths  objects  address");
    for (int i = 0; i < n; i++) {
        pl_copy_text(h->r.homes_at[i], PL_ADDRESS_MAX, h->json ? "" : "stopped");
        show_home(h, i, &s.homes[i]);
        s.homes[i].names = NULL;
    }
    if (!h->json && unfinished)
        say_unfinished();
done:
    for (int i = 0; i < n; i++)
        pl_json_destroy(&s.homes[i].names);
    pl_store_close(&s.store);
    return status;
}

/* Lists the homes of a running or stopped job. The run is not locked while a stopped
 * job's store is read, so the job may be started meanwhile. */
static pl_status list_any(homes_call *h)
{
    bool running = false;
    PL_CHECK(look_at_run(h, &running));
    if (running) {
        PL_CHECK(run_find_homes(&h->r));
        return list_homes(h);
    }
    pl_unlock_folder(&h->r.lock);
    return list_stored(h);
}

/* ---- removing a home ---- */
static pl_status drop_home(homes_call *h)
{
    char folder[PL_PATH_MAX];
    int64_t number = 0;
    pl_parts parts;
    bool running = false;
    PL_CHECK(look_at_run(h, &running));
    if (running)
        return pl_fail(PL_ERR_BUSY,
                       "a home can be removed only while the job is stopped: press "
                       "Ctrl+C in `pathloom train`, then give this command again; "
                       "later the same `pathloom train` resumes the job");
    run_file(&h->r, "store", folder);
    PL_CHECK(pl_store_end_copy(folder));
    PL_CHECK(pl_store_count_parts(folder, &parts));
    int n = parts.n > 0 ? parts.n : 1;
    if (pl_parse_int(h->words[0], &number) != PL_OK || number < 1 || number > n)
        return pl_fail(PL_ERR_USAGE,
                       "`%s` is not a home of this job; its homes are 1 to %d",
                       h->words[0], n);
    PL_CHECK(run_drop_home(folder, (int)number - 1));
    if (!h->json)
        say("home %d is removed; homes of the job: %d", (int)number, n - 1);
    return PL_OK;
}

/* ---- the verb ---- */
static const struct {
    const char *name;
    int n_words, n_more; /* n_more: number of optional further words */
    pl_status (*run)(homes_call *h);
    const char *words;
    bool by_itself; /* `run` itself finds the homes or opens the store */
} table[] = {{"list", 0, 0, list_any, "", true},
             {"add", 0, 1, add_next_home, " [HOME]", false},
             {"drain", 1, 0, drain_home, " HOME", false},
             {"remove", 1, 0, drop_home, " HOME", true},
             {"move", 2, 0, move_to_home, " NAME HOME", false},
             {"weight", 2, 0, reweigh, " HOME WEIGHT", false}};
enum { N_VERBS = sizeof table / sizeof *table };

static pl_status run_one(homes_call *h)
{
    const char *names[N_VERBS], *wanted = h->verb ? h->verb : "list";
    for (size_t i = 0; i < N_VERBS; i++) {
        names[i] = table[i].name;
        if (strcmp(wanted, names[i]) != 0)
            continue;
        if (h->n_words < table[i].n_words ||
            h->n_words > table[i].n_words + table[i].n_more)
            return pl_fail(PL_ERR_USAGE, "homes %s takes:%s", wanted,
                           table[i].words[0] ? table[i].words : " no words");
        if (!table[i].by_itself) {
            bool running = false;
            PL_CHECK(look_at_run(h, &running));
            PL_CHECK(running ? run_find_homes(&h->r) : run_start_homes(&h->r));
        }
        return table[i].run(h);
    }
    const char *near = pl_nearest(wanted, names, N_VERBS);
    return pl_fail(PL_ERR_USAGE, "unknown verb `homes %s`; %s%s%s", wanted,
                   near ? "did you mean `" : "see pathloom homes --help",
                   near ? near : "", near ? "`?" : "");
}

static int run_homes(int argc, char **argv)
{
    homes_call h;
    pl_status status = parse_homes_args(argc, argv, &h);
    if (status == PL_OK)
        status = run_one(&h);
    int code = status == PL_OK ? 0 : cli_fail(status);
    run_stop(&h.r, false);
    run_close(&h.r);
    pl_unlock_folder(&h.lock);
    return code;
}

const cli_verb verb_homes = {
    .name = "homes",
    .usage = "homes list|add|drain|remove|move|weight [--run RUN]",
    .help = "show which home has which modules; add and remove homes",
    .options = options,
    .n_options = CLI_COUNT(options),
    .notes = "  list                lists homes, their weights, and how much each "
             "has\n  add [HOME]          adds a home, which gets its share of "
             "everything; if\n                      HOME is given, the command may be "
             "repeated\n  drain HOME          moves everything off that home, which "
             "keeps running\n  remove HOME         removes the last home, if it is "
             "drained and the job is\n                      stopped\n  move NAME HOME  "
             "    moves a module, path or object; the next change of weights\n"
             "                      may move it again\n  weight HOME W "
             "      sets how much of everything a home gets, 1 to 10000\n"
             "\n"
             "If the command is stopped or killed, nothing is lost: the next change "
             "continues from there.",
    .most_words = 3,
    .run = run_homes};
