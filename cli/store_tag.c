/* pathloom store tag: names a consistent set of versions of an arm.
 *
 * While a job runs, a home has locked the store, so this command asks the home to store
 * the tag. Otherwise this command stores the tag. */
#include "cli/store_print.h"

pl_status store_keep_tag(const store_call *call, pl_store *store, const char *name,
                         const pl_buf *bytes)
{
    char object[PL_MODULE_NAME_MAX];
    if ((size_t)snprintf(object, sizeof object, "tag/%s", name) >= sizeof object)
        return pl_fail(PL_ERR_USAGE, "`%.40s...` is too long for a tag's name", name);
    return run_keep_tag(call->folder, store, object, bytes);
}

/* Refuses a name that would be ambiguous: a number (which means a version), a name with
 * a character that separates parts of names or begins an option, the word head, a name
 * like those that `train` gives to best versions, or the name of an arm, a path or a
 * module. */
pl_status store_check_tag_name(pl_store *store, const char *name)
{
    int64_t number;
    pl_name_kind kind;
    bool plain = *name && *name != '-' && !strpbrk(name, "@/.");
    for (const char *c = name; *c; c++)
        plain = plain && *c > ' ' && *c <= '~';
    if (!plain || strcmp(name, "head") == 0 || pl_parse_int(name, &number) == PL_OK)
        return pl_fail(PL_ERR_USAGE,
                       "`%s` cannot be the name of a tag: a name is not a number, is "
                       "not the word head, does not begin with -, and has only letters "
                       "and signs of ASCII, but no @ / . or blank",
                       name);
    if (pl_starts_with(name, "best-mix"))
        return pl_fail(PL_ERR_USAGE,
                       "`%s` cannot be the name of a tag: `pathloom train` uses such "
                       "names for best versions of paths",
                       name);
    PL_CHECK(pl_names_kind(store, name, &kind));
    if (run_may_have_arm(name))
        kind = PL_NAME_ARM;
    const bool path =
        name[0] == 'p' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
    if (kind == PL_NAME_NONE && !path)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "`%s` cannot be the name of a tag: it names %s; use another name, "
                   "such as %s-tag",
                   name,
                   kind == PL_NAME_ARM ? "an arm"
                   : path              ? "a path"
                                       : "a module",
                   name);
}

pl_status store_check_new_tag(const store_call *call, pl_store *store, const char *name)
{
    pl_snapshot old;
    if (call->values[STORE_OPT_FORCE] || pl_store_get_tag(store, name, &old) != PL_OK)
        return PL_OK;
    pl_snapshot_clear(&old);
    return pl_fail(PL_ERR_EXISTS, "tag %s exists already; give --force to replace it",
                   name);
}

pl_status store_tag(store_call *call)
{
    const char *name = call->words[0], *arm = call->values[STORE_OPT_ARM],
               *note = call->values[STORE_OPT_NOTE];
    int64_t held_ms;
    pl_snapshot tag;
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    if (!name)
        return look_at_tags(call);
    if (call->values[STORE_OPT_DELETE]) {
        PL_CHECK(pl_store_get_tag(call->store, name, &tag));
        pl_snapshot_clear(&tag);
        PL_CHECK(store_keep_tag(call, call->store, name, &bytes));
        row r = row_begin(call->json);
        row_text(&r, "tag", name, "tag %s");
        row_flag(&r, "deleted", true, " is deleted");
        row_finish(&r);
        return PL_OK;
    }
    PL_CHECK(store_check_tag_name(call->store, name));
    PL_CHECK(store_check_new_tag(call, call->store, name));
    memset(&tag, 0, sizeof tag);
    pl_copy_text(tag.name, sizeof tag.name, name);
    pl_newest_chapter(call->store, tag.arm);
    if (arm)
        pl_copy_text(tag.arm, sizeof tag.arm, arm);
    PL_TRY(pl_tag_phase(call->store, tag.arm, call->words[1], &tag.phase));
    /* Versions of one phase always belong together. The newest versions of several
     * homes belong together only if all homes are read at one moment. Otherwise a
     * module's sources may be missing in another home's state. */
    if (tag.phase < 0)
        PL_TRY(run_look_at_one_moment(call->folder, &call->store, &held_ms));
    if (!pl_copy_text(tag.note, sizeof tag.note, note ? note : ""))
        PL_TRY(pl_fail(PL_ERR_USAGE, "a note has at most %d bytes", PL_TEXT_MAX - 1));
    PL_TRY(pl_tag_fill(call->store, &tag));
    pl_snapshot_encode(&tag, &bytes);
    PL_TRY(store_keep_tag(call, call->store, name, &bytes));
    print_tag(call->json, &tag, (int)strlen(name), false);
done:
    pl_buf_destroy(&bytes);
    pl_snapshot_clear(&tag);
    return status;
}
