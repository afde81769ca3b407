/* Opens, locks and closes the folder of a run, and decides which configuration a
 * command uses. Before training has begun, the command's configuration is used; the
 * saved configuration is used only if the command sets nothing but local keys. After
 * training has begun, the command's values are applied to the saved configuration, and
 * a difference in a key that changes results is an error. */
#include "job/curves.h"
#include "job/forget.h"
#include "job/worker_news.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

char *run_file(const pl_run *r, const char *name, char out[PL_PATH_MAX])
{
    return pl_join(out, r->dir, name);
}

pl_status run_write_json(const pl_run *r, const char *name, pl_json *json, int indent,
                         const char *end)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_json_write(json, indent, &text);
    pl_buf_printf(&text, "%s", end);
    pl_status status = pl_replace_file(run_file(r, name, path), text.data, text.len);
    pl_buf_destroy(&text);
    pl_json_destroy(&json);
    return status;
}

void say(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    pl_buf shown = {0};
    va_start(arguments, format);
    int len = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (len < 0)
        pl_memory_exhausted(0);
    pl_buf_printable(&shown, text, (size_t)len, true);
    puts(pl_buf_text(&shown));
    fflush(stdout);
    free(text);
    pl_buf_destroy(&shown);
}

void say_json(pl_json *json)
{
    pl_buf text = {0};
    pl_json_write(json, 0, &text);
    say("%s", pl_buf_text(&text));
    pl_buf_destroy(&text);
    pl_json_destroy(&json);
}

static bool has_begun(const pl_run *r)
{
    char saved[PL_PATH_MAX], store[PL_PATH_MAX];
    return pl_path_exists(run_file(r, "run.yaml", saved)) &&
           pl_path_exists(run_file(r, "store", store));
}

pl_status run_check_gone(const pl_run *r)
{
    if (!r->gone)
        return PL_OK;
    return pl_fail(
        PL_ERR_CONFIG,
        "the run in %s was made with a value of %s that was removed; continue "
        "the run with the version that made it, or give another --out",
        r->dir, r->gone->name);
}

/* Reads the saved configuration. Keys that run.yaml does not name have their
 * defaults. */
static pl_status load_saved(pl_run *r, config *out)
{
    char saved[PL_PATH_MAX];
    memset(out, 0, sizeof *out);
    pl_conf_defaults(&config_table, out);
    return pl_conf_load_saved(&config_table, out, run_file(r, "run.yaml", saved),
                              &r->gone);
}

pl_status run_load_own(pl_run *r, config *out)
{
    PL_CHECK(load_saved(r, out));
    return run_check_gone(r);
}

/* Whether `now` is the list `was`, followed by at least one further item. */
static bool list_goes_on(const char *was, const char *now)
{
    size_t n = strlen(was);
    return strncmp(now, was, n) == 0 && now[n] != '\0' && (n == 0 || now[n] == ',');
}

/* Whether the list `now` is `was`, or goes on with items for phases from `end` on. The
 * items of these lists are in the order of their phases. */
static bool changes_later(const char *was, const char *now, int64_t end)
{
    const char *added = now + strlen(was);
    return strcmp(was, now) == 0 ||
           (list_goes_on(was, now) && atoll(added + (*added == ',')) >= end);
}

static pl_status compare_saved_config(pl_run *r, const config *saved)
{
    pl_buf was = {0}, is = {0};
    config lengthened = *saved;
    const config *own = &lengthened;
    /* The list train.more may get longer, and where the added phases begin, modules may
     * be changed or frozen. All other keys must stay equal, except local ones. */
    r->lengthened = list_goes_on(saved->more, r->cfg.more);
    r->phases_before = config_all_phases(saved);
    if (r->lengthened)
        pl_copy_text(lengthened.more, sizeof lengthened.more, r->cfg.more);
    if (r->lengthened && changes_later(saved->split, r->cfg.split, r->phases_before))
        pl_copy_text(lengthened.split, sizeof lengthened.split, r->cfg.split);
    if (r->lengthened && changes_later(saved->graft, r->cfg.graft, r->phases_before))
        pl_copy_text(lengthened.graft, sizeof lengthened.graft, r->cfg.graft);
    if (r->lengthened && changes_later(saved->freeze, r->cfg.freeze, r->phases_before))
        pl_copy_text(lengthened.freeze, sizeof lengthened.freeze, r->cfg.freeze);
    const char *key = pl_conf_difference(&config_table, own, &r->cfg);
    if (!key)
        return PL_OK;
    pl_conf_get(&config_table, own, key, &was);
    pl_conf_get(&config_table, &r->cfg, key, &is);
    pl_status status = pl_fail(PL_ERR_EXISTS,
                               "the run in %s was made with %s = `%s`, not `%s`; leave "
                               "the key out%s, or give another --out",
                               r->dir, key, pl_buf_text(&was), pl_buf_text(&is),
                               strcmp(key, "train.phases") ? "" : ", give +N to add N");
    pl_buf_destroy(&was);
    pl_buf_destroy(&is);
    return status;
}

static pl_status configure_run(const run_request *q, pl_run *r)
{
    /* In a run that has begun, `train.phases=+8` appends 8 to train.more. */
    static const char plus[] = "train.phases=+";
    char saved[PL_PATH_MAX];
    /* The run's folder must be known before the rest of its configuration. */
    config c = {0};
    pl_conf_defaults(&config_table, &c);
    PL_CHECK(config_lay(&c, q->file, q->sets, q->n_sets));
    pl_copy_text(r->dir, sizeof r->dir, c.out);
    PL_CHECK(forget_finish(r->dir));
    if (has_begun(r)) {
        /* The command's values are applied to the saved configuration, so a command
         * need not repeat the values of earlier commands. The error names the first key
         * that must not be changed. */
        config own;
        PL_CHECK(run_load_own(r, &own));
        r->cfg = own;
        PL_CHECK(config_lay(&r->cfg, q->file, NULL, 0));
        for (int i = 0; i < q->n_sets; i++) {
            char more[2 * PL_KEY_TEXT_MAX];
            bool adds = pl_starts_with(q->sets[i], plus);
            const char *pair = adds ? more : q->sets[i];
            snprintf(more, sizeof more, "train.more=%s%s%s", r->cfg.more,
                     r->cfg.more[0] ? "," : "", q->sets[i] + (adds ? strlen(plus) : 0));
            PL_CHECK(config_lay(&r->cfg, NULL, &pair, 1));
        }
        config_keep_own(&own, &r->cfg);
        PL_CHECK(compare_saved_config(r, &own));
        return config_check(&r->cfg);
    }
    for (int i = 0; i < q->n_sets; i++)
        if (pl_starts_with(q->sets[i], plus))
            return pl_fail(PL_ERR_CONFIG,
                           "%s lengthens a run, but no run was trained in %s yet; give "
                           "a number without +",
                           q->sets[i], r->dir);
    run_file(r, "run.yaml", saved);
    /* Before training has begun, the saved configuration is used only if the command
     * gives no configuration file and sets only local keys. */
    r->took_saved = !q->file && pl_path_exists(saved);
    for (int i = 0; i < q->n_sets; i++)
        r->took_saved = r->took_saved && config_pair_is_local(q->sets[i]);
    if (!r->took_saved)
        return config_build(q->file, q->sets, q->n_sets, &r->cfg);
    PL_CHECK(config_build_saved(saved, q->sets, q->n_sets, &r->cfg, &r->gone));
    return run_check_gone(r);
}

pl_status run_save(const pl_run *r)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    if (r->resumed && !r->lengthened)
        return PL_OK;
    pl_conf_write_yaml(&config_table, &r->cfg, &text);
    pl_status status =
        pl_replace_file(run_file(r, "run.yaml", path), pl_buf_text(&text), text.len);
    pl_buf_destroy(&text);
    return status;
}

pl_status run_use_chapter(pl_run *r, int chapter)
{
    pl_shape shape;
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = 0;
    PL_CHECK(config_shape(&r->cfg, &shape));
    PL_CHECK(config_chapters(&r->cfg, chapters, &n));
    if (chapter >= n)
        chapter = n - 1;
    pl_topology_destroy(&r->topology);
    return pl_topology_create(&shape, &chapters[chapter].spec, &r->topology);
}

pl_status run_lay(pl_run *r, const char *const *sets, int n_sets)
{
    const int n_gpus = r->n_gpus;
    PL_CHECK(config_build(NULL, sets, n_sets, &r->cfg));
    PL_CHECK(run_use_chapter(r, CONFIG_CHAPTERS_MAX));
    config_hash(&r->cfg, &r->hash);
    r->n_workers = run_local_workers(&r->cfg, n_gpus);
    r->n_relays = run_count_relays(&r->cfg);
    return PL_OK;
}

int run_local_workers(const config *c, int n_gpus)
{
    if (!c->local_workers)
        return 0;
    if (c->workers > 0)
        return (int)c->workers;
    if (c->attach)
        return 0;
    return n_gpus > 0 ? n_gpus : pl_cpu_count();
}

pl_backend_options run_own_backend(const pl_run *r)
{
    const config *c = &r->cfg;
    const bool is_elsewhere = r->n_workers == 0 && strcmp(c->backend, "cuda") == 0;
    return (pl_backend_options){.name = is_elsewhere ? "auto" : c->backend,
                                .n_threads = 1,
                                .precision = c->precision};
}

pl_status run_open(const run_request *q, pl_run *r)
{
    memset(r, 0, sizeof *r);
    r->lock = -1;
    r->started = pl_now();
    PL_CHECK(configure_run(q, r));
    PL_CHECK(run_use_chapter(r, CONFIG_CHAPTERS_MAX));
    /* Locks the folder. Before training has begun, a command may still change the
     * configuration. Another command may have begun training before the folder was
     * locked, so this is checked again now. */
    config own;
    r->made = !pl_path_exists(r->dir);
    pl_status status = pl_make_folders(r->dir);
    if (status != PL_OK)
        return pl_fail(status, "%s; give another --out", pl_last_error());
    status = pl_lock_folder(r->dir, &r->lock);
    if (status == PL_ERR_BUSY)
        return pl_fail(PL_ERR_BUSY,
                       "another job is running in %s; watch it with `pathloom status "
                       "--run %s`, or give another --out",
                       r->dir, r->dir);
    PL_CHECK(status);
    /* A killed job leaves the addresses of its processes behind. Whoever asks there
     * would believe that this job's hub hangs. Processes that still run, because they
     * were started by hand, keep theirs. */
    char proc[PL_PATH_MAX];
    if (!r->cfg.attach && !pl_store_has_writer(run_file(r, "store", proc)))
        PL_CHECK(pl_remove_tree(run_file(r, "proc", proc)));
    r->resumed = has_begun(r);
    if (r->resumed) {
        PL_CHECK(run_load_own(r, &own));
        PL_CHECK(compare_saved_config(r, &own));
    }
    config_hash(&r->cfg, &r->hash);
    r->n_workers = run_local_workers(&r->cfg, 0);
    r->n_homes = (int)r->cfg.homes;
    r->n_relays = run_count_relays(&r->cfg);
    return PL_OK;
}

pl_status run_stopped(const pl_run *r)
{
    return *r->stop ? pl_fail(PL_ERR_CANCELLED, "stopped on request") : PL_OK;
}

pl_status run_exists(const char *dir)
{
    char saved[PL_PATH_MAX];
    if (pl_path_exists(pl_join(saved, dir, "run.yaml")))
        return PL_OK;
    return pl_fail(
        PL_ERR_NOT_FOUND,
        "there is no run in %s (no run.yaml, which `train` writes when it has read the "
        "text); give --run FOLDER, or make one with `pathloom train --out %s`",
        dir, dir);
}

pl_status run_look(const char *dir, pl_run *r)
{
    char saved[PL_PATH_MAX];
    memset(r, 0, sizeof *r);
    r->lock = -1;
    r->started = pl_now();
    pl_copy_text(r->dir, sizeof r->dir, dir ? dir : "pathloom-run");
    PL_CHECK(run_exists(r->dir));
    PL_CHECK(load_saved(r, &r->cfg));
    pl_status status = config_check(&r->cfg);
    if (status != PL_OK)
        return pl_fail_in(status, "%s", run_file(r, "run.yaml", saved));
    config_hash(&r->cfg, &r->hash);
    return run_use_chapter(r, CONFIG_CHAPTERS_MAX);
}

void run_close(pl_run *r)
{
    curves_close(&r->curves);
    worker_news_destroy(&r->news);
    pl_client_destroy(&r->client);
    pl_wire_close(&r->hub);
    pl_launcher_destroy(&r->launcher);
    pl_tokens_close(&r->train);
    pl_tokens_close(&r->valid);
    pl_topology_destroy(&r->topology);
    /* Removes folders that this command made and left empty. */
    char data[PL_PATH_MAX];
    if (r->made) {
        rmdir(run_file(r, "data", data)); /* rmdir fails unless the folder is empty */
        rmdir(r->dir);
    }
    pl_unlock_folder(&r->lock);
}
