/* Reports how documents were dealt to paths: lines for the user, and RUN/router.json.
 */
#include "job/routing.h"

#include <math.h>

/* Judges a k-means router with k paths, which is fitted only to compare runs: purity
 * depends on the number of paths. */
static pl_status judge_at(pl_run *r, routing *g, int k, pl_judgement *out)
{
    pl_router *router = NULL;
    pl_shards shards = {.n_paths = 0};
    pl_router_options options = routing_options(r, g, k);
    options.kind = PL_ROUTER_KMEANS;
    options.n_levels = 1;
    options.balance = 0;
    pl_status status = pl_router_fit(g->features, g->n, g->dim, &options, &router);
    if (status == PL_OK)
        status = pl_shards_make(router, g->features, g->n, 1, &shards);
    if (status == PL_OK)
        pl_judge(shards.path_of, k, g->domains, (int)pl_tokens_n_domains(r->train),
                 g->n, out);
    pl_shards_clear(&shards);
    pl_router_destroy(&router);
    return status;
}

/* Prints every path of a small run, or the range of epochs of a large one, and warns of
 * paths that repeat their shard too often. */
static void say_shards(pl_run *r, const routing *g)
{
    /* up to this number of epochs, repetition does almost no harm (arXiv:2305.16264) */
    const double epochs_max = 4;
    int n_paths = g->shards.n_paths, n_over = 0, most = 0, least = 0;
    char name[PL_NAME_MAX];
    for (int p = 0; p < n_paths; p++) {
        if (n_paths <= 32) {
            /* prints a line such as "p00    561 documents, 1.2M tokens, 1.4 epochs,
             * 75 % of them cmake" */
            uint32_t n_domains = pl_tokens_n_domains(r->train), best = 0;
            const shard_size *size = &g->sizes[p];
            uint64_t *counts = pl_alloc((n_domains ? n_domains : 1) * sizeof *counts);
            char tokens[16], mostly[PL_NAME_MAX + 64] = "";
            for (size_t i = g->shards.first[p]; i < g->shards.first[p + 1]; i++)
                counts[g->domains[g->shards.docs[i]]]++;
            for (uint32_t d = 1; d < n_domains; d++)
                best = counts[d] > counts[best] ? d : best;
            if (n_domains > 1 && size->documents > 0)
                snprintf(mostly, sizeof mostly, ", %3.0f %% of them %s",
                         100.0 * (double)counts[best] / (double)size->documents,
                         pl_tokens_domain(r->train, best));
            pl_topology_path_name(g->topology, p, name);
            say("         %s %6zu documents, %s tokens, %.1f epochs%s", name,
                size->documents, pl_human_count(size->tokens, tokens), size->epochs,
                mostly);
            pl_free(counts);
        }
        n_over += g->sizes[p].epochs > epochs_max;
        most = g->sizes[p].epochs > g->sizes[most].epochs ? p : most;
        least = g->sizes[p].epochs < g->sizes[least].epochs ? p : least;
    }
    if (n_paths > 32)
        say("         paths train %.1f to %.1f epochs of their shards",
            g->sizes[least].epochs, g->sizes[most].epochs);
    if (n_over == 0)
        return;
    pl_topology_path_name(g->topology, most, name);
    say("         %d of %d paths repeat%s their shard more than %.0f times (%s: %.1f "
        "epochs);\n         use more text, fewer paths or a smaller train.phases",
        n_over, n_paths, n_over == 1 ? "s" : "", epochs_max, name,
        g->sizes[most].epochs);
}

/* If the largest shard has more tokens than router.balance allows, prints why. */
static void say_unbalanced(const pl_run *r, const routing *g, double largest)
{
    const config *c = &r->cfg;
    double total = 0;
    char tokens[16];
    for (size_t i = 0; i < g->n; i++)
        total += g->tokens[i];
    double limit = (1 + c->balance) * total / g->shards.n_paths;
    if (c->balance == 0 || c->overlap > 1 || largest <= limit * (1 + 1e-9))
        return;
    pl_human_count(g->alike.weight, tokens);
    if (g->alike.weight <= limit)
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "the fit\n         could not reach this",
            1 + c->balance);
    else if (g->alike.n_docs > 1)
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "%zu documents\n         (%s tokens) look the same to the router, which "
            "cannot separate them",
            1 + c->balance, g->alike.n_docs, tokens);
    else
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "one document\n         alone has more (%s tokens); split this document",
            1 + c->balance, tokens);
}

pl_status routing_report(pl_run *r, routing *g)
{
    const config *c = &r->cfg;
    pl_judgement own = {0, 0}, eight = {0, 0};
    int n_paths = g->shards.n_paths, n_domains = (int)pl_tokens_n_domains(r->train);
    PL_CHECK(pl_router_heaviest_alike(g->features, g->n, g->dim, g->tokens, &g->alike));
    g->domains = pl_alloc(g->n * sizeof *g->domains);
    for (size_t i = 0; i < g->n; i++)
        g->domains[i] = pl_tokens_doc(r->train, (uint32_t)i)->domain;
    pl_judge(g->shards.path_of, n_paths, g->domains, n_domains, g->n, &own);
    if (n_domains > 1 && g->n >= 8)
        PL_CHECK(judge_at(r, g, 8, &eight));
    /* computes the number of documents, tokens and epochs of every shard */
    const double samples = (double)g->phases * (double)c->tau * (double)c->batch *
                           pl_topology_n_replicas(g->topology);
    const pl_sampler_options rows_of = {
        .context = (int)c->context, .n_replicas = 1, .pack = c->pack};
    double largest = 0, sum = 0; /* tokens of shards */
    g->sizes = pl_alloc((size_t)n_paths * sizeof *g->sizes);
    for (int p = 0; p < n_paths; p++) {
        shard_size *size = &g->sizes[p];
        size_t first = g->shards.first[p];
        uint64_t n_rows;
        for (size_t i = first; i < g->shards.first[p + 1]; i++) {
            size->tokens += g->tokens[g->shards.docs[i]];
            size->documents++;
        }
        PL_CHECK(pl_sampler_count_rows(r->train, g->shards.docs + first,
                                       (uint32_t)(g->shards.first[p + 1] - first),
                                       &rows_of, &n_rows));
        size->rows = (double)n_rows;
        size->epochs = samples / size->rows;
        largest = fmax(largest, size->tokens);
        sum += size->tokens;
    }
    const double over_mean = largest * n_paths / sum;
    char domains[160] = "";
    if (n_domains > 1)
        snprintf(domains, sizeof domains,
                 "\n         compared with %d domains: purity %.3f, NMI %.3f (purity "
                 "%.3f at K=8)",
                 n_domains, own.purity, own.nmi, eight.purity);
    say("router   %s, largest shard %.2f times the mean in tokens, %d empty shards "
        "filled%s",
        g->how ? g->how : r->cfg.router_kind, over_mean, g->shards.n_repaired, domains);
    say_unbalanced(r, g, largest);
    say_shards(r, g);
    /* packing helps if a large share of the rows is padding */
    const double least_share = 0.15;
    double rows = 0;
    for (int p = 0; p < n_paths; p++)
        rows += g->sizes[p].rows;
    double padding = 1 - sum / (rows * (double)c->context);
    if (!c->pack && padding > least_share)
        say("         %.0f %% of each batch is padding behind short documents; "
            "train.pack=true\n         fills it with other documents",
            100 * padding);
    pl_json *o = pl_json_object(), *documents = pl_json_array();
    pl_json *tokens = pl_json_array();
    for (int p = 0; p < n_paths; p++) {
        pl_json_push(documents, pl_json_make_int((int64_t)g->sizes[p].documents));
        pl_json_push(tokens, pl_json_make_int((int64_t)g->sizes[p].tokens));
    }
    pl_json_set(o, "shard_documents", documents);
    pl_json_set(o, "shard_tokens", tokens);
    pl_json_set_int(o, "domains", n_domains);
    pl_json_set_real(o, "largest_over_mean", over_mean);
    pl_json_set_int(o, "repaired", g->shards.n_repaired);
    pl_json_set_int(o, "largest_alike", (int64_t)g->alike.n_docs);
    pl_json_set_int(o, "largest_alike_tokens", (int64_t)g->alike.weight);
    pl_json_set_real(o, "purity", own.purity);
    pl_json_set_real(o, "nmi", own.nmi);
    pl_json_set_real(o, "purity_k8", eight.purity);
    pl_json_set_real(o, "nmi_k8", eight.nmi);
    PL_CHECK(run_write_json(r, "router.json", o, 2, ""));
    return routing_write_map(r, g);
}
