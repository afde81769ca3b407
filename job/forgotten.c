/* The list of a run's forgotten documents, and the functions by which `train` uses the
 * list (forget.h). */
#include "job/forget.h"
#include "job/stages.h"

pl_status forgotten_parse(const char *what, const pl_buf *text, forgotten *out)
{
    int number = 0;
    *out = (forgotten){NULL, NULL, 0};
    for (size_t at = 0; at < text->len; number++) {
        char line[64], word[16];
        unsigned long long hash = 0;
        int used = 0;
        const uint8_t *end = memchr(text->data + at, '\n', text->len - at);
        const size_t n = end ? (size_t)(end - text->data) - at : text->len - at;
        snprintf(line, sizeof line, "%.*s", (int)(n < 63 ? n : 63), text->data + at);
        at += n + 1;
        if (n < 63 && sscanf(line, "%16llx %15s%n", &hash, word, &used) == 2 &&
            used == (int)n &&
            (strcmp(word, "paths") == 0 || strcmp(word, "start") == 0)) {
            const size_t had = out->n++;
            out->hashes = pl_grow_items(out->hashes, had, out->n, sizeof *out->hashes);
            out->starts = pl_grow_items(out->starts, had, out->n, sizeof *out->starts);
            out->hashes[had] = hash;
            out->starts[had] = strcmp(word, "start") == 0;
            continue;
        }
        return pl_fail(PL_ERR_CONFIG,
                       "line %d of %s is `%s`, but each line must have the 16 hex "
                       "digits of a document's hash, and `paths` or `start`",
                       number + 1, what, line);
    }
    return PL_OK;
}

pl_status forgotten_read(const char *path, forgotten *out)
{
    pl_buf text = {0};
    pl_status status = PL_OK;
    *out = (forgotten){NULL, NULL, 0};
    if (pl_path_exists(path))
        status = pl_read_file(path, &text);
    if (status == PL_OK)
        status = forgotten_parse(path, &text, out);
    pl_buf_destroy(&text);
    return status;
}

void forgotten_clear(forgotten *list)
{
    pl_free_all(list->hashes, list->starts);
    *list = (forgotten){NULL, NULL, 0};
}

pl_status forgotten_blank(pl_run *r, bool all)
{
    char own[PL_PATH_MAX], folder[PL_PATH_MAX], train[PL_PATH_MAX];
    forgotten list = {NULL, NULL, 0};
    bool changed = false;
    size_t n = 0;
    pl_status status = PL_OK;
    run_file(r, "data/forgotten", own);
    if (r->cfg.forget[0] && !r->resumed && !pl_path_exists(own)) {
        /* In a new run, makes the list of data.forget the list of the run. */
        pl_buf text = {0};
        if (!pl_path_exists(r->cfg.forget))
            return pl_fail(PL_ERR_CONFIG, "data.forget names %s, which does not exist",
                           r->cfg.forget);
        status = forgotten_read(r->cfg.forget, &list);
        for (size_t i = 0; status == PL_OK && i < list.n; i++)
            if (!pl_tokens_find(r->train, list.hashes[i]))
                status = pl_fail(PL_ERR_CONFIG,
                                 "data.forget lists the document %016llx, which the "
                                 "training text does not have; delete its line",
                                 (unsigned long long)list.hashes[i]);
        if (status == PL_OK)
            status = pl_read_file(r->cfg.forget, &text);
        if (status == PL_OK)
            status = pl_replace_file(own, text.data, text.len);
        forgotten_clear(&list);
        pl_buf_destroy(&text);
    }
    if (status == PL_OK)
        status = forgotten_read(own, &list);
    for (size_t i = 0; i < list.n; i++)
        if (all || list.starts[i])
            list.hashes[n++] = list.hashes[i];
    if (status == PL_OK && n > 0)
        status = pl_data_blank(run_file(r, "data", folder),
                               &(pl_doc_list){list.hashes, n}, &changed);
    forgotten_clear(&list);
    if (status != PL_OK || !changed)
        return status;
    pl_tokens_close(&r->train);
    return pl_tokens_open(run_file(r, "data/train.tok", train), true, &r->train);
}

pl_status forgotten_note(const pl_run *r)
{
    char own[PL_PATH_MAX];
    pl_buf text = {0};
    if (!pl_path_exists(run_file(r, "data/forgotten", own)))
        return PL_OK;
    pl_status status = pl_read_file(own, &text);
    if (status == PL_OK)
        status = stages_put_object(r, "forgotten", &text);
    pl_buf_destroy(&text);
    return status;
}
