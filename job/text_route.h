/* Finds out which path answers a text, and why: computes the scores of all paths.
 * `pathloom route` and the page of a run show them. */
#ifndef PL_JOB_TEXT_ROUTE_H
#define PL_JOB_TEXT_ROUTE_H
#include "job/run.h"

typedef struct text_router text_router;
typedef struct text_router_wish {
    const char *rule; /* router, likelihood or auto; NULL: the run's rule */
    /* compute the likelihood even if the router decides */
    bool likelihood;
    /* Paths are kept in memory between texts if all of them need at most this. */
    uint64_t keep_bytes;
} text_router_wish;
/* Borrows `mix` until close. */
PL_MUST_CHECK pl_status text_router_open(pl_mixture *mix, const text_router_wish *wish,
                                         text_router **out);
void text_router_close(text_router **router); /* accepts NULL */

typedef struct text_route {
    int n_paths, path; /* path: the one that answers */
    /* n_tokens: tokens of the text, without BOS; n_seen: number of first tokens that
     * choose the path */
    int n_tokens, n_seen;
    bool by_likelihood; /* likelihood, and not the router, decides */
    const char *why;
    int router_path;
    /* cost of the router's second path minus that of its first; infinite if there is
     * only one path */
    double router_margin;
    const double *costs; /* [n_paths] the router's costs */
    const double *nats;  /* [n_paths] or NULL: likelihoods were not computed */
    int likeliest;
    double margin_nats; /* the same for likelihoods */
} text_route;           /* lists are valid until the router's next call */

/* tokens[0] is BOS. */
PL_MUST_CHECK pl_status text_router_ask(text_router *router, const int32_t *tokens,
                                        int n, text_route *out);
/* A path's share of the likelihoods of all paths: its posterior probability, if all
 * paths are equally likely before the text is read. 0 for a closed path; NaN without
 * likelihoods. */
double text_route_posterior(const text_route *route, int path);

#endif
