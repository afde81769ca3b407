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

/* Counts the documents whose label is the most frequent label of their cluster. */
static size_t majority(const size_t *joint, size_t n_clusters, size_t n_labels)
{
    size_t sum = 0;
    for (size_t c = 0; c < n_clusters; ++c) {
        size_t most = 0;
        for (size_t l = 0; l < n_labels; ++l)
            if (joint[c * n_labels + l] > most)
                most = joint[c * n_labels + l];
        sum += most;
    }
    return sum;
}

/* Returns the mutual information I(C;L) = H(C) + H(L) - H(C,L) of clusters C and labels
 * L, divided by the mean of the entropies H(C) and H(L); 1 if both are zero. */
static double normalised_information(double of_cluster, double of_label, double joint)
{
    double mean = 0.5 * (of_cluster + of_label);
    if (mean <= 0.0)
        return 1.0;
    double share = (of_cluster + of_label - joint) / mean;
    return share < 0.0 ? 0.0 : share; /* rounding may give -1e-16 */
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
    out->purity = (double)majority(joint, C, L) / (double)n;
    out->nmi = normalised_information(
        entropy(of_cluster, C, n), entropy(of_label, L, n), entropy(joint, C * L, n));
    pl_free(joint);
}
