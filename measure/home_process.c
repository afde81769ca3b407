/* What measurements share: starts and measures processes (home_process.h). */
#include "measure/home_process.h"
#include "home/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void measure_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
}

pl_status measure_make_folder(const char *name, char out[PL_PATH_MAX])
{
    const char *root = getenv("TMPDIR");
    pl_join(out, root && *root ? root : P_tmpdir, name);
    if (!mkdtemp(out))
        return pl_fail(PL_ERR_IO, "cannot make the folder %s; set TMPDIR", out);
    return PL_OK;
}

void measure_fill(uint8_t *data, uint64_t bytes, uint64_t seed, uint64_t stream)
{
    for (uint64_t i = 0; i + 16 <= bytes; i += 16) {
        uint32_t block[4];
        pl_philox(seed, stream, i, block);
        memcpy(data + i, block, sizeof block);
    }
}

void measure_need(pl_status status)
{
    if (status == PL_OK)
        return;
    fprintf(stderr, "pathloom: %s\n", pl_last_error());
    _exit(pl_status_exit_code(status));
}

double measure_cpu_s(pid_t pid)
{
    struct timespec used = {0};
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    if (pid == 0 || clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

double measure_memory(pid_t pid, const char *what)
{
    char name[64], line[256];
    double kib = 0;
    snprintf(name, sizeof name, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtod(line + strlen(what), NULL);
    if (file)
        fclose(file);
    return 1024 * kib;
}

static void no_word(const pl_refusal *refusal)
{
    (void)refusal;
}

static void no_trouble(const char *trouble)
{
    (void)trouble;
}

static pl_status put_key(pl_key_list *list, void *context)
{
    return pl_key_list_put(list, context);
}

pl_status home_process_start(home_process *h, const char *folder,
                             const pl_keypair *server, const pl_pubkey *client,
                             uint64_t staging_bytes)
{
    char store[PL_PATH_MAX], list[PL_PATH_MAX], ready[PL_PATH_MAX];
    pl_buf address = {0};
    PL_CHECK(pl_make_folders(folder));
    pl_join(ready, folder, "ready");
    h->pid = fork();
    if (h->pid == 0) {
        static volatile sig_atomic_t stop;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pl_gate_options gate = {.own = server,
                                .list = pl_join(list, folder, "allow"),
                                .may = pl_role_allows,
                                .cost = pl_message_cost,
                                .on_refused = no_word,
                                .on_list = no_trouble};
        pl_home_options options = {.store = pl_join(store, folder, "store"),
                                   .bind = "tcp://127.0.0.1:*",
                                   .ready_file = ready,
                                   .staging_bytes = staging_bytes,
                                   .stop = &stop};
        pl_log_open("home", PL_LOG_WARN, false);
        pl_wire_keys(server);
        if (client) {
            pl_key_entry e = {.key = *client, .role = PL_AS_ADMIN, .name = "bench"};
            if (pl_key_list_edit(list, put_key, &e) != PL_OK ||
                pl_gate_open(&gate) != PL_OK)
                _exit(1);
        }
        if (pl_home_run(&options) != PL_OK)
            fprintf(stderr, "pathloom: %s\n", pl_last_error());
        _exit(1);
    }
    for (int i = 0; !pl_path_exists(ready) && i < 1000; i++)
        pl_sleep_ms(10);
    pl_status status = pl_read_file(ready, &address);
    pl_copy_text(h->address, sizeof h->address, pl_buf_text(&address));
    pl_buf_destroy(&address);
    return status;
}

void home_process_end(home_process *h)
{
    if (h->pid <= 0)
        return;
    kill(h->pid, SIGKILL);
    waitpid(h->pid, NULL, 0);
    h->pid = 0;
}
