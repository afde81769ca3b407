/* Computes contracts (contract.h): first diloco's, then the method changes what differs
 * (outer_method.agree, outer/method.h).
 *
 * Invariants
 *   - All functions are pure: for one arm and topology every machine gets the same
 *     answer.
 *   - pl_round_predict uses the home's arithmetic, so that a worker that is a module's
 *     only contributor gets the bits that the home will commit. */
#include "outer/contract.h"
#include "outer/arith.h"
#include "outer/gossip.h"
#include "outer/method.h"

#include <math.h>

/* Returns the number of rounds to which the phases before `phase` contribute. */
static uint64_t rounds_before(const pl_contract *c, int64_t phase)
{
    return phase > c->first && c->period > 0
               ? (uint64_t)((phase - 1 - c->first) / c->period + 1)
               : 0;
}

uint64_t pl_rounds_after(const pl_contract *c, int64_t phases)
{
    return rounds_before(c, phases) * (uint64_t)(c->by_arrival ? c->n_holders : 1);
}

pl_contract pl_contract_of(const pl_arm *arm, const pl_topology *t, int module)
{
    const pl_outer *outer = &arm->outer;
    const int n_holders = pl_arm_contributors(t, module);
    double total_weight = 0;
    for (int i = 0; arm->weights && i < pl_topology_module_n_paths(t, module); i++)
        total_weight += arm->weights[pl_topology_module_path(t, module, i)];
    pl_contract c = {
        .kind = outer_method_of(outer->method.method),
        .topology = t,
        .module = module,
        .n_params = pl_topology_slot(t, pl_topology_module_slot(t, module))->n_params,
        .n_holders = n_holders,
        .n_contributors = n_holders,
        .window = 1,
        .period = 1,
        .sums = true,
        .predicts = n_holders == 1 && outer->momentum[PL_CLASS_PRIVATE] == 0,
        .n_vectors = 1,
        .homomorphic = pl_codec_is_homomorphic(&outer->codec),
        .keeps_change = outer->down.codec[PL_ROLE_MLP] > PL_CODEC_F32 && n_holders > 1,
        .settings = pl_arm_method(arm, t, module),
        .schedule = outer->schedule,
        .rescale = outer->rescale,
        .weighted = outer->weighted,
        .counts_weights = outer->weighted || outer->quorum > 0,
        .weights = arm->weights,
        .total_weight = total_weight,
        .stream = pl_stream(arm->name, (uint64_t)module, arm->seed),
        .seed = arm->seed};
    pl_arm_module_name(arm, t, module, c.name);
    if (c.kind->agree)
        c.kind->agree(arm, &c);
    const int all = c.n_contributors, least = (int)ceil(outer->quorum * all - 1e-9);
    c.quorum = !c.kind->quorum || !(outer->quorum > 0) || least >= all ? all
               : least > 1                                             ? least
                                                                       : 1;
    if (pl_arm_is_frozen(arm, module) || pl_arm_scores(arm)) {
        c.period = 0;
        c.predicts = false;
    }
    c.n_rounds = pl_rounds_after(&c, arm->inner.phases);
    return c;
}

pl_contract *pl_contracts_create(const pl_arm *arm, const pl_topology *t)
{
    const int n = pl_topology_n_modules(t);
    pl_contract *contracts = pl_alloc((size_t)n * sizeof *contracts);
    for (int m = 0; m < n; m++)
        contracts[m] = pl_contract_of(arm, t, m);
    return contracts;
}

/* ---- rounds ---- */
int64_t pl_round_of(const pl_contract *c, int64_t phase)
{
    const int64_t after = phase - c->first;
    return c->period > 0 && after >= 0 && after % c->period == 0 ? after / c->period
                                                                 : -1;
}

bool pl_round_has(const pl_contract *c, int64_t round, int64_t phase)
{
    return c->by_arrival || pl_round_of(c, phase) == round;
}

uint64_t pl_round_base(const pl_contract *c, int64_t round)
{
    return round > c->lag ? (uint64_t)(round - c->lag) : 0;
}

bool pl_round_accepts(const pl_contract *c, int64_t round, uint64_t base,
                      uint64_t newest)
{
    return base <= newest && (c->by_arrival || base == pl_round_base(c, round));
}

uint64_t pl_round_needs(const pl_contract *c, int64_t phase)
{
    return rounds_before(c, phase - c->wait);
}

int64_t pl_round_restart(const pl_contract *c, int64_t phase)
{
    return c->wait == PL_FOREVER ? PL_NEWEST : (int64_t)pl_round_needs(c, phase);
}

uint64_t pl_round_takes(const pl_contract *c, int64_t phase)
{
    return c->mixes && phase > 0 ? (uint64_t)(pl_round_of(c, phase - 1) + 1) : 0;
}

int64_t pl_round_start(const pl_contract *c, int64_t phase)
{
    if (c->by_arrival)
        return PL_NEWEST;
    if (phase == 0 || c->period == 0)
        return 0;
    const int64_t round = pl_round_of(c, phase);
    const uint64_t base = pl_round_base(c, round);
    /* a version that is mixed in during the phase is loaded later */
    if (round < 0 || (base > 0 && base == pl_round_takes(c, phase)))
        return PL_NEWEST - 1;
    return (int64_t)base;
}

uint64_t pl_round_oldest(const pl_contract *c, uint64_t newest, uint64_t needed)
{
    const uint64_t base = pl_round_base(c, (int64_t)newest);
    if (c->reach > 0)
        return needed == UINT64_MAX ? needed
               : newest > c->reach  ? newest - c->reach
                                    : 0;
    /* the next outer step reads the version to which its updates are relative */
    return c->lag < PL_FOREVER && newest < c->n_rounds && base < needed ? base : needed;
}

/* ---- updates ---- */
double pl_round_share(const pl_contract *c, int path)
{
    if (!c->weighted || c->total_weight <= 0)
        return 1.0 / c->n_holders;
    return c->weights[path] / (c->total_weight * pl_topology_n_replicas(c->topology));
}

pl_codec_round pl_round_codec(const pl_contract *c, int path, int64_t round,
                              double norm)
{
    /* If rounds are numbered by arrival, the number is not known when the update is
     * encoded, and updates are never added to each other. */
    const double all = c->by_arrival ? c->n_holders : 1;
    return (pl_codec_round){
        .seed = pl_stream("sketch", c->by_arrival ? 0 : (uint64_t)round, c->stream),
        .scale_exponent = pl_codec_exponent(norm, c->n_params),
        .n_contributors = c->n_contributors,
        .weight = (float)(pl_round_share(c, path) * all)};
}

pl_status pl_round_mate(const pl_contract *c, int index, int64_t phase, int *mate)
{
    const pl_topology *t = c->topology;
    int replicas = pl_topology_n_replicas(t), n = 0, own = 0;
    *mate = index;
    if (!c->meets)
        return PL_OK;
    uint64_t *members = pl_alloc((size_t)c->n_holders * sizeof *members);
    int *partner = pl_alloc((size_t)c->n_holders * sizeof *partner);
    for (int i = 0; i < pl_topology_module_n_paths(t, c->module); i++)
        for (int r = 0; r < replicas; r++) {
            int member = pl_topology_module_path(t, c->module, i) * replicas + r;
            own = member == index ? n : own;
            members[n++] = (uint64_t)member;
        }
    pl_status status = pl_gossip_match(c->seed, c->name, (uint64_t)phase, c->n_holders,
                                       members, partner);
    if (status == PL_OK)
        *mate = (int)members[partner[own]];
    pl_free_all(members, partner);
    return status;
}

/* ---- merges ---- */
pl_round_step pl_round_step_of(const pl_contract *c, uint64_t newest, int n)
{
    pl_method_settings m = c->settings;
    /* the schedule counts phases; by arrival, a phase has a round per contributor */
    const int64_t phase = (int64_t)newest / (c->by_arrival ? c->n_holders : 1);
    const bool settled = pl_method_schedule(&c->schedule, phase, &m);
    pl_round_step how = {.step = pl_method_step(&m, m.lr, c->rescale && !settled, n),
                         .lr = m.lr,
                         .factor = 1,
                         .equalizes =
                             c->n_holders > 1 && c->kind->equalizes && !settled,
                         .method = c->n_holders > 1 ? c->kind->name
                                   : m.momentum > 0 ? "nesterov"
                                                    : "sgd"};
    if (c->kind->merge)
        c->kind->merge(c, &how);
    return how;
}

uint64_t pl_equalizing_bytes(const pl_outer *outer, const pl_topology *t)
{
    uint64_t most = 0;
    if (!outer_method_of(outer->method.method)->equalizes)
        return 0;
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        const uint64_t bytes = pl_iso_work_bytes(tensor->rows, tensor->cols);
        most = tensor->block >= 0 && tensor->decay && bytes > most ? bytes : most;
    }
    return most;
}

/* With a quorum the mean is always weighted; without outer.weighted all weights are 1.
 */
double pl_round_record_weight(const pl_contract *c, int path)
{
    return c->quorum < c->n_contributors && !c->weighted ? 1 : c->weights[path];
}

/* With noloco the weight is 1/n, because the updates are already weighted by the shares
 * of their paths. If each update is merged alone, its weight is the number of holders
 * times its path's share; this is 1 if all paths weigh the same. */
double pl_round_weight(const pl_contract *c, int path, double weight, double total,
                       int n)
{
    if (c->by_arrival)
        return c->n_holders * pl_round_share(c, path);
    return c->counts_weights && total > 0 ? weight / total : 1.0 / n;
}

pl_status pl_round_predict(const pl_contract *c, int64_t round,
                           const pl_codec_message *message, float *params, double *norm)
{
    const float weight = 1.0f;
    pl_codec_list list = {message, &weight, 1, 0};
    const pl_round_step of = pl_round_step_of(c, (uint64_t)round, 1);
    pl_outer_state state = {.params = params};
    pl_outer_report report;
    const pl_arith_merge merge = {.step = &of.step,
                                  .state = &state,
                                  .n = c->n_params,
                                  .messages = pl_codec_source_of(&list),
                                  .homomorphic = c->homomorphic,
                                  .factor = 1.0f};
    PL_CHECK(pl_arith_step(&merge, &report));
    *norm = report.mean_norm;
    return PL_OK;
}

pl_status pl_round_decode(const pl_contract *of, const void *data, uint64_t bytes,
                          float *const *out)
{
    pl_codec_message messages[PL_ROUND_VECTORS_MAX];
    double norm = 0;
    PL_CHECK(pl_codec_split(data, bytes, of->n_vectors, messages));
    for (int v = 0; v < of->n_vectors; v++) {
        if (out)
            memset(out[v], 0, of->n_params * sizeof *out[v]);
        PL_CHECK(pl_codec_add(messages[v].data, messages[v].bytes, of->n_params, 1.0f,
                              out ? out[v] : NULL, &norm));
    }
    return PL_OK;
}
