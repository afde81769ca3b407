/* Opens the paths that generate one text (readers.h). */
#include "serve/readers.h"

pl_status pl_readers_open(const pl_mixture *mix, const char *precision, int n_threads,
                          pl_readers *r)
{
    const size_t n = (size_t)pl_topology_n_paths(mix->topology);
    const pl_backend_options backend = {
        .name = mix->settings.backend,
        .n_threads = n_threads,
        .precision = precision ? precision : mix->settings.precision};
    const pl_model_options size = {.batch = 1, .context = mix->arm.shape.context};
    r->mix = mix;
    PL_CHECK(pl_backend_open(&backend, &r->backend));
    r->pool = pl_module_pool_create(r->backend, mix->store);
    r->paths = pl_alloc(n * sizeof(pl_pooled_path *));
    r->decoders = pl_alloc(n * sizeof(pl_decoder *));
    r->numbers = pl_alloc(n * sizeof *r->numbers);
    return pl_model_create(r->backend, mix->topology, &size, &r->model);
}

pl_status pl_readers_add(pl_readers *r, int path)
{
    const pl_path_source source = {&r->mix->arm, r->mix->topology, path,
                                   r->mix->settings.which};
    const int at = r->n++;
    r->numbers[at] = path;
    pl_status status;
    PL_TRY(pl_module_pool_open(r->pool, &source, &r->paths[at]));
    PL_TRY(pl_decoder_create(r->model, 1, &r->decoders[at]));
    pl_decoder_use(r->decoders[at], 0, pl_pooled_path_table(r->paths[at]));
done:
    if (status != PL_OK) {
        pl_module_pool_close(r->pool, &r->paths[at]);
        r->n--;
    }
    return status;
}

void pl_readers_close(pl_readers *r)
{
    for (int i = 0; i < r->n; i++) {
        pl_decoder_destroy(&r->decoders[i]);
        pl_module_pool_close(r->pool, &r->paths[i]);
    }
    pl_free_all(r->decoders, r->paths, r->numbers);
    pl_model_destroy(&r->model);
    pl_module_pool_destroy(&r->pool);
    pl_backend_close(&r->backend);
}
