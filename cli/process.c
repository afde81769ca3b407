#include "cli/process.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* X(option, kind, field) */
#define OPTIONS(X)                                                                     \
    X("listen", TEXT, bind)                                                            \
    X("bind", TEXT, bind)                                                              \
    X("home", LIST, homes)                                                             \
    X("store", TEXT, store)                                                            \
    X("ready", TEXT, ready)                                                            \
    X("hub", TEXT, hub)                                                                \
    X("name", TEXT, name)                                                              \
    X("cache", TEXT, cache)                                                            \
    X("backend", TEXT, backend)                                                        \
    X("precision", TEXT, precision)                                                    \
    X("key", TEXT, key)                                                                \
    X("keys", TEXT, keys)                                                              \
    X("advertise", TEXT, advertise)                                                    \
    X("run", TEXT, run)                                                                \
    X("offer", TEXT, offer)                                                            \
    X("token-file", TEXT, token_file)                                                  \
    X("metrics", TEXT, metrics)                                                        \
    X("cache-bytes", NUMBER, cache_bytes)                                              \
    X("staging-bytes", NUMBER, staging)                                                \
    X("threads", NUMBER, threads)                                                      \
    X("device", NUMBER, device)                                                        \
    X("ttl-ms", NUMBER, ttl_ms)                                                        \
    X("patience-s", NUMBER, patience_s)                                                \
    X("grace-s", NUMBER, grace_s)                                                      \
    X("expect", NUMBER, expect)                                                        \
    X("wait-ms", NUMBER, wait_ms)                                                      \
    X("engine", TEXT, engine)                                                          \
    X("norm-gate", TEXT, norm_gate)                                                    \
    X("audit", TEXT, audit)                                                            \
    X("audit-tolerance", TEXT, tolerance)                                              \
    X("backup", TEXT, backup)                                                          \
    X("part", TEXT, part)                                                              \
    X("keep-updates", FLAG, keep_updates)                                              \
    X("keep-momentum", FLAG, keep_momentum)                                            \
    X("compress", FLAG, compress)                                                      \
    X("recompute", FLAG, recompute)                                                    \
    X("only-enrol", FLAG, only_enrol)                                                  \
    X("json", FLAG, json)                                                              \
    X("log-json", FLAG, log_json)                                                      \
    X("verbose", FLAG, verbose)

enum kind { TEXT, LIST, NUMBER, FLAG };
static const struct {
    const char *name;
    enum kind kind;
    size_t offset;
} rows[] = {
#define ROW(name, kind, field) {name, kind, offsetof(process, field)},
    OPTIONS(ROW)
#undef ROW
};
enum { FIRST = 256, N_ROWS = sizeof rows / sizeof *rows, NOT_GIVEN = -1 };

static void fill_longs(struct option longs[N_ROWS + 1])
{
    for (int i = 0; i < N_ROWS; i++)
        longs[i] = (struct option){
            rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL,
            FIRST + i};
    longs[N_ROWS] = (struct option){NULL, 0, NULL, 0};
}

static pl_status take_number(const char *name, int64_t *out)
{
    if (pl_parse_int(optarg, out) != PL_OK || *out < 0)
        return pl_fail(PL_ERR_USAGE, "--%s takes a number, not `%s`", name, optarg);
    return PL_OK;
}

static pl_status take(int row, process *p)
{
    char *at = (char *)p + rows[row].offset;
    switch (rows[row].kind) {
    case NUMBER:
        return take_number(rows[row].name, (int64_t *)(void *)at);
    case FLAG:
        *(bool *)at = true;
        return PL_OK;
    case LIST:
        if (p->n_homes == PL_HOMES_MAX)
            return pl_fail(PL_ERR_USAGE, "more than %d homes", PL_HOMES_MAX);
        p->homes[p->n_homes++] = optarg;
        return PL_OK;
    case TEXT:
        break;
    }
    *(const char **)(void *)at = optarg;
    return PL_OK;
}

/* What neither an option nor a run says is what its key says to a run that says
 * nothing. */
static void fill_from(process *p, const config *c)
{
    if (!p->backend)
        pl_copy_text(p->backend_text, sizeof p->backend_text, c->backend);
    if (!p->precision)
        pl_copy_text(p->precision_text, sizeof p->precision_text, c->precision);
    p->backend = p->backend ? p->backend : p->backend_text;
    p->precision = p->precision ? p->precision : p->precision_text;
    p->threads = p->threads == NOT_GIVEN ? c->threads : p->threads;
    p->patience_s = p->patience_s == NOT_GIVEN ? c->patience_s : p->patience_s;
    p->cache_bytes = p->cache_bytes == NOT_GIVEN ? c->worker_cache : p->cache_bytes;
    p->recompute = p->recompute || c->recompute;
}

pl_status process_settle(process *p)
{
    char file[PL_PATH_MAX] = "";
    config *c = pl_alloc(sizeof *c);
    pl_conf_defaults(&config_table, c);
    if (p->run)
        pl_join(file, p->run, "run.yaml");
    bool found = file[0] && pl_path_exists(file);
    pl_status status = found ? pl_conf_load(&config_table, c, file) : PL_OK;
    if (status == PL_OK) {
        fill_from(p, c);
        pl_copy_text(p->settled_by, sizeof p->settled_by, found ? file : "");
    }
    pl_free(c);
    return status;
}

pl_status process_parse(int argc, char **argv, int words, process *p)
{
    int option;
    struct option longs[N_ROWS + 1];
    memset(p, 0, sizeof *p);
    p->bind = PL_ADDRESS_PRIVATE;
    p->cache_bytes = p->threads = p->patience_s = NOT_GIVEN;
    p->staging = 1 << 30;
    p->ttl_ms = 2000;
    p->wait_ms = 500;
    fill_longs(longs);
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (option < FIRST)
            return cli_bad_option(option, argv, longs);
        PL_RETURN_IF(take(option - FIRST, p));
    }
    if (optind + words < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind + words]);
    p->word = optind < argc ? argv[optind] : NULL;
    return PL_OK;
}

/* ---- what a run folder implies ---- */
enum { ADDRESS_WAIT_MS = 60000 };

static const char *in_run(process *p, int slot, const char *name)
{
    return pl_join(p->paths[slot], p->run, name);
}

/* Another process of the run says where it listens. */
static pl_status await_address(process *p, const char *file, int slot, const char **out)
{
    if (run_await_address(p->run, file, ADDRESS_WAIT_MS, p->found[slot]) != PL_OK)
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "%s/%s does not say where to connect: is that process running, with "
            "--run %s?",
            p->run, file, p->run);
    *out = p->found[slot];
    return PL_OK;
}

static bool is_role(const char *role, const char *other)
{
    return strcmp(role, other) == 0;
}

/* A run that has keys uses them; one that other machines shall reach gets them. */
static pl_status find_keys(process *p, const char *role)
{
    pl_address at;
    char file[64];
    PL_RETURN_IF(pl_address_parse(p->bind, &at));
    if (p->key || (at.is_local && !run_has_keys(p->run)))
        return PL_OK;
    PL_RETURN_IF(run_make_keys(p->run));
    snprintf(file, sizeof file, "keys/%s.key", role);
    p->key = in_run(p, 0, file);
    if (!p->keys && !is_role(role, "worker"))
        p->keys = in_run(p, 1, "keys/allow");
    return PL_OK;
}

/* --part 2/3: the second of three homes. Whichever of them is first makes the folder.
 */
static pl_status read_part(process *p, const char *store, int *index, int *n)
{
    char text[16];
    int64_t part = 0, parts = 0;
    const char *slash = strchr(p->part, '/');
    size_t len = slash ? (size_t)(slash - p->part) : 0;
    snprintf(text, sizeof text, "%.*s", len < sizeof text ? (int)len : 0, p->part);
    if (!slash || pl_parse_int(text, &part) != PL_OK ||
        pl_parse_int(slash + 1, &parts) != PL_OK || parts < 2 || parts > PL_HOMES_MAX ||
        part < 1 || part > parts)
        return pl_fail(PL_ERR_USAGE,
                       "--part takes which home of how many this is, like 2/3 (at most "
                       "%d), not `%s`",
                       PL_HOMES_MAX, p->part);
    *index = (int)part - 1;
    *n = (int)parts;
    return pl_store_make_parts(store, (int)parts);
}

static pl_status find_store(process *p)
{
    char store[PL_PATH_MAX], file[64];
    int n = 0, index = 0;
    pl_join(store, p->run, "store");
    if (p->part)
        PL_RETURN_IF(read_part(p, store, &index, &n));
    else
        PL_RETURN_IF(pl_store_parts(store, &n));
    if (!p->part && n > 0 && !p->store)
        return pl_fail(PL_ERR_USAGE,
                       "the run %s has %d homes; say which this is, like --part 1/%d",
                       p->run, n, n);
    run_home_file(index, n > 0 ? n : 1, file);
    if (!p->ready)
        p->ready = in_run(p, 2, file);
    if (p->store)
        return PL_OK;
    if (n > 0)
        pl_store_part(store, index, p->paths[3]);
    else
        pl_copy_text(p->paths[3], sizeof p->paths[3], store);
    p->store = p->paths[3];
    return PL_OK;
}

/* How many homes the run has is known when the first of them has begun. */
static pl_status await_parts(const process *p, int *n)
{
    char store[PL_PATH_MAX], single[PL_PATH_MAX];
    int64_t start = pl_now_ms();
    pl_join(store, p->run, "store");
    pl_join(single, p->run, "proc/home.address");
    do {
        PL_RETURN_IF(pl_store_parts(store, n));
        if (*n > 0 || pl_path_exists(single))
            return PL_OK;
        pl_sleep_ms(50);
    } while (pl_now_ms() - start < ADDRESS_WAIT_MS);
    return PL_OK; /* awaiting the address will say so */
}

static pl_status await_homes(process *p, const char *role)
{
    char file[64];
    int n = 0;
    PL_RETURN_IF(await_parts(p, &n));
    if (n > 0 && is_role(role, "relay"))
        return pl_fail(
            PL_ERR_USAGE,
            "the run %s has %d homes, and a relay stands before one: name it "
            "with --home ADDRESS",
            p->run, n);
    n = n > 0 ? n : 1;
    for (; p->n_homes < n; p->n_homes++) {
        run_home_file(p->n_homes, n, file);
        PL_RETURN_IF(await_address(p, file, p->n_homes, &p->homes[p->n_homes]));
    }
    return PL_OK;
}

static pl_status find_in_run(process *p, const char *role)
{
    char folder[PL_PATH_MAX], file[64];
    PL_RETURN_IF(find_keys(p, role));
    PL_RETURN_IF(pl_make_folders(pl_join(folder, p->run, "proc")));
    snprintf(file, sizeof file, "proc/%s.address", role);
    if (is_role(role, "home"))
        return find_store(p);
    if (!p->ready && !is_role(role, "worker"))
        p->ready = in_run(p, 2, file);
    if (is_role(role, "worker") && !p->cache)
        p->cache = in_run(p, 4, "cache");
    if (is_role(role, "worker") && !p->hub)
        return await_address(p, "proc/hub.address", 0, &p->hub);
    if ((is_role(role, "hub") || is_role(role, "relay")) && p->n_homes == 0)
        return await_homes(p, role);
    return PL_OK;
}

/* As the launcher of the run would say it: named after the file with the address. */
static void find_place(process *p, const char *role)
{
    char name[64];
    const char *file = p->ready ? strrchr(p->ready, '/') : NULL;
    file = file ? file + 1 : role;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
    run_listen_at(p->run, p->bind, name, p->key != NULL, p->place);
    p->bind = p->place;
}

void process_name(process *p)
{
    pl_keypair own;
    char host[32] = "worker", key[PL_PUBKEY_TEXT] = "";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    if (p->key && pl_keypair_load(p->key, &own) == PL_OK) {
        pl_pubkey_format(&own.open, key);
        pl_keypair_wipe(&own);
    }
    if (key[0])
        snprintf(p->called, sizeof p->called, "%.31s-%.6s", host, key);
    else
        snprintf(p->called, sizeof p->called, "%.31s-%d", host, (int)getpid());
    p->name = p->called;
}

pl_status process_user_folder(const char *variable, const char *below_home,
                              char out[PL_PATH_MAX])
{
    char base[PL_PATH_MAX];
    const char *named = getenv(variable), *home = getenv("HOME");
    if (named && named[0])
        pl_copy_text(base, sizeof base, named);
    else if (home && home[0])
        pl_join(base, home, below_home);
    else
        return pl_fail(PL_ERR_USAGE,
                       "neither HOME nor %s is set; say with --key and --cache where "
                       "files are kept",
                       variable);
    return pl_make_folders(pl_join(out, base, "pathloom"));
}

void process_open_log(const process *p, const char *role)
{
    pl_log_open(p->name ? p->name : role, p->verbose ? PL_LOG_DEBUG : PL_LOG_INFO,
                p->log_json);
}

/* A hub has a connection for each worker, and many systems allow 1,024 files unless
 * more is asked for: all is asked for that the administrator allows. */
static void allow_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return; /* then it stays as it was */
}

pl_status process_open(int argc, char **argv, const char *role, process *p)
{
    PL_RETURN_IF(process_parse(argc, argv, 0, p));
    allow_files();
    process_open_log(p, role);
    if (p->run)
        PL_RETURN_IF(find_in_run(p, role));
    if (p->run && !is_role(role, "worker"))
        find_place(p, role);
    else if (p->key && is_role(p->bind, PL_ADDRESS_PRIVATE))
        p->bind = "tcp://127.0.0.1:*";
    if (is_role(role, "worker") || is_role(role, "relay"))
        PL_RETURN_IF(process_settle(p));
    if (p->key && !p->keys && !is_role(role, "worker"))
        return pl_fail(
            PL_ERR_USAGE,
            "--key needs --keys FILE too: the list of keys that may connect");
    pl_wire_advertise(p->advertise ? p->advertise : "");
    return pl_admission_open(p->key, is_role(role, "worker") ? NULL : p->keys);
}

int process_ended(pl_status status)
{
    if (status == PL_OK) {
        pl_log(PL_LOG_INFO, "process.end", "status=ok");
        return 0;
    }
    pl_log(PL_LOG_ERROR, "process.failed", "status=%s error=\"%s\"",
           pl_status_name(status), pl_last_error());
    return pl_status_exit_code(status);
}
