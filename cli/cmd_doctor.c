/* pathloom doctor: looks at this machine, a run and the way to a hub; each line says
 * ok, warn or fail, and what to do. */
#include "cli/doctor.h"

#include <stdarg.h>

static const char *const names[] = {"ok", "warn", "fail"};

static void tell_json(health how, const char *what, const char *text,
                      const char *remedy)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "health", names[how]);
    pl_json_set_text(o, "what", what);
    pl_json_set_text(o, "found", text);
    pl_json_set_text(o, "remedy", remedy);
    say_json(o);
}

void doctor_say(doctor *d, health how, const char *what, const char *remedy,
                const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    d->n[how]++;
    if (d->json)
        tell_json(how, what, text, remedy);
    else
        say("%-4s  %-11s %s", names[how], what, text);
    if (!d->json && remedy[0])
        say("      %-11s %s", "remedy", remedy);
}

int cmd_doctor(int argc, char **argv)
{
    cli_options o;
    doctor d = {.json = false};
    pl_status status = cli_parse(argc, argv, &o);
    if (status == PL_OK)
        status = cli_no_words(&o, "doctor");
    if (status != PL_OK)
        return cli_fail(status);
    d.json = o.json;
    doctor_machine(&d);
    if (o.ask.hub)
        doctor_gpu(&d, NULL, false);
    if (o.ask.hub)
        doctor_hub(&d, o.ask.hub, o.ask.key);
    else
        doctor_run(&d, o.ask.run ? o.ask.run : "pathloom-run");
    if (!d.json)
        say("%d ok, %d warnings, %d failures", d.n[HEALTH_OK], d.n[HEALTH_WARN],
            d.n[HEALTH_FAIL]);
    return d.n[HEALTH_FAIL] == 0 ? 0 : pl_status_exit_code(PL_ERR_UNSUPPORTED);
}
