/* pathloom page: shows a run in a browser, while it trains and afterwards. */
#include "cli/cli.h"
#include "view/view.h"

typedef struct page_request {
    run_request ask;
    const char *ready, *report;
    pl_page_front_options front;
} page_request;

static const cli_option options[] = {
    CLI_JOB(page_request, ask,
            "address of the hub of a job on another machine; needs --key"),
    CLI_OPTION("listen", CLI_TEXT, page_request, front.listen, "ADDRESS",
               "address to listen at, HOST:PORT; PORT *: a free one (127.0.0.1:8090)"),
    CLI_OPTION(
        "token", CLI_TEXT, page_request, front.tokens, "FILE",
        "file with names and hashes of tokens, in the form of serve --api-keys; a "
        "browser then needs a token; required if other machines can reach the address"),
    CLI_OPTION("ready", CLI_TEXT, page_request, ready, "FILE",
               "file that gets the address when the page can be opened"),
    CLI_OPTION("report", CLI_TEXT, page_request, report, "FILE",
               "write the run as one HTML file without scripts instead: results, "
               "curves, history, versions, configuration"),
};

static pl_status run_page(int argc, char **argv)
{
    enum { TICK_MS = 1000 };
    page_request q = {.front.listen = "127.0.0.1:8090"};
    pl_status status = PL_OK;
    char address[64];
    page *p = NULL;
    pl_page_front *front = NULL;
    PL_CHECK(cli_read(&verb_page, argc, argv, &q, NULL));
    if (q.report && q.ask.hub)
        return pl_fail(PL_ERR_USAGE, "--report needs the folder of the run, and cannot "
                                     "be used with --hub");
    if (q.report) {
        pl_buf html = {0};
        status = page_report(q.ask.run, &html);
        if (status == PL_OK)
            status = pl_write_output(q.report, html.data, html.len);
        if (status == PL_OK)
            say("%s has the report, %zu bytes", q.report, html.len);
        pl_buf_destroy(&html);
        return status;
    }
    /* one thread follows the run and answers all questions */
    volatile sig_atomic_t *stop = cli_stop_flag(true);
    PL_TRY(page_open(q.ask.run, q.ask.hub, q.ask.key, &p));
    PL_TRY(pl_page_front_open(&q.front, &front, address));
    if (q.ready)
        PL_TRY(pl_write_output(q.ready, address, strlen(address)));
    else /* otherwise its output is a log of the run, which has only events */
        say("the page of %s is at http://%s/%s",
            q.ask.hub   ? q.ask.hub
            : q.ask.run ? q.ask.run
                        : "pathloom-run",
            address, q.front.tokens ? "#TOKEN" : "");
    for (int64_t next_ms = 0; !*stop;) {
        const int64_t now = pl_now_ms();
        if (now >= next_ms) {
            const bool more = page_tick(p, pl_page_front_is_watched(front));
            pl_page_front_publish(front, page_number(p));
            next_ms = more ? 0 : now + TICK_MS;
        }
        pl_page_question *question =
            pl_page_front_take(front, next_ms > now ? (int)(next_ms - now) / 5 + 1 : 0);
        if (question) {
            pl_buf body = {0};
            status = page_answer(p, question, &body);
            pl_page_front_answer(question, status, &body);
            pl_buf_destroy(&body);
        }
        status = PL_OK;
    }
done:
    pl_page_front_close(&front);
    page_close(&p);
    return status;
}

const cli_verb verb_page = {
    .name = "page",
    .usage = "page --run RUN [--listen ADDRESS | --report FILE]",
    .help = "show a run in a browser, while it trains or afterwards",
    CLI_TABLE(options),
    .notes =
        "The page only reads: nothing in the browser can change the run. Ctrl+C "
        "ends it. A browser's token follows # in the address. With --hub and the key "
        "of an inspector the page shows a job on another machine: its workers, "
        "paths, homes and the events of its hub.",
    .computes = true,
    .run = run_page};
