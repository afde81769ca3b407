/* Measures a whole machine: several processes train at once.
 *
 * Children are forked before this process opens a backend. Otherwise OpenMP would have
 * started its threads, and those do not exist in a forked child. Each child reports the
 * seconds of its best step (or of its mean step) through a pipe. */
#include "measure/engine_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CREW_MAX = 256 };

typedef struct child {
    pid_t pid;
    int pipe;
} child;

/* Binds the calling process to `n` of the processors that it may use, beginning with
 * number `first`; after the last processor comes number 0 again. If the kernel refuses,
 * the process stays unbound, and the measurement varies more. */
static void bind_processors(int first, int n)
{
    cpu_set_t all, mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    const int count = CPU_COUNT(&all);
    int seen = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        if ((seen - first % count + count) % count < n)
            CPU_SET(cpu, &mine);
        seen++;
    }
    (void)sched_setaffinity(0, sizeof mine, &mine);
}

static pl_status time_crew_training(const measure_options *o,
                                    const measured_model *model, int threads,
                                    double *seconds)
{
    pl_backend *be = NULL;
    const pl_backend_options backend = {
        .name = o->backend, .n_threads = threads, .precision = o->precision};
    const pl_probe_options probe = measure_probe_options(o, model);
    PL_CHECK(pl_backend_open(&backend, &be));
    const pl_status status = pl_probe_step(be, &probe, seconds);
    pl_backend_close(&be);
    return status;
}

static pl_status start_crew_child(const measure_options *o, const measured_model *model,
                                  const measure_crew *crew, int i, child *out)
{
    int ends[2];
    double seconds;
    if (pipe(ends) != 0)
        return pl_file_failed("make", "a pipe");
    out->pid = fork();
    if (out->pid < 0) {
        const int why = errno;
        close(ends[0]);
        close(ends[1]);
        return pl_fail(PL_ERR_IO, "cannot start a process: %s", strerror(why));
    }
    if (out->pid == 0) {
        /* The child inherits the run's lock, so it must end with this command. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        /* If `seconds` is above 0, the processes stand for the workers of a job, and
         * workers are not bound to processors. */
        if (o->seconds <= 0)
            bind_processors(i * crew->threads, crew->threads);
        const pl_status status = time_crew_training(o, model, crew->threads, &seconds);
        if (status != PL_OK) {
            fprintf(stderr, "pathloom: %s\n", pl_last_error());
            _exit(pl_status_exit_code(status));
        }
        _exit(write(ends[1], &seconds, sizeof seconds) == sizeof seconds
                  ? 0
                  : EXIT_FAILURE);
    }
    close(ends[1]);
    out->pipe = ends[0];
    return PL_OK;
}

pl_status measure_crew_run(const measure_options *o, const measured_model *model,
                           measure_crew *crew)
{
    pl_status status = PL_OK;
    child children[CREW_MAX];
    int n = 0;
    crew->tokens_per_s = 0.0;
    if (crew->processes > CREW_MAX)
        return pl_fail(
            PL_ERR_USAGE,
            "%d processes cannot train at once; the most that can be measured is "
            "%d",
            crew->processes, CREW_MAX);
    while (n < crew->processes && status == PL_OK) {
        status = start_crew_child(o, model, crew, n, &children[n]);
        n += status == PL_OK;
    }
    for (int i = 0; i < n; i++) {
        const child *c = &children[i];
        double seconds = 0.0;
        int code = 0;
        ssize_t n_read;
        while ((n_read = read(c->pipe, &seconds, sizeof seconds)) < 0 && errno == EINTR)
            ;
        close(c->pipe);
        while (waitpid(c->pid, &code, 0) < 0 && errno == EINTR)
            ;
        if (n_read == sizeof seconds && WIFEXITED(code) && WEXITSTATUS(code) == 0) {
            crew->tokens_per_s += model->batch * model->shape.context / seconds;
            continue;
        }
        const pl_status failed = pl_fail(
            PL_ERR_DEVICE, "the measurement failed: its process %d ended with %s %d",
            (int)c->pid, WIFEXITED(code) ? "code" : "signal",
            WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code));
        status = status == PL_OK ? failed : status;
    }
    return status;
}

pl_status measure_workers(const config *c, const measured_workers *of, double seconds,
                          double *tokens_per_s)
{
    const measure_options o = {.backend = c->backend,
                               .precision = c->precision,
                               .seconds = seconds,
                               .muon = config_has_muon(c),
                               .muon_rows = (int)c->muon_rows};
    const int workers = of->workers, n_gpus = of->n_gpus;
    measured_model model = {.name = "own", .batch = config_pass(c), .rounds = 1};
    measure_crew crew = {.processes = workers, .threads = of->threads};
    double step;
    PL_CHECK(config_shape(c, &model.shape));
    if (n_gpus == 0) {
        PL_CHECK(measure_crew_run(&o, &model, &crew));
        *tokens_per_s = crew.tokens_per_s / workers;
        return PL_OK;
    }
    /* On GPUs this process measures: a child forked after CUDA began cannot use it. */
    PL_CHECK(time_crew_training(&o, &model, crew.threads, &step));
    const int sharers = workers > n_gpus ? (workers + n_gpus - 1) / n_gpus : 1;
    *tokens_per_s = model.batch * model.shape.context / step / sharers;
    return PL_OK;
}
