/* Defines the functions of home_fixture.h. */
#include "tests/support/home_fixture.h"

volatile sig_atomic_t child_stop;

bool has_hub;

void on_term(int number)
{
    (void)number;
    child_stop = 1;
}

pl_status run_home(char **argv, pl_home_options o)
{
    o.store = argv[2];
    o.bind = argv[3];
    o.ready_file = argv[4];
    if (o.staging_bytes == 0)
        o.staging_bytes = 64 << 20;
    o.stop = &child_stop;
    return pl_home_run(&o);
}

void begin_child(char **argv)
{
    signal(SIGTERM, on_term);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pl_log_open(argv[1], PL_LOG_ERROR, false);
}

int end_child(char **argv, pl_status status)
{
    if (status != PL_OK)
        fprintf(stderr, "%s: %s\n", argv[1], pl_last_error());
    return pl_status_exit_code(status);
}

int run_child(char **argv, pl_home_options home)
{
    begin_child(argv);
    return end_child(argv, run_home(argv, home));
}

void name_child(child *c, const char *dir, const char *kind, const char *file)
{
    memset(c, 0, sizeof *c);
    pl_copy_text(c->kind, sizeof c->kind, kind);
    pl_join(c->ready, dir, file);
}

/* Waits until the child is ready, but at most two minutes. Returns false if the child
 * ended before it was ready. */
static bool await_child(child *c)
{
    for (int i = 0; i < 12000 && !pl_path_exists(c->ready); i++) {
        if (waitpid(c->pid, NULL, WNOHANG) > 0)
            return pl_path_exists(c->ready);
        pl_sleep_ms(10);
    }
    return true;
}

void start_failing_child(child *c, const char *failpoint)
{
    enum { STARTS = 5, PAUSE_MS = 300 };
    OWNED(pl_buf_destroy) pl_buf text = {0};
    const char *bind = c->address[0] ? c->address : "tcp://127.0.0.1:*";
    assert_ok(pl_remove_tree(c->ready));
    for (int start = 0; start < STARTS; start++) {
        const char *point = start == 0 ? failpoint : "";
        c->pid = fork();
        if (c->pid == 0) {
            setenv("PATHLOOM_FAILPOINT", point, 1);
            if (!point[0])
                unsetenv("PATHLOOM_FAILPOINT");
            execl("/proc/self/exe", "child of a test", c->kind, c->target, bind,
                  c->ready, c->wait_ms, c->expect, (char *)NULL);
            _exit(71);
        }
        if (await_child(c))
            break;
        pl_sleep_ms(point[0] ? 0 : PAUSE_MS);
    }
    assert_ok(pl_read_file(c->ready, &text));
    pl_copy_text(c->address, sizeof c->address, pl_buf_text(&text));
    if (strcmp(c->kind, "home") == 0 && !failpoint[0] && !has_hub)
        tell_secret(c->address);
}

void start_child(child *c)
{
    start_failing_child(c, "");
}

long child_kib(const child *c)
{
#ifdef __SANITIZE_ADDRESS__
    (void)c;
    return 0;
#else
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)c->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (pl_starts_with(line, "VmRSS:"))
            kib = strtol(line + strlen("VmRSS:"), NULL, 10);
    fclose(file);
    return kib;
#endif
}

void kill_child(child *c, int how)
{
    int status = 0;
    if (c->pid <= 0)
        return;
    kill(c->pid, how);
    waitpid(c->pid, &status, 0);
    c->pid = 0;
    if (how == SIGTERM)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void restart_child(child *c)
{
    kill_child(c, SIGKILL);
    start_child(c);
}

void define_grid(pl_arm *arm, const char *codec)
{
    tiny_arm(arm, 2, 2, 2, 5);
    assert_ok(tiny_diloco(arm, 2, codec));
    for (int p = 0; p < PATHS; p++)
        arm->weights[p] = 1;
}

pl_client *open_client(const char *address)
{
    pl_client *out = NULL;
    pl_client_options options = {
        .homes = &address, .n_homes = 1, .patience_ms = PATIENCE_MS};
    assert_ok(pl_client_create(&options, &out));
    return out;
}

void publish_arm(pl_client *client, const pl_arm *arm, const pl_topology *topology)
{
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob;
    OWNED(free_memory)
    float *start = pl_alloc(pl_topology_path_params(topology) * sizeof *start);
    for (int m = 0; m < pl_topology_n_modules(topology); m++) {
        int slot = pl_topology_module_slot(topology, m);
        const pl_slot *s = pl_topology_slot(topology, slot);
        pl_topology_init(topology, slot, 1, start);
        pl_arm_module_name(arm, topology, m, name);
        assert_int_equal(
            pl_client_create_module(client, name, start, s->n_params, &arm->config),
            PL_OK);
    }
    pl_arm_encode(arm, &bytes);
    snprintf(name, sizeof name, "arm/%s", arm->name);
    assert_int_equal(pl_client_put_object(client, name, bytes.data, bytes.len, &blob),
                     PL_OK);
}
