/* Counts on how many tokens of certain documents paths and modules were trained
 * (exposure.h). Only one data shard at a time is in memory. */
#include "history/exposure.h"
#include <stdlib.h>

/* The data that are needed while one path is counted. */
typedef struct counting {
    const pl_arm *arm;
    const pl_topology *topology;
    int path;
    pl_buf bytes; /* the path's data shard */
    pl_tokens *shard;
    /* one per document of the shard: 1 if it belongs to the subject (pl_subject) */
    uint32_t *marks;
    uint64_t n_docs;       /* number of documents that belong to the subject */
    pl_sampler **samplers; /* [R] one sampler per replica */
    /* [R, phases] counts of complete phases; n_tokens 0: not counted yet */
    uint64_t *n_tokens, *of_tokens;
    /* [R, phases] whether a version that was read has a contribution of this phase */
    bool *seen;
    pl_exposure *module;   /* counts of the module that is being read */
    pl_exposure *replicas; /* [R] counts of the path, one per replica */
} counting;

static void close_counting(counting *c)
{
    for (int r = 0; c->samplers && r < pl_topology_n_replicas(c->topology); r++)
        pl_sampler_destroy(&c->samplers[r]);
    pl_free_all(c->samplers, c->marks, c->n_tokens, c->of_tokens, c->seen);
    pl_tokens_close(&c->shard);
    pl_buf_destroy(&c->bytes);
}

static pl_status open_counting(pl_store *store, const pl_subject *subject, counting *c)
{
    char name[PL_NAME_MAX], object[PL_MODULE_NAME_MAX];
    const pl_inner *in = &c->arm->inner;
    const int replicas = pl_topology_n_replicas(c->topology);
    const size_t n_phases = (size_t)replicas * (size_t)in->phases + 1;
    pl_topology_path_name(c->topology, c->path, name);
    snprintf(object, sizeof object, "shard/%s/%s", c->arm->name, name);
    PL_CHECK(pl_store_read_object(store, object, &c->bytes));
    PL_CHECK(pl_tokens_view(c->bytes.data, c->bytes.len, object, &c->shard));
    c->marks = pl_alloc((pl_tokens_n_docs(c->shard) + 1) * sizeof *c->marks);
    for (uint32_t d = 0; d < pl_tokens_n_docs(c->shard); d++) {
        const pl_token_doc *doc = pl_tokens_doc(c->shard, d);
        const char *domain = pl_tokens_domain(c->shard, doc->domain);
        c->marks[d] = subject->domain ? strcmp(domain, subject->domain) == 0
                                      : pl_doc_listed(&subject->docs, doc->hash);
        c->n_docs += c->marks[d];
    }
    c->n_tokens = pl_alloc(n_phases * sizeof *c->n_tokens);
    c->of_tokens = pl_alloc(n_phases * sizeof *c->of_tokens);
    c->seen = pl_alloc(n_phases * sizeof *c->seen);
    c->samplers = pl_alloc((size_t)replicas * sizeof *c->samplers);
    pl_sampler_options options = {.context = in->context,
                                  .seed = c->arm->seed,
                                  .stream = pl_arm_stream(c->arm, c->path),
                                  .n_replicas = replicas,
                                  .skip_prefix = in->skip_prefix,
                                  .pack = in->pack};
    for (; options.replica < replicas; options.replica++)
        PL_CHECK(pl_sampler_create(c->shard, &options, &c->samplers[options.replica]));
    return PL_OK;
}

/* Adds to `into` the counts of n samples of a replica, from sample number `first` on.
 * The counts of a complete phase are computed once and kept in c. */
static void add_samples(counting *c, int replica, uint64_t first, uint64_t n,
                        pl_exposure *into)
{
    const uint64_t size = pl_phase_samples(c->arm);
    const uint64_t phase = first / size;
    const bool whole =
        first % size == 0 && n == size && phase < (uint64_t)c->arm->inner.phases;
    size_t at = (size_t)replica * (size_t)c->arm->inner.phases + (size_t)phase;
    uint64_t all = whole ? c->n_tokens[at] : 0, of = whole ? c->of_tokens[at] : 0;
    if (all == 0) {
        /* the targets outside and inside of the subject's documents */
        uint64_t counts[2] = {0};
        all = pl_sampler_count(c->samplers[replica], first, n, c->marks, counts);
        of = counts[1];
    }
    if (whole) {
        c->n_tokens[at] = all;
        c->of_tokens[at] = of;
    }
    into->n_tokens += all;
    into->of_tokens += of;
}

static pl_status add_exposed_version(void *context, const pl_version *v)
{
    counting *c = context;
    const uint64_t most =
        pl_phase_samples(c->arm) * ((uint64_t)c->arm->inner.phases + 1);
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *k = &v->contributions[i];
        if (k->path != c->path)
            continue;
        if (k->replica < 0 || k->replica >= pl_topology_n_replicas(c->topology) ||
            k->work.n_samples > most || k->work.first_sample > most)
            return pl_fail(PL_ERR_DAMAGED,
                           "%s@%llu has a contribution with samples that its arm does "
                           "not have",
                           v->module, (unsigned long long)v->number);
        add_samples(c, (int)k->replica, k->work.first_sample, k->work.n_samples,
                    c->module);
        /* Several modules have a contribution of the same phase. The path's counts
         * include a phase only once, when its first contribution is found in any
         * module. (After a rollback some modules may lack it.) */
        const uint64_t phase = k->work.first_sample / pl_phase_samples(c->arm);
        if (phase >= (uint64_t)c->arm->inner.phases)
            continue;
        bool *seen =
            &c->seen[(size_t)k->replica * (size_t)c->arm->inner.phases + phase];
        if (!*seen)
            add_samples(c, (int)k->replica, k->work.first_sample, k->work.n_samples,
                        &c->replicas[k->replica]);
        *seen = true;
    }
    return PL_OK;
}

pl_status pl_exposure_read(pl_store *store, const pl_arm *arm,
                           const pl_topology *topology, const pl_subject *subject,
                           pl_exposure *paths, pl_exposure *modules)
{
    const int replicas = pl_topology_n_replicas(topology);
    const int n_paths = pl_topology_n_paths(topology);
    memset(paths, 0, (size_t)(n_paths * replicas) * sizeof *paths);
    memset(modules, 0, (size_t)pl_topology_n_modules(topology) * sizeof *modules);
    for (int i = 0; i < n_paths * replicas; i++)
        pl_arm_path_name(arm, topology, i / replicas, i % replicas, paths[i].name);
    for (int m = 0; m < pl_topology_n_modules(topology); m++)
        pl_arm_module_name(arm, topology, m, modules[m].name);
    for (int path = 0; path < n_paths && !pl_arm_scores(arm) && arm->inner.phases > 0;
         path++) {
        counting c = {.arm = arm, .topology = topology, .path = path};
        pl_status status = open_counting(store, subject, &c);
        c.replicas = &paths[path * replicas];
        for (int r = 0; r < replicas; r++)
            c.replicas[r].n_docs = c.n_docs;
        for (int s = 0; status == PL_OK && s < pl_topology_n_slots(topology); s++) {
            c.module = &modules[pl_topology_module_of_path(topology, s, path)];
            status =
                pl_store_each_version(store, c.module->name, add_exposed_version, &c);
        }
        close_counting(&c);
        PL_CHECK(status);
    }
    return PL_OK;
}

static int compare_parts(const void *x, const void *y)
{
    const pl_text_part *a = x, *b = y;
    if (a->n_tokens != b->n_tokens)
        return a->n_tokens < b->n_tokens ? 1 : -1;
    const int order = strcmp(a->domain, b->domain);
    return order ? order : a->hash < b->hash ? -1 : a->hash > b->hash;
}

pl_status pl_exposure_parts(pl_store *store, const pl_arm *arm,
                            const pl_topology *topology, int task,
                            const pl_sample_ranges *samples, bool documents,
                            pl_sample_parts *out)
{
    const int replicas = pl_topology_n_replicas(topology);
    const pl_subject none = {.domain = ""};
    counting c = {.arm = arm, .topology = topology, .path = task / replicas};
    const uint64_t most = pl_phase_samples(arm) * ((uint64_t)arm->inner.phases + 1);
    uint64_t *of_docs = NULL;
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    if (task < 0 || c.path >= pl_topology_n_paths(topology))
        return pl_fail(PL_ERR_DAMAGED, "arm %s has no task %d", arm->name, task);
    for (size_t i = 0; i < samples->n; i++)
        if (samples->at[i].first > samples->at[i].end || samples->at[i].end > 2 * most)
            return pl_fail(PL_ERR_DAMAGED, "arm %s has no samples %llu to %llu",
                           arm->name, (unsigned long long)samples->at[i].first,
                           (unsigned long long)samples->at[i].end);
    PL_TRY(open_counting(store, &none, &c));
    of_docs = pl_alloc((pl_tokens_n_docs(c.shard) + 1) * sizeof *of_docs);
    for (size_t i = 0; i < samples->n; i++)
        (void)pl_sampler_count(c.samplers[task % replicas], samples->at[i].first,
                               samples->at[i].end - samples->at[i].first, NULL,
                               of_docs);
    /* fills the lists from the targets of each document */
    const uint32_t n_docs = pl_tokens_n_docs(c.shard);
    const uint32_t n_domains = pl_tokens_n_domains(c.shard);
    out->documents = documents ? pl_alloc((n_docs + 1) * sizeof *out->documents) : NULL;
    out->domains = pl_alloc((n_domains + 1) * sizeof *out->domains);
    for (uint32_t d = 0; d < n_docs; d++) {
        const pl_token_doc *doc = pl_tokens_doc(c.shard, d);
        const uint32_t n_text = doc->n_tokens > 2 ? doc->n_tokens - 2 : 0;
        pl_text_part part = {.hash = doc->hash, .n_tokens = of_docs[d]};
        pl_copy_text(part.domain, sizeof part.domain,
                     pl_tokens_domain(c.shard, doc->domain));
        pl_copy_text(out->domains[doc->domain].domain, PL_TEXT_MAX, part.domain);
        out->domains[doc->domain].n_tokens += part.n_tokens;
        if (part.n_tokens == 0 || !documents)
            continue;
        part.n_head = n_text < PL_HEAD_TOKENS ? n_text : PL_HEAD_TOKENS;
        pl_tokens_copy(c.shard, doc->first + 1, part.n_head, part.head);
        out->documents[out->n_documents++] = part;
    }
    qsort(out->domains, n_domains, sizeof *out->domains, compare_parts);
    while (out->n_domains < n_domains && out->domains[out->n_domains].n_tokens > 0)
        out->n_domains++;
    if (documents)
        qsort(out->documents, out->n_documents, sizeof *out->documents, compare_parts);
done:
    pl_free(of_docs);
    close_counting(&c);
    return status;
}

pl_status pl_exposure_draws(pl_store *store, const pl_arm *arm,
                            const pl_topology *topology, const pl_subject *subject,
                            int64_t *draws, int *emptied)
{
    const int replicas = pl_topology_n_replicas(topology);
    const uint64_t size = pl_phase_samples(arm);
    *emptied = -1;
    for (int path = 0; path < pl_topology_n_paths(topology); path++) {
        counting c = {.arm = arm, .topology = topology, .path = path};
        pl_status status = open_counting(store, subject, &c);
        const uint32_t n_docs = status == PL_OK ? pl_tokens_n_docs(c.shard) : 0;
        /* only the first path without text is asked for */
        bool has_text = *emptied >= 0 || c.n_docs == 0 || pl_arm_scores(arm);
        for (uint32_t d = 0; !has_text && d < n_docs; d++)
            has_text = !c.marks[d] && !pl_tokens_is_blank(c.shard, d);
        if (status == PL_OK && !has_text)
            *emptied = path;
        for (int r = 0; status == PL_OK && r < replicas; r++) {
            int64_t *draw = &draws[path * replicas + r];
            for (*draw = 0; *draw < arm->inner.phases; ++*draw) {
                uint64_t counts[2] = {0};
                (void)pl_sampler_count(c.samplers[r], (uint64_t)*draw * size, size,
                                       c.marks, counts);
                if (counts[1] > 0 || (pl_arm_scores(arm) && c.n_docs > 0))
                    break;
            }
        }
        close_counting(&c);
        PL_CHECK(status);
    }
    return PL_OK;
}
