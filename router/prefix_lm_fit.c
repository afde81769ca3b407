/* Fits a prefix model to the documents of shards. */
#include "router/prefix_lm.h"
#include "router/windows.h"

/* Reads window w of document d and returns its length, or 0 if the document has no such
 * window. */
static int read_window(const pl_prefix_lm_job *job, uint32_t d, size_t w, int32_t *text)
{
    const pl_token_doc *doc = pl_tokens_doc(job->tokens, d);
    size_t T = (size_t)job->length, k = windows_of(doc, T, job->windows);
    return w < k ? (int)windows_copy(job->tokens, doc, T, w, k, text) : 0;
}

pl_status pl_prefix_lm_count(const pl_prefix_lm_job *job, const int *path_of,
                             pl_prefix_lm **out)
{
    const uint32_t n = pl_tokens_n_docs(job->tokens);
    int32_t *text = pl_alloc((size_t)job->length * sizeof *text);
    pair_survey survey = {.counts = NULL};
    pl_status status = PL_OK;
    PL_TRY(survey_begin(pl_tokens_vocab(job->tokens), &survey));
    for (uint32_t d = 0; d < n; ++d)
        for (int w = 0, len; (len = read_window(job, d, (size_t)w, text)) > 0; ++w)
            survey_add(&survey, text, len);
    /* a model with rows for the frequent pairs; its counts are still zero */
    PL_TRY(survey_end(&survey, job->n_paths, out));
    survey_clear(&survey);
    for (uint32_t d = 0; d < n; ++d)
        for (int w = 0, len;
             path_of[d] >= 0 && (len = read_window(job, d, (size_t)w, text)) > 0; ++w)
            prefix_lm_add(*out, path_of[d], text, len);
    PL_TRY(prefix_lm_finish(*out, job->n_threads));
done:
    survey_clear(&survey);
    pl_free(text);
    return status;
}
