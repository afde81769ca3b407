/* Finds out which path answers a text, and why: computes the scores of all paths.
 * `pathloom route` and the page of a run show these scores. */
#pragma once
#include "job/run.h"

typedef struct text_router text_router;
typedef struct text_router_wish {
    const char *rule; /* router, likelihood or auto; NULL: the run's rule */
    /* compute the likelihood even if the router decides */
    bool likelihood;
    /* Paths stay in memory between texts if all paths together need at most this many
     * bytes. */
    uint64_t keep_bytes;
} text_router_wish;
/* Borrows `mix` until close. */
pl_status text_router_open(pl_mixture *mix, const text_router_wish *wish,
                           text_router **out);
void text_router_close(text_router **router); /* accepts NULL */

typedef struct text_route {
    int n_paths, path; /* path: the path that answers */
    /* n_tokens: tokens of the text, without BOS; n_seen: number of first tokens that
     * the paths read if likelihood decides */
    int n_tokens, n_seen;
    bool by_likelihood; /* likelihood decides, not the router */
    const char *why;
    int router_path;
    /* cost of the router's second best path minus the cost of its best path; infinite
     * if there is only one path */
    double router_margin;
    const double *costs; /* [n_paths] the router's cost of each path, in nats */
    const double *nats;  /* [n_paths] or NULL: likelihoods were not computed */
    int likeliest;
    /* nats of the second likeliest path minus nats of the likeliest */
    double margin_nats;
} text_route; /* lists stay valid until the next call with this router */

/* Computes the scores of a text. tokens[0] is BOS. */
pl_status text_router_ask(text_router *router, const int32_t *tokens, int n,
                          text_route *out);
/* Returns the posterior probability of a path, with equal prior probabilities: its
 * likelihood divided by the sum of the likelihoods of all paths. 0 for a closed path;
 * NaN if likelihoods were not computed. */
double text_route_posterior(const text_route *route, int path);
