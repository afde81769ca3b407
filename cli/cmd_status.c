/* pathloom status: what a running job does, from its hub. */
#include "cli/run.h"

static pl_status connect_hub(run *r, const char *dir)
{
    char path[PL_PATH_MAX];
    pl_buf address = {0};
    pl_copy_text(r->dir, sizeof r->dir, dir ? dir : "pathloom-run");
    if (!pl_path_exists(run_file(r, "proc/hub.address", path)))
        return pl_fail(PL_ERR_NOT_FOUND,
                       "no job is running in %s; start or resume it with "
                       "`pathloom train --out %s`",
                       r->dir, r->dir);
    pl_status status = pl_read_file(path, &address);
    if (status == PL_OK)
        status = pl_wire_connect(pl_buf_text(&address), &r->hub);
    pl_buf_destroy(&address);
    return status;
}

static const char *word(const pl_json *o, const char *key)
{
    const char *t = pl_json_text(pl_json_get(o, key), NULL);
    return t ? t : "";
}

static double value(const pl_json *o, const char *key)
{
    double v = 0;
    return pl_json_number(pl_json_get(o, key), &v) ? v : 0;
}

static void print_status(const pl_json *status)
{
    const pl_json *arms = pl_json_get(status, "arms"),
                  *workers = pl_json_get(status, "workers");
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i);
        say("arm      %-9s %4.0f of %4.0f tasks done", word(a, "arm"),
            value(a, "tasks_done"), value(a, "tasks"));
    }
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        say("worker   %-10s %-5s %-16s phase %3.0f step %4.0f  %7.0f tokens/s  %4.0f "
            "tasks",
            word(w, "worker"), word(w, "state"), word(w, "task"), value(w, "phase"),
            value(w, "step"), value(w, "tokens_per_second"), value(w, "tasks"));
    }
    say("leases   %.0f granted, %.0f expired; tasks failed %.0f",
        value(status, "leases_granted"), value(status, "leases_expired"),
        value(status, "tasks_failed"));
    if (word(status, "failure")[0])
        say("failure  %s", word(status, "failure"));
}

int cmd_status(int argc, char **argv)
{
    cli_options o;
    run r;
    pl_json *json = NULL;
    pl_buf text = {0};
    memset(&r, 0, sizeof r);
    r.lock = -1;
    pl_status status = cli_parse(argc, argv, &o);
    if (status == PL_OK)
        status = connect_hub(&r, o.run);
    if (status == PL_OK)
        status = run_hub_status(&r, &json);
    if (status == PL_OK && o.json) {
        pl_json_write(json, 0, &text);
        say("%s", pl_buf_text(&text));
    } else if (status == PL_OK) {
        print_status(json);
    }
    int code = status == PL_OK ? 0 : cli_fail(status);
    pl_json_destroy(&json);
    pl_buf_destroy(&text);
    run_close(&r);
    return code;
}
