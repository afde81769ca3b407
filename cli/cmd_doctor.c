/* pathloom doctor: checks this machine, a run, and the connection to a hub. */
#include "cli/cli.h"
#include "cli/row.h"
#include "measure/measure.h"

static void print_finding(void *context, health how, const char *what,
                          const char *found, const char *remedy)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    row r = row_begin(*(const bool *)context);
    row_text(&r, "health", names[how], "%-4s  ");
    row_text(&r, "what", what, "%-11s ");
    row_text(&r, "found", found, "%s");
    row_text(&r, "remedy", remedy, remedy[0] ? "\n      remedy      %s" : NULL);
    row_finish(&r);
}

typedef struct doctor_request {
    run_request ask;
    bool json;
} doctor_request;

static const cli_option options[] = {
    CLI_JOB(doctor_request, ask,
            "check the connection to this hub instead; needs --key"),
    CLI_JSON(doctor_request, json),
};

static pl_status run_doctor(int argc, char **argv)
{
    doctor_request q = {.ask = {.run = "pathloom-run"}};
    doctor d = {.tell = print_finding, .context = &q.json};
    PL_CHECK(cli_read(&verb_doctor, argc, argv, &q, NULL));
    doctor_examine(&d, q.ask.run, q.ask.hub, q.ask.key);
    if (!q.json)
        say("%d ok, %d warnings, %d failures", d.n[HEALTH_OK], d.n[HEALTH_WARN],
            d.n[HEALTH_FAIL]);
    return d.n[HEALTH_FAIL] == 0 ? PL_OK : pl_fail(PL_ERR_UNSUPPORTED, "%s", "");
}

const cli_verb verb_doctor = {
    .name = "doctor",
    .usage = "doctor [--run RUN | --hub ADDRESS --key FILE]",
    .help = "check this machine, a run, or the connection to a job",
    CLI_TABLE(options),
    .run = run_doctor};
