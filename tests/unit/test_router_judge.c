/* folder: router; label: unit */
#include "tests/support/router_support.h"

static pl_judgement judge(const int *cluster, int n_clusters, const uint32_t *label,
                          int n_labels, size_t n)
{
    pl_judgement judgement;
    pl_judge(cluster, n_clusters, label, n_labels, n, &judgement);
    return judgement;
}

PL_TEST(equal_partitions_are_pure_whatever_their_names)
{
    const int cluster[] = {2, 2, 0, 0, 1};
    const uint32_t label[] = {0, 0, 1, 1, 2};
    pl_judgement judgement = judge(cluster, 3, label, 3, 5);
    assert_true(fabs(judgement.purity - 1.0) < 1e-12);
    assert_true(fabs(judgement.nmi - 1.0) < 1e-12);
}

/* The example of Manning, Raghavan & Schuetze 2008, section 16.3, has 17 points in
 * three clusters with purity 12/17. The clusters have 6, 6 and 5 points, the classes 8,
 * 5 and 4. nmi was computed by hand: 2 I / (H1 + H2), with the mutual information I and
 * the entropies H1 of the clusters and H2 of the classes. */
PL_TEST(the_textbook_example_has_its_textbook_values)
{
    const int cluster[] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    const uint32_t label[] = {0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 2, 0, 0, 2, 2, 2};
    pl_judgement judgement = judge(cluster, 3, label, 3, 17);
    assert_true(fabs(judgement.purity - 12.0 / 17.0) < 1e-12);
    assert_true(fabs(judgement.nmi - 0.3646) < 5e-5);
}

PL_TEST(one_cluster_has_the_largest_label_and_no_information)
{
    const int cluster[] = {0, 0, 0, 0};
    const uint32_t label[] = {0, 1, 1, 2};
    pl_judgement judgement = judge(cluster, 1, label, 3, 4);
    assert_true(fabs(judgement.purity - 0.5) < 1e-12);
    assert_true(fabs(judgement.nmi) < 1e-12);
}

PL_TEST(independent_partitions_share_no_information)
{
    const int cluster[] = {0, 0, 1, 1};
    const uint32_t label[] = {0, 1, 0, 1};
    pl_judgement judgement = judge(cluster, 2, label, 2, 4);
    assert_true(fabs(judgement.purity - 0.5) < 1e-12);
    assert_true(fabs(judgement.nmi) < 1e-12);
}

PL_TEST(nothing_to_judge_gives_zeros)
{
    pl_judgement judgement = {.purity = 9.0, .nmi = 9.0};
    pl_judge(NULL, 3, NULL, 3, 0, &judgement);
    assert_true(judgement.purity == 0.0 && judgement.nmi == 0.0);
}
