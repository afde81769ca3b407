/* streaming (arXiv:2501.18512): a path's slots form F fragments. H is the number of
 * inner steps between two merges of a fragment; a phase is H/F inner steps. Phase p
 * sends fragment p mod F, in that fragment's round p / F. `overlap` steps later, in the
 * next phase, the fragment's next version is mixed into the path's own parameters, with
 * which it continues. With F = 1, overlap 0 and mix 0 this is DiLoCo. */
#include "outer/method.h"

static void fit(const pl_method_settings *wish, pl_method_settings *out)
{
    out->fragments = wish->fragments;
    out->overlap = wish->overlap;
    out->mix = wish->mix;
}

static pl_status check(const pl_method_settings *s)
{
    if (s->fragments < 1 || s->inner_steps < 1 || s->inner_steps % s->fragments != 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "streaming cannot place %d fragments at equal offsets in %d inner "
            "steps; outer.fragments must divide train.tau",
            s->fragments, s->inner_steps);
    if (s->overlap < 0 || s->overlap >= s->inner_steps / s->fragments)
        return pl_fail(
            PL_ERR_CONFIG,
            "outer.overlap is %d inner steps, but streaming sends one of its "
            "%d fragments every %d steps; outer.overlap must be 0 or more "
            "and below that number of steps",
            s->overlap, s->fragments, s->inner_steps / s->fragments);
    if (!(s->mix >= 0 && s->mix <= 1))
        return pl_fail(PL_ERR_CONFIG,
                       "streaming needs outer.mix from 0 to 1, but it is %g", s->mix);
    return method_check_limit(s, 0);
}

static void lay_out(const pl_arm *arm, pl_path_layout *l)
{
    (void)arm;
    l->params = l->n_vectors++;
}

/* Slots are assigned to fragments in turn, so that each fragment has shallow and deep
 * blocks. This includes slots with a single contributor; the path continues with its
 * own parameters of these, and mixes no version in. */
static void agree(const pl_arm *arm, pl_contract *c)
{
    const pl_method_settings *m = &arm->outer.method;
    const bool alone = c->n_holders == 1;
    c->period = m->fragments;
    c->first = pl_topology_module_slot(c->topology, c->module) % m->fragments;
    c->wait = m->overlap == 0 || (alone && m->fragments == 1) ? 0 : 1;
    c->mixes = !alone;
    c->carries = alone ? 1.0f : (float)m->mix;
    c->predicts = false;
}

static pl_status begin(const pl_holder *h, const float *mate, const float *mate_start,
                       float *start)
{
    (void)mate, (void)mate_start;
    memcpy(start, h->params, h->of->n_params * sizeof *start);
    return PL_OK;
}

void pl_streaming_mix(float *local, const float *merged, double mix, size_t n)
{
    const float a = (float)mix, rest = (float)(1 - mix);
    if (mix == 1)
        return;
    if (mix == 0) {
        memcpy(local, merged, n * sizeof *local);
        return;
    }
    for (size_t i = 0; i < n; i++)
        local[i] = a * local[i] + rest * merged[i];
}

const outer_method method_streaming = {.name = "streaming",
                                       .defaults = {.rule = PL_RULE_NESTEROV,
                                                    .lr = 0.4,
                                                    .momentum = 0.9,
                                                    .fragments = 4,
                                                    .overlap = 1,
                                                    .mix = 0.5},
                                       .settles = true,
                                       .fit = fit,
                                       .check = check,
                                       .lay_out = lay_out,
                                       .agree = agree,
                                       .begin = begin};
