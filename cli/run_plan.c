/* What the run will need, before it starts. */
#include "cli/run.h"

/* What a path keeps from phase to phase. */
static pl_path_layout layout_of(const pl_outer *outer)
{
    pl_arm arm = {.outer = *outer};
    return pl_path_layout_of(&arm);
}

/* noloco: of each task that was a worker's, the last two rounds are offered to mates.
 * Tasks seldom change their worker. */
static uint64_t offers(const run *r, const pl_outer *outer)
{
    int tasks = pl_topology_n_paths(r->topology) * pl_topology_n_replicas(r->topology);
    bool gossips = outer->method.method == PL_METHOD_NOLOCO && r->n_workers > 0;
    return gossips ? 2 * (uint64_t)((tasks + r->n_workers - 1) / r->n_workers) : 0;
}

/* A worker holds a model for training, its cache, and up to three tasks: one fetched
 * (versions, state, and that packed), one that trains (these, and parameters and state
 * after) and one that is sent (these, and next versions, packed state, an update as it
 * was, as others see it, and encoded). Each has what it got from mates, too. */
static uint64_t worker_bytes(const run *r, const pl_outer *outer)
{
    pl_path_layout l = layout_of(outer);
    uint64_t state = (uint64_t)l.n_vectors, mates = l.last >= 0 ? 3 : 0;
    uint64_t tasks = (1 + 2 * state) + (3 + 2 * state) + (7 + 3 * state) + mates;
    pl_model_plan plan;
    pl_model_options options = {.batch = config_pass(&r->cfg),
                                .context = (int)r->cfg.context,
                                .training = true,
                                .recompute = r->cfg.recompute};
    uint64_t path = pl_topology_path_params(r->topology) * sizeof(float);
    pl_model_plan_bytes(r->topology, &options, PL_F32, &plan);
    uint64_t cache = 12 * path;
    if (cache > (uint64_t)r->cfg.worker_cache)
        cache = (uint64_t)r->cfg.worker_cache;
    uint64_t model =
        plan.params_bytes + plan.grads_bytes + plan.moments_bytes + plan.acts_bytes;
    if (strcmp(r->cfg.backend, "cuda") == 0)
        model = 0; /* the GPU's: run_gpu_check holds it against that */
    return model + (tasks + offers(r, outer)) * path + cache + (48u << 20);
}

static uint64_t home_bytes(const run *r, const pl_outer *outer)
{
    uint64_t largest = 0, paths = (uint64_t)(pl_topology_n_paths(r->topology) *
                                             pl_topology_n_replicas(r->topology));
    for (int s = 0; s < pl_topology_n_slots(r->topology); s++) {
        const pl_slot *slot = pl_topology_slot(r->topology, s);
        uint64_t updates = paths / (uint64_t)slot->n_experts;
        uint64_t base = (uint64_t)r->cfg.base_replicas;
        updates = base > updates ? base : updates;
        uint64_t bytes = (8 + updates) * slot->n_params * sizeof(float);
        largest = bytes > largest ? bytes : largest;
    }
    uint64_t path = pl_topology_path_params(r->topology) * sizeof(float);
    uint64_t state = (uint64_t)layout_of(outer).n_vectors;
    /* Of workers elsewhere nobody knows how many come; a path has one at a time. */
    uint64_t senders = r->n_workers > 0 ? (uint64_t)r->n_workers : paths;
    uint64_t uploads = senders * (1 + state) * path;
    return largest + uploads + (96u << 20);
}

/* Memory of the launcher, which computes routing features and scores held-out text: for
 * each processor a model for inference on about 2048 tokens, and the losses of every
 * path. */
static uint64_t launcher_bytes(const run *r)
{
    int context = (int)r->cfg.context;
    pl_model_plan plan;
    pl_model_options options = {.batch = (2048 + context - 1) / context,
                                .context = context};
    pl_model_plan_bytes(r->topology, &options, PL_F32, &plan);
    return (uint64_t)pl_cpu_count() * pl_model_plan_sum(&plan) +
           EVALUATION_LOSSES_BYTES + (64u << 20);
}

/* What a home keeps free for its commits, and what its database takes in advance. */
enum { STORE_RESERVE_BYTES = 64 << 20, DATABASE_BYTES = 48 << 20 };

/* Every version is kept; pending updates and moments come on top. */
static uint64_t disk_bytes(const run *r)
{
    uint64_t total = pl_topology_total_params(r->topology) * sizeof(float);
    uint64_t path = pl_topology_path_params(r->topology) * sizeof(float);
    uint64_t paths = (uint64_t)(pl_topology_n_paths(r->topology) *
                                pl_topology_n_replicas(r->topology));
    uint64_t phases = (uint64_t)r->cfg.phases,
             bytes = total * (phases + 2) + paths * 3 * path;
    if (config_wants(&r->cfg, "dense"))
        bytes += path * (phases + 3);
    if (config_wants(&r->cfg, "diloco"))
        bytes += path * (phases + 2) + paths * 3 * path;
    if (config_wants(&r->cfg, "dense-batch"))
        bytes += path * (phases + 3);
    if (config_wants(&r->cfg, "dense-eq"))
        bytes += path * (phases * paths + 3);
    return bytes + bytes / 4 + STORE_RESERVE_BYTES + DATABASE_BYTES;
}

static pl_status refuse(const char *what, uint64_t need, uint64_t have,
                        const char *remedy)
{
    char a[16], b[16];
    return pl_fail(PL_ERR_CONFIG, "this run needs %s of %s but there are %s; %s",
                   pl_human_bytes((double)need, a), what,
                   pl_human_bytes((double)have, b), remedy);
}

/* At most: windows at the ends of documents are not full. */
static void say_tokens(const run *r)
{
    const config *c = &r->cfg;
    char tokens[16], params[16];
    double steps = (double)(c->base_steps + c->tau * c->phases);
    double n = steps * (double)(c->batch * c->context);
    double path = (double)pl_topology_path_params(r->topology);
    say("tokens   at most %s per path for %s parameters, %.1f per parameter",
        pl_human_count(n, tokens), pl_human_count(path, params), n / path);
}

pl_status run_plan(const run *r)
{
    char text[6][16];
    pl_outer outer;
    memset(&outer, 0, sizeof outer);
    PL_RETURN_IF(config_outer(&r->cfg, &outer));
    uint64_t memory = worker_bytes(r, &outer) * (uint64_t)r->n_workers +
                      home_bytes(r, &outer) + launcher_bytes(r);
    uint64_t have = pl_memory_available_bytes();
    uint64_t disk = disk_bytes(r), free_disk = pl_disk_free_bytes(r->dir);
    say("model    %s = %d paths; %s parameters a path, %s in all modules",
        r->cfg.levels, pl_topology_n_paths(r->topology),
        pl_human_count((double)pl_topology_path_params(r->topology), text[0]),
        pl_human_count((double)pl_topology_total_params(r->topology), text[1]));
    say_tokens(r);
    say("plan     memory %s of %s, disk at most %s of %s",
        pl_human_bytes((double)memory, text[2]), pl_human_bytes((double)have, text[3]),
        pl_human_bytes((double)disk, text[4]),
        pl_human_bytes((double)free_disk, text[5]));
    if (have > 0 && memory > have)
        return refuse(
            "memory", memory, have,
            "lower workers.count, train.micro_batch, model.context or model.width");
    if (free_disk > 0 && disk > free_disk)
        return refuse("disk", disk, free_disk,
                      "free some, give another --out, or lower train.phases");
    return pl_check_writable(r->dir);
}
