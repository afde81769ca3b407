/* pathloom store verify: recomputes outer steps and compares hashes. */
#include "cli/store_call.h"
#include "cli/store_names.h"
#include "cli/store_print.h"
#include "outer/outer.h"

typedef enum verdict { VERDICT_SAME, VERDICT_OTHER, VERDICT_UNKNOWN } verdict;

typedef struct verification {
    store_call *call;
    uint64_t n[VERDICT_UNKNOWN + 1];
    char why[1024]; /* the newest that could not be told, or is another */
} verification;

static void print_verdict(const verification *w, const pl_version *v, verdict which,
                          const pl_replay *got)
{
    static const char *const words[] = {"same", "other", "unknown"};
    char is[PL_HASH_TEXT], made[PL_HASH_TEXT];
    if (w->call->json) {
        pl_json *line = pl_json_object();
        pl_json_set_text(line, "module", v->module);
        print_set_count(line, "version", v->number);
        pl_json_set_text(line, "verdict", words[which]);
        print_set_hash(line, "hash", &v->params);
        print_set_hash(line, "recomputed", &got->params);
        if (which != VERDICT_SAME)
            pl_json_set_text(line, "reason", w->why);
        say_json(line);
        return;
    }
    printf("%s@%llu  %s  recomputed %s  %s\n", v->module, (unsigned long long)v->number,
           print_brief(&v->params, is), print_brief(&got->params, made),
           which == VERDICT_SAME ? "the same" : w->why);
}

static bool same(const pl_version *v, const pl_replay *got)
{
    return pl_hash_equal(&v->params, &got->params) &&
           (pl_hash_none(&v->momentum) || pl_hash_equal(&v->momentum, &got->momentum));
}

static pl_status verify_version(verification *w, const pl_version *v)
{
    pl_replay got;
    pl_status status = pl_home_replay(w->call->store, v, &got);
    verdict which = VERDICT_SAME;
    if (status == PL_ERR_NOT_FOUND) {
        which = VERDICT_UNKNOWN;
        pl_copy_text(w->why, sizeof w->why, pl_last_error());
    } else if (status != PL_OK)
        return status;
    else if (!same(v, &got)) {
        which = VERDICT_OTHER;
        snprintf(w->why, sizeof w->why,
                 "%s@%llu is not what the version before it and its updates make",
                 v->module, (unsigned long long)v->number);
    }
    w->n[which]++;
    print_verdict(w, v, which, &got);
    return PL_OK;
}

static pl_status verify_number(verification *w, const char *module, uint64_t number)
{
    pl_version v;
    PL_RETURN_IF(pl_store_get_version(w->call->store, module, number, &v));
    pl_status status = verify_version(w, &v);
    pl_version_clear(&v);
    return status;
}

static pl_status judge(const verification *w)
{
    if (w->n[VERDICT_OTHER] > 0)
        return pl_fail(PL_ERR_DAMAGED, "%llu versions are not what made them",
                       (unsigned long long)w->n[VERDICT_OTHER]);
    if (w->n[VERDICT_SAME] == 0)
        return pl_fail(PL_ERR_NOT_FOUND, "%s", w->why);
    return PL_OK;
}

pl_status store_verify(store_call *call)
{
    module_at at;
    bool versioned;
    verification w = {.call = call};
    PL_RETURN_IF(names_module(call->store, call->words[0], &at, &versioned));
    if (!call->values[STORE_OPT_HISTORY])
        PL_RETURN_IF(verify_number(&w, at.module, at.number));
    else
        for (uint64_t n = 1; n <= at.number; n++)
            PL_RETURN_IF(verify_number(&w, at.module, n));
    return judge(&w);
}
