/* Turns the keys of outer method and codec into settings, which must fit together. */
#include "config/settings.h"
#include <math.h>

static double chosen(double value, double otherwise)
{
    return value < 0 ? otherwise : value;
}

static pl_state_kind state_kind(const char *name)
{
    return strcmp(name, "bf16") == 0    ? PL_STATE_BF16
           : strcmp(name, "f24") == 0   ? PL_STATE_F24
           : strcmp(name, "i8") == 0    ? PL_STATE_I8
           : strcmp(name, "local") == 0 ? PL_STATE_LOCAL
                                        : PL_STATE_F32;
}

pl_status config_outer(const config *c, pl_outer *out)
{
    memset(out, 0, sizeof *out);
    if (c->audit > 0 && c->quorum < 1)
        return pl_fail(
            PL_ERR_CONFIG,
            "fleet.audit = %g would check nothing with outer.quorum = %g, because a "
            "quorum may drop updates; set fleet.audit = 0 or outer.quorum = 1",
            c->audit, c->quorum);
    pl_method method;
    PL_CHECK(pl_method_parse(c->method, &method));
    pl_method_settings *m = &out->method;
    *m = pl_method_defaults(method);
    m->lr = chosen(c->outer_lr, m->lr);
    m->momentum = chosen(c->outer_momentum, m->momentum);
    m->curvature = c->curvature;
    if (strcmp(c->rule, "auto") != 0)
        m->rule =
            strcmp(c->rule, "heavy-ball") == 0 ? PL_RULE_HEAVY_BALL : PL_RULE_NESTEROV;
    m->consensus = chosen(c->consensus, m->lr);
    m->delay = (int)c->delay;
    m->gap = strcmp(c->gap, "norm") == 0 ? PL_GAP_NORM : PL_GAP_NONE;
    m->clip = c->outer_clip;
    m->inner_steps = (int)c->tau;
    m->fragments = (int)c->fragments;
    m->overlap = (int)c->outer_overlap;
    m->mix = c->mix;
    m->buffer = (int)c->buffer;
    m->spread = c->spread;
    out->quorum = c->quorum < 1 ? c->quorum : 0;
    out->deadline_ms = c->deadline_s > 0 ? (int)ceil(c->deadline_s * 1000) : 0;
    out->staleness = (int)c->staleness;
    out->dynamic = c->dynamic_steps;
    pl_outer_fit(out);
    PL_CHECK(pl_wait_check(out));
    PL_CHECK(pl_method_check(m));
    for (int k = 0; k < PL_CLASS_COUNT; k++) {
        out->lr[k] = out->method.lr;
        out->momentum[k] = out->method.momentum;
    }
    out->lr[PL_CLASS_PRIVATE] = chosen(c->lr_private, out->method.lr);
    out->momentum[PL_CLASS_PRIVATE] = chosen(c->momentum_private, out->method.momentum);
    pl_method_settings alone = pl_method_defaults(PL_METHOD_DILOCO);
    alone.lr = out->lr[PL_CLASS_PRIVATE];
    alone.momentum = out->momentum[PL_CLASS_PRIVATE];
    alone.curvature = out->method.curvature;
    PL_CHECK(pl_method_check(&alone));
    out->weighted = strcmp(c->weighting, "tokens") == 0;
    out->rescale = c->rescale;
    out->present = strcmp(c->mean, "present") == 0;
    out->schedule.phases = c->phases;
    out->schedule.floor = 0.1; /* no effect (pl_outer_schedule) */
    out->state = state_kind(c->state);
    out->residual = state_kind(c->residual);
    out->own = state_kind(c->own);
    /* 0 stands for 1, so that an arm that uploads every state has no such field */
    out->state_every = c->state_every > 1 ? (int)c->state_every : 0;
    if (out->state_every > 1 && c->keep_states)
        return pl_fail(PL_ERR_CONFIG,
                       "store.keep_states keeps the state after every phase, but with "
                       "train.state_every=%d not every state is uploaded; set "
                       "train.state_every=1 or store.keep_states=false",
                       out->state_every);
    PL_CHECK(pl_state_every_check(out));
    pl_codec_options *o = &out->codec;
    PL_CHECK(pl_codec_options_default(c->codec, o));
    if (c->codec_k > 0)
        o->k = (int32_t)c->codec_k;
    o->value_bits = (uint8_t)c->value_bits;
    o->beta = chosen(c->ef_beta, o->beta);
    o->cells = c->cells;
    pl_copy_text(out->codec_name, sizeof out->codec_name, c->codec);
    PL_CHECK(pl_codec_options_default(c->codec_down, &out->down));
    PL_CHECK(pl_change_check(out));
    out->feedback = pl_feedback_helps(out);
    PL_CHECK(pl_codec_options_check(o));
    PL_CHECK(pl_quorum_check(out));
    PL_CHECK(pl_mean_check(out));
    /* With i8, the small values of a block are rounded to zero if the block also has a
     * large value. The residuals of topk and sketch16 have such small values. */
    for (int role = 0; role < PL_ROLE_COUNT; role++) {
        int codec = out->codec.codec[role];
        bool few = codec == PL_CODEC_TOPK || codec == PL_CODEC_SKETCH16;
        if (few && out->residual == PL_STATE_I8)
            return pl_fail(PL_ERR_CONFIG,
                           "codec.residual=i8 would round to zero the small values "
                           "that %s leaves for later; use bf16 or f32",
                           pl_codec_name((pl_codec)codec));
    }
    return pl_mates_check(out);
}
