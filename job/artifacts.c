/* Opens the parts of a run folder that answer prompts: store, tokenizer and mixture.
 * A job may work on the run at the same time. */
#include "job/run.h"

pl_status store_open_run(const char *dir, pl_store **out)
{
    char path[PL_PATH_MAX];
    return pl_store_open(pl_join(path, dir, "store"), PL_STORE_READ, out);
}

pl_status run_has_ended(pl_store *store, bool *ended)
{
    pl_buf levels = {0};
    pl_status status = pl_store_get_ref(store, "finished", &levels);
    *ended = status == PL_OK && levels.len > 0;
    pl_buf_destroy(&levels);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_reading run_reading(const pl_run *r, bool cut)
{
    return (pl_reading){.cut_bytes = cut ? (size_t)r->cfg.cut : 0,
                        .text_key = r->cfg.text_key[0] ? r->cfg.text_key : NULL,
                        .skip_bad = strcmp(r->cfg.bad_lines, "skip") == 0};
}

static pl_status add_document_hash(void *context, const pl_document *document)
{
    const uint64_t hash = pl_document_hash(document);
    pl_buf_append(context, &hash, sizeof hash);
    return PL_OK;
}

pl_status run_document_hashes(const pl_run *r, const char *path, pl_buf *hashes)
{
    pl_read_stats stats;
    const pl_reading whole = run_reading(r, false), cut = run_reading(r, true);
    const size_t begin = hashes->len;
    pl_status status =
        pl_documents_cut(path, &whole, add_document_hash, hashes, &stats);
    if (r->cfg.cut == 0)
        return status;
    if (status == PL_ERR_DATA) { /* a text that is too long as one document */
        hashes->len = begin;
        stats.n_documents = 0;
        status = PL_OK;
    }
    PL_CHECK(status);
    const uint64_t n_whole = stats.n_documents;
    const size_t len = hashes->len;
    PL_CHECK(pl_documents_cut(path, &cut, add_document_hash, hashes, &stats));
    if (stats.n_documents == n_whole) /* no document was cut, so both lists are equal */
        hashes->len = len;
    return PL_OK;
}

pl_status run_read_tokenizer(const pl_run *r, pl_buf *bytes)
{
    char path[PL_PATH_MAX];
    PL_CHECK(pl_data_check_tokenizer(run_file(r, "data", path)));
    return pl_read_file(run_file(r, "data/tokenizer.model", path), bytes);
}

pl_status run_load_tokenizer(const pl_run *r, pl_tokenizer **out)
{
    pl_buf bytes = {0};
    pl_status status = run_read_tokenizer(r, &bytes);
    if (status == PL_OK)
        status = pl_tokenizer_load_bytes(bytes.data, bytes.len, out);
    pl_buf_destroy(&bytes);
    return status;
}

void run_answer_settings(const pl_run *r, pl_answer_settings *out)
{
    const pl_backend_options backend = run_own_backend(r);
    pl_copy_text(out->backend, sizeof out->backend, backend.name);
    pl_copy_text(out->precision, sizeof out->precision, backend.precision);
    pl_copy_text(out->rule, sizeof out->rule, r->cfg.answer);
    out->prefix = (int)r->cfg.prefix;
    out->which = (pl_which){.best = false};
    out->closed = NULL;
    /* `auto` is the template of the imported model with which the run began */
    const bool is_auto = strcmp(r->cfg.chat, "auto") == 0;
    out->chat[0] = '\0';
    if (is_auto && r->cfg.import[0])
        pl_chat_of_model(r->cfg.import, out->chat);
    else if (!is_auto && strcmp(r->cfg.chat, "none") != 0)
        pl_copy_text(out->chat, PL_CHAT_NAME_MAX, r->cfg.chat);
}

pl_status mixture_tag(pl_store *store, const char *name, pl_snapshot *out)
{
    PL_CHECK(pl_store_get_tag(store, name, out));
    if (pl_arm_chapter(out->arm) >= 0)
        return PL_OK;
    pl_status status = pl_fail(PL_ERR_USAGE,
                               "tag %s names modules of the arm %s, not of the "
                               "mixture; give a tag of the mixture",
                               name, out->arm);
    pl_snapshot_clear(out);
    return status;
}

pl_status mixture_open(const char *dir, const mixture_wish *wish, pl_mixture *mix)
{
    char chapter[PL_ARM_NAME_MAX];
    pl_run r;
    memset(mix, 0, sizeof *mix);
    pl_status status = run_look(dir, &r);
    PL_TRY(status);
    pl_copy_text(mix->dir, sizeof mix->dir, r.dir);
    run_answer_settings(&r, &mix->settings);
    PL_TRY(run_load_tokenizer(&r, &mix->tokenizer));
    PL_TRY(store_open_run(r.dir, &mix->store));
    pl_newest_chapter(mix->store, chapter);
    if (wish->at) {
        PL_TRY(mixture_tag(mix->store, wish->at, &mix->tag));
        pl_copy_text(chapter, sizeof chapter, mix->tag.arm);
        mix->settings.which.at = &mix->tag;
    }
    status = pl_read_arm(mix->store, chapter, &mix->arm, &mix->topology);
    if (status == PL_ERR_NOT_FOUND)
        status = pl_fail(status,
                         "the run in %s has no mixture yet: its base model is not "
                         "trained yet",
                         r.dir);
    PL_TRY(status);
    if (wish->without)
        PL_TRY(pl_close_paths(mix->topology, wish->without, &mix->closed));
    mix->settings.closed = mix->closed;
done:
    run_close(&r);
    return status;
}

pl_status mixture_check_newest(const void *wish, const pl_mixture *mix)
{
    pl_mixture now;
    const mixture_wish *w = wish;
    pl_status status = mixture_open(mix->dir, w, &now);
    const pl_snapshot *was = &mix->tag;
    bool is_same = was->n_items == now.tag.n_items;
    for (size_t i = 0; is_same && i < was->n_items; i++)
        is_same = strcmp(was->items[i].module, now.tag.items[i].module) == 0 &&
                  was->items[i].number == now.tag.items[i].number;
    if (status == PL_OK && strcmp(now.arm.name, mix->arm.name) != 0)
        status = pl_fail(PL_ERR_BUSY,
                         "%s is now of the arm %s, and this server serves the arm %s; "
                         "start `pathloom serve` again to serve %s",
                         w->at ? w->at : "the newest mixture", now.arm.name,
                         mix->arm.name, now.arm.name);
    else if (status == PL_OK && w->at && !is_same)
        status = pl_fail(PL_ERR_BUSY,
                         "tag %s now names different versions; start `pathloom serve` "
                         "again to serve them",
                         w->at);
    pl_mixture_close(&now);
    return status;
}
