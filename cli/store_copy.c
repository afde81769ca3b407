/* pathloom store init, backup, restore. */
#include "cli/store_call.h"
#include "cli/store_print.h"

/* ---- init ---- */
pl_status store_init(store_call *call)
{
    char path[PL_PATH_MAX];
    pl_store *store = NULL;
    if (pl_path_exists(pl_join(path, call->folder, "FORMAT")))
        return pl_fail(PL_ERR_EXISTS, "%s is a store already", call->folder);
    if (call->values[STORE_OPT_ENGINE])
        PL_RETURN_IF(pl_store_make_on(call->folder, call->values[STORE_OPT_ENGINE]));
    PL_RETURN_IF(pl_store_open(call->folder, PL_STORE_CREATE, &store));
    pl_store_close(&store);
    if (!call->json)
        printf("made an empty store in %s\n", call->folder);
    return PL_OK;
}

/* ---- checked copies ---- */
typedef struct first_problem {
    char text[512];
} first_problem;

static void note(void *context, const char *sentence)
{
    first_problem *p = context;
    if (!p->text[0])
        pl_copy_text(p->text, sizeof p->text, sentence);
}

/* Reads all of it. */
static pl_status check_copy(const char *folder, bool bytes, pl_audit_report *report)
{
    pl_store *store = NULL;
    first_problem problem = {{0}};
    PL_RETURN_IF(pl_store_open(folder, PL_STORE_READ, &store));
    pl_status status = pl_store_audit(store, bytes, note, &problem, report);
    pl_store_close(&store);
    if (status == PL_OK && report->n_problems > 0)
        status = pl_fail(PL_ERR_DAMAGED,
                         "%s is damaged (%llu things; `pathloom store "
                         "fsck --store %s` names all): %s",
                         folder, (unsigned long long)report->n_problems, folder,
                         problem.text);
    return status;
}

static void print_copy(const store_call *call, const char *from, const char *to,
                       uint64_t sequence, const pl_mirror_report *r,
                       const pl_audit_report *audit)
{
    char brought[16], read[16];
    if (call->json) {
        pl_json *line = pl_json_object();
        pl_json_set_text(line, "from", from);
        pl_json_set_text(line, "to", to);
        print_set_count(line, "sequence", sequence);
        print_set_count(line, "chunks", r->n_chunks);
        print_set_count(line, "bytes", r->bytes);
        print_set_count(line, "records", r->n_records);
        print_set_count(line, "checked_bytes", audit->bytes);
        say_json(line);
        return;
    }
    printf(
        "%s is %s as of commit %llu: %llu chunks, %s, and %llu records were brought; "
        "checked, %s read\n",
        to, from, (unsigned long long)sequence, (unsigned long long)r->n_chunks,
        pl_human_bytes((double)r->bytes, brought), (unsigned long long)r->n_records,
        pl_human_bytes((double)audit->bytes, read));
}

static pl_status copy_part(const char *from, int part, const char *to, bool force,
                           pl_mirror_report *sum)
{
    char source[PL_PATH_MAX], target[PL_PATH_MAX];
    pl_store *store = NULL;
    pl_mirror_report one;
    PL_RETURN_IF(
        pl_store_open(pl_store_part(from, part, source), PL_STORE_READ, &store));
    pl_status status =
        pl_store_mirror(store, pl_store_part(to, part, target), force, &one);
    pl_store_close(&store);
    PL_RETURN_IF(status);
    sum->n_records += one.n_records;
    sum->n_chunks += one.n_chunks;
    sum->bytes += one.bytes;
    return PL_OK;
}

static pl_status copy_parts(const char *from, int n, const char *to, bool force,
                            pl_mirror_report *sum)
{
    memset(sum, 0, sizeof *sum);
    PL_RETURN_IF(pl_store_make_parts(to, n));
    for (int i = 0; i < n; i++)
        PL_RETURN_IF(copy_part(from, i, to, force, sum));
    return PL_OK;
}

/* Parts are copied one after another, and a path's state in a later one may need
 * updates that an earlier one got in between: so nobody may write meanwhile. */
static pl_status copy_store(pl_store *from, const char *from_folder, const char *to,
                            bool force, pl_mirror_report *sum)
{
    int n = 0, locks[PL_PARTS_MAX];
    char part[PL_PATH_MAX];
    pl_status status = PL_OK;
    PL_RETURN_IF(pl_store_parts(from_folder, &n));
    if (n == 0)
        return pl_store_mirror(from, to, force, sum);
    memset(locks, -1, sizeof locks);
    for (int i = 0; status == PL_OK && i < n; i++)
        status = pl_lock_folder(pl_store_part(from_folder, i, part), &locks[i]);
    if (status == PL_ERR_BUSY)
        status = pl_fail(PL_ERR_BUSY,
                         "a running job holds the store %s, and one of several homes "
                         "is copied only while nobody writes: stop it (Ctrl+C drains "
                         "it, and the same command resumes it), then copy",
                         from_folder);
    if (status == PL_OK)
        status = copy_parts(from_folder, n, to, force, sum);
    for (int i = 0; i < n; i++)
        pl_unlock_folder(&locks[i]);
    return status;
}

static pl_status copy(store_call *call, pl_store *from, const char *from_folder,
                      const char *to)
{
    pl_mirror_report report;
    pl_audit_report audit;
    bool bytes = !call->values[STORE_OPT_QUICK];
    PL_RETURN_IF(
        copy_store(from, from_folder, to, call->values[STORE_OPT_FORCE], &report));
    PL_RETURN_IF(check_copy(to, bytes, &audit));
    print_copy(call, from_folder, to, pl_store_sequence(from), &report, &audit);
    return PL_OK;
}

pl_status store_backup(store_call *call)
{
    return copy(call, call->store, call->folder, call->words[0]);
}

/* A store whose chunks lie in an engine has all else there as well. */
static pl_status rebuild(const store_call *call, const char *place)
{
    char head[16];
    pl_rebuild_report report;
    pl_audit_report audit;
    PL_RETURN_IF(pl_store_rebuild(place, call->folder, &report));
    PL_RETURN_IF(check_copy(call->folder, !call->values[STORE_OPT_QUICK], &audit));
    if (call->json) {
        pl_json *line = pl_json_object();
        pl_json_set_text(line, "from", place);
        pl_json_set_text(line, "to", call->folder);
        print_set_count(line, "sequence", report.sequence);
        print_set_count(line, "commits", report.n_commits);
        print_set_count(line, "records", report.n_records);
        print_set_count(line, "checked_bytes", audit.bytes);
        say_json(line);
        return PL_OK;
    }
    printf("%s is the store in %s as of commit %llu: %llu records, the newest %llu "
           "commits from its log; checked, %s read\n",
           call->folder, place, (unsigned long long)report.sequence,
           (unsigned long long)report.n_records, (unsigned long long)report.n_commits,
           pl_human_bytes((double)audit.bytes, head));
    return PL_OK;
}

/* The copy is read in full before anything is replaced by it. */
pl_status store_restore(store_call *call)
{
    pl_audit_report audit;
    pl_store *from = NULL;
    const char *backup = call->words[0];
    if (strstr(backup, "://"))
        return rebuild(call, backup);
    if (!pl_path_is_folder(backup))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no backup at %s", backup);
    PL_RETURN_IF(check_copy(backup, !call->values[STORE_OPT_QUICK], &audit));
    PL_RETURN_IF(pl_store_open(backup, PL_STORE_READ, &from));
    pl_status status = copy(call, from, backup, call->folder);
    pl_store_close(&from);
    return status;
}
