/* pathloom audit: prints which tasks were done twice and whether the results agreed,
 * and which workers are fenced. With WORKER, prints to which versions this worker
 * contributed, and the commands that roll back to before these versions. */
#include "cli/store_print.h"

typedef struct audit_call {
    const char *dir, *worker; /* worker: NULL for all audits */
    bool json;
    pl_store *store;
    int64_t counts[PL_VERDICT_COUNT];
    int64_t n_fenced;
    /* The fields below are used only with `worker`. has_key: `worker` is the text of a
     * key, which `key` then holds. (A fence is named by the worker's key if the
     * worker's name belongs to another key now.) arm: the arm that is being listed;
     * arm_first: number of the first version in this arm that has an update of the
     * worker; first, last, n: the first and the last such version of the module that is
     * being listed, and how many there are. */
    pl_pubkey key;
    bool has_key;
    char arm[PL_MODULE_NAME_MAX];
    uint64_t arm_first;
    uint64_t first, last, n;
    int64_t n_modules;
} audit_call;

/* In text, the many audits whose results agreed are only counted. */
static pl_status on_row(void *context, const char *name, const char *target)
{
    audit_call *call = context;
    pl_audit a;
    if (pl_audit_read(target, &a) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED, "ref %s is not an audit", name);
    call->counts[a.verdict]++;
    if (call->json)
        say("%s", target);
    if (call->json || (a.verdict == PL_VERDICT_AGREED && !a.odd[0]))
        return PL_OK;
    say("%-9s %s phase %lld: ended by %s on %s", pl_verdict_name(a.verdict), a.path,
        (long long)a.phase, a.results[0].worker, a.results[0].device);
    for (int i = 1; i < a.n; i++)
        say("          %s on %s made %s bytes", a.results[i].worker,
            a.results[i].device,
            pl_hash_equal(&a.results[i].digest, &a.results[0].digest) ? "the same"
                                                                      : "different");
    if (a.odd[0])
        say("          the wrong result is that of %s", a.odd);
    if (a.reason[0])
        say("          %s", a.reason);
    return PL_OK;
}

static pl_status on_fenced(void *context, const char *name, const char *target)
{
    audit_call *call = context;
    const char *worker = name + strlen(PL_FENCED_REFS), *blank = strchr(target, ' ');
    const char *reason = blank ? blank + 1 : target;
    call->n_fenced++;
    row r = row_begin(call->json);
    row_text(&r, "fenced", worker, "fenced    %s");
    row_text(&r, "reason", reason, ": %s");
    row_say(&r, "\n          versions with its updates: pathloom audit %s --run %s",
            worker, call->dir);
    row_finish(&r);
    return PL_OK;
}

static pl_status note_worker_version(void *context, const pl_version *v)
{
    audit_call *call = context;
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        if (strcmp(c->worker, call->worker) != 0 &&
            !(call->has_key && pl_pubkey_equal(&c->key, &call->key)))
            continue;
        call->first = call->n++ == 0 ? v->number : call->first;
        call->last = v->number;
        break;
    }
    return PL_OK;
}

/* Prints the command that rolls back to before all contributions of the worker, or why
 * a rollback is not possible. The command rolls back all modules of the arm, because
 * they were trained together. */
static void print_remedy(const audit_call *call)
{
    char to[24];
    if (call->json || !call->arm[0] || call->arm_first == UINT64_MAX)
        return;
    snprintf(to, sizeof to, "%llu", (unsigned long long)(call->arm_first - 1));
    pl_rollback_plan plan = {.store = call->store, .what = call->arm, .to = to};
    if (pl_rollback_plan_make(&plan) == PL_OK) {
        say("  to return to the versions before these, stop the job and give:");
        say("  pathloom store rollback %s --to %s --run %s", call->arm, to, call->dir);
    } else {
        say("  no rollback is possible now: %s", pl_last_error());
    }
    pl_rollback_plan_clear(&plan);
}

static pl_status on_head(void *context, const pl_version *head)
{
    audit_call *call = context;
    char arm[PL_MODULE_NAME_MAX];
    pl_arm_of_module(head->module, arm, sizeof arm);
    if (strcmp(arm, call->arm) != 0) {
        print_remedy(call);
        pl_copy_text(call->arm, sizeof call->arm, arm);
        call->arm_first = UINT64_MAX;
    }
    call->n = 0;
    PL_CHECK(
        pl_store_each_version(call->store, head->module, note_worker_version, call));
    if (call->n == 0)
        return PL_OK;
    call->n_modules++;
    call->arm_first = call->first < call->arm_first ? call->first : call->arm_first;
    row r = row_begin(call->json);
    row_text(&r, "module", head->module, "%-20s");
    row_text(&r, "worker", call->worker, NULL);
    row_count(&r, NULL, call->n, " %s versions");
    row_count(&r, "first", call->first, " from %s");
    row_count(&r, "last", call->last, " to %s");
    row_count(&r, "versions", call->n, NULL);
    row_finish(&r);
    return PL_OK;
}

static const cli_option options[] = {CLI_RUN(audit_call, dir),
                                     CLI_JSON(audit_call, json)};

static pl_status run_audit(int argc, char **argv)
{
    audit_call call = {.dir = "pathloom-run"};
    cli_words words;
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_audit, argc, argv, &call, &words));
    PL_TRY(store_open_run(call.dir, &call.store));
    if (words.n > 0) {
        call.worker = words.at[0];
        call.has_key = pl_pubkey_parse(call.worker, &call.key) == PL_OK;
        PL_TRY(pl_store_each_head(call.store, "", on_head, &call));
        print_remedy(&call);
        if (call.n_modules == 0)
            PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                           "no version in %s has a contribution of %s; `pathloom store "
                           "blame MODULE --history` lists the contributors",
                           call.dir, call.worker));
        goto done;
    }
    PL_TRY(pl_store_each_ref(call.store, PL_AUDIT_REFS, on_row, &call));
    PL_TRY(pl_store_each_ref(call.store, PL_FENCED_REFS, on_fenced, &call));
    if (!call.json)
        say("%lld agreed, %lld odd, %lld undecided, %lld unchecked, %lld open; %lld "
            "workers fenced",
            (long long)call.counts[PL_VERDICT_AGREED],
            (long long)call.counts[PL_VERDICT_ODD],
            (long long)call.counts[PL_VERDICT_UNDECIDED],
            (long long)call.counts[PL_VERDICT_UNCHECKED],
            (long long)call.counts[PL_VERDICT_OPEN], (long long)call.n_fenced);
done:
    pl_store_close(&call.store);
    return status;
}

const cli_verb verb_audit = {
    .name = "audit",
    .usage = "audit [WORKER] --run RUN [--json]",
    .help = "list audits and fenced workers, or the versions of one worker",
    CLI_TABLE(options),
    .notes = "An audit is a task that one of the job's own workers repeats. With "
             "WORKER: lists the versions to which this worker contributed, and the "
             "commands that undo them.",
    .most_words = 1,
    .run = run_audit};
