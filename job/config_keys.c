/* The keys of a run's configuration. The reader of run.yaml, --set, `pathloom init`,
 * `pathloom explain KEY` and docs/CONFIG.md all use this table. */
#include "job/config.h"

#include <stddef.h>

#define AT(field) offsetof(config, field)
#define SECTION(name, help)                                                            \
    {                                                                                  \
        name, PL_KEY_SECTION, 0, "", 0, 0, NULL, "", help, true                        \
    }

/* The columns of a row are: name, type, offset, default, min, max, choices, unit, help,
 * local. Local keys do not change results, so a run may be resumed with different
 * values of local keys. */
static const pl_key keys[] = {
    {"preset", PL_KEY_TEXT, AT(preset), "laptop", 0, 0, NULL, "",
     "name of a preset, a set of values for the model, topology and training keys; "
     "other keys that are set override the preset; `pathloom init --list` names all "
     "presets",
     false},
    {"out", PL_KEY_TEXT, AT(out), "pathloom-run", 0, 0, NULL, "",
     "folder of the run: data, store, logs, report", true},
    {"seed", PL_KEY_INT, AT(seed), "1", 0, 9e15, NULL, "", "seed of all random numbers",
     false},

    SECTION("data", "the text to train on"),
    {"data.corpus", PL_KEY_TEXT, AT(corpus), "", 0, 0, NULL, "",
     "text to train on: a file, a folder, or - for stdin; empty: use text files that "
     "this machine already has below /usr",
     false},
    {"data.valid", PL_KEY_TEXT, AT(valid), "", 0, 0, NULL, "",
     "held-out text (a file or a folder); empty: documents are held out of the corpus "
     "by their hash",
     false},
    {"data.valid_share", PL_KEY_REAL, AT(valid_share), "0.04", 0.001, 0.5, NULL,
     "of documents", "share of the documents that is held out if data.valid is empty",
     false},
    {"data.cut", PL_KEY_INT, AT(cut), "4096", 0, 1 << 30, NULL, "bytes",
     "a single text file is cut into documents of at most this size; a cut is made at "
     "a blank line in the second half of that size if there is one, else at the end of "
     "a line; 0: never cut. In a folder, each file is one document",
     false},
    {"data.forget", PL_KEY_TEXT, AT(forget), "", 0, 0, NULL, "",
     "file with documents that no path may be trained on, one per line: the hash of "
     "the document's text (16 hex digits) and `paths`, or `start` if the base model "
     "and the router may not see it either; such a document keeps its place in the "
     "data, but is blank",
     false},
    {"data.max_bytes", PL_KEY_INT, AT(max_bytes), "0", 0, 9e15, NULL, "bytes",
     "largest amount of training text that is read; 0: read all of it, or only 12 MB "
     "if data.corpus is empty",
     false},
    {"data.tokenizer", PL_KEY_TEXT, AT(tokenizer), "", 0, 0, NULL, "",
     "SentencePiece model to load; empty: train a tokenizer on the corpus", false},
    {"data.vocab", PL_KEY_INT, AT(vocab), "2048", 300, 1000000, NULL, "pieces",
     "number of pieces of the tokenizer, and of the model's vocabulary", false},

    SECTION("model", "the shape of one path"),
    {"model.width", PL_KEY_INT, AT(width), "128", 8, 65536, NULL, "",
     "width of the residual stream", false},
    {"model.heads", PL_KEY_INT, AT(heads), "4", 1, 1024, NULL, "",
     "number of query heads", false},
    {"model.kv_heads", PL_KEY_INT, AT(kv_heads), "0", 0, 1024, NULL, "",
     "number of key/value heads; 0: as many as query heads", false},
    {"model.head_size", PL_KEY_INT, AT(head_size), "0", 0, 1024, NULL, "",
     "width of a head; 0: model.width / model.heads", false},
    {"model.ffn", PL_KEY_INT, AT(ffn), "0", 0, 1000000, NULL, "",
     "inner width of SwiGLU; 0: 8/3 of model.width, rounded up to a multiple of 8",
     false},
    {"model.blocks", PL_KEY_INT, AT(blocks), "4", 1, 256, NULL, "",
     "number of transformer blocks of a whole path", false},
    {"model.context", PL_KEY_INT, AT(context), "128", 8, 1000000, NULL, "tokens",
     "largest number of tokens of a sequence", false},
    {"model.tied", PL_KEY_BOOL, AT(tied), "true", 0, 0, NULL, "",
     "use the embedding also as the output matrix", false},
    {"model.qk_norm", PL_KEY_BOOL, AT(qk_norm), "false", 0, 0, NULL, "",
     "apply RMSNorm with learned gains to each head of queries and keys (QK norm, as "
     "in "
     "Qwen3); paths are then exported as Qwen3 models instead of Llama models",
     false},
    {"model.rope_theta", PL_KEY_REAL, AT(rope_theta), "10000", 1, 1e9, NULL, "",
     "base of the wavelengths of the rotary position embedding (RoPE)", false},
    {"model.norm_eps", PL_KEY_REAL, AT(norm_eps), "1e-5", 1e-12, 1e-1, NULL, "",
     "epsilon of RMSNorm, which is added to the mean square", false},
    {"model.import", PL_KEY_TEXT, AT(import), "", 0, 0, NULL, "",
     "Llama or Qwen3 model in safetensors from which the base model starts (`pathloom "
     "import`); empty: start from random numbers",
     false},
    {"model.chat", PL_KEY_CHOICE, AT(chat), "auto", 0, 0,
     "auto|none|chatml|llama2|plain", "",
     "template with which `serve` makes a prompt from a conversation "
     "(/v1/chat/completions); chatml: the template of ChatML; llama2: that of Llama 2; "
     "plain: lines `role: text`; none: `serve` refuses conversations; auto: the "
     "template of the model in model.import, or none if it is empty or has none",
     true},

    SECTION("topology", "how paths are made of modules"),
    {"topology.levels", PL_KEY_TEXT, AT(levels), "2x2", 0, 0, NULL, "modules per level",
     "number of modules of each level: 2x2 means two levels of two modules, which make "
     "four paths; 1 is one dense model",
     false},
    {"topology.split", PL_KEY_TEXT, AT(split), "", 0, 0, NULL,
     "phase:modules per level",
     "phases after which each module is split into several: 4:4x4 means 4x4 modules "
     "from phase 4 on; each new module begins as a copy of the module that was split, "
     "and the documents of each path are dealt to the paths that descend from it; a "
     "finished run can be lengthened and split: `train --out RUN --set train.phases=+4 "
     "--set topology.split=6:4x4`",
     false},
    {"topology.graft", PL_KEY_TEXT, AT(graft), "", 0, 0, NULL, "phase:change",
     "phases after which modules or paths are dropped or added: 4:drop:L2.E1 drops all "
     "paths through a module, and their documents go to the remaining paths; "
     "4:drop:p01 drops one path; 4:copy:L1.E0 adds to level 1 a copy of a module; "
     "4:cut:L1:2 makes the first 2 blocks of level 1 a separate level; + separates "
     "several names; a finished run can be lengthened and changed: `train --out RUN "
     "--set train.phases=+4 --set topology.graft=6:drop:L2.E1`",
     false},
    {"topology.blocks", PL_KEY_TEXT, AT(level_blocks), "", 0, 0, NULL, "",
     "number of blocks of each level, for example 2,2; empty: all levels have the same "
     "number",
     false},
    {"topology.private", PL_KEY_TEXT, AT(private_blocks), "", 0, 0, NULL, "",
     "numbers (from 0) of the path-specific blocks, for example 0,5,6,11", false},
    {"topology.embed", PL_KEY_CHOICE, AT(embed), "common", 0, 0, "common|private|level",
     "",
     "which paths share an embedding; common: all paths; level: the paths of one "
     "module of the first level; private: none, each path has its own",
     false},
    {"topology.head", PL_KEY_CHOICE, AT(head), "common", 0, 0, "common|private|level",
     "",
     "which paths share a final norm and an output matrix; common: all paths; level: "
     "the paths of one module of the last level; private: none, each path has its own",
     false},
    {"topology.replicas", PL_KEY_INT, AT(replicas), "1", 1, 1024, NULL, "",
     "number of replicas of each path: they train the same path on different samples, "
     "and their updates are averaged",
     false},

    SECTION("train", "inner training on workers"),
    {"train.optimizer", PL_KEY_CHOICE, AT(optimizer), "adamw", 0, 0, "adamw|muon", "",
     "optimizer of the inner steps; adamw: AdamW for all parameters; muon: Muon for "
     "the matrices of the blocks, and AdamW for embedding, head and norms; Muon needs "
     "fewer tokens for the same quality and has a smaller state, but its steps take "
     "more time",
     false},
    {"train.muon_rows", PL_KEY_INT, AT(muon_rows), "64", 0, 1000000, NULL, "rows",
     "with muon: a matrix is divided into parts of this many rows, and each part gets "
     "its own Muon step; smaller parts take less time; 0: whole matrices",
     false},
    {"train.batch", PL_KEY_INT, AT(batch), "8", 1, 65536, NULL, "sequences",
     "number of sequences of an inner step", false},
    {"train.micro_batch", PL_KEY_INT, AT(micro_batch), "0", 0, 65536, NULL, "sequences",
     "number of sequences that a worker computes in one pass; the gradients of all "
     "passes over a batch are added up; fewer sequences need less memory; 0: the whole "
     "batch in one pass",
     false},
    {"train.tau", PL_KEY_INT, AT(tau), "50", 1, 1000000, NULL, "steps",
     "number of inner steps in a phase: a path trains this many steps alone before its "
     "modules are merged",
     false},
    {"train.phases", PL_KEY_INT, AT(phases), "6", 1, 1000000, NULL, "",
     "number of phases of each path", false},
    {"train.more", PL_KEY_TEXT, AT(more), "", 0, 0, NULL, "phases",
     "numbers of further phases of the mixture after train.phases, such as 8,4: each "
     "number makes a chapter with its own warm-up and decay, on the same shards; a "
     "finished run can be lengthened with `train --out RUN --set train.phases=+8`",
     false},
    {"train.freeze", PL_KEY_TEXT, AT(freeze), "", 0, 0, NULL, "phase:modules",
     "modules of the mixture that are frozen (get no new versions): "
     "embed,4:L1,4:head.E0 freezes embed from the beginning, and all modules of level "
     "1 and head.E0 from phase 4 on; modules that descend from them by topology.split "
     "are frozen, too; 6:none freezes no module from phase 6 on; when a finished run "
     "is lengthened, more can be frozen: `train --out RUN --set train.phases=+4 --set "
     "train.freeze=6:embed`",
     false},
    {"train.base_steps", PL_KEY_INT, AT(base_steps), "1200", 0, 1e9, NULL, "steps",
     "number of inner steps of the base model, from which all paths start; 0 is "
     "allowed only with model.import",
     false},
    {"train.base_replicas", PL_KEY_INT, AT(base_replicas), "1", 1, 1024, NULL,
     "replicas",
     "number of replicas of the base model that are trained at the same time: each "
     "does an equal part of train.base_steps, and their parameters are averaged every "
     "train.tau steps",
     false},
    {"train.base_threads", PL_KEY_INT, AT(base_threads), "0", 0, PL_TASK_THREADS_MAX,
     NULL, "threads",
     "number of threads with which a worker trains the base model on a CPU; usually "
     "only one worker has something to do then; 0: as workers.threads; a different "
     "number can change the order of sums",
     false},
    {"train.schedule", PL_KEY_CHOICE, AT(schedule), "wsd", 0, 0, "cosine|wsd", "",
     "schedule of the learning rate; cosine: the base model and each arm have their "
     "own warm-up and decay; wsd: one warm-up, then a constant rate through the base "
     "model and into the arms that start from it, and a decay at the end of each of "
     "these arms (train.decay), which continue with the base model's moments",
     false},
    {"train.decay", PL_KEY_REAL, AT(decay_share), "0.4", 0, 1, NULL,
     "of an arm's steps",
     "with wsd: share of an arm's steps, at its end, in which the learning rate falls "
     "linearly to train.lr_floor",
     false},
    {"train.lr", PL_KEY_REAL, AT(lr), "2e-3", 1e-8, 1, NULL, "",
     "peak learning rate; muon needs about twice the rate of adamw", false},
    {"train.base_lr", PL_KEY_REAL, AT(base_lr), "0", 0, 1, NULL, "",
     "peak learning rate of the base model; 0: train.lr", false},
    {"train.warmup", PL_KEY_INT, AT(warmup), "20", 0, 1e9, NULL, "steps",
     "number of steps of the linear warm-up", false},
    {"train.base_warmup", PL_KEY_INT, AT(base_warmup), "40", 0, 1e9, NULL, "steps",
     "number of steps of the base model's linear warm-up", false},
    {"train.lr_floor", PL_KEY_REAL, AT(lr_floor), "-1", -1, 1, NULL, "of the peak",
     "learning rate at the end of the schedule, as a share of the peak; -1: 0.1 for "
     "cosine, 0 for wsd",
     false},
    {"train.beta1", PL_KEY_REAL, AT(beta1), "0.9", 0, 0.9999, NULL, "",
     "beta1 of AdamW (decay of the first moment)", false},
    {"train.beta2", PL_KEY_REAL, AT(beta2), "0.95", 0, 0.99999, NULL, "",
     "beta2 of AdamW (decay of the second moment)", false},
    {"train.eps", PL_KEY_REAL, AT(adam_eps), "1e-8", 1e-16, 1, NULL, "",
     "epsilon of AdamW", false},
    {"train.weight_decay", PL_KEY_REAL, AT(weight_decay), "0.1", 0, 10, NULL, "",
     "weight decay, applied to matrices only", false},
    {"train.clip", PL_KEY_REAL, AT(clip), "1", 0, 1e6, NULL, "",
     "gradient clipping: largest global norm of the gradient; 0: off", false},
    {"train.state", PL_KEY_CHOICE, AT(state), "f32", 0, 0, "f32|bf16|local", "",
     "how the optimizer's moments are kept between phases; f32: exactly; bf16: "
     "rounded; local: only in the memory of the worker, so a path that moves to "
     "another worker starts with new moments, and the result depends on such moves",
     false},
    {"train.state_every", PL_KEY_INT, AT(state_every), "1", 1, 1000000, NULL, "phases",
     "how often the state of a path (the optimizer's moments and what a lossy codec "
     "left out) is uploaded: after every so many phases and after the last one; a "
     "worker that takes a path from another worker repeats the phases since the last "
     "upload, so the results are the same with every value; more than 1 saves most of "
     "the bytes on slow links and needs room for the states in the workers' cache "
     "folders; an arm keeps the value with which it began",
     true},
    {"train.holdout", PL_KEY_REAL, AT(holdout), "0", 0, 0.5, NULL, "of the documents",
     "share of the training documents that no arm trains on; when the mixture has "
     "ended, the version of each path that predicts these documents of its shard best "
     "gets a tag, and `--select best` uses it instead of the newest version; 0: train "
     "on all documents",
     false},
    {"train.skip_prefix", PL_KEY_BOOL, AT(skip_prefix), "false", 0, 0, NULL, "",
     "leave the first router.prefix tokens of a document out of the training loss",
     false},
    {"train.pack", PL_KEY_BOOL, AT(pack), "false", 0, 0, NULL, "",
     "put the short windows at the ends of several documents into one row of a batch; "
     "attention and positions stay within each document, and fewer rows need padding",
     false},

    SECTION("router", "which path a document takes"),
    {"router.kind", PL_KEY_CHOICE, AT(router_kind), "kmeans", 0, 0, "kmeans|product",
     "",
     "how training documents are dealt to paths; kmeans: k-means with one centroid per "
     "path; product: a separate k-means per level",
     false},
    {"router.prefix", PL_KEY_INT, AT(prefix), "32", 1, 100000, NULL, "tokens",
     "number of first tokens of a document that choose its path; they are excluded "
     "from perplexity",
     false},
    {"router.sees", PL_KEY_INT, AT(sees), "-1", -1, 1000000, NULL, "windows",
     "number of windows of model.context tokens, spread evenly over a training "
     "document, whose features choose its path; 0: only the first router.prefix "
     "tokens, as for new text; -1: 4 in a new run that answers by likelihood "
     "(router.answer), else 0",
     false},
    {"router.feature_docs", PL_KEY_INT, AT(feature_docs), "0", 0, 1e8, NULL,
     "documents",
     "number of training documents per task when the workers compute the features (a "
     "corpus has at most 1024 such tasks); 0: as many as have 8 MiB of features; if "
     "all "
     "documents fit into one task, the launcher computes the features",
     false},
    {"router.overlap", PL_KEY_INT, AT(overlap), "1", 1, 64, NULL, "shards",
     "number of shards that get each training document: the shards with the nearest "
     "centroids",
     false},
    {"router.restarts", PL_KEY_INT, AT(restarts), "8", 1, 1000, NULL, "",
     "number of restarts of k-means++; the best clustering is kept", false},
    {"router.iterations", PL_KEY_INT, AT(iterations), "100", 1, 100000, NULL, "",
     "largest number of iterations of k-means", false},
    {"router.balance", PL_KEY_REAL, AT(balance), "0.1", 0, 1000, NULL, "",
     "a shard has at most (1 + balance) times the mean number of tokens per shard, "
     "unless one document, or several documents with the same beginning, have more; 0: "
     "no limit",
     false},
    {"router.standardize", PL_KEY_BOOL, AT(standardize), "true", 0, 0, NULL, "",
     "first transform of the features: divide each feature by its standard deviation",
     false},
    {"router.components", PL_KEY_INT, AT(components), "20", 0, 65536, NULL, "",
     "second transform of the features: keep this many principal components, each "
     "scaled to variance 1; 0: keep all features",
     false},
    {"router.sharpen", PL_KEY_INT, AT(sharpen), "3", 0, 64, NULL, "rounds",
     "third transform of the features: number of rounds that rotate the components "
     "towards directions that separate the clusters; 0: none",
     false},
    {"router.unit", PL_KEY_BOOL, AT(unit), "true", 0, 0, NULL, "",
     "last transform of the features: scale the features of each document to length 1",
     false},
    {"router.answer", PL_KEY_CHOICE, AT(answer), "auto", 0, 0, "auto|router|likelihood",
     "",
     "how a prompt (generate, serve), or the first router.prefix tokens of a held-out "
     "document (eval), choose the path; router: the path whose training documents have "
     "the most similar counts of tokens and pairs of tokens; likelihood: the path that "
     "gives the text the highest likelihood (every path reads the first router.prefix "
     "tokens, and the router's counts judge the later ones); auto: likelihood in a run "
     "of at most 16 paths, else router",
     true},
    {"router.em", PL_KEY_TEXT, AT(em), "", 0, 0, NULL, "phases",
     "phases after which the training documents are dealt to the paths again, such as "
     "2,4: every path scores the documents that router.share set aside, a linear "
     "router learns from the scores which path predicts a document best, and training "
     "continues with the shards that this router makes; empty: never",
     false},
    {"router.share", PL_KEY_REAL, AT(share), "0.05", 0.0001, 0.5, NULL,
     "of the documents",
     "with router.em: share of the training documents that are set aside to be scored; "
     "no arm trains on them, so that their likelihoods show which path is best for "
     "such documents",
     false},
    {"router.temperature", PL_KEY_REAL, AT(temperature), "0", 0, 1e6, NULL, "nats",
     "with router.em: how the linear router is fitted to the scored documents; 0: each "
     "document belongs to its best path; above 0: it belongs to all paths, in "
     "proportion to exp(log likelihood / temperature)",
     false},
    {"router.decay", PL_KEY_REAL, AT(fit_decay), "0.01", 0, 1000, NULL, "",
     "with router.em: weight decay of the linear router", false},

    SECTION("outer", "how updates are merged into versions"),
    {"outer.method", PL_KEY_TEXT, AT(method), "diloco", 0, 0, NULL, "",
     "outer method: diloco, fedavg, heavy-ball, noloco, co2, streaming, eager, "
     "delayed-nesterov or iso",
     false},
    {"outer.lr", PL_KEY_REAL, AT(outer_lr), "-1", -1, 100, NULL, "",
     "outer learning rate; -1: the default of the method (diloco: 0.7)", false},
    {"outer.momentum", PL_KEY_REAL, AT(outer_momentum), "-1", -1, 0.9999, NULL, "",
     "outer momentum; 0: plain SGD; -1: the default of the method (diloco: 0.9)",
     false},
    {"outer.rule", PL_KEY_CHOICE, AT(rule), "auto", 0, 0, "auto|nesterov|heavy-ball",
     "",
     "noloco and eager: kind of outer momentum; auto: heavy-ball for noloco, nesterov "
     "for eager",
     false},
    {"outer.consensus", PL_KEY_REAL, AT(consensus), "-1", -1, 100, NULL, "",
     "noloco: size of the step with which two mates move towards each other; -1: equal "
     "to outer.lr; with another value, mates must send two vectors instead of one",
     false},
    {"outer.deadline_s", PL_KEY_REAL, AT(deadline_s), "0", 0, 86400, NULL, "s",
     "noloco: how long a path waits for its mate before both continue alone; with "
     "outer.quorum: how long a round that has its quorum waits for the other updates; "
     "above 0, results depend on timing; 0: noloco waits without limit, a quorum does "
     "not wait",
     false},
    {"outer.quorum", PL_KEY_REAL, AT(quorum), "1", 0.01, 1, NULL, "",
     "diloco, iso, fedavg, heavy-ball: share of a module's contributors whose updates "
     "a round needs; with a value below 1, a round is merged without the other "
     "updates, and results depend on timing",
     false},
    {"outer.late_weight", PL_KEY_REAL, AT(late_weight), "0", 0, 1, NULL, "",
     "factor for the weight of an update that arrives after its round was merged with "
     "a quorum, applied once per round of delay; 0: late updates are dropped",
     false},
    {"outer.delay", PL_KEY_INT, AT(delay), "1", 0, 16, NULL, "phases",
     "co2: number of phases after which an update is used, so that it can be sent "
     "while "
     "training continues",
     false},
    {"outer.gap", PL_KEY_CHOICE, AT(gap), "norm", 0, 0, "none|norm|constant", "",
     "co2: divisor of late updates; none: 1; norm: 1 + length of the previous outer "
     "step / norm of the update; constant: outer.gap_constant",
     false},
    {"outer.gap_constant", PL_KEY_REAL, AT(gap_constant), "1", 1, 1e6, NULL, "",
     "co2: the divisor if outer.gap is constant", false},
    {"outer.clip", PL_KEY_REAL, AT(outer_clip), "0", 0, 1e6, NULL, "",
     "co2: largest absolute value of an element of the outer momentum; 0: no limit",
     false},
    {"outer.fragments", PL_KEY_INT, AT(fragments), "2", 1, 256, NULL, "",
     "streaming: number of fragments of a path, which are sent at different times; "
     "train.tau must be a multiple of this number",
     false},
    {"outer.overlap", PL_KEY_INT, AT(outer_overlap), "5", 0, 1000000, NULL, "steps",
     "streaming: number of inner steps between sending a fragment and mixing the next "
     "version of this fragment into the path",
     false},
    {"outer.mix", PL_KEY_REAL, AT(mix), "0.5", 0, 1, NULL, "",
     "streaming: weight of the path's own parameters when the next version of a "
     "fragment is mixed into the path",
     false},
    {"outer.own", PL_KEY_CHOICE, AT(own), "f32", 0, 0, "f32|f24|bf16", "",
     "streaming: how the path's own parameters are kept between phases; f32: exactly; "
     "f24: rounded to 3 bytes; bf16: rounded to 2 bytes, which loses steps at low "
     "learning rates",
     false},
    {"outer.buffer", PL_KEY_INT, AT(buffer), "4", 1, 65536, NULL, "arrivals",
     "delayed-nesterov: number of updates that arrive per momentum step", false},
    {"outer.spread", PL_KEY_REAL, AT(spread), "0", 0, 1, NULL, "",
     "delayed-nesterov: share of the momentum that is applied with each arriving "
     "update; at most 1 / outer.buffer",
     false},
    {"outer.staleness", PL_KEY_INT, AT(staleness), "1", 0, 1000, NULL, "phases",
     "delayed-nesterov: largest number of phases by which a path may be ahead of the "
     "slowest path",
     false},
    {"outer.dynamic_steps", PL_KEY_BOOL, AT(dynamic_steps), "false", 0, 0, NULL, "",
     "delayed-nesterov: slower workers do fewer inner steps in a phase", false},
    {"outer.decay", PL_KEY_CHOICE, AT(decay), "constant", 0, 0,
     "constant|cosine|linear", "", "schedule of outer.lr over the phases", false},
    {"outer.warmup", PL_KEY_INT, AT(outer_warmup), "0", 0, 1000000, NULL, "phases",
     "number of phases in which outer.lr rises linearly at the beginning", false},
    {"outer.floor", PL_KEY_REAL, AT(outer_floor), "0.1", 0, 1, NULL, "of outer.lr",
     "outer.lr at the end of its decay, as a share of outer.lr", false},
    {"outer.settle", PL_KEY_BOOL, AT(settle), "true", 0, 0, NULL, "",
     "diloco, iso, heavy-ball and streaming: while the inner learning rate decays "
     "(train.schedule=wsd), the outer step is the plain mean of the updates, without "
     "momentum; only with outer.decay=constant",
     false},
    {"outer.curvature", PL_KEY_REAL, AT(curvature), "1", 1e-6, 1e6, NULL, "",
     "before the run starts, Pathloom checks that outer.lr and outer.momentum are "
     "stable up to this curvature; 1 means that each phase reaches its optimum",
     false},
    {"outer.lr_embed", PL_KEY_REAL, AT(lr_of[PL_CLASS_EMBED]), "-1", -1, 100, NULL, "",
     "outer learning rate of shared embeddings; -1: outer.lr", false},
    {"outer.lr_head", PL_KEY_REAL, AT(lr_of[PL_CLASS_HEAD]), "-1", -1, 100, NULL, "",
     "outer learning rate of shared heads (final norm and output matrix); -1: outer.lr",
     false},
    {"outer.lr_common", PL_KEY_REAL, AT(lr_of[PL_CLASS_COMMON]), "-1", -1, 100, NULL,
     "", "outer learning rate of blocks that all paths share; -1: outer.lr", false},
    {"outer.lr_level", PL_KEY_REAL, AT(lr_of[PL_CLASS_LEVEL]), "-1", -1, 100, NULL, "",
     "outer learning rate of blocks of a level; -1: outer.lr", false},
    {"outer.lr_private", PL_KEY_REAL, AT(lr_of[PL_CLASS_PRIVATE]), "1", -1, 100, NULL,
     "", "outer learning rate of modules that only one path uses; -1: outer.lr", false},
    {"outer.momentum_embed", PL_KEY_REAL, AT(momentum_of[PL_CLASS_EMBED]), "-1", -1,
     0.9999, NULL, "", "outer momentum of shared embeddings; -1: outer.momentum",
     false},
    {"outer.momentum_head", PL_KEY_REAL, AT(momentum_of[PL_CLASS_HEAD]), "-1", -1,
     0.9999, NULL, "",
     "outer momentum of shared heads (final norm and output matrix); -1: "
     "outer.momentum",
     false},
    {"outer.momentum_common", PL_KEY_REAL, AT(momentum_of[PL_CLASS_COMMON]), "-1", -1,
     0.9999, NULL, "",
     "outer momentum of blocks that all paths share; -1: outer.momentum", false},
    {"outer.momentum_level", PL_KEY_REAL, AT(momentum_of[PL_CLASS_LEVEL]), "-1", -1,
     0.9999, NULL, "", "outer momentum of blocks of a level; -1: outer.momentum",
     false},
    {"outer.momentum_private", PL_KEY_REAL, AT(momentum_of[PL_CLASS_PRIVATE]), "0", -1,
     0.9999, NULL, "",
     "outer momentum of modules that only one path uses; -1: outer.momentum", false},
    {"outer.weighting", PL_KEY_CHOICE, AT(weighting), "tokens", 0, 0, "tokens|uniform",
     "",
     "weights of a module's contributors: in proportion to the tokens of their shards "
     "(tokens), or equal (uniform)",
     false},
    {"outer.mean", PL_KEY_CHOICE, AT(mean), "all", 0, 0, "all|present", "",
     "all: the mean of each parameter is over all contributors of the module; present: "
     "only over those whose update of this parameter is not 0 (for topk, with "
     "outer.method=fedavg)",
     false},
    {"outer.rescale", PL_KEY_BOOL, AT(rescale), "false", 0, 0, NULL, "",
     "multiply the mean update by the square root of the number of contributors",
     false},
    {"codec.name", PL_KEY_TEXT, AT(codec), "f32", 0, 0, NULL, "",
     "encoding of updates: f32, bf16, i8, i4, topk, i8-shared, sketch16 or tagc; small "
     "tensors are always sent as f32",
     false},
    {"codec.attention", PL_KEY_TEXT, AT(codec_attention), "", 0, 0, NULL, "",
     "encoding of updates of the attention matrices; empty: codec.name", false},
    {"codec.mlp", PL_KEY_TEXT, AT(codec_mlp), "", 0, 0, NULL, "",
     "encoding of updates of the SwiGLU matrices; empty: codec.name", false},
    {"codec.embed", PL_KEY_TEXT, AT(codec_embed), "", 0, 0, NULL, "",
     "encoding of updates of the embedding; empty: codec.name", false},
    {"codec.head", PL_KEY_TEXT, AT(codec_head), "", 0, 0, NULL, "",
     "encoding of updates of the output matrix; empty: codec.name", false},
    {"codec.down", PL_KEY_CHOICE, AT(codec_down), "f32", 0, 0, "f32|bf16|i8|i4", "",
     "encoding of the change from one merged version to the next, which is sent to "
     "workers that have the older version",
     false},
    {"codec.k", PL_KEY_INT, AT(codec_k), "0", 0, 4096, NULL, "of 4096",
     "number of values of each 4096 that topk, sketch16 and tagc keep; 0: the default "
     "of the encoding (tagc 819, others 64)",
     false},
    {"codec.value_bits", PL_KEY_INT, AT(value_bits), "8", 2, 8, NULL, "bits",
     "topk: bits per kept value; 8 or 2", false},
    {"codec.entropy", PL_KEY_BOOL, AT(entropy), "true", 0, 0, NULL, "",
     "use entropy coding where it saves at least 3 %", false},
    {"codec.feedback", PL_KEY_CHOICE, AT(feedback), "auto", 0, 0, "auto|on|off", "",
     "error feedback: add to the next update what the encoding left out of this one; "
     "auto: on for i4, topk, i8-shared and sketch16",
     false},
    {"codec.residual", PL_KEY_CHOICE, AT(residual), "f32", 0, 0, "f32|bf16|i8", "",
     "how the residual (what the encoding left out) is kept between phases; f32: "
     "exactly; bf16: rounded to 2 bytes; i8: rounded to 1 byte",
     false},
    {"codec.beta", PL_KEY_REAL, AT(ef_beta), "-1", -1, 1, NULL, "",
     "share of the residual that is added to the next update; -1: the default of the "
     "encoding (topk 0.95, others 1)",
     false},
    {"codec.cells", PL_KEY_REAL, AT(cells), "1.3", 1.05, 16, NULL, "per kept value",
     "sketch16: number of cells of the sketch", false},

    SECTION("eval", "evaluation, and baselines for comparison with the mixture"),
    {"eval.baselines", PL_KEY_TEXT, AT(baselines), "dense,diloco,dense-eq,dense-batch",
     0, 0, NULL, "",
     "models that are trained for comparison with the mixture, or none; dense: one "
     "machine, as many steps as one path; diloco: as many replicas of one model as "
     "there are paths; dense-eq: one machine, as many steps as all paths together; "
     "dense-batch: as many steps as one path, each with a batch as large as the "
     "batches of all paths together",
     false},
    {"eval.batch_lr", PL_KEY_REAL, AT(batch_lr), "0", 0, 1, NULL, "",
     "learning rate of dense-batch; 0: train.lr times the square root of the number of "
     "paths",
     false},
    {"eval.max_tokens", PL_KEY_INT, AT(eval_tokens), "0", 0, 9e15, NULL, "tokens",
     "largest number of held-out tokens that are scored; 0: all", true},
    {"eval.sample_tokens", PL_KEY_INT, AT(sample_tokens), "32", 0, 4096, NULL, "tokens",
     "number of tokens of the sample that the final report prints for each path", true},
    {"eval.curves", PL_KEY_REAL, AT(curves), "0.04", 0, 100, NULL,
     "of the trained sequences",
     "how many sequences of held-out text workers score for the held-out curve of each "
     "arm, as a share of the sequences that they train on; a scored sequence costs "
     "about a third of a trained one; even a short arm scores up to 16 sequences, and "
     "documents are scored only as a whole; does not change an arm that has begun; 0: "
     "no curves",
     true},
    {"eval.tensorboard", PL_KEY_BOOL, AT(tensorboard), "false", 0, 0, NULL, "",
     "write the curves of every arm, path and worker as TensorBoard event files to "
     "RUN/tensorboard",
     true},

    SECTION("workers", "the processes that train"),
    {"workers.count", PL_KEY_INT, AT(workers), "0", 0, 128, NULL, "processes",
     "number of workers that `train` starts; 0: one per GPU, or one per processor if "
     "they do not train on GPUs, but no workers with net.attach",
     true},
    {"workers.local", PL_KEY_BOOL, AT(local_workers), "true", 0, 0, NULL, "",
     "start workers on this machine; false: workers are started elsewhere (`pathloom "
     "worker --run`, `pathloom join`, Slurm)",
     true},
    {"workers.relay", PL_KEY_INT, AT(relays), "0", 0, 16, NULL, "processes",
     "number of relays between workers and home; they add up updates whose encoding is "
     "homomorphic",
     true},
    {"workers.threads", PL_KEY_INT, AT(threads), "1", 1, 256, NULL, "threads",
     "number of threads of each worker", false},
    {"workers.backend", PL_KEY_CHOICE, AT(backend), "auto", 0, 0, "auto|ref|cpu|cuda",
     "",
     "code with which workers compute; auto: each worker uses cuda if its machine has "
     "a working GPU and the precision is auto, bf16 or fp8, else cpu; the worker's log "
     "and every version name the device",
     false},
    {"workers.precision", PL_KEY_CHOICE, AT(precision), "auto", 0, 0,
     "auto|f32|bf16|f16|fp8", "",
     "precision of activations and matrix products (sums and parameters are always "
     "fp32); f16: only with cpu, and only matrix products; fp8: only with cuda, and "
     "only matrix products of the forward pass; its quality is not measured yet",
     false},
    {"workers.recompute", PL_KEY_BOOL, AT(recompute), "false", 0, 0, NULL, "",
     "compute activations again in the backward pass: this takes a third more "
     "arithmetic and far less memory, and the result has the same bytes",
     true},
    {"workers.cache", PL_KEY_INT, AT(worker_cache), "512M", 0, 9e15, NULL, "bytes",
     "memory of each worker for modules and optimizer states that its next tasks may "
     "need",
     true},
    {"workers.ttl_ms", PL_KEY_INT, AT(ttl_ms), "2000", 100, 3600000, NULL, "ms",
     "a lease that was not renewed for this long expires, and its task is given to "
     "another worker",
     true},
    {"workers.patience_s", PL_KEY_INT, AT(patience_s), "60", 1, 86400, NULL, "s",
     "how long a worker waits for a hub or home that does not answer; a worker of a "
     "job "
     "on another machine waits for a day (86400) unless an option says otherwise",
     true},

    SECTION("fleet",
            "audits and backup tasks, for workers that are slow or not trusted"),
    {"fleet.audit", PL_KEY_REAL, AT(audit), "0", 0, 1, NULL, "",
     "share of tasks that a second worker repeats, to compare the results; a worker "
     "whose result differs from the results of two others is shut out; not with "
     "noloco, eager and delayed-nesterov, nor with outer.quorum below 1",
     true},
    {"fleet.audit_tolerance", PL_KEY_REAL, AT(audit_tolerance), "0.25", 0, 1, NULL, "",
     "largest difference (1 - cosine, or 1 - shorter / longer) in any module at which "
     "updates from different kinds of devices still count as equal; an audit between "
     "different kinds does not detect a smaller falsification; for phases far beyond "
     "300 steps, or fp8, measure the difference first; 0: compare only devices of the "
     "same kind, by hash",
     true},
    {"fleet.backup", PL_KEY_CHOICE, AT(backup), "auto", 0, 0, "off|auto|any", "",
     "backup tasks: an idle worker repeats the task of a slow worker, and the first "
     "result counts; auto: only on the same kind of device, so that the bytes are "
     "equal, but on any kind if the slow worker came by `pathloom join` and has not "
     "delivered a task yet; any: on any kind; not with noloco and delayed-nesterov",
     true},

    SECTION("store", "contents and place of the store"),
    {"store.homes", PL_KEY_INT, AT(homes), "1", 1, PL_HOMES_MAX, NULL, "processes",
     "number of homes, which share the modules; each has its own store; later only "
     "`pathloom homes set` changes it",
     true},
    {"store.engine", PL_KEY_TEXT, AT(engine), "rocksdb", 0, 0, NULL, "",
     "where parameters are stored: rocksdb (in the run's folder), "
     "rados://POOL/NAMESPACE or s3://BUCKET/PREFIX?endpoint=URL (docs/ENGINES.md); "
     "fixed when a run begins",
     true},
    {"store.keep_updates", PL_KEY_BOOL, AT(keep_updates), "false", 0, 0, NULL, "",
     "keep every merged update, so that `pathloom store verify` can compute versions "
     "again; to verify versions before the newest, set store.keep_momentum, too",
     true},
    {"store.keep_momentum", PL_KEY_BOOL, AT(keep_momentum), "false", 0, 0, NULL, "",
     "keep the outer momentum of old versions", true},
    {"store.keep_states", PL_KEY_BOOL, AT(keep_states), "false", 0, 0, NULL, "",
     "keep the state of every path after each of its phases, so that `pathloom forget` "
     "repeats only the phases that a document changed (this also needs "
     "store.keep_updates and store.keep_momentum); each phase takes twice the size of "
     "a path's parameters",
     true},
    {"store.compress", PL_KEY_CHOICE, AT(compress), "auto", 0, 0, "auto|off", "",
     "auto: compress old versions while the home has nothing else to do", true},
    {"store.norm_gate", PL_KEY_REAL, AT(norm_gate), "10", 0, 1e6, NULL, "",
     "refuse an update whose norm is more than this many times the usual norm of "
     "updates of its module and also more than a tenth of the norm of the module's "
     "parameters; 0: refuse none",
     true},
    {"store.staging", PL_KEY_INT, AT(staging), "4G", 1048576, 9e15, NULL, "bytes",
     "memory of a home for uploads that are not complete yet", true},
    {"store.quota", PL_KEY_INT, AT(quota), "0", 0, 9e15, NULL, "bytes",
     "largest size of what a home stores (the sum of `store du`); a home at this limit "
     "drops old versions that no tag and no task needs; if that is not enough, the job "
     "stops until it is started with a larger quota; train.holdout can choose only "
     "from versions that were not dropped; 0: no limit",
     true},

    SECTION("net", "addresses at which processes listen; messages between machines are "
                   "encrypted"),
    {"net.hub", PL_KEY_TEXT, AT(hub_bind), "ipc://*", 0, 0, NULL, "",
     "address at which the hub listens; ipc://*: a socket in RUN/proc/ipc, which only "
     "the user who starts the job can enter; tcp://HOST:PORT: host 0.0.0.0 means all "
     "interfaces, and port * means any free port",
     true},
    {"net.home", PL_KEY_TEXT, AT(home_bind), "ipc://*", 0, 0, NULL, "",
     "address at which the home listens, in the same form as net.hub", true},
    {"net.advertise", PL_KEY_TEXT, AT(advertise), "", 0, 0, NULL, "",
     "host name or address by which other machines reach this machine; empty: this "
     "machine's first address",
     true},
    {"net.encrypt", PL_KEY_CHOICE, AT(encrypt), "auto", 0, 0, "auto|on|off", "",
     "encrypt messages; auto: only if other machines can reach the address of net.hub "
     "or net.home",
     true},
    {"net.metrics", PL_KEY_TEXT, AT(metrics), "", 0, 0, NULL, "",
     "HOST:PORT where the hub serves Prometheus metrics at /metrics; empty: nowhere",
     true},
    {"net.attach", PL_KEY_BOOL, AT(attach), "false", 0, 0, NULL, "",
     "true: the hub and home of this run are started by hand (`pathloom home --run`, "
     "`pathloom hub --run`), so `train` does not start them",
     true},
};

const pl_table config_table = {keys, sizeof keys / sizeof *keys};
