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

/* Creates a model with rows for the frequent pairs of all documents. Its counts are
 * still zero. `text` is scratch memory of job->length tokens. */
static pl_status create_counted(const pl_prefix_lm_job *job, int32_t *text,
                                pl_prefix_lm **out)
{
    pair_survey survey;
    uint32_t n = pl_tokens_n_docs(job->tokens);
    PL_CHECK(survey_begin(pl_tokens_vocab(job->tokens), &survey));
    for (uint32_t d = 0; d < n; ++d)
        for (int w = 0, len; (len = read_window(job, d, (size_t)w, text)) > 0; ++w)
            survey_add(&survey, text, len);
    pl_status status = survey_end(&survey, job->n_paths, out);
    survey_clear(&survey);
    return status;
}

pl_status pl_prefix_lm_count(const pl_prefix_lm_job *job, const int *path_of,
                             pl_prefix_lm **out)
{
    int32_t *text = pl_alloc((size_t)job->length * sizeof *text);
    pl_status status = create_counted(job, text, out);
    for (uint32_t d = 0; status == PL_OK && d < pl_tokens_n_docs(job->tokens); ++d)
        for (int w = 0, len;
             path_of[d] >= 0 && (len = read_window(job, d, (size_t)w, text)) > 0; ++w)
            prefix_lm_add(*out, path_of[d], text, len);
    if (status == PL_OK)
        status = prefix_lm_finish(*out, job->n_threads);
    pl_free(text);
    return status;
}
