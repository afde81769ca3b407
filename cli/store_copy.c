/* pathloom store init, backup, restore: make a store, copy it, copy it back. */
#include "cli/store_print.h"

#include <sys/stat.h>

pl_status store_init(store_call *call)
{
    char path[PL_PATH_MAX];
    pl_store *store = NULL;
    if (pl_path_exists(pl_join(path, call->folder, "FORMAT")))
        return pl_fail(PL_ERR_EXISTS, "%s is a store already", call->folder);
    if (call->values[STORE_OPT_ENGINE])
        PL_CHECK(pl_store_make_on(call->folder, call->values[STORE_OPT_ENGINE]));
    PL_CHECK(pl_store_open(call->folder, PL_STORE_CREATE, &store));
    pl_store_close(&store);
    row r = row_begin(call->json);
    row_text(&r, "store", call->folder, "made an empty store in %s");
    row_flag(&r, "made", true, NULL);
    row_finish(&r);
    return PL_OK;
}

pl_status store_refuse_overlap(const store_call *call, const char *other)
{
    const char *what = call->verb->name, *store = call->folder;
    /* Parts of a store and their databases may be links to other places. */
    char part[PL_PATH_MAX], db[PL_PATH_MAX];
    const bool around = pl_path_within(store, other);
    bool in =
        pl_path_within(other, store) || pl_path_within(other, pl_join(db, store, "db"));
    for (int i = 0; i < PL_PARTS_MAX && !in; i++) {
        pl_store_part(store, i, part);
        in = pl_path_within(other, part) ||
             pl_path_within(other, pl_join(db, part, "db"));
    }
    if (in && around)
        return pl_fail(PL_ERR_USAGE,
                       "%s is the store itself; name another folder for store %s",
                       other, what);
    if (in)
        return pl_fail(PL_ERR_USAGE,
                       "%s lies in the store %s; name a folder outside it for store %s",
                       other, store, what);
    if (around)
        return pl_fail(PL_ERR_USAGE,
                       "the store %s lies in %s; name another folder for store %s",
                       store, other, what);
    return PL_OK;
}

enum { PROBLEM_MAX = 512 };

static void note_first_problem(void *context, const char *sentence)
{
    char *first = context;
    if (!first[0])
        pl_copy_text(first, PROBLEM_MAX, sentence);
}

/* Checks the store completely; with `bytes`, also the bytes of its chunks. The sentence
 * of ERR_DAMAGED names the first damage. */
static pl_status check_copy(const char *folder, bool bytes, pl_audit_report *report)
{
    pl_store *store = NULL;
    char problem[PROBLEM_MAX] = "";
    PL_CHECK(pl_store_open(folder, PL_STORE_READ, &store));
    pl_status status =
        pl_store_audit(store, bytes, note_first_problem, problem, report);
    pl_store_close(&store);
    if (status != PL_OK || report->n_problems == 0)
        return status;
    return pl_fail(PL_ERR_DAMAGED,
                   "%s is damaged in %llu places (`pathloom store fsck --store "
                   "%s` lists them); the first is: %s",
                   folder, (unsigned long long)report->n_problems, folder, problem);
}

/* `kept`: what the copy must not undo; NULL: nothing. */
static pl_status copy_store(store_call *call, pl_store *from, const char *from_folder,
                            const char *to, run_kept *kept)
{
    pl_mirror_report report;
    pl_audit_report audit;
    bool bytes = !call->values[STORE_OPT_QUICK];
    PL_CHECK(pl_store_mirror(from, to, call->values[STORE_OPT_FORCE], &report));
    if (kept)
        PL_CHECK(run_put_back(to, kept));
    PL_CHECK(check_copy(to, bytes, &audit));
    row r = row_begin(call->json);
    row_text(&r, NULL, to, "%s");
    row_text(&r, "from", from_folder, " is %s");
    row_text(&r, "to", to, NULL);
    row_count(&r, "sequence", pl_store_sequence(from), " as of commit %s");
    row_count(&r, "chunks", report.n_chunks, ": %s chunks");
    row_bytes(&r, "bytes", report.bytes, ", %s");
    row_count(&r, "records", report.n_records, ", and %s records were copied");
    row_bytes(&r, "checked_bytes", audit.bytes, "; checked, %s read");
    row_finish(&r);
    return PL_OK;
}

/* Returns the folder of the copy: with --job, the store of the named run. */
static pl_status find_copy(const store_call *call, const char *named,
                           char out[PL_PATH_MAX])
{
    pl_copy_text(out, PL_PATH_MAX, named);
    if (!call->values[STORE_OPT_JOB])
        return PL_OK;
    if (call->values[STORE_OPT_STORE] || strstr(named, "://"))
        return pl_fail(PL_ERR_USAGE,
                       "--job copies a run: name the run with --run and a "
                       "folder as the copy");
    pl_join(out, named, "store");
    return PL_OK;
}

static const char *run_of(const store_call *call)
{
    return call->values[STORE_OPT_RUN] ? call->values[STORE_OPT_RUN] : "pathloom-run";
}

/* Makes the folder of a run. Its keys are secret, so only the user may read it. */
static pl_status make_run(const char *dir)
{
    if (pl_path_exists(dir))
        return PL_OK;
    PL_CHECK(pl_make_folders(dir));
    if (chmod(dir, 0700) != 0)
        return pl_fail(PL_ERR_NOPERM, "cannot set the mode of %s to 0700", dir);
    return PL_OK;
}

pl_status store_backup(store_call *call)
{
    int64_t held_ms = -1;
    char to[PL_PATH_MAX];
    const bool job = call->values[STORE_OPT_JOB] != NULL;
    PL_CHECK(find_copy(call, call->words[0], to));
    if (job && pl_path_within(call->words[0], run_of(call)))
        return pl_fail(PL_ERR_USAGE, "%s lies in the run %s; name a folder outside it",
                       call->words[0], run_of(call));
    if (job)
        PL_CHECK(make_run(call->words[0]));
    PL_CHECK(store_refuse_overlap(call, to));
    PL_CHECK(pl_store_end_copy(to));
    PL_CHECK(run_look_at_one_moment(call->folder, &call->store, &held_ms));
    PL_CHECK(copy_store(call, call->store, call->folder, to, NULL));
    if (held_ms >= 0 && !call->json)
        printf("the homes of the job stopped writing for %lld ms\n",
               (long long)held_ms);
    return job ? run_copy_files(run_of(call), call->words[0]) : PL_OK;
}

/* Restores a backup, which is checked completely before it replaces anything. */
pl_status store_restore(store_call *call)
{
    pl_audit_report audit;
    run_kept kept = {.dir = call->values[STORE_OPT_STORE] ? NULL : run_of(call)};
    pl_store *from = NULL;
    char backup[PL_PATH_MAX], saved[PL_PATH_MAX];
    const bool job = call->values[STORE_OPT_JOB] != NULL;
    PL_CHECK(find_copy(call, call->words[0], backup));
    if (strstr(backup, "://")) {
        /* makes the folder again from the storage engine, which has all of the store */
        pl_rebuild_report report;
        PL_CHECK(pl_store_rebuild(backup, call->folder, &report));
        PL_CHECK(check_copy(call->folder, !call->values[STORE_OPT_QUICK], &audit));
        row r = row_begin(call->json);
        row_text(&r, NULL, call->folder, "%s");
        row_text(&r, "from", backup, " is the store in %s");
        row_text(&r, "to", call->folder, NULL);
        row_count(&r, "sequence", report.sequence, " as of commit %s");
        row_count(&r, NULL, report.n_records, ": %s records");
        row_count(&r, "commits", report.n_commits,
                  ", the newest %s commits from its log");
        row_count(&r, "records", report.n_records, NULL);
        row_bytes(&r, "checked_bytes", audit.bytes, "; checked, %s read");
        row_finish(&r);
        return PL_OK;
    }
    if (job && pl_path_exists(pl_join(saved, run_of(call), "run.yaml")) &&
        !call->values[STORE_OPT_FORCE])
        return pl_fail(PL_ERR_EXISTS,
                       "%s has a run.yaml; give --force to replace its configuration, "
                       "keys and text, or name another run with --run",
                       run_of(call));
    if (job && pl_path_is_folder(backup))
        PL_CHECK(make_run(run_of(call)));
    if (!pl_path_is_folder(backup))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no backup at %s", backup);
    PL_CHECK(store_refuse_overlap(call, backup));
    PL_CHECK(pl_store_end_copy(backup));
    PL_CHECK(pl_store_end_copy(call->folder));
    PL_CHECK(check_copy(backup, !call->values[STORE_OPT_QUICK], &audit));
    PL_CHECK(pl_store_open(backup, PL_STORE_READ, &from));
    pl_status status = run_drop_report(call->folder);
    if (status == PL_OK && run_keep(call->folder, from, &kept) != PL_OK)
        fprintf(stderr,
                "pathloom: note: the store that is replaced cannot be read, so workers "
                "that an audit shut out since the backup are admitted again: %s\n",
                pl_last_error());
    if (status == PL_OK)
        status = copy_store(call, from, backup, call->folder, &kept);
    pl_store_close(&from);
    if (status == PL_OK && job) {
        char why[512];
        status = run_copy_files(call->words[0], run_of(call));
        pl_copy_text(why, sizeof why, pl_last_error());
        /* the list of keys may be replaced, also if a later file is not */
        const pl_status revoked = run_put_back(call->folder, &kept);
        status = status == PL_OK ? revoked : pl_fail(status, "%s", why);
    }
    pl_free(kept.refs);
    return status;
}
