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
        print_json_line(line);
        return;
    }
    printf(
        "%s is %s as of commit %llu: %llu chunks, %s, and %llu records were brought; "
        "checked, %s read\n",
        to, from, (unsigned long long)sequence, (unsigned long long)r->n_chunks,
        pl_human_bytes((double)r->bytes, brought), (unsigned long long)r->n_records,
        pl_human_bytes((double)audit->bytes, read));
}

static pl_status copy(store_call *call, pl_store *from, const char *from_folder,
                      const char *to)
{
    pl_mirror_report report;
    pl_audit_report audit;
    bool bytes = !call->values[STORE_OPT_QUICK];
    PL_RETURN_IF(pl_store_mirror(from, to, call->values[STORE_OPT_FORCE], &report));
    PL_RETURN_IF(check_copy(to, bytes, &audit));
    print_copy(call, from_folder, to, pl_store_sequence(from), &report, &audit);
    return PL_OK;
}

pl_status store_backup(store_call *call)
{
    return copy(call, call->store, call->folder, call->words[0]);
}

/* The copy is read in full before anything is replaced by it. */
pl_status store_restore(store_call *call)
{
    pl_audit_report audit;
    pl_store *from = NULL;
    const char *backup = call->words[0];
    if (!pl_path_is_folder(backup))
        return pl_fail(PL_ERR_NOT_FOUND, "there is no backup at %s", backup);
    PL_RETURN_IF(check_copy(backup, !call->values[STORE_OPT_QUICK], &audit));
    PL_RETURN_IF(pl_store_open(backup, PL_STORE_READ, &from));
    pl_status status = copy(call, from, backup, call->folder);
    pl_store_close(&from);
    return status;
}
