/* folder: router
 *
 * Routers, as a worker or a reader gets them, and a document routed by each. */
#include "router/router_internal.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>

static void forge(uint8_t *bytes, size_t len)
{
    if (len < 16)
        return;
    uint64_t checksum = pl_checksum(bytes, len - 14); /* before tag, length, value */
    static const uint8_t tag[] = {0xff, 0xff, 8, 0, 0, 0};
    memcpy(bytes + len - 14, tag, sizeof tag);
    memcpy(bytes + len - 8, &checksum, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    pl_router *router;
    int path;
    if (len < 1)
        return 0;
    uint8_t *bytes = malloc(len);
    if (!bytes)
        return 0;
    memcpy(bytes, input + 1, len - 1);
    if (input[0] & 1)
        forge(bytes, len - 1);
    if (pl_router_decode(bytes, len - 1, &router) == PL_OK) {
        size_t dim = (size_t)router->lens.dim;
        float *feature = calloc(dim, sizeof *feature);
        if (feature && dim < 4096)
            pl_router_route(router, feature, 1, &path);
        free(feature);
        pl_router_destroy(&router);
    }
    free(bytes);
    return 0;
}

static void seed_router(void (*give)(const void *, size_t), pl_router_options *o)
{
    enum { DOCS = 24, DIM = 6 };
    static float features[DOCS * DIM];
    pl_router *router = NULL;
    pl_buf seed = {0};
    for (uint64_t i = 0; i < DOCS * DIM; i++)
        features[i] = pl_random_normal(3, 1, i);
    if (pl_router_fit(features, DOCS, DIM, o, &router) != PL_OK)
        return;
    pl_buf bytes = {0};
    pl_router_encode(router, &bytes);
    pl_buf_append(&seed, "\1", 1);
    pl_buf_append(&seed, bytes.data, bytes.len);
    give(seed.data, seed.len);
    pl_buf_destroy(&bytes);
    pl_buf_destroy(&seed);
    pl_router_destroy(&router);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    pl_router_options o = {.kind = PL_ROUTER_KMEANS,
                           .n_paths = 4,
                           .n_levels = 2,
                           .experts = {2, 2},
                           .restarts = 1,
                           .iterations = 5,
                           .standardize = true,
                           .components = 3,
                           .seed = 1,
                           .n_threads = 1};
    seed_router(give, &o);
    o.kind = PL_ROUTER_PRODUCT;
    seed_router(give, &o);
    o.components = 0;
    o.unit = true;
    seed_router(give, &o);
    double scores[64 * 4] = {0}; /* of more documents than the seed has */
    for (int i = 0; i < 64 * 4; i += 5)
        scores[i] = 1.0;
    o.kind = PL_ROUTER_LINEAR;
    o.scores = scores;
    seed_router(give, &o);
}
