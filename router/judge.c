/* Computes purity and normalised mutual information of an assignment compared to labels
 * (Manning, Raghavan & Schuetze 2008, section 16.3). */
#include "router/router.h"
#include <math.h>

/* Returns the entropy in nats of n items, of which count[i] are of kind i. */
static double entropy(const size_t *count, size_t n_counts, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n_counts; ++i)
        if (count[i] > 0) {
            double share = (double)count[i] / (double)n;
            sum -= share * log(share);
        }
    return sum;
}

void pl_judge(const int *cluster, int n_clusters, const uint32_t *label, int n_labels,
              size_t n, pl_judgement *out)
{
    *out = (pl_judgement){0};
    if (n == 0 || n_clusters < 1 || n_labels < 1)
        return;
    size_t C = (size_t)n_clusters, L = (size_t)n_labels;
    size_t *joint = pl_alloc((C * L + C + L) * sizeof *joint);
    size_t *of_cluster = joint + C * L, *of_label = of_cluster + C;
    for (size_t i = 0; i < n; ++i) {
        ++joint[(size_t)cluster[i] * L + label[i]];
        ++of_cluster[cluster[i]];
        ++of_label[label[i]];
    }
    /* the documents whose label is the most frequent label of their cluster */
    size_t n_majority = 0;
    for (size_t c = 0; c < C; ++c) {
        size_t most = 0;
        for (size_t l = 0; l < L; ++l)
            if (joint[c * L + l] > most)
                most = joint[c * L + l];
        n_majority += most;
    }
    out->purity = (double)n_majority / (double)n;
    /* the mutual information I(C;L) = H(C) + H(L) - H(C,L), divided by the mean of H(C)
     * and H(L); 1 if both are zero */
    const double h_cluster = entropy(of_cluster, C, n),
                 h_label = entropy(of_label, L, n);
    const double mean = 0.5 * (h_cluster + h_label);
    const double information = h_cluster + h_label - entropy(joint, C * L, n);
    out->nmi = mean <= 0.0 ? 1.0 : information / mean;
    out->nmi = out->nmi < 0.0 ? 0.0 : out->nmi; /* rounding may give -1e-16 */
    pl_free(joint);
}
