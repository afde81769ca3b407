/* pathloom store push, pull: copy versions that another store lacks. */
#include "cli/store_print.h"

/* Copies a module, all modules of an arm or of a tag, or everything (no second word). A
 * module is copied together with the definition of its arm. */
static pl_status move_versions(store_call *call, pl_transfer *t, const char *to)
{
    const char *what = call->words[1];
    char arm[PL_MODULE_NAME_MAX] = "";
    pl_module_set set = {0};
    pl_snapshot tag = {.n_items = 0};
    pl_status status = PL_OK;
    if (!what) {
        PL_TRY(pl_transfer_modules(t));
    } else {
        PL_TRY(pl_names_set(t->from, what, &set));
        pl_arm_of_module(set.at[0].module, arm, sizeof arm);
        if (pl_module_is_merged(set.at[0].module) &&
            pl_store_get_tag(t->from, what, &tag) == PL_OK)
            pl_copy_text(arm, sizeof arm, tag.arm);
        pl_snapshot_clear(&tag);
        for (size_t i = 0; i < set.n; i++)
            PL_TRY(pl_transfer_module(t, set.at[i].module, set.at[i].number));
    }
    PL_TRY(pl_transfer_objects(t, arm));
done:
    pl_free(set.at);
    pl_txn_abort(&t->txn);
    PL_CHECK(status);
    row r = row_begin(call->json);
    row_text(&r, "to", to, NULL);
    row_count(&r, NULL, t->n_versions, "%s versions");
    row_count(&r, "modules", t->n_modules, " of %s modules");
    row_count(&r, "versions", t->n_versions, NULL);
    row_bytes(&r, "bytes", t->bytes, ", %s");
    row_text(&r, NULL, to, ", copied to %s");
    row_finish(&r);
    return PL_OK;
}

pl_status store_push(store_call *call)
{
    pl_transfer t = {.from = call->store};
    PL_CHECK(store_refuse_part(call->words[0]));
    PL_CHECK(store_refuse_overlap(call, call->words[0]));
    PL_CHECK(pl_store_open(call->words[0], PL_STORE_CREATE, &t.to));
    pl_status status = move_versions(call, &t, call->words[0]);
    pl_store_close(&t.to);
    return status;
}

pl_status store_pull(store_call *call)
{
    pl_transfer t = {.from = NULL};
    pl_status status = PL_OK;
    PL_CHECK(store_refuse_overlap(call, call->words[0]));
    PL_CHECK(pl_store_open(call->words[0], PL_STORE_READ, &t.from));
    PL_TRY(store_refuse_part(call->folder));
    PL_TRY(store_open_to_write(call, &t.to));
    PL_TRY(run_drop_report(call->folder));
    PL_TRY(move_versions(call, &t, call->folder));
done:
    pl_store_close(&t.to);
    pl_store_close(&t.from);
    return status;
}
