/* pathloom top: shows the job on a screen, redrawn twice per second until q. */
#include "cli/cli.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { DRAW_MS = 500, COLUMNS = 100, ROWS = 30, COLUMNS_MIN = 40 };

typedef struct screen {
    pl_buf text;
    int columns, rows, line;
    bool tty;
    struct termios before;
} screen;

/* Prints a line, cut at the screen's right edge; nothing below the last line. */
static void PL_PRINTF(2, 3) put_screen_line(screen *s, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    if (s->tty && s->line >= s->rows - 1)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t keep = 0, shown = 0;
    while (line[keep] && shown < (size_t)s->columns) {
        size_t len = pl_utf8_length(line + keep, strlen(line + keep));
        keep += len ? len : 1;
        shown++;
    }
    line[keep] = '\0';
    pl_buf_printable(&s->text, line, keep, false);
    pl_buf_printf(&s->text, "%s\n", s->tty ? "\033[K" : "");
    s->line++;
}

static void put_head(screen *s, const pl_json *status)
{
    const pl_json *workers = pl_json_get(status, "workers");
    double rate = 0;
    char tokens[16], up[16];
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        bool is_busy = strcmp(pl_json_get_text(w, "state"), "busy") == 0;
        rate += is_busy ? pl_json_get_real(w, "tokens_per_second") : 0;
    }
    put_screen_line(s, "pathloom %s  %s%s  up %s", pl_json_get_text(status, "version"),
                    pl_json_get_text(status, "address"),
                    pl_json_get_bool(status, "encrypted") ? " encrypted" : "",
                    pl_human_seconds(pl_json_get_real(status, "uptime_seconds"), up));
    put_screen_line(s, "%s tokens/s  workers %.0f busy of %.0f  tasks failed %.0f",
                    pl_human_count(rate, tokens),
                    pl_json_get_real(status, "workers_busy"),
                    pl_json_get_real(status, "workers_here"),
                    pl_json_get_real(status, "tasks_failed"));
    put_screen_line(s, "leases   %.0f granted, %.0f expired  backups %.0f, %.0f first",
                    pl_json_get_real(status, "leases_granted"),
                    pl_json_get_real(status, "leases_expired"),
                    pl_json_get_real(status, "backups_granted"),
                    pl_json_get_real(status, "backups_won"));
    const pl_json *fenced = pl_json_get(status, "fenced");
    double agreed = pl_json_get_real(status, "audits_agreed"),
           differed = pl_json_get_real(status, "audits_differed"),
           open = pl_json_get_real(status, "audits_open");
    const double unchecked = pl_json_get_real(status, "audits_unchecked");
    if (agreed + differed + open + unchecked > 0)
        put_screen_line(
            s, "audits   %.0f agreed, %.0f differed, %.0f unchecked, %.0f open", agreed,
            differed, unchecked, open);
    const pl_json *waiting = pl_json_get(status, "audits_waiting");
    for (size_t i = 0; i < pl_json_count(waiting); i++) {
        char text[PROGRESS_WAITING_MAX];
        put_screen_line(s, "audits   %s",
                        progress_waiting(pl_json_at(waiting, i), text));
    }
    for (size_t i = 0; i < pl_json_count(fenced); i++)
        put_screen_line(s, "FENCED   %s",
                        pl_json_get_text(pl_json_at(fenced, i), "reason"));
    if (pl_json_get_text(status, "failure")[0])
        put_screen_line(s, "FAILED   %s", pl_json_get_text(status, "failure"));
}

static const char *bytes_or_dash(const pl_json *w, const char *key, char text[16])
{
    const double bytes = pl_json_get_real(w, key);
    return bytes > 0 ? pl_human_bytes(bytes, text) : "-";
}

static void put_worker_rows(screen *s, const pl_json *status, int most)
{
    const pl_json *workers = pl_json_get(status, "workers");
    size_t n = pl_json_count(workers);
    put_screen_line(s, "%s", "");
    put_screen_line(s, "%-14s %-8s %8s %8s %8s %7s %5s %5s %8s  %s", "WORKER", "STATE",
                    "TOKENS/S", "UP/S", "DOWN/S", "RTT", "AGAIN", "TASKS", "SEEN",
                    "TASK");
    for (size_t i = 0; i < n && (int)i < most; i++) {
        const pl_json *w = pl_json_at(workers, i);
        const double rtt_ms = 1e3 * pl_json_get_real(w, "round_trip_seconds"),
                     again = pl_json_get_real(w, "bytes_repeated_percent");
        const bool is_here =
            pl_json_get_text(w, "doing")[0] && !pl_json_get_real(w, "barred_seconds");
        char rate[16], up[16], down[16], rtt[16] = "-", share[16] = "-", task[128] = "";
        if (pl_json_get_text(w, "task")[0])
            snprintf(task, sizeof task, "%s phase %.0f step %.0f",
                     pl_json_get_text(w, "task"), pl_json_get_real(w, "phase"),
                     pl_json_get_real(w, "step"));
        if (rtt_ms > 0)
            snprintf(rtt, sizeof rtt, "%.0f ms", rtt_ms);
        if (again > 0)
            snprintf(share, sizeof share, "%.0f %%", again);
        put_screen_line(s, "%-14s %-8s %8s %8s %8s %7s %5s %5.0f %6.1f s  %s",
                        pl_json_get_text(w, "worker"),
                        pl_json_get_text(w, is_here ? "doing" : "state"),
                        pl_human_count(pl_json_get_real(w, "tokens_per_second"), rate),
                        bytes_or_dash(w, "bytes_up_per_second", up),
                        bytes_or_dash(w, "bytes_down_per_second", down), rtt, share,
                        pl_json_get_real(w, "tasks"),
                        pl_json_get_real(w, "seen_seconds_ago"), task);
        if (pl_json_get_text(w, "reason")[0])
            put_screen_line(s, "  %s", pl_json_get_text(w, "reason"));
    }
    if ((int)n > most)
        put_screen_line(s, "... and %d more", (int)n - most);
}

/* Whether one more line leaves room for the line that counts the hidden paths. */
static bool has_room(const screen *s)
{
    return !s->tty || s->line < s->rows - 2;
}

/* Draws the paths that fit on the screen. Returns `hidden` plus those that did not. */
static int put_arm(screen *s, const pl_json *arm, int hidden)
{
    const double bits = pl_json_get_real(arm, "held_out_bits_per_byte");
    if (bits > 0 && has_room(s))
        put_screen_line(s, "%-20s held-out text %.4f bits/byte after phase %.0f",
                        pl_json_get_text(arm, "arm"), bits,
                        pl_json_get_real(arm, "held_out_phase"));
    const pl_json *paths = pl_json_get(arm, "paths");
    for (size_t i = 0; i < pl_json_count(paths); i++) {
        if (!has_room(s)) {
            hidden++;
            continue;
        }
        const pl_json *path = pl_json_at(paths, i), *lease = pl_json_get(path, "lease"),
                      *backup = pl_json_get(path, "backup");
        char own[PL_NAME_MAX], name[2 * PL_NAME_MAX], tokens[16],
            loss[16] = "-", norm[16] = "-", held[160] = "";
        progress_path_name(paths, i, own);
        snprintf(name, sizeof name, "%s%s%s", pl_json_get_text(arm, "arm"),
                 own[0] ? "/" : "", own);
        if (lease)
            snprintf(held, sizeof held, "%s %.1f s%s%.60s",
                     pl_json_get_text(lease, "worker"),
                     pl_json_get_real(lease, "age_seconds"), backup ? ", backup " : "",
                     backup ? pl_json_get_text(backup, "worker") : "");
        /* a loss of 0 means that the path has not begun */
        if (pl_json_get_real(path, "loss") > 0)
            snprintf(loss, sizeof loss, "%.3f", pl_json_get_real(path, "loss"));
        if (pl_json_get_real(path, "gradient_norm") > 0)
            snprintf(norm, sizeof norm, "%.3g",
                     pl_json_get_real(path, "gradient_norm"));
        put_screen_line(s, "%-20s %5.0f/%-5.0f %5.0f %8s %8s %8s  %s", name,
                        pl_json_get_real(path, "phase"),
                        pl_json_get_real(arm, "phases"), pl_json_get_real(path, "step"),
                        loss, norm,
                        pl_human_count(pl_json_get_real(path, "tokens"), tokens), held);
    }
    return hidden;
}

static void draw_screen(screen *s, const pl_json *status)
{
    struct winsize window = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
    s->columns = known ? window.ws_col : COLUMNS;
    s->rows = known && window.ws_row > 0 ? window.ws_row : ROWS;
    if (s->columns < COLUMNS_MIN)
        s->columns = COLUMNS_MIN;
    s->line = 0;
    pl_buf_clear(&s->text);
    put_head(s, status);
    const pl_json *homes = pl_json_get(status, "homes"),
                  *arms = pl_json_get(status, "arms");
    for (size_t i = 0; i < pl_json_count(homes); i++) {
        const pl_json *h = pl_json_at(homes, i),
                      *results = pl_json_get(h, "submissions");
        char size[80], space[16];
        put_screen_line(
            s,
            "home     %s %s  store %s, %s free  versions %.0f  waiting %.0f  "
            "rejected %.0f  fenced %.0f",
            pl_json_get_text(h, "address"), pl_json_get_bool(h, "up") ? "up" : "AWAY",
            progress_store_size(h, size),
            pl_human_bytes(pl_json_get_real(h, "disk_free_bytes"), space),
            pl_json_get_real(h, "versions_committed"), pl_json_get_real(h, "pending"),
            pl_json_get_real(results, "rejected"), pl_json_get_real(results, "fenced"));
    }
    put_worker_rows(s, status, s->tty ? s->rows / 3 : 1000);
    put_screen_line(s, "%s", "");
    put_screen_line(s, "%-20s %11s %5s %8s %8s %8s  %s", "PATH", "PHASE", "STEP",
                    "LOSS", "GRADIENT", "TOKENS", "LEASE, AGE");
    int hidden = 0;
    for (int mixture = 1; mixture >= 0; mixture--)
        for (size_t a = pl_json_count(arms); a-- > 0;)
            if ((pl_arm_chapter(pl_json_get_text(pl_json_at(arms, a), "arm")) >= 0) ==
                mixture)
                hidden = put_arm(s, pl_json_at(arms, a), hidden);
    if (hidden > 0)
        put_screen_line(
            s, "... and %d more paths: enlarge the window, or see `pathloom status`",
            hidden);
    if (s->tty)
        printf("\033[H%.*s\033[J", (int)s->text.len, (const char *)s->text.data);
    else
        printf("%.*s", (int)s->text.len, (const char *)s->text.data);
    fflush(stdout);
}

typedef struct top_request {
    run_request ask;
} top_request;

static const cli_option options[] = {
    CLI_JOB(top_request, ask,
            "address of the hub of a job on another machine; needs --key"),
};

/* Redraws the screen until q is pressed. If the hub does not answer for a short time,
 * the last screen stays. Output to a file is drawn only once. */
static pl_status run_top(int argc, char **argv)
{
    top_request q = {.ask = {.run = NULL}};
    screen s = {.tty = false};
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    pl_run r = {.lock = -1};
    PL_CHECK(cli_read(&verb_top, argc, argv, &q, NULL));
    pl_status status = run_watch(&r, &q.ask);
    PL_TRY(status);
    s.tty = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    if (s.tty && tcgetattr(STDIN_FILENO, &s.before) == 0) {
        /* keys arrive singly and are not shown; the second screen, without a cursor */
        struct termios raw = s.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        printf("\033[?1049h\033[?25l");
        fflush(stdout);
    }
    volatile sig_atomic_t *stop = cli_stop_flag(true);
    for (bool drawn = false;; drawn = true) {
        pl_json *seen = NULL;
        status = run_ask_hub(&r, &seen);
        if (status == PL_OK)
            draw_screen(&s, seen);
        pl_json_destroy(&seen);
        if (drawn && (status == PL_ERR_TIMEOUT || status == PL_ERR_NET))
            status = PL_OK;
        if (status != PL_OK || !s.tty)
            break;
        const bool pressed =
            poll(&in, 1, DRAW_MS) > 0 && read(STDIN_FILENO, &key, 1) == 1;
        if ((pressed && (key == 'q' || key == 'Q')) || *stop)
            break;
    }
    if (s.tty) {
        tcsetattr(STDIN_FILENO, TCSANOW, &s.before);
        printf("\033[?25h\033[?1049l");
        fflush(stdout);
    }
done:
    pl_buf_destroy(&s.text);
    run_close(&r);
    return status;
}

const cli_verb verb_top = {
    .name = "top",
    .usage = "top --run RUN",
    .help = "watch a running job on one screen",
    CLI_TABLE(options),
    .notes = "q quits. If the output is not a terminal, the screen is printed once.",
    .run = run_top};
