/* Shows the progress of the arms: on a terminal as a block that is redrawn, elsewhere
 * as a line every ten minutes. */
#include "job/curves.h"
#include "job/worker_news.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { POLL_MS = 200, LINE_MS = 600000, DRAW_MS = 250, ASK_MS = 2000 };
enum { WORKERS_SHOWN = 8 };

typedef struct progress {
    pl_run *r;
    const char *const *arms;
    int n_arms, n_needed; /* the first n_needed arms must finish */
    bool tty;
    int columns, rows; /* size of the terminal, which may change at any time */
    int drawn_lines;
    int64_t drawn_ms;
    double started;
    double first_done;  /* steps that were already done when the wait began */
    double done, total; /* inner steps of the arms that are shown */
    double tokens_per_second;
    bool finished;
    char failure[1200];
    pl_status failure_status;
} progress;

/* Returns the position of the arm in the list of arms that are shown; -1 if the arm is
 * not shown. */
static int place_of(const progress *p, const char *arm)
{
    for (int i = 0; i < p->n_arms; i++)
        if (strcmp(p->arms[i], arm) == 0)
            return i;
    return -1;
}

void progress_path_name(const pl_json *paths, size_t i, char out[PL_NAME_MAX])
{
    bool replicas = false;
    for (size_t k = 0; k < pl_json_count(paths); k++)
        replicas |=
            !pl_ends_with(pl_json_get_text(pl_json_at(paths, k), "path"), ".r0");
    pl_copy_text(out, PL_NAME_MAX, pl_json_get_text(pl_json_at(paths, i), "path"));
    if (!replicas)
        out[strcspn(out, ".")] = '\0';
    if (pl_json_count(paths) == 1)
        out[0] = '\0';
}

/* Writes a loss; 0 means that the path has not begun, and is shown as "-". */
static void put_loss(double loss, pl_buf *out)
{
    if (loss > 0)
        pl_buf_printf(out, " %.3f", loss);
    else
        pl_buf_printf(out, " -");
}

static void head_line(const progress *p, pl_buf *out)
{
    char rate[16], left[16] = "-";
    double share = p->total > 0 ? p->done / p->total : 0;
    if (p->finished) {
        pl_buf_printf(out, "train    100 %%  in %s",
                      pl_human_seconds(pl_now() - p->started, left));
        return;
    }
    const double per_s = (p->done - p->first_done) / (pl_now() - p->started);
    /* negative while it is not known */
    const double eta = per_s > 0 ? (p->total - p->done) / per_s : -1;
    if (eta >= 0)
        pl_human_seconds(eta, left);
    pl_buf_printf(out, "train    %3.0f %%  %s tokens/s  ETA %s", 100 * share,
                  pl_human_count(p->tokens_per_second, rate), left);
}

/* ---- the block on a terminal ---- */
/* Writes a line that is cut to the terminal's width. A line that wraps, or a line below
 * the last row, would make the terminal scroll, and the block could not be redrawn in
 * its place. The text is ASCII, so each byte takes one column. */
static void put_line(progress *p, pl_buf *line, pl_buf *out)
{
    pl_buf shown = {0};
    pl_buf_printable(&shown, pl_buf_text(line), line->len, false);
    if (p->drawn_lines < p->rows - 1) {
        pl_buf_printf(out, "%.*s\033[K\n", p->columns - 1, pl_buf_text(&shown));
        p->drawn_lines++;
    }
    pl_buf_clear(line);
    pl_buf_destroy(&shown);
}

static void draw_block(progress *p, const pl_json *status)
{
    pl_buf out = {0}, line = {0}, one = {0};
    const pl_json *arms = pl_json_get(status, "arms"),
                  *workers = pl_json_get(status, "workers");
    if (p->drawn_lines > 0)
        pl_buf_printf(&out, "\033[%dA", p->drawn_lines);
    p->drawn_lines = 0;
    /* The size is taken as 80x24 if the terminal does not tell it. */
    struct winsize size;
    bool known = ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    p->columns = known ? size.ws_col : 80;
    p->rows = known ? size.ws_row : 24;
    head_line(p, &line);
    put_line(p, &line, &out);
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        /* One line: the phase of the slowest path, and the last losses of as many paths
         * as fit. MORE: room for the number of paths that do not fit, and a free last
         * column. */
        enum { MORE = sizeof "  +123" };
        const pl_json *a = pl_json_at(arms, i), *paths = pl_json_get(a, "paths");
        const size_t n_paths = pl_json_count(paths);
        size_t shown = 0;
        char name[PL_NAME_MAX];
        double least = pl_json_get_real(a, "phases");
        if (place_of(p, pl_json_get_text(a, "arm")) < 0)
            continue;
        for (size_t k = 0; k < n_paths; k++) {
            double phase = pl_json_get_real(pl_json_at(paths, k), "phase");
            least = phase < least ? phase : least;
        }
        pl_buf_printf(&line, "  %-8s phase %.0f/%.0f  loss", pl_json_get_text(a, "arm"),
                      least, pl_json_get_real(a, "phases"));
        for (; shown < n_paths; shown++) {
            size_t more = shown + 1 < n_paths ? MORE : 1;
            pl_buf_clear(&one);
            progress_path_name(paths, shown, name);
            pl_buf_printf(&one, "%s%s", n_paths > 1 ? " " : "", name);
            put_loss(pl_json_get_real(pl_json_at(paths, shown), "loss"), &one);
            if (line.len + one.len + 1 + more > (size_t)p->columns)
                break;
            pl_buf_printf(&line, "%s%s", n_paths > 1 ? " " : "", pl_buf_text(&one));
        }
        if (n_paths > shown)
            pl_buf_printf(&line, "  +%zu", n_paths - shown);
        put_line(p, &line, &out);
    }
    size_t n = p->finished ? 0 : pl_json_count(workers);
    for (size_t i = 0; i < n && i < WORKERS_SHOWN; i++) {
        const pl_json *w = pl_json_at(workers, i);
        pl_buf_printf(&line, "  %-9s %s", pl_json_get_text(w, "worker"),
                      pl_json_get_text(w, "state"));
        if (pl_json_get_text(w, "task")[0])
            pl_buf_printf(&line, "  %s phase %.0f step %.0f",
                          pl_json_get_text(w, "task"), pl_json_get_real(w, "phase"),
                          pl_json_get_real(w, "step"));
        put_line(p, &line, &out);
    }
    pl_buf_printf(&out, "\033[J");
    fputs(pl_buf_text(&out), stdout);
    fflush(stdout);
    pl_buf_destroy(&one);
    pl_buf_destroy(&line);
    pl_buf_destroy(&out);
}

/* Prints the progress as one line of at most 100 columns, for output that is not a
 * terminal: the first arm with its loss, and how many tasks of all others are done. */
static void draw_line(const progress *p, const pl_json *status)
{
    pl_buf out = {0};
    const pl_json *arms = pl_json_get(status, "arms");
    double others_done = 0, others = 0;
    head_line(p, &out);
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i);
        const int place = place_of(p, pl_json_get_text(a, "arm"));
        const double tasks_done = pl_json_get_real(a, "tasks_done"),
                     tasks = pl_json_get_real(a, "tasks");
        others_done += place > 0 ? tasks_done : 0;
        others += place > 0 ? tasks : 0;
        if (place != 0)
            continue;
        pl_buf_printf(&out, "  %s %.0f/%.0f loss", pl_json_get_text(a, "arm"),
                      tasks_done, tasks);
        /* the mean of the last losses of the paths that have begun */
        const pl_json *paths = pl_json_get(a, "paths");
        double sum = 0;
        int n = 0;
        for (size_t k = 0; k < pl_json_count(paths); k++) {
            double loss = pl_json_get_real(pl_json_at(paths, k), "loss");
            sum += loss;
            n += loss > 0;
        }
        put_loss(n > 0 ? sum / n : 0, &out);
    }
    if (others > 0)
        pl_buf_printf(&out, "  other tasks %.0f/%.0f", others_done, others);
    if (!p->finished)
        pl_buf_printf(&out, "  workers %.0f busy of %.0f",
                      pl_json_get_real(status, "workers_busy"),
                      pl_json_get_real(status, "workers_here"));
    say("%s", pl_buf_text(&out));
    pl_buf_destroy(&out);
}

static pl_status poll_once(progress *p, bool *first)
{
    pl_json *status = NULL;
    int restarts = pl_launcher_restarts(p->r->launcher);
    PL_CHECK(pl_launcher_tend(p->r->launcher));
    curves_tick(p->r->curves, false);
    if (pl_launcher_restarts(p->r->launcher) > restarts) {
        say("         %s and was started again (%d restart%s so far); no committed\n"
            "         version is lost, and a task that it had begins again",
            pl_launcher_last_restart(p->r->launcher),
            pl_launcher_restarts(p->r->launcher),
            pl_launcher_restarts(p->r->launcher) == 1 ? "" : "s");
        p->drawn_lines = 0;
    }
    pl_status asked = run_hub_status(p->r, ASK_MS, &status);
    const bool silent = asked == PL_ERR_TIMEOUT || asked == PL_ERR_NET;
    if (worker_news_of_hub(p->r->news, !silent))
        p->drawn_lines = 0;
    if (silent)
        return PL_OK; /* the hub is starting again */
    PL_CHECK(asked);
    /* Adds up the steps of the arms that are shown. Sets `finished` if every arm that
     * the run must complete exists and is done. */
    const pl_json *arms = pl_json_get(status, "arms"),
                  *workers = pl_json_get(status, "workers");
    int complete = 0;
    p->done = p->total = p->tokens_per_second = 0;
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i), *paths = pl_json_get(a, "paths");
        const int place = place_of(p, pl_json_get_text(a, "arm"));
        if (place < 0)
            continue;
        double tau = pl_json_get_real(a, "tau");
        p->done += pl_json_get_real(a, "tasks_done") * tau;
        p->total += pl_json_get_real(a, "tasks") * tau;
        for (size_t k = 0; k < pl_json_count(paths); k++)
            p->done += pl_json_get_real(pl_json_at(paths, k), "step");
        if (pl_json_get_real(a, "tasks_done") >= pl_json_get_real(a, "tasks"))
            complete += place < p->n_needed;
    }
    for (size_t i = 0; i < pl_json_count(workers); i++)
        if (strcmp(pl_json_get_text(pl_json_at(workers, i), "state"), "busy") == 0)
            p->tokens_per_second +=
                pl_json_get_real(pl_json_at(workers, i), "tokens_per_second");
    p->finished = complete == p->n_needed;
    pl_copy_text(p->failure, sizeof p->failure, pl_json_get_text(status, "failure"));
    double why = pl_json_get_real(status, "failure_status");
    p->failure_status = why > 0 && why < PL_STATUS_COUNT ? (pl_status)why : PL_ERR_DATA;
    if (*first) {
        p->first_done = p->done;
        p->drawn_ms = pl_now_ms() - (p->tty ? DRAW_MS : 0);
        *first = false;
    }
    if (!p->finished && worker_news_tell(p->r->news, status))
        p->drawn_lines = 0;
    const int64_t now = pl_now_ms();
    if (p->finished || now - p->drawn_ms >= (p->tty ? DRAW_MS : LINE_MS)) {
        p->drawn_ms = now;
        if (p->tty)
            draw_block(p, status);
        else
            draw_line(p, status);
    }
    pl_json_destroy(&status);
    return PL_OK;
}

pl_status progress_wait(pl_run *r, const char *const *arms, int n_arms, int n_needed)
{
    progress p = {.r = r,
                  .arms = arms,
                  .n_arms = n_arms,
                  .n_needed = n_needed,
                  .started = pl_now()};
    /* The block is redrawn only if the output is a terminal that can move the
     * cursor. */
    const char *term = getenv("TERM");
    p.tty = isatty(1) == 1 && term && term[0] && strcmp(term, "dumb") != 0;
    if (!r->news)
        r->news = worker_news_create();
    bool first = true;
    while (!p.finished) {
        PL_CHECK(run_stopped(p.r));
        PL_CHECK(poll_once(&p, &first));
        if (p.failure[0]) {
            bool diverged = p.failure_status == PL_ERR_NUMERIC;
            return pl_fail(p.failure_status, "training cannot continue: %s%s",
                           p.failure, diverged ? "; a lower train.lr often helps" : "");
        }
        if (!p.finished)
            pl_sleep_ms(POLL_MS);
    }
    return PL_OK;
}

char *progress_store_size(const pl_json *home, char out[80])
{
    char size[16], used[16], quota[16];
    const double limit = pl_json_get_real(home, "quota_bytes");
    pl_human_bytes(pl_json_get_real(home, "store_bytes"), size);
    if (limit > 0)
        snprintf(out, 80, "%s (%s of the quota, %s)", size,
                 pl_human_bytes(pl_json_get_real(home, "quota_used_bytes"), used),
                 pl_human_bytes(limit, quota));
    else
        snprintf(out, 80, "%s", size);
    return out;
}

char *progress_waiting(const pl_json *waiting, char out[PROGRESS_WAITING_MAX])
{
    snprintf(out, PROGRESS_WAITING_MAX,
             "%.100s phase %.0f waits for an own worker of the job with the device "
             "%.120s",
             pl_json_get_text(waiting, "task"), pl_json_get_real(waiting, "phase"),
             pl_json_get_text(waiting, "device"));
    return out;
}
