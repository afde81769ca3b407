/* Plans the memory and disk space that the run will need, before it starts. */
#include "job/run.h"

#include <unistd.h>

/* Returns the largest number of paths in any chapter. The last chapter, whose topology
 * is r->topology, may have fewer (topology.graft). */
static int most_paths(const pl_run *r)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int most = pl_topology_n_paths(r->topology), n = 0;
    if (config_chapters(&r->cfg, chapters, &n) != PL_OK)
        return most;
    for (int i = 0; i < n; i++) {
        const int n_paths = pl_topology_spec_n_paths(&chapters[i].spec);
        most = n_paths > most ? n_paths : most;
    }
    return most;
}

static uint64_t n_tasks(const pl_run *r)
{
    return (uint64_t)most_paths(r) * (uint64_t)pl_topology_n_replicas(r->topology);
}

/* PROCESS_BYTES is the memory in every process for code and data of the program and the
 * linked libraries: 14 MiB, or 17 MiB without PL_ROCKSDB_ARCHIVE (cmake/rocksdb.cmake).
 * The others are for libraries that only some processes load. */
enum {
    PROCESS_BYTES = 18 << 20,
    PRODUCTS_BYTES = 5 << 20, /* a process that multiplies matrices on the processor */
    RADOS_BYTES = 10 << 20,   /* a home whose store is in Ceph */
    CURL_BYTES = 6 << 20,     /* a home whose store is in S3 */
    HTTP_BYTES = 3 << 20      /* a hub that answers with metrics */
};

/* Returns the memory for those messages of one transfer that are on their way at the
 * same time: on a fast link all of them, up to 8 MiB (net/client_link.c). */
static uint64_t transfer_bytes(uint64_t bytes)
{
    enum { MOST = 8 << 20 };
    return bytes < MOST ? bytes : MOST;
}

/* Returns a worker's memory: a model for training, the worker's cache, and up to three
 * tasks. One task was fetched (versions and state), one was just trained (versions,
 * state and new parameters), and one is being sent (state and updates). If paths have
 * private parameters, each task also has the private parameters at its start. Updates
 * from mates and packed states are added, and what is on its way in both directions:
 * the next task may be fetched while the last one is sent. Pages of data files are not
 * counted, because the kernel frees them when memory is short. Between its blocks the
 * allocator keeps some memory that is free, so a sixty-fourth is added. */
static uint64_t worker_bytes(const pl_run *r, const pl_outer *outer)
{
    const pl_arm arm = {.shape = *pl_topology_shape(r->topology),
                        .inner.muon = config_has_muon(&r->cfg),
                        .outer = *outer};
    pl_path_layout l = pl_path_layout_of(&arm);
    size_t n = pl_topology_path_params(r->topology);
    uint64_t path = n * sizeof(float), state = (uint64_t)l.n_vectors;
    uint64_t tasks = (1 + state) + (2 + state) + (1 + state);
    tasks += l.params >= 0 ? 3 : 0;
    tasks += l.last >= 0 ? 3 : 0;
    uint64_t packed = pl_path_state_bytes(&arm, n);
    packed = packed == state * path ? 0 : 2 * packed;
    uint64_t most = (uint64_t)r->cfg.worker_cache, local = 2 * path * n_tasks(r);
    if (outer->state != PL_STATE_LOCAL)
        local = 0;
    pl_model_plan plan;
    pl_model_options options = {.batch = config_pass(&r->cfg),
                                .context = (int)r->cfg.context,
                                .training = true,
                                .recompute = r->cfg.recompute,
                                .muon = config_has_muon(&r->cfg),
                                .muon_rows = (int)r->cfg.muon_rows};
    pl_model_plan_bytes(r->topology, &options, PL_F32, &plan);
    /* on a GPU the model is in the GPU's memory, which run_gpu_check checks */
    const uint64_t model = r->n_gpus > 0 ? 0 : pl_model_plan_sum(&plan);
    /* For noloco: a worker keeps updates of a whole path for its mates, those of the
     * last two rounds of each path that it trains. The paths are divided over the
     * workers, because a path is usually leased to the same worker again. */
    const uint64_t workers = (uint64_t)r->n_workers;
    const uint64_t offers =
        l.last >= 0 && workers > 0 ? 2 * ((n_tasks(r) + workers - 1) / workers) : 0;
    const uint64_t sum =
        PROCESS_BYTES + PRODUCTS_BYTES + model + (tasks + offers) * path + packed +
        pl_worker_cache_bytes(&arm, r->topology, most) + (local < most ? local : most) +
        2 * transfer_bytes(state * path);
    return sum + sum / 64;
}

/* Raises *most to the bytes of the largest upload of an arm: the state of a path, or
 * the first version or an update of a module. */
static pl_status raise_upload(const pl_run *r, const char *name, uint64_t *most)
{
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = PL_OK;
    PL_TRY(run_arm(r, name, &arm));
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    uint64_t bytes = pl_path_state_bytes(&arm, pl_topology_path_params(t));
    for (int s = 0; s < pl_topology_n_slots(t); s++) {
        const int module = pl_topology_module_of_path(t, s, 0);
        const uint64_t first = pl_topology_slot(t, s)->n_params * sizeof(float),
                       update = pl_codec_module_bound(&arm.outer.codec, t, module, 1);
        bytes = first > bytes ? first : bytes;
        bytes = update > bytes ? update : bytes;
    }
    *most = bytes > *most ? bytes : *most;
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

pl_status run_largest_upload(const pl_run *r, uint64_t *out)
{
    const char *names[ARMS_MAX];
    const int n = run_arm_names(r, names);
    *out = 0;
    for (int i = 0; i < n; i++)
        PL_CHECK(raise_upload(r, names[i], out));
    return r->cfg.base_steps > 0 ? raise_upload(r, "base", out) : PL_OK;
}

/* Returns a home's memory. A home merges one module at a time (vectors and updates), or
 * compares a path's state with the one before it (home/home_gate.c). It holds the
 * uploads of one task per worker, and messages. The database keeps the data that was
 * written last in memory. The allocator keeps freed blocks, more of them in longer jobs
 * (measured: 10 MiB after 8 phases of the default job, 40 MiB after 60). */
static uint64_t home_bytes(const pl_run *r, const pl_outer *outer, uint64_t stored)
{
    enum { WRITTEN_BYTES = 54 << 20, KEPT_BYTES = 40 << 20, KEPT_OF = 16, VECTORS = 6 };
    uint64_t largest = 0;
    for (int s = 0; s < pl_topology_n_slots(r->topology); s++) {
        uint64_t n = pl_topology_slot(r->topology, s)->n_params;
        largest = n > largest ? n : largest;
    }
    /* at least the bytes that a worker uploads for a task: updates and state */
    const pl_arm arm = {.outer = *outer};
    const int n_vectors = pl_path_layout_of(&arm).n_vectors;
    uint64_t task = (1 + (uint64_t)n_vectors) * pl_topology_path_params(r->topology) *
                    sizeof(float);
    /* If the workers are on other machines, their number is not known; then one worker
     * per path is assumed. */
    uint64_t senders = r->n_workers > 0 ? (uint64_t)r->n_workers : n_tasks(r);
    uint64_t database = stored < WRITTEN_BYTES ? stored : WRITTEN_BYTES;
    uint64_t kept = stored / KEPT_OF < KEPT_BYTES ? stored / KEPT_OF : KEPT_BYTES;
    /* The updates that are read for the merge of a module: one per thread, or as many
     * small updates as home/home_updates.h reads together. Decompressed sections are
     * added, which take at most a quarter of the updates' size in f32. */
    const uint64_t module = largest * sizeof(float);
    uint64_t updates = n_tasks(r) * module;
    uint64_t most = (uint64_t)pl_codec_add_threads() * module;
    most = most > PL_HOME_AHEAD_BYTES ? most : PL_HOME_AHEAD_BYTES;
    updates = updates < most ? updates : most;
    const char *engine = r->cfg.engine;
    const uint64_t library = pl_starts_with(engine, "rados://") ? RADOS_BYTES
                             : pl_starts_with(engine, "s3://")  ? CURL_BYTES
                                                                : 0;
    const uint64_t merge = VECTORS * module + updates + updates / 4 +
                           pl_equalizing_bytes(outer, r->topology);
    const uint64_t state = task + (n_vectors > 2 ? PL_STATE_CHECK_VECTORS : 0) * module;
    return PROCESS_BYTES + library + database + kept + (merge > state ? merge : state) +
           senders * (task + transfer_bytes(task));
}

/* Returns the launcher's memory. The launcher first prepares the text and later scores
 * held-out text; the stage that needs more memory counts. (Routing features are not
 * counted.) Scoring needs one model for inference on about 2048 tokens per processor,
 * and the losses of every path. */
static uint64_t launcher_bytes(const pl_run *r)
{
    enum { STORE_READER_BYTES = 48 << 20, PATH_LOSSES_BYTES = 4 << 20 };
    int context = (int)r->cfg.context;
    pl_model_plan plan;
    pl_model_options options = {.batch = (2048 + context - 1) / context,
                                .context = context};
    pl_model_plan_bytes(r->topology, &options, PL_F32, &plan);
    const int n_paths = most_paths(r);
    uint64_t losses = (uint64_t)n_paths * PATH_LOSSES_BYTES;
    if (losses > EVALUATION_LOSSES_BYTES)
        losses = EVALUATION_LOSSES_BYTES;
    /* The tokenizer is trained on a sample of the text, with up to 24 bytes of memory
     * for each byte of the sample (measured; prose needs 19, the demo's text 24). */
    const config *c = &r->cfg;
    enum { READING_BYTES = 14 << 20, SAMPLE_BYTES = 8 << 20, FACTOR = 26 };
    uint64_t sample = SAMPLE_BYTES, most = (uint64_t)c->max_bytes;
    if (most > 0 && most < sample)
        sample = most;
    uint64_t prepares = READING_BYTES + (c->tokenizer[0] ? 0 : FACTOR * sample);
    uint64_t scores = (uint64_t)pl_cpu_count() * pl_model_plan_sum(&plan) + losses +
                      pl_prefix_lm_bytes((int)c->vocab, n_paths) + STORE_READER_BYTES;
    return PROCESS_BYTES + PRODUCTS_BYTES + (prepares > scores ? prepares : scores);
}

/* STORE_RESERVE_BYTES: disk space that a home keeps free for its commits.
 * DATABASE_BYTES: disk space that a home's database takes in advance. */
enum { STORE_RESERVE_BYTES = 64 << 20, DATABASE_BYTES = 48 << 20 };

/* Returns the bytes that the homes keep for the mixture: every version of every
 * chapter, and per path an update and two states, the newest and the one that a longer
 * run continues. Returns 0 if the chapters cannot be read from the configuration. */
static uint64_t mixture_bytes(const pl_run *r)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    const pl_shape *shape = pl_topology_shape(r->topology);
    uint64_t bytes = 0;
    int n = 0;
    if (config_chapters(&r->cfg, chapters, &n) != PL_OK)
        return 0;
    for (int i = 0; i < n; i++) {
        pl_topology *t = NULL;
        if (pl_topology_create(shape, &chapters[i].spec, &t) != PL_OK)
            return 0;
        uint64_t phases = (uint64_t)(chapters[i].end - chapters[i].from);
        uint64_t paths =
            (uint64_t)(pl_topology_n_paths(t) * pl_topology_n_replicas(r->topology));
        bytes += pl_topology_total_params(t) * (phases + 2) +
                 paths * 5 * pl_topology_path_params(t);
        pl_topology_destroy(&t);
    }
    return bytes * sizeof(float);
}

uint64_t run_stored_bytes(const pl_run *r)
{
    uint64_t path = pl_topology_path_params(r->topology) * sizeof(float);
    uint64_t paths = n_tasks(r), phases = (uint64_t)config_all_phases(&r->cfg),
             bytes = mixture_bytes(r);
    if (r->cfg.keep_states)
        bytes += 2 * path * paths * phases;
    if (config_wants(&r->cfg, "dense"))
        bytes += path * (phases + 3);
    if (config_wants(&r->cfg, "diloco"))
        bytes += path * (phases + 2) + paths * 3 * path;
    if (config_wants(&r->cfg, "dense-batch"))
        bytes += path * (phases + 3);
    if (config_wants(&r->cfg, "dense-eq"))
        bytes += path * ((uint64_t)run_path_phases(r) + 3);
    return bytes + bytes / 4;
}

static pl_status refuse_shortage(const char *what, uint64_t need, uint64_t have,
                                 const char *remedy)
{
    char a[16], b[16];
    return pl_fail(PL_ERR_CONFIG, "this run needs %s of %s, but only %s are free; %s",
                   pl_human_bytes((double)need, a), what,
                   pl_human_bytes((double)have, b), remedy);
}

/* Prints which modules train.freeze freezes in each chapter of the mixture. */
static pl_status say_frozen(const pl_run *r)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    pl_shape shape;
    int n = 0;
    pl_status status = PL_OK;
    if (!r->cfg.freeze[0])
        return PL_OK;
    PL_CHECK(config_shape(&r->cfg, &shape));
    PL_CHECK(config_chapters(&r->cfg, chapters, &n));
    for (int i = 0; status == PL_OK && i < n; i++) {
        char arm[PL_ARM_NAME_MAX], name[PL_NAME_MAX];
        bool *frozen = NULL;
        pl_topology *t = NULL;
        pl_buf names = {0};
        int n_frozen = 0;
        pl_chapter_name(i, arm);
        status = config_frozen(&r->cfg, i, &frozen);
        if (status == PL_OK)
            status = pl_topology_create(&shape, &chapters[i].spec, &t);
        for (int m = 0; status == PL_OK && m < pl_topology_n_modules(t); m++) {
            if (!frozen[m])
                continue;
            pl_topology_module_name(t, m, name);
            if (n_frozen++ < 8)
                pl_buf_printf(&names, "%s%s", n_frozen > 1 ? ", " : "", name);
        }
        if (n_frozen > 0)
            say("freeze   %s: %d of %d modules keep version 0: %s%s", arm, n_frozen,
                pl_topology_n_modules(t), pl_buf_text(&names),
                n_frozen > 8 ? ", ..." : "");
        pl_topology_destroy(&t);
        pl_buf_destroy(&names);
        pl_free(frozen);
    }
    return status;
}

/* Prints the paths of the new topology t that descend from an old path, for example
 * "p02 -> p01" (old -> new), or that the path ends because none descends from it. */
static void say_path(const pl_topology *from, const pl_topology *t, const pl_descent *d,
                     int path, const int64_t *documents)
{
    enum { HEIRS_SHOWN = 16 };
    char name[PL_NAME_MAX];
    pl_buf heirs = {0};
    int n = 0;
    for (int p = 0; p < pl_topology_n_paths(t); p++) {
        if (pl_topology_ancestor_path(t, d, from, p) != path || n++ >= HEIRS_SHOWN)
            continue;
        pl_topology_path_name(t, p, name);
        pl_buf_printf(&heirs, " %s", name);
    }
    if (n > HEIRS_SHOWN)
        pl_buf_printf(&heirs, " and %d more", n - HEIRS_SHOWN);
    pl_topology_path_name(from, path, name);
    if (n > 0)
        say("         %s ->%s", name, pl_buf_text(&heirs));
    else if (documents)
        say("         %s ends; its %lld documents go to the other paths", name,
            (long long)documents[path]);
    else
        say("         %s ends; its documents go to the other paths", name);
    pl_buf_destroy(&heirs);
}

/* Prints how topology.split and topology.graft change paths and modules. */
static pl_status say_changes(const pl_run *r)
{
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    const pl_shape *shape = pl_topology_shape(r->topology);
    pl_topology *from = NULL, *t = NULL;
    int n = 0;
    pl_status status = PL_OK;
    PL_CHECK(config_chapters(&r->cfg, chapters, &n));
    for (int i = 0; i < n; i++) {
        const config_chapter *chapter = &chapters[i];
        PL_TRY(pl_topology_create(shape, &chapter->spec, &t));
        if (chapter->splits || chapter->descent.n_parents > 0) {
            enum { PATHS_SHOWN = 32 };
            char arm[PL_ARM_NAME_MAX], before[16], after[16];
            const int n_paths = pl_topology_n_paths(from);
            int64_t *documents = pl_alloc((size_t)n_paths * sizeof *documents);
            /* Reads how many documents each path has before the chapter changes the
             * paths. RUN/router.json has the documents of the newest existing chapter,
             * so they are known only for the first added chapter. */
            char path[PL_PATH_MAX];
            pl_json *o = NULL;
            bool known = r->lengthened && chapter->begin == r->phases_before &&
                         pl_json_load(run_file(r, "router.json", path), &o) == PL_OK;
            const pl_json *list = known ? pl_json_get(o, "shard_documents") : NULL;
            known = list && pl_json_count(list) == (size_t)n_paths;
            for (int p = 0; known && p < n_paths; p++)
                known = pl_json_int(pl_json_at(list, (size_t)p), &documents[p]);
            pl_json_destroy(&o);
            pl_chapter_name(i, arm);
            say("change   %s from phase %lld on: %d modules and %d paths become %d and "
                "%d, %s parameters become %s",
                arm, (long long)chapter->begin, pl_topology_n_modules(from), n_paths,
                pl_topology_n_modules(t), pl_topology_n_paths(t),
                pl_human_count((double)pl_topology_total_params(from), before),
                pl_human_count((double)pl_topology_total_params(t), after));
            for (int p = 0; p < n_paths && n_paths <= PATHS_SHOWN; p++)
                say_path(from, t, &chapter->descent, p, known ? documents : NULL);
            for (int m = 0;
                 chapter->descent.n_parents > 0 && m < pl_topology_n_modules(t); m++) {
                char now[PL_NAME_MAX], was[PL_NAME_MAX];
                pl_topology_module_name(t, m, now);
                pl_topology_module_name(
                    from, pl_topology_ancestor_module(t, &chapter->descent, from, m),
                    was);
                if (strcmp(now, was) != 0)
                    say("         %s begins as a copy of %s", now, was);
            }
            pl_free(documents);
        }
        pl_topology_destroy(&from);
        from = t;
        t = NULL;
    }
done:
    pl_topology_destroy(&from);
    return status;
}

void run_say_peak(pl_run *r)
{
    char text[4][16], worker[32] = "";
    if (r->peak.hub == 0) /* all tasks were already done, so no process was started */
        return;
    r->peak.launcher = pl_memory_peak_bytes((int)getpid());
    if (r->peak.worker > 0) /* a worker of this machine */
        snprintf(worker, sizeof worker, "worker %s, ",
                 pl_human_bytes((double)r->peak.worker, text[0]));
    say("memory   at most: %shome %s, hub %s, this command %s", worker,
        pl_human_bytes((double)r->peak.home, text[1]),
        pl_human_bytes((double)r->peak.hub, text[2]),
        pl_human_bytes((double)r->peak.launcher, text[3]));
}

pl_status run_plan(pl_run *r)
{
    char text[8][16];
    pl_outer outer;
    PL_CHECK(config_outer(&r->cfg, &outer));
    uint64_t upload = 0;
    PL_CHECK(run_largest_upload(r, &upload));
    if (upload > (uint64_t)r->cfg.staging)
        return pl_fail(PL_ERR_CONFIG,
                       "a worker uploads up to %s at once, and a home would have no "
                       "room for it, because store.staging is %s; set "
                       "store.staging=%lluM",
                       pl_human_bytes((double)upload, text[0]),
                       pl_human_bytes((double)r->cfg.staging, text[1]),
                       (unsigned long long)upload / 1000000 + 1);
    uint64_t stored = run_stored_bytes(r),
             quota = (uint64_t)r->cfg.quota * (uint64_t)r->n_homes;
    if (quota > 0 && quota < stored)
        stored = quota;
    uint64_t disk = stored + STORE_RESERVE_BYTES + DATABASE_BYTES;
    uint64_t have = pl_memory_now().available_bytes,
             free_disk = pl_disk_free_bytes(r->dir);
    r->planned =
        (run_memory){.worker = worker_bytes(r, &outer),
                     .home = home_bytes(r, &outer, stored),
                     .hub = PROCESS_BYTES + (r->cfg.metrics[0] ? HTTP_BYTES : 0),
                     .launcher = launcher_bytes(r)};
    uint64_t memory = r->planned.worker * (uint64_t)r->n_workers +
                      r->planned.home * (uint64_t)r->n_homes + r->planned.hub +
                      r->planned.launcher;
    say("model    %s%s%s%s%s = %d paths; %s parameters per path, %s in all modules",
        r->cfg.levels, r->cfg.split[0] ? ", split " : "", r->cfg.split,
        r->cfg.graft[0] ? ", graft " : "", r->cfg.graft,
        pl_topology_n_paths(r->topology),
        pl_human_count((double)pl_topology_path_params(r->topology), text[0]),
        pl_human_count((double)pl_topology_total_params(r->topology), text[1]));
    PL_CHECK(say_changes(r));
    PL_CHECK(say_frozen(r));
    /* An upper bound, because windows at the ends of documents are not full. */
    const config *c = &r->cfg;
    char tokens[16], params[16];
    double steps = (double)(c->base_steps + c->tau * config_all_phases(c));
    double n = steps * (double)(c->batch * c->context);
    double path = (double)pl_topology_path_params(r->topology);
    if (r->lengthened)
        say("more     %lld phases follow the %lld that are trained; of these the last "
            "%lld are trained again, at the full rate",
            (long long)(config_all_phases(c) - r->phases_before),
            (long long)r->phases_before,
            (long long)config_falling_phases(c, r->phases_before));
    say("tokens   at most %s per path, which has %s parameters: %.1f per parameter",
        pl_human_count(n, tokens), pl_human_count(path, params), n / path);
    say("plan     memory %s of %s, disk at most %s of %s",
        pl_human_bytes((double)memory, text[0]), pl_human_bytes((double)have, text[1]),
        pl_human_bytes((double)disk, text[2]),
        pl_human_bytes((double)free_disk, text[3]));
    if (r->cfg.quota > 0)
        say("quota    each home stores at most %s (store.quota) and drops old "
            "versions to stay below",
            pl_human_bytes((double)r->cfg.quota, text[0]));
    say("         %d worker%s of %s, %d home%s of %s, hub %s, this command %s",
        r->n_workers, r->n_workers == 1 ? "" : "s",
        pl_human_bytes((double)r->planned.worker, text[4]), r->n_homes,
        r->n_homes == 1 ? "" : "s", pl_human_bytes((double)r->planned.home, text[5]),
        pl_human_bytes((double)r->planned.hub, text[6]),
        pl_human_bytes((double)r->planned.launcher, text[7]));
    if (r->device[0])
        say("device   %s", r->device);
    if (have > 0 && memory > have)
        return refuse_shortage(
            "memory", memory, have,
            "lower workers.count, train.micro_batch, model.context or model.width");
    if (free_disk > 0 && disk > free_disk)
        return refuse_shortage(
            "disk", disk, free_disk,
            "free some space, give another --out, or lower train.phases");
    return pl_check_writable(r->dir);
}

typedef struct corpus_size {
    uint64_t n_documents, n_bytes, max_bytes;
} corpus_size;

static pl_status count_document(void *context, const pl_document *document)
{
    corpus_size *size = context;
    if (size->max_bytes > 0 && size->n_bytes >= size->max_bytes)
        return PL_ERR_CANCELLED;
    size->n_documents++;
    size->n_bytes += document->len;
    return PL_OK;
}

pl_status run_plan_data(pl_run *r)
{
    const char *paths[] = {r->cfg.corpus, r->cfg.valid};
    const pl_reading reading = run_reading(r, true);
    char bytes[16];
    for (int i = 0; i < 2; i++) {
        /* standard input can be read only once */
        if (!paths[i][0] || strcmp(paths[i], "-") == 0)
            continue;
        corpus_size size = {.max_bytes = i == 0 ? (uint64_t)r->cfg.max_bytes : 0};
        pl_status status =
            pl_documents_cut(paths[i], &reading, count_document, &size, NULL);
        if (status != PL_ERR_CANCELLED)
            PL_CHECK(status);
        if (size.n_documents == 0)
            return pl_fail(PL_ERR_DATA, "there is no text in %.300s", paths[i]);
        say("data     %s in %llu documents from %.200s",
            pl_human_bytes((double)size.n_bytes, bytes),
            (unsigned long long)size.n_documents, paths[i]);
    }
    return PL_OK;
}
