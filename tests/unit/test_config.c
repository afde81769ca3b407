/* folder: config; label: unit */
/* Tests which options of codecs follow from the configuration, and which settings of
 * paths and chapters (router.em, topology.split, topology.graft) are accepted. */
#include "config/config.h"
#include <stdlib.h>

#include "tests/support/suite.h"

/* Returns how arms merge that these texts KEY=VALUE configure. The list ends with
 * NULL. */
static pl_outer outer_of(const char *const *sets)
{
    config c;
    pl_outer outer;
    int n = 0;
    while (sets[n])
        n++;
    assert_ok(config_build(NULL, sets, n, &c));
    assert_ok(config_outer(&c, &outer));
    return outer;
}
#define OUTER(...) outer_of((const char *const[]){__VA_ARGS__, NULL})
#define CODEC(...) OUTER(__VA_ARGS__).codec

PL_TEST(rule_and_gap_are_those_of_the_words)
{
    static const char noloco[] = "outer.method=noloco", co2[] = "outer.method=co2";
    assert_int_equal(OUTER(noloco, "outer.rule=nesterov").method.rule,
                     PL_RULE_NESTEROV);
    assert_int_equal(OUTER(noloco, "outer.rule=heavy-ball").method.rule,
                     PL_RULE_HEAVY_BALL);
    assert_int_equal(OUTER(co2, "outer.gap=norm").method.gap, PL_GAP_NORM);
    assert_int_equal(OUTER(co2, "outer.gap=none").method.gap, PL_GAP_NONE);
}

PL_TEST(tagc_keeps_a_fifth_and_other_codecs_64_of_4096)
{
    assert_int_equal(CODEC("codec.name=tagc").k, 819);
    assert_int_equal(CODEC("codec.name=topk").k, 64);
    assert_int_equal(CODEC("codec.name=sketch16").k, 64);
}

PL_TEST(codec_k_overrides_what_the_codec_keeps)
{
    assert_int_equal(CODEC("codec.name=tagc", "codec.k=64").k, 64);
    assert_int_equal(CODEC("codec.name=topk", "codec.k=4096").k, 4096);
}

PL_TEST(topk_forgets_a_twentieth_of_what_it_left_out_and_others_nothing)
{
    assert_true(CODEC("codec.name=topk").beta == 0.95);
    assert_true(CODEC("codec.name=tagc").beta == 1);
    assert_true(CODEC("codec.name=i4").beta == 1);
}

PL_TEST(codec_beta_overrides_what_the_codec_forgets)
{
    assert_true(CODEC("codec.name=topk", "codec.beta=1").beta == 1);
    assert_true(CODEC("codec.name=topk", "codec.beta=0").beta == 0);
    assert_true(CODEC("codec.name=i4", "codec.beta=0.5").beta == 0.5);
}

/* Builds the configuration of n settings. If `said` is not NULL, it must be refused
 * with these words. Returns whether it was accepted. */
static bool builds(const char *const *sets, int n, const char *said, config *c)
{
    pl_status status = config_build(NULL, sets, n, c);
    if (status != (said ? PL_ERR_CONFIG : PL_OK) ||
        (said && !strstr(pl_last_error(), said)))
        fail_msg("%s with %s: %s", sets[n - 2], sets[n - 1], pl_last_error());
    return !said;
}

PL_TEST(router_em_takes_phases_that_leave_room_for_the_decay)
{
    static const struct {
        const char *em, *other, *said; /* NULL: the setting is accepted */
    } cases[] = {
        {"2,4", "train.decay=0.4", NULL},
        {"3, 6", "train.decay=0.4", NULL},
        {"7", "train.decay=0.4", "only 3 of 10 phases are left"},
        {"4,2", "train.decay=0.4", "in rising order"},
        {"0", "train.decay=0.4", "in rising order"},
        {"10", "train.decay=0.4", "below train.phases 10"},
        {"2x", "train.decay=0.4", "in rising order"},
        {"2", "train.schedule=cosine", "needs train.schedule=wsd"},
        {"2", "outer.method=noloco", "outer.method=noloco"},
        {"2", "topology.levels=1", "only one path"},
        {"", "train.more=3,1", NULL},
        {"", "train.more=3,0", "from 1 to 1000000"},
        {"", "train.more=+x", "from 1 to 1000000"},
        {"2", "train.holdout=0.05", NULL},
        {"", "train.holdout=0.6", "train.holdout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char em[64];
        config c;
        snprintf(em, sizeof em, "router.em=%s", cases[i].em);
        const char *const sets[] = {"train.phases=10", em, cases[i].other};
        builds(sets, 3, cases[i].said, &c);
    }
}

/* A finished run can be split even if it has a baseline that a split does not allow,
 * because its baselines have ended before the split. With a cosine it cannot be
 * lengthened at all, because there is no phase with the full rate to continue from. */
PL_TEST(a_finished_run_is_split_whatever_its_baselines_are)
{
    const char *const sets[] = {"train.phases=10", "train.more=2",
                                "topology.split=10:4x4"};
    config c;
    assert_ok(config_build(NULL, sets, 3, &c));
    assert_true(config_wants(&c, "diloco"));
    const char *const cosine[] = {"train.more=2", "train.schedule=cosine"};
    assert_fails(config_build(NULL, cosine, 2, &c), PL_ERR_CONFIG,
                 "train.more needs train.schedule=wsd");
}

PL_TEST(too_many_paths_are_refused_before_anything_trains)
{
    const char *const tasks[] = {"topology.levels=128x128", "topology.replicas=2"};
    const char *const counts[] = {"topology.levels=128x128", "data.vocab=32000"};
    config c;
    assert_fails(config_build(NULL, tasks, 2, &c), PL_ERR_CONFIG,
                 "16384 paths of 2 replicas");
    assert_fails(config_build(NULL, counts, 2, &c), PL_ERR_CONFIG,
                 "smaller data.vocab");
}

PL_TEST(states_that_are_not_uploaded_cannot_be_kept)
{
    const char *const kept[] = {"train.state_every=4", "store.keep_states=true"};
    const char *const noloco[] = {"train.state_every=4", "outer.method=noloco"};
    const char *const local[] = {"train.state_every=4", "train.state=local"};
    config c;
    assert_ok(config_build(NULL, kept, 1, &c));
    assert_fails(config_build(NULL, kept, 2, &c), PL_ERR_CONFIG,
                 "store.keep_states=false");
    assert_fails(config_build(NULL, noloco, 2, &c), PL_ERR_CONFIG,
                 "phases of noloco cannot be repeated");
    assert_int_equal(config_build(NULL, local, 2, &c), PL_ERR_CONFIG);
}

PL_TEST(splits_that_cannot_be_are_refused)
{
    static const struct {
        const char *split, *other, *said; /* NULL: the setting is accepted */
    } cases[] = {
        {"2:4x4", "train.decay=0.4", NULL},
        {"2:2x4, 4:4x4", "train.decay=0.4", NULL},
        {"10:4x4", "train.more=2", NULL},
        {"12:4x4", "train.more=2,3", NULL},
        {"10:4x4", "train.decay=0.4",
         "or be the phase where a part of train.more begins"},
        {"11:4x4", "train.more=2,3",
         "or be the phase where a part of train.more begins"},
        {"2:3x4", "train.decay=0.4", "cannot make 3x4"},
        {"2:2x2", "train.decay=0.4", "cannot make 2x2"},
        {"2:4", "train.decay=0.4", "cannot make 4"},
        {"2:4x4x2", "train.decay=0.4", "cannot make 4x4x2"},
        {"4:4x4,2:8x8", "train.decay=0.4", "in rising order"},
        {"2", "train.decay=0.4", "with a colon"},
        {"2:", "train.decay=0.4", "topology.split"},
        {"2:4xx", "train.decay=0.4", "topology.split"},
        {"7:4x4", "train.decay=0.4", "only 3 of 10 phases are left"},
        {"2:4x4", "train.schedule=cosine", "needs train.schedule=wsd"},
        {"2:4x4", "router.em=2", "both name phase 2"},
        {"2:4x4", "router.em=3", NULL},
        {"2:4x4", "outer.method=noloco", "outer.method=noloco"},
        {"2:4x4", "router.overlap=2", "router.overlap=1"},
        {"2:4x4", "eval.baselines=diloco", "eval.baselines=dense,dense-eq"},
        {"2:4096x4096", "train.decay=0.4", "topology.split"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char split[64];
        config c;
        snprintf(split, sizeof split, "topology.split=%s", cases[i].split);
        const char *const sets[] = {"train.phases=10", "eval.baselines=dense", split,
                                    cases[i].other};
        builds(sets, 4, cases[i].said, &c);
    }
}

/* Each row has a change of the topology by drop, copy or cut, and either the modules
 * per level and the number of paths after it, or a part of the error. */
PL_TEST(grafts_are_read_or_refused)
{
    static const struct {
        const char *graft, *other, *said; /* NULL: the change is accepted */
        int experts[3], n_paths;
    } cases[] = {
        {"2:drop:L2.E1", "train.lr=1", NULL, {2, 2}, 4},
        {"2:drop:L1.E0+L2.E2", "train.lr=1", NULL, {1, 2}, 2},
        {"2:drop:p01", "train.lr=1", NULL, {2, 3}, 5},
        {"2:drop:p01+p11", "train.lr=1", NULL, {2, 2}, 4}, /* no path uses L2.E1 */
        {"2:drop:p01,4:drop:p11", "train.lr=1", NULL, {2, 2}, 4},
        {"2:drop:p01,4:copy:L2.E1", "train.lr=1", NULL, {2, 4}, 6},
        {"2:copy:L2.E0", "train.lr=1", NULL, {2, 4}, 8},
        {"2:copy:L2.E0+L2.E0+L1.E1", "train.lr=1", NULL, {3, 5}, 15},
        {"2:cut:L1", "train.lr=1", NULL, {2, 2, 3}, 6},
        {"2:cut:L2:1", "train.lr=1", NULL, {2, 3, 3}, 6},
        {"2:cut:L2,4:drop:L3.E1", "train.lr=1", NULL, {2, 2, 2}, 4},
        {"2:cut:L1", "topology.split=4:4x4x3", NULL, {4, 4, 3}, 24},
        {"2:drop:L2.E1", "topology.split=4:4x2", NULL, {4, 2}, 8},
        {"10:drop:L2.E1", "train.more=2", NULL, {2, 2}, 4},
        {"2:drop:L2.E0+L2.E1+L2.E2", "train.lr=1", "the last path", {0}, 0},
        {"2:drop:L3.E0", "train.lr=1", "L3.E0 is neither a module nor a path", {0}, 0},
        {"2:drop:p07", "train.lr=1", "p07 is neither a module nor a path", {0}, 0},
        {"2:drop:head.E0", "train.lr=1", "is not a module of a level", {0}, 0},
        {"2:copy:p01", "train.lr=1", "p01 is neither a module", {0}, 0},
        {"2:cut:L1:2", "train.lr=1", "give a level of at least 2 blocks", {0}, 0},
        {"2:cut:L3", "train.lr=1", "L3 is not a level", {0}, 0},
        {"2:lose:L1.E0", "train.lr=1", "use drop:L2.E1", {0}, 0},
        {"2:drop:", "train.lr=1", "use drop:L2.E1", {0}, 0},
        {"2:cut:L1", "topology.private=0", "topology.graft `cut:L1`", {0}, 0},
        {"2:cut:L1,4:copy:L2.E0", "topology.private=0", "topology.graft `cut", {0}, 0},
        {"2:cut:L1", "topology.levels=2x256", "topology.graft `cut:L1`", {0}, 0},
        {"2:copy:+", "train.lr=1", "use drop:L2.E1", {0}, 0},
        {"2", "train.lr=1", "with a colon", {0}, 0},
        {"10:drop:L2.E1", "train.lr=1", "or be the phase where a part of", {0}, 0},
        {"2:drop:L2.E1", "topology.split=2:4x3", "both name phase 2", {0}, 0},
        {"2:drop:L2.E1", "router.em=2", "topology.graft both name phase 2", {0}, 0},
        {"2:drop:L2.E1", "router.overlap=2", "router.overlap=1", {0}, 0},
        {"2:drop:L2.E1", "eval.baselines=diloco", "baselines=dense,dense-eq", {0}, 0},
        {"2:cut:L1", "eval.baselines=diloco", NULL, {2, 2, 3}, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char graft[64];
        config c;
        config_chapter chapters[CONFIG_CHAPTERS_MAX];
        int n = 0;
        snprintf(graft, sizeof graft, "topology.graft=%s", cases[i].graft);
        const char *const sets[] = {"train.phases=10",
                                    "model.blocks=4",
                                    "topology.levels=2x3",
                                    "topology.private=",
                                    "train.decay=0.4",
                                    "eval.baselines=dense",
                                    graft,
                                    cases[i].other};
        if (!builds(sets, 8, cases[i].said, &c))
            continue;
        assert_ok(config_chapters(&c, chapters, &n));
        for (int l = 0; l < 3; l++)
            assert_int_equal(chapters[n - 1].spec.experts[l], cases[i].experts[l]);
        assert_int_equal(pl_topology_spec_n_paths(&chapters[n - 1].spec),
                         cases[i].n_paths);
    }
}

PL_TEST(what_was_deleted_is_read_only_in_a_saved_configuration)
{
    char folder[] = "/tmp/pl-gone-XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/run.yaml", folder);
    for (size_t i = 0; i < config_table.n_gone; i++) {
        const pl_gone *gone = &config_table.gone[i], *differs = NULL;
        char line[128];
        config c;
        OWNED(pl_buf_destroy) pl_buf now = {0};
        const bool remains =
            pl_conf_get(&config_table, memset(&c, 0, sizeof c), gone->name, &now);
        int n = snprintf(line, sizeof line, "%s: \"%s\"\n", gone->name, gone->value);
        assert_ok(pl_replace_file(file, line, (size_t)n));
        assert_int_equal(config_build(file, NULL, 0, &c), PL_ERR_CONFIG);
        assert_ok(config_build_saved(file, NULL, 0, &c, &differs));
        assert_ptr_equal(differs, remains ? gone : NULL);
    }
    assert_ok(pl_remove_tree(folder));
}
