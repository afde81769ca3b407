/* folder: router
 *
 * Fuzzes prefix models. Each accepted model must be able to route a text. */
#include "router/prefix_lm.h"
#include "tests/fuzz/fuzz.h"

static void forge(uint8_t *bytes, size_t len)
{
    if (len < 16)
        return;
    /* The last 14 bytes are the checksum's own tag, length and value. */
    uint64_t checksum = pl_checksum(bytes, len - 14);
    static const uint8_t tag[] = {0xff, 0xff, 8, 0, 0, 0};
    memcpy(bytes + len - 14, tag, sizeof tag);
    memcpy(bytes + len - 8, &checksum, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    static const int32_t text[] = {1, 2, 3, 2, 3, -7, 1 << 20, 4};
    pl_prefix_lm *router;
    if (len < 1)
        return 0;
    uint8_t *bytes = malloc(len);
    if (!bytes)
        return 0;
    memcpy(bytes, input + 1, len - 1);
    if (input[0] & 1)
        forge(bytes, len - 1);
    if (pl_prefix_lm_decode(bytes, len - 1, 1, &router) == PL_OK) {
        double *nats = pl_alloc((size_t)pl_prefix_lm_n_paths(router) * sizeof *nats);
        pl_prefix_lm_nats(router, text, 8, nats);
        pl_free(nats);
        pl_prefix_lm_destroy(&router);
    }
    free(bytes);
    return 0;
}

static void seed_model(void (*give)(const void *, size_t), int vocab, int n_paths)
{
    enum { LEN = 64 };
    int32_t text[LEN];
    pair_survey survey;
    pl_prefix_lm *lm = NULL;
    pl_buf bytes = {0};
    for (uint64_t t = 0; t < LEN; t++)
        text[t] = (int32_t)(pl_random_u32(3, 1, t) % (uint32_t)vocab);
    if (survey_begin(vocab, &survey) != PL_OK)
        return;
    survey_add(&survey, text, LEN);
    if (survey_end(&survey, n_paths, &lm) == PL_OK) {
        for (int p = 0; p < n_paths; p++)
            prefix_lm_add(lm, p, text + 8 * p, 8);
        if (pl_prefix_lm_encode(lm, &bytes) == PL_OK)
            fuzz_give(give, 1, bytes.data, bytes.len);
    }
    survey_clear(&survey);
    pl_prefix_lm_destroy(&lm);
    pl_buf_destroy(&bytes);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    seed_model(give, 5, 2);
    seed_model(give, 300, 1); /* contains no pair of tokens twice */
    seed_model(give, 3, 7);
}
