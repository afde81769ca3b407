/* pathloom forget: finds the documents, prints the cost of forgetting them, and
 * replaces the store by one that ends before their first use (forget.h). */
#include "job/forget.h"
#include "job/stages.h"

#include <errno.h>
#include <inttypes.h>

typedef struct forgetting {
    const forget_request *q;
    pl_run r;
    pl_store *store;
    forgotten list; /* the run's list before this command */
    pl_buf hashes;  /* hashes of the documents that are named now */
    size_t n_again; /* how many of the named documents the list already has */
    uint64_t n_tokens;
    int n_rechosen; /* number of paths whose best version is chosen again */
    pl_rewind rewind;
    int locks[PL_PARTS_MAX]; /* of the store, until it is replaced */
} forgetting;

/* ---- the exchange ---- */
static pl_status move_folder(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return pl_fail(PL_ERR_IO,
                       "%s cannot be renamed to %s (%s); a store that is a link or a "
                       "mount point cannot be replaced",
                       from, to, strerror(errno));
    PL_CHECK(pl_sync_parent(from));
    return pl_sync_parent(to);
}

/* Replaces the store by its copy, if RUN/forget/ready exists. An earlier process may
 * have been killed before any of these steps, so every step may be repeated. */
static pl_status exchange_store(const char *dir)
{
    char ready[PL_PATH_MAX], fresh[PL_PATH_MAX], store[PL_PATH_MAX], path[PL_PATH_MAX];
    char above[PL_PATH_MAX], number[16];
    int n = 0;
    bool changed;
    forgotten all = {NULL, NULL, 0};
    pl_buf list = {0};
    pl_status status = PL_OK;
    pl_join(store, dir, "store");
    pl_join(fresh, dir, "forget/store");
    if (!pl_path_exists(pl_join(ready, dir, "forget/ready")))
        return PL_OK;
    if (pl_path_exists(fresh)) {
        if (pl_path_exists(store)) { /* goes to the first free RUN/forgotten/N */
            PL_TRY(pl_make_folders(pl_join(above, dir, "forgotten")));
            do
                snprintf(number, sizeof number, "%d", ++n);
            while (pl_path_exists(pl_join(path, above, number)));
            PL_TRY(move_folder(store, path));
        }
        PL_TRY(pl_failpoint("forget.exchange.before"));
        PL_TRY(move_folder(fresh, store));
    }
    PL_TRY(pl_read_file(ready, &list));
    /* Makes the forgotten documents blank in the run's text. The text of these
     * documents is no longer needed, because the new store has the shards. So the user
     * may remove the documents from data.corpus before `train` continues the run. */
    PL_TRY(forgotten_parse("forget/ready", &list, &all));
    PL_TRY(pl_data_blank(pl_join(path, dir, "data"), &(pl_doc_list){all.hashes, all.n},
                         &changed));
    PL_TRY(pl_replace_file(pl_join(path, dir, "data/forgotten"), list.data, list.len));
    PL_TRY(pl_failpoint("forget.exchange.after"));
    PL_TRY(pl_remove_tree(pl_join(path, dir, "cache")));
    PL_TRY(pl_remove_tree(pl_join(path, dir, "forget")));
done:
    forgotten_clear(&all);
    pl_buf_destroy(&list);
    return status;
}

pl_status forget_finish(const char *dir)
{
    char ready[PL_PATH_MAX], store[PL_PATH_MAX];
    int lock = -1, locks[PL_PARTS_MAX];
    if (!pl_path_exists(pl_join(ready, dir, "forget/ready")))
        return PL_OK;
    PL_CHECK(pl_lock_folder(dir, &lock));
    pl_status status = run_lock_store(pl_join(store, dir, "store"), locks);
    if (status == PL_OK)
        status = exchange_store(dir);
    run_unlock_store(locks);
    pl_unlock_folder(&lock);
    return status;
}

/* ---- the documents ---- */
static pl_doc_list named(const forgetting *f)
{
    return (pl_doc_list){(const uint64_t *)(const void *)f->hashes.data,
                         f->hashes.len / sizeof(uint64_t)};
}

/* Adds the training documents that a word of the command names. */
static pl_status add_word(forgetting *f, const char *word, const pl_tokens *valid)
{
    pl_buf found = {0};
    uint64_t hash = 0;
    size_t n_held = 0, n = 0;
    const size_t n_before = named(f).n;
    pl_status status = PL_OK;
    char rest;
    if (pl_path_exists(word))
        PL_TRY(run_document_hashes(&f->r, word, &found));
    else if (strlen(word) == 16 && sscanf(word, "%16" SCNx64 "%c", &hash, &rest) == 1)
        pl_buf_append(&found, &hash, sizeof hash);
    for (size_t i = 0; i < found.len / sizeof hash; i++) {
        memcpy(&hash, found.data + i * sizeof hash, sizeof hash);
        const pl_doc_list known = named(f);
        const pl_token_doc *doc = pl_tokens_find(f->r.train, hash);
        n_held += pl_tokens_find(valid, hash) != NULL;
        if (pl_doc_listed(&(pl_doc_list){known.hashes, n_before}, hash))
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "`%s` is the document %016" PRIx64
                           ", which an earlier word names; leave one of them out",
                           word, hash));
        /* a folder may have the same text twice, which counts once */
        if (!doc || pl_doc_listed(&known, hash))
            continue;
        f->n_tokens += doc->n_tokens;
        bool is_listed = false;
        for (size_t k = 0; k < f->list.n; k++)
            is_listed = is_listed || (f->list.hashes[k] == hash &&
                                      (f->list.starts[k] || !f->q->from_start));
        f->n_again += is_listed;
        pl_buf_append(&f->hashes, &hash, sizeof hash);
        n++;
    }
    if (n == 0 && n_held > 0)
        status = pl_fail(
            PL_ERR_NOT_FOUND,
            "the documents of `%s` are held out: nothing was trained on them", word);
    else if (n == 0)
        status = pl_fail(PL_ERR_NOT_FOUND,
                         "`%s` is neither a file of a training document of %s nor the "
                         "hash of one (16 hex digits)",
                         word, f->r.dir);
done:
    pl_buf_destroy(&found);
    return status;
}

/* ---- the plan ---- */
/* Drops the arm, if it exists and `drops`. Returns whether it is changed. */
static bool drop_if(forgetting *f, const char *name, bool drops)
{
    pl_rewind_arm *arm = pl_rewind_find(&f->rewind, name);
    if (arm && drops)
        pl_rewind_drop(arm);
    return arm && arm->is_changed;
}

/* Marks the chapters that must be made again. A chapter that deals documents reads the
 * text of all documents. So the first chapter that deals documents is made again, and
 * all later chapters. All chapters after the first chapter that changes are also made
 * again. The features of the first chapter are always deleted, because they were
 * computed from the text of all documents; they are computed again only if documents
 * are dealt again. */
static pl_status drop_chapters(forgetting *f)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    char name[PL_ARM_NAME_MAX];
    bool drops = false, deals = false;
    int n = 0;
    PL_CHECK(config_chapters(&f->r.cfg, chapters, &n));
    for (int c = 0; c < n; c++) {
        deals = deals || (c > 0 && (chapters[c].deals || chapters[c].splits));
        drops = drops || deals;
        drop_if(f, pl_features_name(c, name), drops || c == 0);
        drop_if(f, pl_scoring_name(c, name), drops);
        drops = drop_if(f, pl_chapter_name(c, name), drops) || drops;
    }
    pl_rewind_arm *first = pl_rewind_find(&f->rewind, pl_features_name(0, name));
    if (first && !deals && !f->q->from_start) {
        first->n_again = 0;
        first->again_s = 0;
    }
    return PL_OK;
}

/* A path's best version was chosen from all its versions, by its held-out documents. If
 * one of these documents is forgotten, or the versions change, the choice is made
 * again. */
static pl_status remake_best_tags(forgetting *f, const pl_rewind_arm *a)
{
    char tag[PL_NAME_MAX], object[PL_MODULE_NAME_MAX];
    const pl_doc_list now = named(f);
    for (int p = 0; p < pl_topology_n_paths(a->topology); p++) {
        bool held_out = false;
        stages_path_object("holdout", &a->arm, a->topology, p, object);
        pl_buf bytes = {0};
        pl_tokens *tokens = NULL;
        pl_status status = pl_store_read_object(f->store, object, &bytes);
        if (status == PL_OK)
            status = pl_tokens_view(bytes.data, bytes.len, object, &tokens);
        for (uint32_t d = 0; status == PL_OK && d < pl_tokens_n_docs(tokens); d++)
            held_out =
                held_out || (pl_doc_listed(&now, pl_tokens_doc(tokens, d)->hash) &&
                             !pl_tokens_is_blank(tokens, d));
        pl_tokens_close(&tokens);
        pl_buf_destroy(&bytes);
        PL_CHECK(status == PL_ERR_NOT_FOUND ? PL_OK : status);
        pl_best_tag(&a->arm, a->topology, p, tag);
        f->n_rechosen += held_out;
        if (held_out || a->is_changed)
            pl_buf_printf(&f->rewind.remade, " %s", tag);
    }
    return PL_OK;
}

static pl_status plan_forgetting(forgetting *f)
{
    const pl_doc_list now = named(f);
    pl_rewind *w = &f->rewind;
    PL_CHECK(pl_rewind_plan(f->store, &now, w));
    pl_rewind_arm *base = pl_rewind_find(w, "base");
    if (base && !f->q->from_start)
        pl_rewind_keep(base);
    /* The base model has seen documents that only the paths have forgotten so far, and
     * the text of these documents is gone. So the base model is trained again without
     * them. */
    for (size_t i = 0; base && f->q->from_start && i < f->list.n; i++)
        if (!f->list.starts[i])
            pl_rewind_drop(base);
    for (int i = 0; f->q->from_start && i < w->n_arms; i++)
        if (&w->arms[i] != base)
            pl_rewind_drop(&w->arms[i]);
    PL_CHECK(drop_chapters(f));
    for (int i = 0; i < w->n_arms; i++)
        PL_CHECK(remake_best_tags(f, &w->arms[i]));
    /* Refuses to leave a path without text. Arms that are made again are not checked,
     * because they deal their documents again. */
    char path[PL_NAME_MAX];
    for (int i = 0; i < w->n_arms; i++) {
        const pl_rewind_arm *a = &w->arms[i];
        if (a->drops || !a->is_changed || a->emptied < 0)
            continue;
        pl_topology_path_name(a->topology, a->emptied, path);
        return pl_fail(PL_ERR_DATA,
                       "path %s of %s would have no document left; train a new run "
                       "without these documents",
                       path, a->arm.name);
    }
    /* Refuses runs with an imported model whose import would be repeated: the store has
     * no record with which a second import could be compared with the first. */
    if (base && base->drops && f->r.cfg.import[0])
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the base model would begin again with %s (model.import), which "
                       "may have changed; train a new run with data.forget",
                       f->r.cfg.import);
    /* Devices of different kinds round differently. So phases that are trained again on
     * another kind of device, or that were trained on several kinds, would end with
     * different bytes. Arms that were trained on several kinds are reported first,
     * because no machine can repeat them exactly. */
    pl_run *r = &f->r;
    r->n_workers = run_local_workers(&r->cfg, 0);
    PL_CHECK(run_find_device(r));
    for (int i = 0; i < w->n_arms; i++) {
        const pl_rewind_arm *a = &w->arms[i];
        if (a->n_again > 0 && a->other_device[0])
            return pl_fail(PL_ERR_UNSUPPORTED,
                           "%s was trained on devices of two kinds (`%s` and `%s`), so "
                           "its bytes depend on the device of each task; train a new "
                           "run with data.forget",
                           a->arm.name, a->device, a->other_device);
    }
    for (int i = 0; i < w->n_arms; i++) {
        const pl_rewind_arm *a = &w->arms[i];
        if (a->n_again > 0 && a->device[0] && r->device[0] &&
            strcmp(a->device, r->device) != 0)
            return pl_fail(PL_ERR_UNSUPPORTED,
                           "%s was trained on `%s`, and this machine has `%s`, which "
                           "rounds differently; run the command on a machine of the "
                           "first kind, or train a new run with data.forget",
                           a->arm.name, a->device, r->device);
    }
    return PL_OK;
}

static void say_cost(const forgetting *f)
{
    int64_t all = 0, again = 0;
    double seconds = 0, again_s = 0;
    char a[16], b[16];
    say("forget   %zu documents with %llu tokens", named(f).n,
        (unsigned long long)f->n_tokens);
    for (int i = 0; i < f->rewind.n_arms; i++) {
        const pl_rewind_arm *arm = &f->rewind.arms[i];
        if (!arm->is_changed)
            say("%-8s %lld phases are kept", arm->arm.name, (long long)arm->n_phases);
        else if (arm->drops && arm->n_again == 0)
            say("%-8s is deleted, because nothing reads it any more", arm->arm.name);
        else if (arm->n_again > arm->n_changed)
            say("%-8s %lld of %lld phases change; %lld more are repeated, because the "
                "states of paths were not kept (store.keep_states)",
                arm->arm.name, (long long)arm->n_changed, (long long)arm->n_phases,
                (long long)(arm->n_again - arm->n_changed));
        else
            say("%-8s %lld of %lld phases are trained again%s", arm->arm.name,
                (long long)arm->n_again, (long long)arm->n_phases,
                arm->drops ? ", from its beginning" : "");
        all += arm->n_phases;
        again += arm->n_again;
        seconds += arm->seconds;
        again_s += arm->again_s;
    }
    if (f->n_rechosen > 0)
        say("hold-out %d paths choose their best version again, because some of their "
            "held-out documents are forgotten",
            f->n_rechosen);
    say("cost     %lld of %lld phases: %s of the %s that all workers spent in inner "
        "steps",
        (long long)again, (long long)all, pl_human_seconds(again_s, a),
        pl_human_seconds(seconds, b));
    say("exact    all parameters%s will be those of a run with data.forget from its "
        "beginning%s%s",
        f->q->from_start ? "" : " of the paths and baselines",
        f->q->from_start ? ""
                         : "; base model and router have seen the text and stay "
                           "(--from start trains them again)",
        f->r.cfg.tokenizer[0] ? "" : "; so has the tokenizer, which always stays");
}

/* ---- carrying out the plan ---- */
/* Returns the word of a document in the new list. A document that has the word `start`
 * keeps it, even if a later command names the document for the paths only. */
static const char *blank_from(const forgetting *f, uint64_t hash)
{
    bool start = f->q->from_start;
    for (size_t i = 0; i < f->list.n; i++)
        start = start || (f->list.hashes[i] == hash && f->list.starts[i]);
    return start ? "start" : "paths";
}

static pl_status make_copy(forgetting *f)
{
    char folder[PL_PATH_MAX], store[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = PL_OK;
    run_file(&f->r, "forget", folder);
    PL_CHECK(pl_remove_tree(folder));
    PL_CHECK(pl_make_folders(folder));
    PL_TRY(pl_rewind_write(&f->rewind, run_file(&f->r, "store", store),
                           run_file(&f->r, "forget/store", path)));
    PL_TRY(pl_failpoint("forget.ready.before"));
    const pl_doc_list now = named(f);
    for (size_t i = 0; i < f->list.n; i++)
        if (!pl_doc_listed(&now, f->list.hashes[i]))
            pl_buf_printf(&text, "%016" PRIx64 " %s\n", f->list.hashes[i],
                          blank_from(f, f->list.hashes[i]));
    for (size_t i = 0; i < now.n; i++)
        pl_buf_printf(&text, "%016" PRIx64 " %s\n", now.hashes[i],
                      blank_from(f, now.hashes[i]));
    PL_TRY(pl_replace_file(run_file(&f->r, "forget/ready", path), text.data, text.len));
    PL_TRY(pl_failpoint("forget.ready.after"));
    if (f->rewind.dropped.len > 0)
        say("tags     dropped, because their versions are superseded:%s",
            pl_buf_text(&f->rewind.dropped));
done:
    pl_buf_destroy(&text);
    if (status != PL_OK && pl_remove_tree(folder) != PL_OK)
        pl_log(PL_LOG_WARN, "forget.left", "folder=\"%s\"", folder);
    return status;
}

static pl_status purge(const forgetting *f)
{
    char path[PL_PATH_MAX];
    const bool was = pl_path_exists(run_file(&f->r, "forgotten", path));
    PL_CHECK(pl_remove_tree(path));
    say(was ? "purge    removed %s" : "purge    there is no %s", path);
    return PL_OK;
}

static pl_status forget_documents(forgetting *f, bool *trains)
{
    char path[PL_PATH_MAX];
    bool ended = false;
    PL_CHECK(forgotten_read(run_file(&f->r, "data/forgotten", path), &f->list));
    PL_CHECK(
        pl_tokens_open(run_file(&f->r, "data/train.tok", path), false, &f->r.train));
    PL_CHECK(
        pl_tokens_open(run_file(&f->r, "data/valid.tok", path), false, &f->r.valid));
    for (int i = 0; i < f->q->n_docs; i++)
        PL_CHECK(add_word(f, f->q->docs[i], f->r.valid));
    if (!f->q->only_cost)
        PL_CHECK(run_lock_store(run_file(&f->r, "store", path), f->locks));
    PL_CHECK(store_open_run(f->r.dir, &f->store));
    PL_CHECK(run_has_ended(f->store, &ended));
    /* If the run's list already has all documents of this command, an earlier command
     * has done or decided the exchange. */
    const bool decided = f->n_again == named(f).n;
    *trains = decided && !ended;
    if (decided && ended)
        say("forget   these documents were forgotten before; `pathloom check --run %s` "
            "proves it",
            f->r.dir);
    if (decided)
        return f->q->purge ? purge(f) : PL_OK;
    if (!ended)
        return pl_fail(PL_ERR_BUSY,
                       "the training of %s has not ended; let `pathloom train --out "
                       "%s` end it, then give this command again",
                       f->r.dir, f->r.dir);
    PL_CHECK(run_check_gone(&f->r));
    PL_CHECK(plan_forgetting(f));
    say_cost(f);
    if (f->q->only_cost)
        return PL_OK;
    PL_CHECK(make_copy(f));
    pl_store_close(&f->store);
    PL_CHECK(exchange_store(f->r.dir));
    *trains = true;
    if (f->q->purge)
        PL_CHECK(purge(f));
    else
        say("kept     %s has the old store, with the text and with all parameters that "
            "were trained on it; `pathloom forget --purge --run %s` removes it",
            run_file(&f->r, "forgotten", path), f->r.dir);
    say("         not touched: data.corpus, backups, exported models, caches of "
        "workers on other machines");
    return PL_OK;
}

pl_status forget_run(const forget_request *q, bool *trains)
{
    forgetting f = {.q = q, .r.lock = -1};
    pl_status status;
    memset(f.locks, -1, sizeof f.locks);
    *trains = false;
    PL_TRY(forget_finish(q->run));
    PL_TRY(run_look(q->run, &f.r));
    if (strcmp(f.r.cfg.engine, "rocksdb") != 0)
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "the store of %s is on %s, but documents can be forgotten only "
                       "if the store is in the run's folder",
                       f.r.dir, f.r.cfg.engine));
    status = pl_lock_folder(f.r.dir, &f.r.lock);
    if (status == PL_ERR_BUSY)
        status = pl_fail(PL_ERR_BUSY,
                         "a job is training in %s; wait until it has ended, then give "
                         "this command again",
                         f.r.dir);
    PL_TRY(status);
    PL_TRY(q->n_docs > 0 ? forget_documents(&f, trains) : purge(&f));
done:
    pl_rewind_clear(&f.rewind);
    forgotten_clear(&f.list);
    pl_buf_destroy(&f.hashes);
    pl_store_close(&f.store);
    run_unlock_store(f.locks);
    run_close(&f.r);
    return status;
}
