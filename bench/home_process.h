/* A home in a process of its own, for benchmarks that measure it. */
#ifndef PL_BENCH_HOME_PROCESS_H
#define PL_BENCH_HOME_PROCESS_H
#include "home/home.h"
#include "net/net.h"
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct home_process {
    pid_t pid;
    char address[256];
} home_process;

static inline void home_process_no_word(const pl_refusal *refusal)
{
    (void)refusal;
}

static inline void home_process_no_trouble(const char *trouble)
{
    (void)trouble;
}

static inline pl_status home_process_put_key(pl_key_list *list, void *context)
{
    return pl_key_list_put(list, context);
}

/* Runs the home until it is killed. */
static inline void home_process_run(const char *folder, const pl_keypair *server,
                                    const pl_pubkey *client, uint64_t staging_bytes)
{
    static volatile sig_atomic_t stop;
    char store[PL_PATH_MAX], list[PL_PATH_MAX], ready[PL_PATH_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pl_gate_options gate = {.own = server,
                            .list = pl_join(list, folder, "allow"),
                            .may = pl_role_allows,
                            .cost = pl_message_cost,
                            .on_refused = home_process_no_word,
                            .on_list = home_process_no_trouble};
    pl_home_options options = {.store = pl_join(store, folder, "store"),
                               .bind = "tcp://127.0.0.1:*",
                               .ready_file = pl_join(ready, folder, "ready"),
                               .staging_bytes = staging_bytes,
                               .stop = &stop};
    pl_log_open("home", PL_LOG_WARN, false);
    pl_wire_keys(server);
    if (client) {
        pl_key_entry e = {.key = *client, .role = PL_AS_ADMIN, .name = "bench"};
        if (pl_key_list_edit(list, home_process_put_key, &e) != PL_OK ||
            pl_gate_open(&gate) != PL_OK)
            _exit(1);
    }
    if (pl_home_run(&options) != PL_OK)
        fprintf(stderr, "home: %s\n", pl_last_error());
    _exit(1);
}

/* Forks a home whose store is in `folder`, and waits for its address. It admits clients
 * with the key `client`; NULL: it does not encrypt. Call it before the process has
 * sockets, because a forked process cannot use ZeroMQ's threads. */
static inline pl_status home_process_start(home_process *h, const char *folder,
                                           const pl_keypair *server,
                                           const pl_pubkey *client,
                                           uint64_t staging_bytes)
{
    char ready[PL_PATH_MAX];
    pl_buf address = {0};
    PL_CHECK(pl_make_folders(folder));
    h->pid = fork();
    if (h->pid == 0)
        home_process_run(folder, server, client, staging_bytes);
    pl_join(ready, folder, "ready");
    for (int i = 0; !pl_path_exists(ready) && i < 1000; i++)
        pl_sleep_ms(10);
    pl_status status = pl_read_file(ready, &address);
    pl_copy_text(h->address, sizeof h->address, pl_buf_text(&address));
    pl_buf_destroy(&address);
    return status;
}

/* Returns the processor time that the process has used. */
static inline double home_process_cpu_s(pid_t pid)
{
    struct timespec used = {0};
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static inline void home_process_end(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#endif
