/* pathloom observe: prints the events of all processes of a run, ordered by time. */
#include "cli/cli.h"
#include "cli/row.h"
#include "view/view.h"

typedef struct observe_request {
    observe_wish wish;
    given_texts logs;
    bool json;
} observe_request;

static const cli_option options[] = {
    CLI_JOB(observe_request, wish,
            "address of the hub of a job on another machine, whose log is read; needs "
            "--key"),
    CLI_OPTION("log", CLI_LIST, observe_request, logs, "FILE",
               "also read this log of a process on another machine; may be repeated"),
    CLI_OPTION("event", CLI_TEXT, observe_request, wish.event, "NAME",
               "only events whose name begins with NAME, such as lease."),
    CLI_OPTION("path", CLI_TEXT, observe_request, wish.path, "pNN",
               "only events about this path"),
    CLI_OPTION("module", CLI_TEXT, observe_request, wish.module, "MODULE",
               "only events about this module, such as L1.E0"),
    CLI_OPTION("worker", CLI_TEXT, observe_request, wish.worker, "NAME",
               "only events that this worker wrote or that name it"),
    CLI_JSON(observe_request, json),
};

static void print_event(void *context, const page_event *e, const char *file)
{
    const observe_request *q = context;
    char when[PL_TIME_TEXT] = "";
    row r = row_begin(q->json);
    pl_format_time(e->wall_ms / 1000, true, when);
    row_say(&r, "%.19s.%03dZ", when, (int)(e->wall_ms % 1000));
    row_int(&r, "wall_ms", e->wall_ms, NULL);
    row_text(&r, "level", e->level, "  %-5s");
    row_text(&r, "role", e->role, "  %-10s");
    row_text(&r, "event", e->event, "  %s");
    row_text(&r, "text", e->text, " %s");
    row_text(&r, "file", file, NULL);
    row_finish(&r);
}

static void print_remark(void *context, const char *sentence)
{
    (void)context;
    fprintf(stderr, "pathloom: %s\n", sentence);
}

static pl_status run_observe(int argc, char **argv)
{
    observe_request q = {.json = false};
    const observe_out out = {print_event, print_remark, &q};
    PL_CHECK(cli_read(&verb_observe, argc, argv, &q, NULL));
    size_t i = 0;
    while (q.wish.event && i < pl_n_explanations &&
           !pl_starts_with(pl_explanations[i].code, q.wish.event))
        i++;
    if (i == pl_n_explanations)
        return pl_fail(PL_ERR_USAGE,
                       "no event begins with `%s`; `pathloom explain` lists all events",
                       q.wish.event);
    q.wish.logs = q.logs.items;
    q.wish.n_logs = q.logs.n;
    if (!q.wish.run && !q.wish.hub && q.logs.n == 0)
        q.wish.run = "pathloom-run";
    return observe_logs(&q.wish, &out);
}

const cli_verb verb_observe = {
    .name = "observe",
    .usage = "observe --run RUN [--event NAME] [--path pNN] [--worker NAME]",
    .help = "print the events of all processes of a run, ordered by time",
    CLI_TABLE(options),
    .notes = "Reads RUN/log, with rotated logs (NAME.log.1), while a job runs or "
             "afterwards. Times are those of the machine that wrote the log; a clock "
             "that differs from the hub's is reported on standard error. With --hub "
             "and the key of an inspector it reads the hub's own log from anywhere.",
    .run = run_observe};
