/* Checks whether training can produce a path's state (state_bounds.h). NaN is refused
 * everywhere, because comparisons with NaN are false. */
#include "outer/state_bounds.h"
#include "outer/method.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 1024 };

/* `tiny` is added to bounds of single values, because the squares of tiny gradients may
 * become 0. Without clipping, `largest` is the upper limit for a second moment. */
static const double tiny = 1e-30, largest = 1e30;
/* room for the rounding of one step in f32, and for that of the clipped norm */
static const double step_error = 0x1p-22, room = 1.01;

/* The largest relative error of a vector's norm when it is rounded to this form. i8 has
 * 256 errors of half a unit, beside a largest value of 63.5 units or more. */
static const double roundings[PL_STATE_COUNT] = {
    [PL_STATE_F24] = 0x1p-16, [PL_STATE_BF16] = 0x1p-8, [PL_STATE_I8] = 8 / 63.5};

/* The largest fraction of a vector that a codec leaves out. i8 and i4 leave half a code
 * of each value; the largest value of a block of 256 (64) is 127 (7) codes, and i4's
 * scale may be rounded up. The other codecs may leave out everything. */
static const double leaves[PL_CODEC_COUNT] = {[PL_CODEC_BF16] = 0x1p-8,
                                              [PL_CODEC_I8] = 16 / 254.0,
                                              [PL_CODEC_I4] = 8 / 14.0 * (1 + 0x1p-7),
                                              [PL_CODEC_TOPK] = 1,
                                              [PL_CODEC_SKETCH16] = 1,
                                              [PL_CODEC_I8_SHARED] = 1};

/* ---- how far a phase goes ---- */
/* Returns b1^2 / b2, with which a step multiplies the part of m^2 / v that comes from
 * earlier steps. */
static double past_ratio(const pl_inner *inner)
{
    const double b1 = (double)(float)inner->beta1;
    return b1 * b1 / (double)(float)inner->beta2;
}

/* Returns the bound of m^2 / v. Each rounding changes m^2 / v by at most three relative
 * errors. */
static double moments_ratio(const pl_arm *arm)
{
    const double b1 = (double)(float)arm->inner.beta1;
    const double b2 = (double)(float)arm->inner.beta2, past = past_ratio(&arm->inner);
    const double error = 1 + 3 * (roundings[arm->outer.state] + step_error);
    if (!(past * error < 1))
        return INFINITY;
    return room * error * (1 - b1) * (1 - b1) / ((1 - b2) * (1 - past * error));
}

double pl_phase_movement(const pl_arm *arm, int64_t phase, size_t n, double norm)
{
    const pl_inner *in = &arm->inner;
    const pl_schedule schedule = pl_arm_schedule(in);
    const double longest = sqrt(moments_ratio(arm)), past = past_ratio(in);
    /* If moments were zero at step 0, the sums over t steps are shorter, too. */
    const bool zeros = pl_hash_none(&arm->moments) && pl_hash_none(&arm->states);
    double rates = 0, moved = 0;
    for (int i = 0; i < in->tau && isfinite(longest); i++) {
        const int64_t step = in->first_step + phase * in->tau + i;
        const double t = (double)(step + 1), rate = pl_learning_rate(&schedule, step);
        /* Bias correction (modules/ref/adamw_ref.c). AdamW's longest step is at least
         * the learning rate; the root mean square of Muon's is at most 0.24 of it. */
        const double mass1 = 1 - pow(in->beta1, t), mass2 = 1 - pow(in->beta2, t);
        const double shorter = zeros ? sqrt(1 - pow(past, t)) : 1;
        rates += rate;
        moved += rate * longest * shorter * sqrt(mass2) / mass1;
    }
    if (!isfinite(longest))
        return INFINITY;
    const double decayed = in->weight_decay * rates;
    return room * exp(decayed) * (moved * sqrt((double)n) + decayed * norm) +
           in->tau * step_error * norm;
}

/* ---- moments ---- */
typedef struct bounds {
    const pl_state_claim *claim;
    size_t n_params;
    double n_steps;
    double up;       /* factor for the rounding of all steps and phases */
    double rounding; /* of one phase */
    /* m^2 <= ratio v + above, v >= keep v0, v <= most */
    double ratio, above, keep, most;
} bounds;

/* The sums over all tensors that are not frozen: of AdamW's v, and of the squares of
 * Muon's m. */
typedef struct sums {
    double v, v0, m, m0;
} sums;

/* Returns the largest sum of squares (or norm) after the steps, if each step keeps the
 * fraction `beta` and adds at most 1 - beta times `most`. */
static double grown(const bounds *b, double before, double most, double beta)
{
    const double one = (1 + b->rounding) * (1 + step_error) * beta;
    const double all = pow(beta, b->n_steps);
    /* Without the state before: what any number of phases leaves. Slots that were
     * frozen at different times may each have all of it. */
    if (!b->claim->is_known)
        return one < 1 ? pl_topology_n_slots(b->claim->topology) * most * (1 - beta) *
                             (1 + b->rounding) / (1 - one)
                       : INFINITY;
    const double after =
        fmax(beta * before + (1 - beta) * most, all * before + (1 - all) * most);
    return fmax(before, b->up * after);
}

/* Checks n moments of AdamW. There is no branch per value, so that compilers vectorise
 * the loop. */
static bool check_adamw(const bounds *b, const float *m, const float *v,
                        const float *v0, size_t n, sums *s)
{
    const double ratio = b->ratio, above = b->above, keep = b->keep, most = b->most;
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)m[i], y = (double)v[i];
        bad |= !((y >= 0) & (y <= most) & (y + tiny >= keep * (double)v0[i]) &
                 (x * x <= ratio * y + above));
    }
    for (size_t i = 0; i < n; i++)
        s->v += (double)v[i], s->v0 += (double)v0[i];
    return !bad;
}

static bool is_unchanged(const bounds *b, const float *x, const float *x0, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= !(fabs((double)x[i] - (double)x0[i]) <=
                 b->rounding * fabs((double)x0[i]) + tiny);
    return !bad;
}

/* Checks the moments of one tensor. Its second moments begin at index `second` of v; it
 * has none if Muon updates it. */
static pl_status check_tensor(const bounds *b, const pl_tensor *tensor, bool is_muon,
                              size_t second, sums *s)
{
    const pl_state_claim *c = b->claim;
    const int module = pl_topology_module_of_path(c->topology, tensor->slot, c->path);
    const bool frozen = pl_arm_is_frozen(c->arm, module);
    const size_t count = (size_t)tensor->rows * (size_t)tensor->cols;
    const size_t n_second = pl_path_vector_floats(c->arm, 1, b->n_params);
    float m[BLOCK], v[BLOCK], old[BLOCK] = {0};
    sums ignored = {0, 0, 0, 0};
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : BLOCK;
        const size_t at = tensor->offset + first, at2 = second + first;
        bool good = true;
        pl_path_read(c->after.kinds[0], c->after.at[0], b->n_params, at, n, m);
        if (c->is_known && (frozen || is_muon))
            pl_path_read(c->before.kinds[0], c->before.at[0], b->n_params, at, n, old);
        if (frozen) /* if the state before is not known, m must only be finite */
            good = is_unchanged(b, m, c->is_known ? old : m, n);
        for (size_t i = 0; is_muon && !frozen && i < n; i++) {
            s->m += (double)m[i] * (double)m[i];
            s->m0 += (double)old[i] * (double)old[i];
        }
        if (!is_muon) {
            pl_path_read(c->after.kinds[1], c->after.at[1], n_second, at2, n, v);
            if (c->is_known)
                pl_path_read(c->before.kinds[1], c->before.at[1], n_second, at2, n,
                             old);
            good = good && (frozen && c->is_known
                                ? is_unchanged(b, v, old, n)
                                : check_adamw(b, m, v, old, n, frozen ? &ignored : s));
        }
        if (!good)
            return pl_fail(PL_ERR_DATA,
                           "the path's state has moments that no training can produce, "
                           "in %s at number %zu or one of the next %d",
                           tensor->name, first, BLOCK - 1);
    }
    return PL_OK;
}

static pl_status check_moments(const pl_state_claim *c, size_t n_params)
{
    const pl_inner *in = &c->arm->inner;
    const double b2 = (double)(float)in->beta2, clip = in->clip;
    const double ratio = moments_ratio(c->arm);
    const double n_steps = (double)in->tau * c->n_phases;
    const double rounding = roundings[c->arm->outer.state];
    const double up = exp(n_steps * step_error) * pow(1 + rounding, c->n_phases);
    const bounds b = {.claim = c,
                      .n_params = n_params,
                      .n_steps = n_steps,
                      .up = up,
                      .rounding = rounding,
                      /* without a ratio m may be anything, even if v is 0 */
                      .ratio = isfinite(ratio) ? ratio : 0,
                      .above = isfinite(ratio) ? tiny : DBL_MAX,
                      .keep = c->is_known ? pow(b2, n_steps) / up : 0,
                      .most = clip > 0 && !c->is_known
                                  ? room * clip * clip * (1 + rounding)
                                  : largest};
    sums s = {0, 0, 0, 0};
    size_t second = 0;
    for (int i = 0; i < pl_topology_n_tensors(c->topology); i++) {
        const pl_tensor *tensor = pl_topology_tensor(c->topology, i);
        /* the matrices of blocks (modules/model_params.c) */
        const bool is_muon = in->muon && tensor->block >= 0 && tensor->decay;
        PL_CHECK(check_tensor(&b, tensor, is_muon, second, &s));
        if (!is_muon)
            second += (size_t)tensor->rows * (size_t)tensor->cols;
    }
    if (!(clip > 0)) /* gradients have no bound, so the sums have none */
        return s.m <= largest
                   ? PL_OK
                   : pl_fail(PL_ERR_DATA,
                             "the momentum of Muon in the state has norm %.4g; without "
                             "train.clip at most %.4g is accepted",
                             sqrt(s.m), sqrt(largest));
    const double most_v = grown(&b, s.v0, room * clip * clip, b2);
    const double most_m = grown(&b, sqrt(s.m0), room * clip, (double)PL_MUON_MOMENTUM);
    static const char text[] = "%s of the state is %.4g; before the phase it was %.4g, "
                               "and with train.clip %g it can now be at most %.4g";
    if (!(s.v <= most_v))
        return pl_fail(PL_ERR_DATA, text, "the sum of second moments", s.v, s.v0, clip,
                       most_v);
    if (!(sqrt(s.m) <= most_m))
        return pl_fail(PL_ERR_DATA, text, "the norm of Muon's momentum", sqrt(s.m),
                       sqrt(s.m0), clip, most_m);
    return PL_OK;
}

/* ---- the other vectors, slot by slot ---- */
typedef struct slot_check {
    const pl_state_claim *claim;
    const pl_contract *of;
    pl_path_layout layout;
    int slot;
    size_t first, n, n_params;
    /* scratch vectors of the slot: three, or all if holders meet; the last one or two
     * hold an update */
    float *work[PL_STATE_CHECK_VECTORS];
} slot_check;

static void read_slot(const slot_check *k, const pl_state_view *view, int v, float *out)
{
    pl_path_read(view->kinds[v], view->at[v], k->n_params, k->first, k->n, out);
}

static pl_status refuse_slot(const slot_check *k, const char *what, double is,
                             double most)
{
    return pl_fail(PL_ERR_DATA,
                   "%s of %s in the path's state: %.4g is more than training can cause "
                   "(%.4g)",
                   what, k->of->name, is, most);
}

/* Returns OK and *known false for ERR_NOT_FOUND. */
static pl_status is_known(pl_status status, bool *known)
{
    *known = status == PL_OK;
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

static pl_status read_version(const slot_check *k, int64_t number, float *out,
                              bool *known)
{
    const pl_state_source *s = &k->claim->source;
    return is_known(s->version(s->context, k->slot, (uint64_t)number, out), known);
}

static pl_status read_update(const slot_check *k, int index, int64_t round, float *out,
                             bool *known)
{
    const pl_state_source *s = &k->claim->source;
    return is_known(s->update(s->context, k->slot, index, round, out), known);
}

/* Reads the parameters with which the slot begins the first phase, where the path has
 * its own. */
static pl_status read_own_start(const slot_check *k, float *out, bool *known)
{
    const pl_state_claim *c = k->claim;
    if (c->phase == 0)
        return read_version(k, 0, out, known);
    if (c->is_fresh)
        return read_version(k, pl_round_restart(k->of, c->phase), out, known);
    *known = c->is_known;
    if (c->is_known)
        read_slot(k, &c->before, k->layout.params, out);
    return PL_OK;
}

static bool same_vector(const slot_check *k, int v, const float *want, float *scratch)
{
    if (v < 0)
        return true;
    read_slot(k, &k->claim->after, v, scratch);
    return memcmp(scratch, want, k->n * sizeof *want) == 0;
}

/* Checks own parameters that are the end of training: under streaming, and of modules
 * with one contributor under noloco, which begin each phase with a version (and do not
 * read their other vectors). */
static pl_status check_own(const slot_check *k)
{
    const pl_state_claim *c = k->claim;
    const int64_t last = c->phase + c->n_phases - 1;
    const bool begins_alike = k->of->kind->begin == NULL;
    float *own = k->work[0], *from = k->work[1], *merged = k->work[2];
    bool known;
    PL_CHECK(begins_alike ? read_version(k, pl_round_start(k->of, last), from, &known)
                          : read_own_start(k, from, &known));
    read_slot(k, &c->after, k->layout.params, own);
    double moved = 0, norm = pl_l2_distance(from, NULL, k->n);
    for (int64_t p = begins_alike ? last : c->phase; known && p <= last; p++) {
        const uint64_t takes = pl_round_takes(k->of, p);
        if (takes > 0) {
            PL_CHECK(read_version(k, (int64_t)takes, merged, &known));
            pl_streaming_mix(from, merged, c->arm->outer.method.mix, k->n);
            norm = fmax(norm, pl_l2_distance(merged, NULL, k->n));
        }
        moved += pl_phase_movement(c->arm, p, k->n, norm + moved);
        moved += roundings[c->after.kinds[k->layout.params]] * (norm + moved);
    }
    const double is = pl_l2_distance(own, from, k->n);
    return !known || is <= moved ? PL_OK
                                 : refuse_slot(k, "the own parameters", is, moved);
}

/* Checks the own parameters and the velocity with which the phase began: takes the
 * meeting before the phase again, with or without the mate. */
static pl_status check_begin(const slot_check *k)
{
    const pl_state_claim *c = k->claim;
    const int index = c->path * pl_topology_n_replicas(c->topology) + c->replica;
    const pl_path_layout *l = &k->layout;
    const pl_state_source *s = &c->source;
    float *start = k->work[4], *scratch = k->work[6], *update = k->work[7];
    bool known = true;
    int mate = index;
    if (c->phase > 0)
        PL_CHECK(pl_round_mate(k->of, index, c->phase - 1, &mate));
    if (mate != index && s->was_split &&
        s->was_split(s->context, k->slot, c->phase - 1))
        mate = index;
    if (mate != index)
        PL_CHECK(read_update(k, mate, c->phase - 1, update, &known));
    if (!known)
        return PL_OK;
    pl_holder h = {.of = k->of,
                   .path = c->path,
                   .phase = c->phase,
                   .base = k->work[5],
                   .params = k->work[0],
                   .velocity = k->work[1],
                   .last = k->work[2],
                   .before = l->before < 0 ? NULL : k->work[3]};
    read_slot(k, &c->before, l->params, h.params);
    read_slot(k, &c->before, l->velocity, h.velocity);
    read_slot(k, &c->before, l->last, h.last);
    if (h.before)
        read_slot(k, &c->before, l->before, h.before);
    PL_CHECK(pl_holder_begin(&h, mate != index ? update : NULL,
                             mate != index ? update + k->n : NULL, start));
    return same_vector(k, l->params, start, scratch) &&
                   same_vector(k, l->velocity, h.velocity, scratch)
               ? PL_OK
               : pl_fail(PL_ERR_DATA,
                         "the own parameters or the velocity of %s in the path's state "
                         "do not follow from the last meeting",
                         k->of->name);
}

/* Checks a path that lost its state and began with the newest version, without
 * velocity. The path's own update is in every version up to phase + 1, so that is the
 * newest one there can be; the search ends after a few that do not fit. */
static pl_status check_restart(const slot_check *k)
{
    enum { LOOKS = 64 };
    const pl_state_claim *c = k->claim;
    float *version = k->work[4], *zeros = k->work[0], *scratch = k->work[6];
    bool known;
    int n_found = 0;
    memset(zeros, 0, k->n * sizeof *zeros);
    bool same = false, still = same_vector(k, k->layout.velocity, zeros, scratch);
    for (int64_t v = c->phase + 1; still && !same && v >= 0 && n_found < LOOKS; v--) {
        PL_CHECK(read_version(k, v, version, &known));
        n_found += known;
        same = known && same_vector(k, k->layout.params, version, scratch);
    }
    return same || (still && n_found == 0)
               ? PL_OK
               : pl_fail(PL_ERR_DATA,
                         "the path began again without a state, but its own parameters "
                         "of %s are none of the newest versions, or have a velocity",
                         k->of->name);
}

/* noloco: computes the vectors again from the state before and the updates. */
static pl_status check_meeting(const slot_check *k)
{
    const pl_state_claim *c = k->claim;
    const pl_path_layout *l = &k->layout;
    const int index = c->path * pl_topology_n_replicas(c->topology) + c->replica;
    float *update = k->work[7];
    bool known;
    PL_CHECK(read_version(k, 0, k->work[5], &known));
    if (!known)
        return PL_OK;
    if (c->is_fresh && c->phase > 0)
        PL_CHECK(check_restart(k));
    else if (c->is_known)
        PL_CHECK(check_begin(k));
    PL_CHECK(read_update(k, index, c->phase, update, &known));
    if (!known)
        return PL_OK;
    const pl_holder h = {.of = k->of,
                         .base = k->work[5],
                         .params = k->work[0],
                         .last = k->work[2],
                         .before = k->work[3]};
    pl_holder_keep(&h, k->work[4], NULL, update, update + k->n);
    if (same_vector(k, l->last, h.last, k->work[6]) &&
        same_vector(k, l->before, h.before, k->work[6]))
        return PL_OK;
    return pl_fail(
        PL_ERR_DATA,
        "the offer of %s in the path's state is not the update that the home has",
        k->of->name);
}

/* ---- residuals ---- */
static pl_status check_residual(const slot_check *k)
{
    const pl_state_claim *c = k->claim;
    const pl_codec_options *codec = &c->arm->outer.codec;
    const int v = k->layout.residual;
    const double carries = (double)k->of->carries;
    const double rounding = roundings[c->after.kinds[v]];
    const double weight =
        k->of->homomorphic ? (double)pl_round_codec(k->of, c->path, 0, 0).weight : 1;
    float *old = k->work[0], *now = k->work[1], *own = k->work[2];
    bool known = true;
    double left = 0;
    for (int role = 0; role < PL_ROLE_COUNT; role++)
        left = fmax(left, (1 + 0x1p-7) * leaves[codec->codec[role]]);
    if (!c->is_known)
        return PL_OK;
    read_slot(k, &c->before, v, old);
    read_slot(k, &c->after, v, now);
    double most = pl_l2_distance(old, NULL, k->n);
    for (int64_t p = c->phase; known && p < c->phase + c->n_phases; p++) {
        const int64_t round = pl_round_of(k->of, p);
        if (round < 0 || carries == 1) /* no residual is made */
            continue;
        double update;
        if (k->layout.params < 0) {
            /* the root mean square of parameters is at most 1, as for store.norm_gate
             */
            update = pl_phase_movement(c->arm, p, k->n, sqrt((double)k->n));
        } else {
            /* the update is the version minus the own parameters that remain */
            known = c->n_phases == 1 && !k->of->meets;
            if (known)
                PL_CHECK(
                    read_version(k, (int64_t)pl_round_base(k->of, round), old, &known));
            read_slot(k, &c->after, k->layout.params, own);
            const double scale = pl_l2_distance(own, NULL, k->n);
            update = known ? pl_l2_distance(old, own, k->n) : 0;
            update += roundings[c->after.kinds[k->layout.params]] * scale;
        }
        const double made = left * (weight * update + codec->beta * most);
        most = (1 + rounding) * room * (carries * most + (1 - carries) * made);
    }
    const double is = pl_l2_distance(now, NULL, k->n);
    return !known || is <= most * (1 + rounding) + tiny
               ? PL_OK
               : refuse_slot(k, "the residual", is, most);
}

pl_state_view pl_state_view_of(const pl_arm *arm, size_t n_params, const void *packed)
{
    pl_state_view view = {{NULL}, {PL_STATE_F32}};
    const uint8_t *at = packed;
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++) {
        view.kinds[v] = pl_path_kind(arm, v);
        view.at[v] = at;
        if (at)
            at += pl_path_vector_bytes(arm, v, n_params);
    }
    return view;
}

pl_status pl_state_check(const pl_state_claim *c)
{
    const size_t n_params = pl_topology_path_params(c->topology);
    slot_check k = {
        .claim = c, .layout = pl_path_layout_of(c->arm), .n_params = n_params};
    pl_status status = PL_OK;
    float x[BLOCK], *memory = NULL;
    size_t most = 0;
    if (c->arm->outer.state != PL_STATE_LOCAL)
        PL_CHECK(check_moments(c, n_params));
    for (int v = 2; v < k.layout.n_vectors; v++)
        for (size_t first = 0; first < n_params; first += BLOCK) {
            const size_t n = n_params - first < BLOCK ? n_params - first : BLOCK;
            bool good = true;
            pl_path_read(c->after.kinds[v], c->after.at[v], n_params, first, n, x);
            for (size_t i = 0; i < n; i++)
                good = good && fabsf(x[i]) <= FLT_MAX;
            if (!good)
                return pl_fail(
                    PL_ERR_DATA,
                    "vector %d of the path's state has a value that is not finite", v);
        }
    if (k.layout.n_vectors <= 2)
        return PL_OK;
    const int n_slots = pl_topology_n_slots(c->topology);
    const size_t n_work = k.layout.last < 0     ? 3
                          : k.layout.before < 0 ? PL_STATE_CHECK_VECTORS - 1
                                                : PL_STATE_CHECK_VECTORS;
    for (int slot = 0; slot < n_slots; slot++) {
        const size_t n = pl_topology_slot(c->topology, slot)->n_params;
        most = n > most ? n : most;
    }
    PL_TRY(pl_try_alloc(n_work * most * sizeof *memory, "a check of a path's state",
                        (void **)&memory));
    for (k.slot = 0; k.slot < n_slots; k.slot++) {
        const pl_slot *place = pl_topology_slot(c->topology, k.slot);
        k.first = place->offset;
        k.n = place->n_params;
        k.of = &c->contracts[pl_topology_module_of_path(c->topology, k.slot, c->path)];
        for (size_t i = 0; i < n_work; i++)
            k.work[i] = memory + i * k.n;
        if (k.layout.residual >= 0)
            PL_TRY(check_residual(&k));
        if (k.layout.params >= 0)
            PL_TRY(k.of->meets ? check_meeting(&k) : check_own(&k));
    }
done:
    pl_free(memory);
    return status;
}
