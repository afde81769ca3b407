#include "job/config.h"
#include "serve/serve.h"
#include "store/store.h"

#include <stddef.h>
#include <stdlib.h>

/* router.answer=auto uses likelihood up to this number of paths; above it the cost is
 * too high, because each path reads the prompt. DEALING_WINDOWS: router.sees then. */
enum { DEALING_WINDOWS = 4 };

#define AT(field) offsetof(config, field)
#define SECTION(name, help)                                                            \
    {                                                                                  \
        name, PL_KEY_SECTION, 0, "", 0, 0, NULL, "", help, true                        \
    }

/* A row: name, type, offset, default, min, max, choices, unit, help, local. Local keys
 * do not change results; a run may be resumed with other values of them. */
static const pl_key keys[] = {
    {"preset", PL_KEY_TEXT, AT(preset), "laptop", 0, 0, NULL, "",
     "model, topology and training settings to start from; keys below override it; "
     "`pathloom init --list` names all",
     false},
    {"out", PL_KEY_TEXT, AT(out), "pathloom-run", 0, 0, NULL, "",
     "folder of the run: data, store, logs, report", true},
    {"seed", PL_KEY_INT, AT(seed), "1", 0, 9e15, NULL, "", "of everything random",
     false},

    SECTION("data", "text in"),
    {"data.corpus", PL_KEY_TEXT, AT(corpus), "", 0, 0, NULL, "",
     "file, folder, or - for stdin; empty: text that this machine already has", false},
    {"data.valid", PL_KEY_TEXT, AT(valid), "", 0, 0, NULL, "",
     "held-out text; empty: split off by document hash", false},
    {"data.valid_share", PL_KEY_REAL, AT(valid_share), "0.04", 0.001, 0.5, NULL,
     "of documents", "held out when data.valid is empty", false},
    {"data.cut", PL_KEY_INT, AT(cut), "4096", 0, 1 << 30, NULL, "bytes",
     "a single text file is cut into documents of at most so many, at a blank line if "
     "there is one in the second half, else at the end of a line; 0: never; each file "
     "of a folder is one document",
     false},
    {"data.max_bytes", PL_KEY_INT, AT(max_bytes), "0", 0, 9e15, NULL, "bytes",
     "of training text; 0: all (12 MB of the machine's own text)", false},
    {"data.tokenizer", PL_KEY_TEXT, AT(tokenizer), "", 0, 0, NULL, "",
     "SentencePiece model to load; empty: train one", false},
    {"data.vocab", PL_KEY_INT, AT(vocab), "2048", 300, 1000000, NULL, "pieces",
     "of the tokenizer and the model", false},

    SECTION("model", "one path"),
    {"model.width", PL_KEY_INT, AT(width), "128", 8, 65536, NULL, "",
     "of the residual stream", false},
    {"model.heads", PL_KEY_INT, AT(heads), "4", 1, 1024, NULL, "", "query heads",
     false},
    {"model.kv_heads", PL_KEY_INT, AT(kv_heads), "0", 0, 1024, NULL, "",
     "key/value heads; 0: as many as query heads", false},
    {"model.head_size", PL_KEY_INT, AT(head_size), "0", 0, 1024, NULL, "",
     "0: width / heads", false},
    {"model.ffn", PL_KEY_INT, AT(ffn), "0", 0, 1000000, NULL, "",
     "inner width of SwiGLU; 0: 8/3 of width, rounded up to 8", false},
    {"model.blocks", PL_KEY_INT, AT(blocks), "4", 1, 256, NULL, "", "of the whole path",
     false},
    {"model.context", PL_KEY_INT, AT(context), "128", 8, 1000000, NULL, "tokens",
     "longest sequence", false},
    {"model.tied", PL_KEY_BOOL, AT(tied), "true", 0, 0, NULL, "",
     "the output matrix is the embedding", false},
    {"model.rope_theta", PL_KEY_REAL, AT(rope_theta), "10000", 1, 1e9, NULL, "", "",
     false},
    {"model.norm_eps", PL_KEY_REAL, AT(norm_eps), "1e-5", 1e-12, 1e-1, NULL, "", "",
     false},
    {"model.import", PL_KEY_TEXT, AT(import), "", 0, 0, NULL, "",
     "Llama model in safetensors that the base model begins with (`pathloom import`); "
     "empty: random numbers",
     false},

    SECTION("topology", "how paths are made of modules"),
    {"topology.levels", PL_KEY_TEXT, AT(levels), "2x2", 0, 0, NULL, "modules a level",
     "2x2 is two levels of two modules, four paths; 1 is dense", false},
    {"topology.blocks", PL_KEY_TEXT, AT(level_blocks), "", 0, 0, NULL, "",
     "blocks of each level, as 2,2; empty: split evenly", false},
    {"topology.private", PL_KEY_TEXT, AT(private_blocks), "", 0, 0, NULL, "",
     "path-specific blocks, as 0,5,6,11", false},
    {"topology.embed", PL_KEY_CHOICE, AT(embed), "common", 0, 0, "common|private|level",
     "",
     "who shares the embedding: all, one path, or the paths of a module of the first "
     "level",
     false},
    {"topology.head", PL_KEY_CHOICE, AT(head), "common", 0, 0, "common|private|level",
     "", "who shares the final norm and output matrix; level: the last level", false},
    {"topology.replicas", PL_KEY_INT, AT(replicas), "1", 1, 1024, NULL, "",
     "workers' trainings of the same path on different data", false},

    SECTION("train", "the inner loop"),
    {"train.batch", PL_KEY_INT, AT(batch), "8", 1, 65536, NULL, "sequences", "a step",
     false},
    {"train.micro_batch", PL_KEY_INT, AT(micro_batch), "0", 0, 65536, NULL, "sequences",
     "in memory at a time: gradients of several passes add up to those of train.batch; "
     "0: all in one pass",
     false},
    {"train.tau", PL_KEY_INT, AT(tau), "50", 1, 1000000, NULL, "steps",
     "inner steps a phase", false},
    {"train.phases", PL_KEY_INT, AT(phases), "6", 1, 1000000, NULL, "",
     "phases of each path", false},
    {"train.base_steps", PL_KEY_INT, AT(base_steps), "1200", 0, 1e9, NULL, "steps",
     "of dense training before the paths part; 0 only with model.import", false},
    {"train.base_replicas", PL_KEY_INT, AT(base_replicas), "1", 1, 1024, NULL,
     "replicas",
     "of the base model, which workers train at the same time: each does an equal part "
     "of train.base_steps, and all average their parameters every train.tau steps",
     false},
    {"train.schedule", PL_KEY_CHOICE, AT(schedule), "wsd", 0, 0, "cosine|wsd", "",
     "of the learning rate; cosine: the base model and each arm have one of their own; "
     "wsd: one warm-up, then constant through the base model and into each arm, which "
     "decays over its last train.decay and goes on with the base model's moments",
     false},
    {"train.decay", PL_KEY_REAL, AT(decay_share), "0.4", 0, 1, NULL, "of its steps",
     "wsd: the last share of an arm, over which its learning rate falls linearly",
     false},
    {"train.lr", PL_KEY_REAL, AT(lr), "2e-3", 1e-8, 1, NULL, "",
     "peak learning rate of AdamW", false},
    {"train.base_lr", PL_KEY_REAL, AT(base_lr), "0", 0, 1, NULL, "",
     "the same for the base model; 0: train.lr", false},
    {"train.warmup", PL_KEY_INT, AT(warmup), "20", 0, 1e9, NULL, "steps",
     "linear warm-up", false},
    {"train.base_warmup", PL_KEY_INT, AT(base_warmup), "40", 0, 1e9, NULL, "steps",
     "the same for the base model", false},
    {"train.lr_floor", PL_KEY_REAL, AT(lr_floor), "-1", -1, 1, NULL, "of the peak",
     "learning rate at the end of the schedule; -1: 0.1 for cosine, 0 for wsd", false},
    {"train.beta1", PL_KEY_REAL, AT(beta1), "0.9", 0, 0.9999, NULL, "", "of AdamW",
     false},
    {"train.beta2", PL_KEY_REAL, AT(beta2), "0.95", 0, 0.99999, NULL, "", "of AdamW",
     false},
    {"train.eps", PL_KEY_REAL, AT(adam_eps), "1e-8", 1e-16, 1, NULL, "", "of AdamW",
     false},
    {"train.weight_decay", PL_KEY_REAL, AT(weight_decay), "0.1", 0, 10, NULL, "",
     "of matrices", false},
    {"train.clip", PL_KEY_REAL, AT(clip), "1", 0, 1e6, NULL, "",
     "global gradient norm; 0: off", false},
    {"train.state", PL_KEY_CHOICE, AT(state), "f32", 0, 0, "f32|bf16|local", "",
     "AdamW's moments between phases: exact, rounded, or never sent (then a path that "
     "changes worker begins with fresh ones, and what comes out depends on that)",
     false},
    {"train.skip_prefix", PL_KEY_BOOL, AT(skip_prefix), "false", 0, 0, NULL, "",
     "leave the routing prefix out of the training loss", false},

    SECTION("router", "which path a document takes"),
    {"router.kind", PL_KEY_CHOICE, AT(router_kind), "kmeans", 0, 0, "kmeans|product",
     "", "k-means with one centroid a path, or one clustering a level", false},
    {"router.prefix", PL_KEY_INT, AT(prefix), "32", 1, 100000, NULL, "tokens",
     "that decide, and that no perplexity counts", false},
    {"router.sees", PL_KEY_INT, AT(sees), "-1", -1, 1000000, NULL, "windows",
     "the path of a training document is decided by at most this many windows of "
     "model.context tokens, spread evenly over it; 0: by its first router.prefix "
     "tokens, which is all that the router sees of new text; -1: 4 where a new run "
     "answers by likelihood (router.answer), else 0",
     false},
    {"router.overlap", PL_KEY_INT, AT(overlap), "1", 1, 64, NULL, "shards",
     "a training document stands in its n nearest shards", false},
    {"router.restarts", PL_KEY_INT, AT(restarts), "8", 1, 1000, NULL, "",
     "of k-means++", false},
    {"router.iterations", PL_KEY_INT, AT(iterations), "100", 1, 100000, NULL, "",
     "at most", false},
    {"router.balance", PL_KEY_REAL, AT(balance), "0.1", 0, 1000, NULL, "",
     "a shard has at most (1+balance) times the mean number of tokens, unless a "
     "document, or documents that begin alike, have more; 0: no limit",
     false},
    {"router.standardize", PL_KEY_BOOL, AT(standardize), "true", 0, 0, NULL, "",
     "divide each feature by its deviation", false},
    {"router.components", PL_KEY_INT, AT(components), "20", 0, 65536, NULL, "",
     "then keep this many principal components, each with variance 1; 0: all features",
     false},
    {"router.sharpen", PL_KEY_INT, AT(sharpen), "3", 0, 64, NULL, "rounds",
     "then turn the components towards what tells clusters apart; 0: none", false},
    {"router.unit", PL_KEY_BOOL, AT(unit), "true", 0, 0, NULL, "",
     "then scale each document's features to length 1", false},
    {"router.answer", PL_KEY_CHOICE, AT(answer), "auto", 0, 0, "auto|router|likelihood",
     "",
     "which path answers a prompt (generate, serve) or a held-out document (eval): the "
     "router's, or the path under which its first router.prefix tokens are likeliest "
     "(each path reads them); auto: likelihood in a run of at most 16 paths, else "
     "router",
     true},

    SECTION("outer", "how updates become versions"),
    {"outer.method", PL_KEY_TEXT, AT(method), "diloco", 0, 0, NULL, "",
     "diloco, fedavg, heavy-ball, noloco, co2, streaming, eager, delayed-nesterov",
     false},
    {"outer.lr", PL_KEY_REAL, AT(outer_lr), "-1", -1, 100, NULL, "",
     "outer learning rate; -1: the method's own (diloco 0.7)", false},
    {"outer.momentum", PL_KEY_REAL, AT(outer_momentum), "-1", -1, 0.9999, NULL, "",
     "0: plain SGD; -1: the method's own (diloco 0.9)", false},
    {"outer.rule", PL_KEY_CHOICE, AT(rule), "auto", 0, 0, "auto|nesterov|heavy-ball",
     "", "noloco and eager: what momentum does; auto: heavy-ball and nesterov", false},
    {"outer.consensus", PL_KEY_REAL, AT(consensus), "-1", -1, 100, NULL, "",
     "noloco: how far mates move together; -1: as outer.lr, else two vectors travel "
     "instead of one",
     false},
    {"outer.deadline_s", PL_KEY_REAL, AT(deadline_s), "0", 0, 86400, NULL, "s",
     "noloco: what a pair waits for its second before both go on alone, after which "
     "results depend on timing; 0: for ever; with outer.quorum: what it waits for the "
     "rest",
     false},
    {"outer.quorum", PL_KEY_REAL, AT(quorum), "1", 0.01, 1, NULL, "",
     "diloco, fedavg, heavy-ball: share of a module's contributors that a round needs; "
     "below 1 it is merged without the others, and results depend on timing",
     false},
    {"outer.late_weight", PL_KEY_REAL, AT(late_weight), "0", 0, 1, NULL, "",
     "what an update that a quorum did not wait for weighs in the next round, for each "
     "round that it is late; 0: it is dropped",
     false},
    {"outer.delay", PL_KEY_INT, AT(delay), "1", 0, 16, NULL, "phases",
     "co2: an update is used so much later, its exchange hides behind training", false},
    {"outer.gap", PL_KEY_CHOICE, AT(gap), "norm", 0, 0, "none|norm|constant", "",
     "co2: what late updates are divided by", false},
    {"outer.gap_constant", PL_KEY_REAL, AT(gap_constant), "1", 1, 1e6, NULL, "",
     "co2: the divisor of outer.gap constant", false},
    {"outer.clip", PL_KEY_REAL, AT(outer_clip), "0", 0, 1e6, NULL, "",
     "co2: largest value of the outer momentum; 0: off", false},
    {"outer.fragments", PL_KEY_INT, AT(fragments), "2", 1, 256, NULL, "",
     "streaming: parts of a path that are sent at different times; divides train.tau",
     false},
    {"outer.overlap", PL_KEY_INT, AT(outer_overlap), "5", 0, 1000000, NULL, "steps",
     "streaming: from sending a fragment to taking up its next version", false},
    {"outer.mix", PL_KEY_REAL, AT(mix), "0.5", 0, 1, NULL, "",
     "streaming: share of the path's own parameters when it takes one up", false},
    {"outer.own", PL_KEY_CHOICE, AT(own), "f32", 0, 0, "f32|f24|bf16", "",
     "streaming: the path's own parameters between phases, rounded to 3 or 2 bytes; at "
     "low learning rates bf16 loses steps",
     false},
    {"outer.buffer", PL_KEY_INT, AT(buffer), "4", 1, 65536, NULL, "arrivals",
     "delayed-nesterov: arrivals a momentum step", false},
    {"outer.spread", PL_KEY_REAL, AT(spread), "0", 0, 1, NULL, "",
     "delayed-nesterov: momentum that each arrival brings, at most 1/buffer", false},
    {"outer.staleness", PL_KEY_INT, AT(staleness), "1", 0, 1000, NULL, "phases",
     "delayed-nesterov: a path may be ahead of the slowest by so many", false},
    {"outer.dynamic_steps", PL_KEY_BOOL, AT(dynamic_steps), "false", 0, 0, NULL, "",
     "delayed-nesterov: slower workers do fewer steps of a phase", false},
    {"outer.decay", PL_KEY_CHOICE, AT(decay), "constant", 0, 0,
     "constant|cosine|linear", "", "of outer.lr over the phases", false},
    {"outer.warmup", PL_KEY_INT, AT(outer_warmup), "0", 0, 1000000, NULL, "phases",
     "in which outer.lr rises", false},
    {"outer.floor", PL_KEY_REAL, AT(outer_floor), "0.1", 0, 1, NULL, "of outer.lr",
     "where its decay ends", false},
    {"outer.settle", PL_KEY_BOOL, AT(settle), "true", 0, 0, NULL, "",
     "diloco, heavy-ball and streaming take the plain mean of the updates, without "
     "momentum, while the inner learning rate decays (train.schedule=wsd); only with "
     "outer.decay=constant",
     false},
    {"outer.curvature", PL_KEY_REAL, AT(curvature), "1", 1e-6, 1e6, NULL, "",
     "for which outer.lr and outer.momentum must be stable; 1: phases that train to "
     "their optimum",
     false},
    {"outer.lr_embed", PL_KEY_REAL, AT(lr_of[PL_CLASS_EMBED]), "-1", -1, 100, NULL, "",
     "for shared embeddings; -1: outer.lr", false},
    {"outer.lr_head", PL_KEY_REAL, AT(lr_of[PL_CLASS_HEAD]), "-1", -1, 100, NULL, "",
     "for shared heads", false},
    {"outer.lr_common", PL_KEY_REAL, AT(lr_of[PL_CLASS_COMMON]), "-1", -1, 100, NULL,
     "", "for blocks that all paths share", false},
    {"outer.lr_level", PL_KEY_REAL, AT(lr_of[PL_CLASS_LEVEL]), "-1", -1, 100, NULL, "",
     "for blocks of a level", false},
    {"outer.lr_private", PL_KEY_REAL, AT(lr_of[PL_CLASS_PRIVATE]), "1", -1, 100, NULL,
     "", "for modules of one path", false},
    {"outer.momentum_embed", PL_KEY_REAL, AT(momentum_of[PL_CLASS_EMBED]), "-1", -1,
     0.9999, NULL, "", "for shared embeddings; -1: outer.momentum", false},
    {"outer.momentum_head", PL_KEY_REAL, AT(momentum_of[PL_CLASS_HEAD]), "-1", -1,
     0.9999, NULL, "", "for shared heads", false},
    {"outer.momentum_common", PL_KEY_REAL, AT(momentum_of[PL_CLASS_COMMON]), "-1", -1,
     0.9999, NULL, "", "for blocks that all paths share", false},
    {"outer.momentum_level", PL_KEY_REAL, AT(momentum_of[PL_CLASS_LEVEL]), "-1", -1,
     0.9999, NULL, "", "for blocks of a level", false},
    {"outer.momentum_private", PL_KEY_REAL, AT(momentum_of[PL_CLASS_PRIVATE]), "0", -1,
     0.9999, NULL, "", "for modules of one path", false},
    {"outer.weighting", PL_KEY_CHOICE, AT(weighting), "tokens", 0, 0, "tokens|uniform",
     "", "of a module's contributors: by the size of their shards, or equal", false},
    {"outer.mean", PL_KEY_CHOICE, AT(mean), "all", 0, 0, "all|present", "",
     "over a module's contributors, or value by value over those whose update is not 0 "
     "there: for topk, with outer.method=fedavg",
     false},
    {"outer.rescale", PL_KEY_BOOL, AT(rescale), "false", 0, 0, NULL, "",
     "multiply the mean by sqrt(contributors)", false},
    {"codec.name", PL_KEY_TEXT, AT(codec), "f32", 0, 0, NULL, "",
     "f32, bf16, i8, i4, topk, i8-shared, sketch16, tagc; small tensors go as "
     "f32",
     false},
    {"codec.attention", PL_KEY_TEXT, AT(codec_attention), "", 0, 0, NULL, "",
     "another one for attention's matrices", false},
    {"codec.mlp", PL_KEY_TEXT, AT(codec_mlp), "", 0, 0, NULL, "", "for SwiGLU's",
     false},
    {"codec.embed", PL_KEY_TEXT, AT(codec_embed), "", 0, 0, NULL, "",
     "for the embedding", false},
    {"codec.head", PL_KEY_TEXT, AT(codec_head), "", 0, 0, NULL, "",
     "for the output matrix", false},
    {"codec.down", PL_KEY_CHOICE, AT(codec_down), "f32", 0, 0, "f32|bf16|i8|i4", "",
     "how merged versions travel to workers that have the one before", false},
    {"codec.k", PL_KEY_INT, AT(codec_k), "0", 0, 4096, NULL, "of 4096",
     "values that topk, sketch16 and tagc keep; 0: codec.name's own (tagc 819, others "
     "64)",
     false},
    {"codec.value_bits", PL_KEY_INT, AT(value_bits), "8", 2, 8, NULL, "bits",
     "of topk's values: 8 or 2", false},
    {"codec.entropy", PL_KEY_BOOL, AT(entropy), "true", 0, 0, NULL, "",
     "entropy coding where it saves 3 % or more", false},
    {"codec.feedback", PL_KEY_CHOICE, AT(feedback), "auto", 0, 0, "auto|on|off", "",
     "add what was dropped to the next update; auto: for i4, topk, i8-shared, "
     "sketch16",
     false},
    {"codec.residual", PL_KEY_CHOICE, AT(residual), "f32", 0, 0, "f32|bf16|i8", "",
     "what feedback keeps from phase to phase, rounded to 2 bytes or 1", false},
    {"codec.beta", PL_KEY_REAL, AT(ef_beta), "-1", -1, 1, NULL, "",
     "share of the residual that the next update gets; -1: codec.name's own (topk "
     "0.95, others 1)",
     false},
    {"codec.cells", PL_KEY_REAL, AT(cells), "1.3", 1.05, 16, NULL, "a key",
     "of sketch16", false},

    SECTION("eval", "what the mixture is compared with"),
    {"eval.baselines", PL_KEY_TEXT, AT(baselines), "dense,diloco,dense-eq,dense-batch",
     0, 0, NULL, "",
     "trained beside the mixture, or none: dense (one machine, as many steps as one "
     "path), diloco (as many replicas of one model as there are paths), dense-eq (one "
     "machine, the steps of all paths), dense-batch (the steps of one path with the "
     "batches of all paths in each)",
     false},
    {"eval.batch_lr", PL_KEY_REAL, AT(batch_lr), "0", 0, 1, NULL, "",
     "learning rate of dense-batch; 0: train.lr times the square root of the paths",
     false},
    {"eval.max_tokens", PL_KEY_INT, AT(eval_tokens), "0", 0, 9e15, NULL, "tokens",
     "of held-out text that are scored; 0: all", true},
    {"eval.sample_tokens", PL_KEY_INT, AT(sample_tokens), "32", 0, 4096, NULL, "tokens",
     "of the sample of each path in the final report", true},

    SECTION("workers", "who computes"),
    {"workers.count", PL_KEY_INT, AT(workers), "0", 0, 128, NULL, "processes",
     "0: one per GPU, or one per processor if they do not train on GPUs; with "
     "net.attach "
     "none",
     true},
    {"workers.local", PL_KEY_BOOL, AT(local_workers), "true", 0, 0, NULL, "",
     "false: this command starts none, they come from elsewhere (`pathloom worker "
     "--run`, `pathloom join`, Slurm)",
     true},
    {"workers.relay", PL_KEY_INT, AT(relays), "0", 0, 16, NULL, "processes",
     "relays between workers and home: they add updates of homomorphic codecs", true},
    {"workers.threads", PL_KEY_INT, AT(threads), "1", 1, 256, NULL, "threads",
     "of each worker", false},
    {"workers.backend", PL_KEY_CHOICE, AT(backend), "auto", 0, 0, "auto|ref|cpu|cuda",
     "",
     "auto: each worker takes cuda if a GPU answers on its machine (with precision "
     "auto, "
     "bf16 or fp8), else cpu; the worker's log and every version name the device",
     false},
    {"workers.precision", PL_KEY_CHOICE, AT(precision), "auto", 0, 0,
     "auto|f32|bf16|f16|fp8", "",
     "of activations and products; sums and parameters are fp32; f16: cpu, products "
     "alone; fp8: cuda, forward products alone, not measured yet",
     false},
    {"workers.recompute", PL_KEY_BOOL, AT(recompute), "false", 0, 0, NULL, "",
     "activations are computed again in the backward pass: a third more arithmetic, "
     "far "
     "less memory, the same bytes",
     true},
    {"workers.cache", PL_KEY_INT, AT(worker_cache), "512M", 0, 9e15, NULL, "bytes",
     "of modules and optimizer states that a worker keeps in memory", true},
    {"workers.ttl_ms", PL_KEY_INT, AT(ttl_ms), "2000", 100, 3600000, NULL, "ms",
     "a lease that is not renewed for so long is given to others", true},
    {"workers.patience_s", PL_KEY_INT, AT(patience_s), "60", 1, 86400, NULL, "s",
     "how long a worker waits for a hub or home that is away", true},

    SECTION("fleet", "what keeps a fleet honest and quick"),
    {"fleet.audit", PL_KEY_REAL, AT(audit), "0", 0, 1, NULL, "",
     "share of tasks that a second worker does again, to be compared; who differs from "
     "two others is fenced; not under noloco, eager and delayed-nesterov, nor with "
     "outer.quorum below 1",
     true},
    {"fleet.audit_tolerance", PL_KEY_REAL, AT(audit_tolerance), "0.25", 0, 1, NULL, "",
     "how far apart the updates of workers of different kinds of devices may be in any "
     "module (1 - cosine, and 1 - shorter / longer): a lie below it is not seen "
     "between kinds; for phases far beyond 300 steps, or fp8, measure first; 0: only "
     "equal kinds are compared, by hash",
     true},
    {"fleet.backup", PL_KEY_CHOICE, AT(backup), "auto", 0, 0, "off|auto|any", "",
     "an idle worker begins what another is slow at, the first to deliver counts; "
     "auto: "
     "with the same kind of device, so that the bytes are the same, but what a worker "
     "that joined and has not delivered yet is at, with any kind; not under noloco and "
     "delayed-nesterov",
     true},

    SECTION("store", "what is kept"),
    {"store.homes", PL_KEY_INT, AT(homes), "1", 1, PL_HOMES_MAX, NULL, "processes",
     "that share the modules, each with a store of its own; fixed when a run begins",
     true},
    {"store.engine", PL_KEY_TEXT, AT(engine), "rocksdb", 0, 0, NULL, "",
     "where parameters lie: rocksdb (in the run's folder), rados://POOL/NAMESPACE or "
     "s3://BUCKET/PREFIX?endpoint=URL (docs/ENGINES.md); fixed when a run begins",
     true},
    {"store.keep_updates", PL_KEY_BOOL, AT(keep_updates), "false", 0, 0, NULL, "",
     "keep every merged update, so that versions can be recomputed", true},
    {"store.keep_momentum", PL_KEY_BOOL, AT(keep_momentum), "false", 0, 0, NULL, "",
     "keep the outer momentum of old versions", true},
    {"store.compress", PL_KEY_CHOICE, AT(compress), "auto", 0, 0, "auto|off", "",
     "make old versions smaller while the home has nothing else to do", true},
    {"store.norm_gate", PL_KEY_REAL, AT(norm_gate), "10", 0, 1e6, NULL, "",
     "an update longer than so many times its module's usual is refused; 0: none is",
     true},
    {"store.staging", PL_KEY_INT, AT(staging), "4G", 1048576, 9e15, NULL, "bytes",
     "of uploads that a home holds in memory", true},

    SECTION("net", "who listens where; what other machines reach is encrypted"),
    {"net.hub", PL_KEY_TEXT, AT(hub_bind), "ipc://*", 0, 0, NULL, "",
     "where the hub listens; ipc://*: a socket in RUN/proc/ipc, which only the user "
     "who "
     "starts the job can enter; tcp://HOST:PORT: host 0.0.0.0: all interfaces, port *: "
     "a "
     "free one",
     true},
    {"net.home", PL_KEY_TEXT, AT(home_bind), "ipc://*", 0, 0, NULL, "",
     "where the home listens, like net.hub", true},
    {"net.advertise", PL_KEY_TEXT, AT(advertise), "", 0, 0, NULL, "",
     "host by which other machines reach this one; empty: its first address", true},
    {"net.encrypt", PL_KEY_CHOICE, AT(encrypt), "auto", 0, 0, "auto|on|off", "",
     "auto: when an address is not only of this machine", true},
    {"net.metrics", PL_KEY_TEXT, AT(metrics), "", 0, 0, NULL, "",
     "HOST:PORT where the hub answers Prometheus at /metrics; empty: nowhere", true},
    {"net.attach", PL_KEY_BOOL, AT(attach), "false", 0, 0, NULL, "",
     "hub and home of this run were started by hand (`pathloom home --run`, `pathloom "
     "hub "
     "--run`)",
     true},
};

const pl_table config_table = {keys, sizeof keys / sizeof *keys};

bool config_pair_is_local(const char *pair)
{
    size_t len = strcspn(pair, "=");
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (strlen(key->name) == len && memcmp(key->name, pair, len) == 0)
            return key->local;
    }
    return false;
}

pl_status config_lay(config *c, const char *file, const char *const *sets, int n_sets)
{
    if (file)
        PL_RETURN_IF(pl_conf_load(&config_table, c, file));
    for (int i = 0; i < n_sets; i++)
        PL_RETURN_IF(pl_conf_set_pair(&config_table, c, sets[i], "--set"));
    return PL_OK;
}

/* What the preset says of its own width, heads and blocks does not fit other ones. */
static void drop_derived(config *preset, const config *wanted)
{
    if (wanted->width != preset->width || wanted->heads != preset->heads)
        preset->head_size = preset->ffn = preset->kv_heads = 0;
    if (wanted->blocks != preset->blocks)
        preset->private_blocks[0] = preset->level_blocks[0] = '\0';
}

static int64_t usual_ffn(const config *c)
{
    return (c->width * 8 / 3 + 7) / 8 * 8;
}

static double own_floor(const config *c)
{
    return strcmp(c->schedule, "wsd") == 0 ? 0 : 0.1;
}

/* The value of router.sees that -1 stands for. 0 if topology.levels cannot be parsed:
 * config_check reports that. */
static int64_t own_sees(const config *c)
{
    pl_topology_spec spec;
    int64_t n_paths = 1;
    if (config_spec(c, &spec) != PL_OK)
        return 0;
    for (int l = 0; l < spec.n_levels && n_paths <= PL_LIKELIHOOD_PATHS_MAX; l++)
        n_paths *= spec.experts[l];
    return config_answers_by_likelihood(c, (int)n_paths) ? DEALING_WINDOWS : 0;
}

static void fill_derived(config *c)
{
    if (c->head_size == 0 && c->heads > 0)
        c->head_size = c->width / c->heads;
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->ffn == 0)
        c->ffn = usual_ffn(c);
    if (c->base_lr == 0)
        c->base_lr = c->lr;
    if (c->lr_floor < 0)
        c->lr_floor = own_floor(c);
    if (c->sees < 0)
        c->sees = own_sees(c);
}

void config_leave_derived(config *c)
{
    if (c->head_size * c->heads == c->width)
        c->head_size = 0;
    if (c->kv_heads == c->heads)
        c->kv_heads = 0;
    if (c->ffn == usual_ffn(c))
        c->ffn = 0;
    if (c->base_lr == c->lr)
        c->base_lr = 0;
    if (c->lr_floor == own_floor(c))
        c->lr_floor = -1;
    if (c->sees == own_sees(c))
        c->sees = -1;
}

/* The name it had is the one that the run's data was made under. */
static void keep_path(const config_text own, config_text given)
{
    if (strcmp(own, "-") == 0 || strcmp(given, "-") == 0)
        return;
    char *was = realpath(own, NULL), *is = realpath(given, NULL);
    if (was && is && strcmp(was, is) == 0)
        pl_copy_text(given, sizeof(config_text), own);
    free(was);
    free(is);
}

void config_keep_own(const config *own, config *c)
{
    fill_derived(c);
    keep_path(own->corpus, c->corpus);
    keep_path(own->valid, c->valid);
    keep_path(own->tokenizer, c->tokenizer);
    keep_path(own->import, c->import);
}

pl_status config_build(const char *file, const char *const *sets, int n_sets,
                       config *out)
{
    config preset;
    memset(out, 0, sizeof *out);
    pl_conf_defaults(&config_table, out);
    PL_RETURN_IF(config_lay(out, file, sets, n_sets));
    memset(&preset, 0, sizeof preset);
    pl_conf_defaults(&config_table, &preset);
    pl_copy_text(preset.preset, sizeof preset.preset, out->preset);
    PL_RETURN_IF(config_apply_preset(&preset));
    *out = preset;
    PL_RETURN_IF(config_lay(out, file, sets, n_sets));
    drop_derived(&preset, out);
    *out = preset;
    PL_RETURN_IF(config_lay(out, file, sets, n_sets));
    fill_derived(out);
    return config_check(out);
}

/* ---- checks and what follows ---- */
const char *const config_baselines[CONFIG_BASELINES] = {"dense", "diloco", "dense-eq",
                                                        "dense-batch"};

bool config_is_baseline(const char *name)
{
    for (int i = 0; i < CONFIG_BASELINES; i++)
        if (strcmp(name, config_baselines[i]) == 0)
            return true;
    return false;
}

static pl_status check_baselines(const config *c)
{
    char copy[PL_KEY_TEXT_MAX], *rest = NULL;
    pl_copy_text(copy, sizeof copy, c->baselines);
    for (char *word = strtok_r(copy, ", ", &rest); word;
         word = strtok_r(NULL, ", ", &rest)) {
        if (!config_is_baseline(word) && strcmp(word, "none") != 0)
            return pl_fail(
                PL_ERR_CONFIG,
                "eval.baselines: unknown baseline `%s`; known are dense, diloco, "
                "dense-eq, dense-batch and none",
                word);
    }
    return PL_OK;
}

bool config_wants(const config *c, const char *baseline)
{
    char copy[PL_KEY_TEXT_MAX], *rest = NULL;
    pl_copy_text(copy, sizeof copy, c->baselines);
    for (char *word = strtok_r(copy, ", ", &rest); word;
         word = strtok_r(NULL, ", ", &rest))
        if (strcmp(word, baseline) == 0)
            return true;
    return false;
}

bool config_answers_by_likelihood(const config *c, int n_paths)
{
    return pl_answers_by_likelihood(c->answer, (int)c->prefix, n_paths);
}

pl_status config_check_answer(const char *option, const char *value)
{
    config scratch;
    pl_status status =
        pl_conf_set(&config_table, &scratch, "router.answer", value, option);
    return status == PL_OK ? PL_OK
                           : pl_fail(PL_ERR_USAGE,
                                     "%s takes auto, router or likelihood, not `%.64s`",
                                     option, value);
}

int config_pass(const config *c)
{
    bool splits = c->micro_batch > 0 && c->micro_batch < c->batch;
    return (int)(splits ? c->micro_batch : c->batch);
}

pl_status config_shape(const config *c, pl_shape *out)
{
    memset(out, 0, sizeof *out);
    out->vocab = (int)c->vocab;
    out->width = (int)c->width;
    out->n_heads = (int)c->heads;
    out->n_kv_heads = (int)c->kv_heads;
    out->head_size = (int)c->head_size;
    out->ffn = (int)c->ffn;
    out->n_blocks = (int)c->blocks;
    out->context = (int)c->context;
    out->tied = c->tied;
    out->rope_theta = c->rope_theta;
    out->norm_eps = c->norm_eps;
    if (c->heads > 0 && c->head_size * c->heads != c->width && c->width % c->heads != 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "model.width %lld is not divisible by model.heads %lld; change one, or "
            "give model.head_size",
            (long long)c->width, (long long)c->heads);
    pl_status status = pl_shape_check(out);
    return status == PL_OK ? status : pl_fail_in(status, "model");
}

static int choice_of(const char *text, int level)
{
    if (strcmp(text, "private") == 0)
        return PL_CHOICE_PRIVATE;
    return strcmp(text, "level") == 0 ? level : PL_CHOICE_COMMON;
}

static pl_status parse_blocks(const char *text, pl_topology_spec *spec)
{
    char copy[PL_KEY_TEXT_MAX], *rest = NULL;
    int n = 0;
    pl_copy_text(copy, sizeof copy, text);
    for (char *word = strtok_r(copy, ", ", &rest); word;
         word = strtok_r(NULL, ", ", &rest)) {
        int64_t value = 0;
        if (pl_parse_int(word, &value) != PL_OK || value < 1 || value > PL_BLOCKS_MAX ||
            n == spec->n_levels)
            return pl_fail(
                PL_ERR_CONFIG,
                "topology.blocks `%s` must be %d numbers of blocks, one a level", text,
                spec->n_levels);
        spec->blocks[n++] = (int)value;
    }
    if (n != 0 && n != spec->n_levels)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.blocks `%s` has %d numbers for %d levels", text, n,
                       spec->n_levels);
    return PL_OK;
}

/* What modules would refuse too, in the words of the configuration. */
static pl_status check_blocks(const config *c, const pl_topology_spec *spec)
{
    int64_t sum = 0, n = spec->n_levels;
    for (int l = 0; l < spec->n_levels; l++)
        sum += spec->blocks[l];
    if (sum == 0 && c->blocks % n != 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "%lld blocks (model.blocks) do not split evenly into %lld levels "
            "(topology.levels %s); set model.blocks=%lld, or give the blocks "
            "of each level as topology.blocks",
            (long long)c->blocks, (long long)n, c->levels,
            (long long)((c->blocks + n - 1) / n * n));
    if (sum != 0 && sum != c->blocks)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.blocks %s has %lld blocks in all, but model.blocks is "
                       "%lld; make them equal",
                       c->level_blocks, (long long)sum, (long long)c->blocks);
    return PL_OK;
}

pl_status config_spec(const config *c, pl_topology_spec *out)
{
    memset(out, 0, sizeof *out);
    PL_RETURN_IF(pl_topology_parse_levels(c->levels, out));
    PL_RETURN_IF(parse_blocks(c->level_blocks, out));
    PL_RETURN_IF(check_blocks(c, out));
    PL_RETURN_IF(pl_topology_parse_private(c->private_blocks, (int)c->blocks, out));
    out->embed_choice = choice_of(c->embed, 1);
    out->head_choice = choice_of(c->head, out->n_levels);
    out->replicas = (int)c->replicas;
    return PL_OK;
}

void config_hash(const config *c, pl_hash *out)
{
    pl_buf text = {0};
    pl_conf_canonical(&config_table, c, &text);
    pl_hash_of("config", text.data, text.len, out);
    pl_buf_destroy(&text);
}

bool config_encrypts(const config *c)
{
    pl_address hub, home;
    if (strcmp(c->encrypt, "auto") != 0)
        return strcmp(c->encrypt, "on") == 0;
    return pl_address_parse(c->hub_bind, &hub) != PL_OK || !hub.is_local ||
           pl_address_parse(c->home_bind, &home) != PL_OK || !home.is_local;
}

static pl_status check_listener(const config *c, const char *key, const char *text)
{
    pl_address at;
    pl_status status = pl_address_parse(text, &at);
    if (status != PL_OK)
        return pl_fail_in(PL_ERR_CONFIG, "%s", key);
    if (!at.is_local && strcmp(c->encrypt, "off") == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "%s is %s, which other machines reach, and net.encrypt is off; "
                       "only loopback and ipc may be without encryption",
                       key, text);
    return PL_OK;
}

pl_status config_check(const config *c)
{
    pl_shape shape;
    pl_topology_spec spec;
    pl_topology *topology = NULL;
    pl_outer outer;
    PL_RETURN_IF(check_listener(c, "net.hub", c->hub_bind));
    PL_RETURN_IF(check_listener(c, "net.home", c->home_bind));
    PL_RETURN_IF(check_baselines(c));
    if (c->base_steps == 0 && !c->import[0])
        return pl_fail(PL_ERR_CONFIG,
                       "train.base_steps is 0, so the paths would part from random "
                       "numbers; give 1 or more, or a model as model.import");
    PL_RETURN_IF(pl_store_check_engine(c->engine));
    if (c->homes > 1 && c->relays > 0)
        return pl_fail(PL_ERR_CONFIG,
                       "workers.relay is %lld with %lld homes: a relay stands before "
                       "one home, so start `pathloom relay` by hand for each",
                       (long long)c->relays, (long long)c->homes);
    PL_RETURN_IF(config_outer(c, &outer));
    PL_RETURN_IF(config_shape(c, &shape));
    pl_status status = config_spec(c, &spec);
    if (status == PL_OK)
        status = pl_topology_create(&shape, &spec, &topology);
    if (status != PL_OK)
        return pl_fail_in(status, "topology");
    int n_paths = pl_topology_n_paths(topology);
    pl_topology_destroy(&topology);
    if (c->prefix >= c->context)
        return pl_fail(
            PL_ERR_CONFIG,
            "router.prefix %lld leaves nothing of model.context %lld to predict; "
            "make the context longer or the prefix shorter",
            (long long)c->prefix, (long long)c->context);
    if (c->overlap > n_paths)
        return pl_fail(PL_ERR_CONFIG, "router.overlap %lld is more than the %d paths",
                       (long long)c->overlap, n_paths);
    return PL_OK;
}
