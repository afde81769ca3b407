/* Starts child processes, watches them, starts them again, and stops them, so that no
 * child outlives the launcher. */
#include "workers/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ARGS_MAX = 48,
    LINE_BYTES = 1024,
    CRASHES_MAX = 8, /* number of crashes in a row that end the job */
    /* A job ends when a child has ended this often in a row without a crash
     * (after_death), for example by SIGKILL because memory was short. */
    KILLS_MAX = 200,
    /* if a child has lived this long, the counts of crashes and kills begin again */
    STEADY_MS = 10000,
    DELAY_MS = 100,
    DELAY_MAX_MS = 5000,
    /* delay for a worker that cannot work on this machine, if others do its work */
    FAULT_MS = 60000
};

typedef struct child {
    char name[64];
    char *argv[ARGS_MAX]; /* owned */
    char ready_file[PL_PATH_MAX];
    /* address from the first start; a restarted child listens at this address again */
    char address[PL_ADDRESS_MAX];
    pid_t pid; /* 0: not running */
    bool stopping;
    int how;            /* how the child ended, from waitpid */
    char fault[256];    /* the fault of this machine that ended it; "": none */
    int crashes, kills; /* counts since the child last lived for STEADY_MS */
    int64_t started_ms;
    /* time at which to start the child again; 0: the child does not wait for a
     * restart */
    int64_t restart_ms;
} child;

struct pl_launcher {
    char program[PL_PATH_MAX], logs[PL_PATH_MAX];
    child *children;
    int n, restarts;
    bool others;    /* whether workers of other machines may join */
    char last[512]; /* the child that was last started again, and how it had ended */
};

pl_status pl_launcher_create(const char *program, const char *log_folder,
                             pl_launcher **out)
{
    *out = NULL;
    /* if SIGCHLD were ignored, the launcher would not see that children end */
    signal(SIGCHLD, SIG_DFL);
    char own[16];
    snprintf(own, sizeof own, "%d", (int)getpid());
    if (setenv(PL_LAUNCHER_VARIABLE, own, 1) != 0)
        return pl_fail(PL_ERR_OS,
                       "cannot set the variable %s for the processes of the job: %s",
                       PL_LAUNCHER_VARIABLE, strerror(errno));
    PL_CHECK(pl_make_folders(log_folder));
    pl_launcher *l = pl_alloc(sizeof *l);
    l->children = pl_alloc(PL_CHILDREN_MAX * sizeof *l->children);
    pl_copy_text(l->program, sizeof l->program, program);
    pl_copy_text(l->logs, sizeof l->logs, log_folder);
    *out = l;
    return PL_OK;
}

void pl_launcher_destroy(pl_launcher **launcher)
{
    pl_launcher *l = *launcher;
    if (!l)
        return;
    pl_launcher_stop(l, "", 0);
    for (int i = 0; i < l->n; i++)
        for (int a = 0; l->children[i].argv[a]; a++)
            pl_free(l->children[i].argv[a]);
    pl_free_all(l->children, l);
    *launcher = NULL;
}

/* The reason why a child could not begin, which it sends to its parent. */
typedef struct start_failure {
    int cause;   /* errno */
    bool is_log; /* the log cannot be opened, else the program cannot be executed */
} start_failure;

/* The next two functions run in the child process between fork and exec, so they make
 * only async-signal-safe calls. */
static void report_start(int report, bool is_log)
{
    const start_failure f = {.cause = errno, .is_log = is_log};
    const ssize_t n = write(report, &f, sizeof f);
    _exit(n == (ssize_t)sizeof f ? 71 : 74);
}

static void become(const char *program, char *const *argv, const char *log,
                   pid_t parent, int report)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(71);
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 ||
        dup2(out, 2) < 0)
        report_start(report, true);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* ignored here because the launcher handles Ctrl+C and the end of the terminal */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    execv(program, argv);
    report_start(report, false);
}

static pl_status spawn(pl_launcher *l, child *c)
{
    char log[PL_PATH_MAX], file[80];
    pid_t parent = getpid();
    snprintf(file, sizeof file, "%s.log", c->name);
    pl_join(log, l->logs, file);
    if (c->ready_file[0])
        PL_CHECK(pl_remove_tree(c->ready_file));
    c->started_ms = pl_now_ms();
    c->restart_ms = 0;
    /* The pipe closes when the program is executed; before, it brings the failure. */
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return pl_file_failed("make a pipe to process", c->name);
    c->pid = fork();
    if (c->pid == 0)
        become(l->program, c->argv, log, parent, report[1]);
    int cause = c->pid < 0 ? errno : 0;
    start_failure f = {0};
    ssize_t n;
    close(report[1]);
    do
        n = read(report[0], &f, sizeof f);
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (c->pid > 0 && n == (ssize_t)sizeof f) {
        (void)waitpid(c->pid, NULL, 0);
        c->pid = 0;
        const bool few = pl_status_of_errno(f.cause, PL_ERR_OS) == PL_ERR_FILES;
        return pl_fail(few ? PL_ERR_FILES : PL_ERR_OS,
                       "cannot start process %s: it cannot %s (%s): %s%s", c->name,
                       f.is_log ? "open its log" : "execute the program",
                       f.is_log ? log : l->program, strerror(f.cause),
                       pl_path_exists("/proc/self") ? "" : "; mount /proc");
    }
    if (c->pid < 0) {
        c->pid = 0;
        return pl_fail(PL_ERR_OS, "cannot start process %s: %s", c->name,
                       strerror(cause));
    }
    return PL_OK;
}

pl_status pl_launcher_start(pl_launcher *l, const char *name, const char *const *argv,
                            const char *ready_file)
{
    int n = 0;
    if (l->n == PL_CHILDREN_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "a job can start at most %d processes on one machine; use fewer "
                       "workers or homes here",
                       PL_CHILDREN_MAX);
    child *c = &l->children[l->n];
    pl_copy_text(c->name, sizeof c->name, name);
    pl_copy_text(c->ready_file, sizeof c->ready_file, ready_file ? ready_file : "");
    for (; argv[n] && n + 1 < ARGS_MAX; n++)
        c->argv[n] = pl_strdup(argv[n]);
    l->n++;
    if (argv[n])
        return pl_fail(PL_ERR_INTERNAL, "process %s has more than %d arguments", name,
                       ARGS_MAX - 1);
    return spawn(l, c);
}

/* Changes the argument after --listen, so that a restarted child listens at the same
 * port or path as before. Other processes already know this address. */
static void pin_address(child *c)
{
    pl_address got, asked;
    char text[PL_ADDRESS_MAX];
    for (int i = 0; c->argv[i] && c->argv[i + 1]; i++) {
        if (strcmp(c->argv[i], "--listen") != 0 || !pl_ends_with(c->argv[i + 1], "*") ||
            pl_address_parse(c->address, &got) != PL_OK ||
            pl_address_parse(c->argv[i + 1], &asked) != PL_OK)
            continue;
        if (asked.host[0])
            snprintf(text, sizeof text, "tcp://%.120s:%d", asked.host, got.port);
        else
            pl_copy_text(text, sizeof text, got.endpoint);
        pl_free(c->argv[i + 1]);
        c->argv[i + 1] = pl_strdup(text);
    }
}

bool pl_launcher_address(pl_launcher *l, const char *name, char *address, size_t size)
{
    child *c = l->children;
    while (strcmp(c->name, name) != 0)
        c++;
    pl_buf text = {0};
    const bool is_ready =
        pl_path_exists(c->ready_file) && pl_read_file(c->ready_file, &text) == PL_OK;
    if (is_ready) {
        pl_copy_text(c->address, sizeof c->address, pl_buf_text(&text));
        pl_copy_text(address, size, c->address);
        pin_address(c);
    }
    pl_buf_destroy(&text);
    return is_ready;
}

/* Returns the status and the error text that the child wrote to its log: if it ended by
 * itself, the last line has `status=NAME error="SENTENCE"`. If it wrote no status,
 * returns PL_ERR_OS and the last line of the log. */
static pl_status last_words(const pl_launcher *l, const char *name,
                            char out[LINE_BYTES])
{
    pl_buf text = {0};
    char path[PL_PATH_MAX], file[80], line[LINE_BYTES] = "";
    snprintf(file, sizeof file, "%s.log", name);
    pl_join(path, l->logs, file);
    if (pl_read_file(path, &text) == PL_OK && text.len > 0) {
        size_t end = text.len;
        while (end > 0 && text.data[end - 1] == '\n')
            end--;
        size_t start = end;
        while (start > 0 && text.data[start - 1] != '\n')
            start--;
        snprintf(line, LINE_BYTES, "%.*s", (int)(end - start),
                 (const char *)text.data + start);
    }
    pl_buf_destroy(&text);
    const char *status = strstr(line, " status="), *error = strstr(line, " error=\"");
    pl_copy_text(out, LINE_BYTES, line);
    if (!status || !error)
        return PL_ERR_OS;
    pl_copy_text(out, LINE_BYTES, error + strlen(" error=\""));
    size_t len = strlen(out);
    if (len > 0 && out[len - 1] == '"')
        out[len - 1] = '\0';
    status += strlen(" status=");
    for (int s = PL_OK + 1; s < PL_STATUS_COUNT; s++) {
        const char *known = pl_status_name((pl_status)s);
        if (strlen(known) == strcspn(status, " ") &&
            strncmp(known, status, strlen(known)) == 0)
            return (pl_status)s;
    }
    return PL_ERR_OS;
}

static bool is_worker(const child *c)
{
    return pl_starts_with(c->name, "worker-");
}

/* Whether the job can go on without this worker: a different worker of this launcher
 * works, or workers of other machines may join. */
static bool has_others(const pl_launcher *l, const child *c)
{
    bool found = l->others;
    for (int i = 0; i < l->n && !found; i++) {
        const child *other = &l->children[i];
        found = other != c && is_worker(other) && other->pid > 0 &&
                (other->crashes + other->kills == 0 ||
                 pl_now_ms() - other->started_ms > STEADY_MS);
    }
    return found;
}

static int64_t delay_of(const child *c)
{
    return c->crashes < 6 ? DELAY_MS << c->crashes : DELAY_MAX_MS;
}

/* Decides what the end of a child means: the job continues without it, the child is
 * started again later (the delay grows with each crash), or the job ends. */
static pl_status after_death(pl_launcher *l, child *c, int how)
{
    char words[LINE_BYTES];
    c->pid = 0;
    c->how = how;
    if (c->stopping)
        return PL_OK;
    const pl_status why = last_words(l, c->name, words);
    /* If the hub has fenced this worker and another one runs or waits for its restart,
     * the job continues without this one, because the hub would refuse it again. */
    const bool fenced = why == PL_ERR_NOPERM && pl_starts_with(words, "worker ") &&
                        strstr(words, " is fenced: ");
    bool is_alone = true;
    for (int i = 0; i < l->n; i++) {
        const child *other = &l->children[i];
        const bool is_here = other->pid > 0 || other->restart_ms > 0;
        is_alone = is_alone && !(other != c && is_here && is_worker(other));
    }
    if (fenced && !is_alone) {
        c->restart_ms = 0;
        pl_log(PL_LOG_ERROR, "worker.fenced", "worker=%s reason=\"%s\"", c->name,
               words);
        return PL_OK;
    }
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    /* a restart repairs neither a missing right nor a missing device */
    const bool stays = why == PL_ERR_NOPERM || why == PL_ERR_UNSUPPORTED;
    /* Without words of its own the process did not say what happened to it. */
    const bool fault = code >= 0 && is_worker(c) && pl_is_machine_fault(why) &&
                       pl_status_exit_code(why) == code && (!stays || has_others(l, c));
    pl_copy_text(c->fault, sizeof c->fault, fault ? words : "");
    /* A code of sysexits.h means that the same error would come again. But code 75 asks
     * for a restart. */
    if (code >= 64 && code <= 78 && code != 75 && !fault)
        return pl_fail(why, "process %s ended with an error: %s", c->name, words);
    /* another process ended it, or it ended without an error: this is not a crash */
    const bool was_told = WIFSIGNALED(how)
                              ? WTERMSIG(how) == SIGKILL || WTERMSIG(how) == SIGTERM
                              : code == 0;
    const int64_t now = pl_now_ms();
    if (now - c->started_ms > STEADY_MS)
        c->crashes = c->kills = 0;
    c->kills += was_told;
    c->crashes += !was_told;
    int64_t delay = !was_told ? delay_of(c) : c->kills < 4 ? 0 : DELAY_MS;
    const bool often = c->crashes >= CRASHES_MAX || c->kills >= KILLS_MAX;
    if (often && is_worker(c) && has_others(l, c))
        delay = FAULT_MS;
    else if (often)
        return pl_fail(why, "process %s ended %d times in a row: %s", c->name,
                       c->crashes + c->kills, words);
    c->restart_ms = now + delay;
    return PL_OK;
}

pl_status pl_launcher_tend(pl_launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        int how = 0;
        child *c = &l->children[i];
        if (c->pid > 0 && waitpid(c->pid, &how, WNOHANG) == c->pid)
            PL_CHECK(after_death(l, c, how));
        if (c->pid == 0 && !c->stopping && c->restart_ms > 0 &&
            pl_now_ms() >= c->restart_ms) {
            l->restarts++;
            if (WIFSIGNALED(c->how))
                snprintf(l->last, sizeof l->last, "%s was killed (signal %d)", c->name,
                         WTERMSIG(c->how));
            else if (c->fault[0])
                snprintf(l->last, sizeof l->last, "%s cannot work on this machine (%s)",
                         c->name, c->fault);
            else
                snprintf(l->last, sizeof l->last, "%s ended with exit code %d", c->name,
                         WEXITSTATUS(c->how));
            const pl_status status = spawn(l, c);
            if (status != PL_OK && ++c->crashes >= CRASHES_MAX &&
                !(is_worker(c) && has_others(l, c)))
                return status;
            if (status != PL_OK) /* for example because memory is short */
                c->restart_ms = pl_now_ms() + delay_of(c);
        }
    }
    return PL_OK;
}

void pl_launcher_expect_others(pl_launcher *launcher)
{
    launcher->others = true;
}

const char *pl_launcher_last_restart(const pl_launcher *launcher)
{
    return launcher->last;
}

int pl_launcher_restarts(const pl_launcher *launcher)
{
    return launcher->restarts;
}

uint64_t pl_launcher_peak_bytes(const pl_launcher *launcher, const char *prefix)
{
    uint64_t most = 0;
    for (int i = 0; i < launcher->n; i++) {
        const child *c = &launcher->children[i];
        if (c->pid <= 0 || !pl_starts_with(c->name, prefix))
            continue;
        uint64_t bytes = pl_memory_peak_bytes((int)c->pid);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int count_alive(pl_launcher *l, const char *prefix)
{
    int alive = 0;
    for (int i = 0; i < l->n; i++) {
        child *c = &l->children[i];
        if (c->pid <= 0 || !pl_starts_with(c->name, prefix))
            continue;
        pid_t reaped = waitpid(c->pid, NULL, WNOHANG);
        if (reaped == c->pid || (reaped < 0 && errno == ECHILD))
            c->pid = 0;
        else
            alive++;
    }
    return alive;
}

static void signal_all(pl_launcher *l, const char *prefix, int signal_number)
{
    for (int i = 0; i < l->n; i++) {
        child *c = &l->children[i];
        if (!pl_starts_with(c->name, prefix))
            continue;
        c->stopping = true;
        if (c->pid > 0)
            kill(c->pid, signal_number);
    }
}

int pl_launcher_end(pl_launcher *l, const char *prefix, int timeout_ms)
{
    int64_t start = pl_now_ms();
    signal_all(l, prefix, SIGTERM);
    /* workers that finish a task need the hub and the homes: restart what dies */
    for (pl_status status = PL_OK;
         count_alive(l, prefix) > 0 && pl_now_ms() - start < timeout_ms;
         pl_sleep_ms(10))
        status = status == PL_OK ? pl_launcher_tend(l) : status;
    return count_alive(l, prefix);
}

int pl_launcher_stop(pl_launcher *l, const char *prefix, int timeout_ms)
{
    int left = timeout_ms > 0 ? pl_launcher_end(l, prefix, timeout_ms)
                              : count_alive(l, prefix);
    if (left > 0)
        signal_all(l, prefix, SIGKILL);
    while (count_alive(l, prefix) > 0)
        pl_sleep_ms(5);
    return left;
}
