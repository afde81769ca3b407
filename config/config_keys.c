/* The keys of a run's configuration. The reader of run.yaml, --set, `pathloom init`,
 * `pathloom explain KEY` and docs/CONFIG.md all use this table. */
#include "config/settings.h"

/* One macro per type of key. The columns are: name, field of `config`, default, then
 * the range and unit or the choices, GLOBAL or LOCAL, and the description. Local keys
 * do not change results, so a run may be resumed with different values of them. */
enum { GLOBAL = false, LOCAL = true };
#define AT(field) offsetof(config, field)
#define SECTION(name, help)                                                            \
    {                                                                                  \
        name, PL_KEY_SECTION, 0, "", 0, 0, NULL, "", help, true                        \
    }
#define TEXT(name, field, initial, unit, local, help)                                  \
    {                                                                                  \
        name, PL_KEY_TEXT, AT(field), initial, 0, 0, NULL, unit, help, local           \
    }
#define BOOL(name, field, initial, local, help)                                        \
    {                                                                                  \
        name, PL_KEY_BOOL, AT(field), initial, 0, 0, NULL, "", help, local             \
    }
#define CHOICE(name, field, initial, choices, local, help)                             \
    {                                                                                  \
        name, PL_KEY_CHOICE, AT(field), initial, 0, 0, choices, "", help, local        \
    }
#define WHOLE(name, field, initial, min, max, unit, local, help)                       \
    {                                                                                  \
        name, PL_KEY_INT, AT(field), initial, min, max, NULL, unit, help, local        \
    }
#define REAL(name, field, initial, min, max, unit, local, help)                        \
    {                                                                                  \
        name, PL_KEY_REAL, AT(field), initial, min, max, NULL, unit, help, local       \
    }

static const pl_key keys[] = {
    TEXT("preset", preset, "laptop", "", GLOBAL,
         "name of a preset, a set of values for the model, topology and training keys; "
         "other keys that are set override the preset; `pathloom init --list` names "
         "all presets"),
    TEXT("out", out, "pathloom-run", "", LOCAL,
         "folder of the run: data, store, logs, report"),
    WHOLE("seed", seed, "1", 0, 9e15, "", GLOBAL, "seed of all random numbers"),

    SECTION("data", "the text to train on"),
    TEXT("data.corpus", corpus, "", "", GLOBAL,
         "text to train on: a file, a folder, or - for stdin; empty: use text files "
         "that this machine already has below /usr"),
    TEXT("data.valid", valid, "", "", GLOBAL,
         "held-out (validation) text: a file or a folder; empty: documents are held "
         "out of the "
         "corpus by their hash"),
    REAL("data.valid_share", valid_share, "0.04", 0.001, 0.5, "of documents", GLOBAL,
         "share of the documents that is held out if data.valid is empty"),
    WHOLE("data.cut", cut, "4096", 0, 1 << 30, "bytes", GLOBAL,
          "largest document cut from a single text file, at a blank line or the end of "
          "a line; 0: never cut. In a folder, each file is one document"),
    TEXT("data.text_key", text_key, "text", "", GLOBAL,
         "key of the text in JSON lines (jsonl)"),
    CHOICE("data.bad_lines", bad_lines, "refuse", "refuse|skip", GLOBAL,
           "JSON lines without a text: the corpus is refused, or they are skipped and "
           "counted"),
    TEXT("data.forget", forget, "", "", GLOBAL,
         "file with documents that are kept blank (docs/STORE.md): per line the hash "
         "of the text, and `paths` or `start`: from when on"),
    WHOLE("data.max_bytes", max_bytes, "0", 0, 9e15, "bytes", GLOBAL,
          "largest amount of training text that is read; 0: read all of it, or only 12 "
          "MB if data.corpus is empty"),
    TEXT("data.tokenizer", tokenizer, "", "", GLOBAL,
         "SentencePiece model to load; empty: train a tokenizer on the corpus"),
    WHOLE("data.vocab", vocab, "2048", 300, 1000000, "pieces", GLOBAL,
          "number of pieces of the tokenizer, and of the model's vocabulary"),

    SECTION("model", "the shape of one path"),
    WHOLE("model.width", width, "128", 8, 65536, "", GLOBAL,
          "width of the residual stream (hidden size)"),
    WHOLE("model.heads", heads, "4", 1, 1024, "", GLOBAL, "number of query heads"),
    WHOLE("model.kv_heads", kv_heads, "0", 0, 1024, "", GLOBAL,
          "number of key/value heads; 0: as many as query heads"),
    WHOLE("model.head_size", head_size, "0", 0, 1024, "", GLOBAL,
          "width of a head; 0: model.width / model.heads"),
    WHOLE(
        "model.ffn", ffn, "0", 0, 1000000, "", GLOBAL,
        "inner width of SwiGLU; 0: 8/3 of model.width, rounded up to a multiple of 8"),
    WHOLE("model.blocks", blocks, "4", 1, 256, "", GLOBAL,
          "number of transformer blocks (layers) of a whole path"),
    WHOLE("model.context", context, "128", 8, 1000000, "tokens", GLOBAL,
          "largest sequence length"),
    BOOL("model.tied", tied, "true", GLOBAL,
         "use the embedding also as the output matrix"),
    BOOL("model.qk_norm", qk_norm, "false", GLOBAL,
         "apply RMSNorm with learned gains to each head of queries and keys (QK norm); "
         "paths are then exported as Qwen3 models"),
    REAL("model.rope_theta", rope_theta, "10000", 1, 1e9, "", GLOBAL,
         "base of the wavelengths of the rotary position embedding (RoPE)"),
    REAL("model.norm_eps", norm_eps, "1e-5", 1e-12, 1e-1, "", GLOBAL,
         "epsilon of RMSNorm, which is added to the mean square"),
    TEXT("model.import", import, "", "", GLOBAL,
         "Llama or Qwen3 model in safetensors from which the base model starts "
         "(`pathloom import`); empty: start from random numbers"),
    CHOICE("model.chat", chat, "auto", "auto|none|chatml|llama2|plain", LOCAL,
           "template by which `serve` makes a prompt from a conversation; none: "
           "refuse; auto: that of model.import"),

    SECTION("topology", "how paths are made of modules"),
    TEXT("topology.levels", levels, "2x2", "modules per level", GLOBAL,
         "number of modules (experts) of each level: 2x2 means two levels of two "
         "modules, which "
         "make four paths; 1 is one dense model"),
    TEXT("topology.split", split, "", "phase:modules per level", GLOBAL,
         "phases after which each module is split into several: 4:4x4 means 4x4 "
         "modules from phase 4 on (docs/USE.md)"),
    TEXT("topology.graft", graft, "", "phase:change", GLOBAL,
         "phases after which modules or paths are dropped, copied or cut: "
         "4:drop:L2.E1, 4:drop:p01, 4:copy:L1.E0, 4:cut:L1:2 (docs/USE.md)"),
    TEXT("topology.blocks", level_blocks, "", "", GLOBAL,
         "number of blocks of each level, for example 2,2; empty: all levels have the "
         "same number"),
    TEXT("topology.private", private_blocks, "", "", GLOBAL,
         "numbers (from 0) of the path-specific blocks, for example 0,5,6,11"),
    CHOICE("topology.embed", embed, "common", "common|private|level", GLOBAL,
           "which paths share an embedding: all, none, or the paths of one module of "
           "the first level"),
    CHOICE("topology.head", head, "common", "common|private|level", GLOBAL,
           "which paths share a final norm and an output matrix: all, none, or the "
           "paths of one module of the last level"),
    WHOLE("topology.replicas", replicas, "1", 1, 1024, "", GLOBAL,
          "number of replicas of each path: they train the same path on different "
          "samples, and their updates are averaged"),

    SECTION("train", "inner training on workers"),
    CHOICE("train.optimizer", optimizer, "adamw", "adamw|muon", GLOBAL,
           "optimizer of the inner steps; muon: Muon for matrices of blocks, AdamW for "
           "the rest; fewer tokens, less state, slower steps"),
    WHOLE("train.muon_rows", muon_rows, "64", 0, 1000000, "rows", GLOBAL,
          "with muon: matrices are divided into parts of this many rows, each with its "
          "own step; 0: whole matrices"),
    WHOLE("train.batch", batch, "8", 1, 65536, "sequences", GLOBAL,
          "number of sequences of an inner step"),
    WHOLE("train.micro_batch", micro_batch, "0", 0, 65536, "sequences", GLOBAL,
          "sequences that a worker computes in one pass, to save memory; gradients are "
          "added up, so results are rounded differently; 0: train.batch"),
    WHOLE("train.tau", tau, "50", 1, 1000000, "steps", GLOBAL,
          "number of inner steps in a phase: a path trains this many steps alone "
          "before its modules are merged"),
    WHOLE("train.phases", phases, "6", 1, 1000000, "", GLOBAL,
          "number of phases of each path, instead of epochs; +N makes a finished run N "
          "phases longer"),
    TEXT("train.more", more, "", "phases", GLOBAL,
         "numbers of further phases after train.phases, such as 8,4; each part trains "
         "the phases in which the rate fell again; `--set train.phases=+8` adds 8"),
    TEXT("train.freeze", freeze, "", "phase:modules", GLOBAL,
         "modules that get no new versions: embed,4:L1 freezes embed at once and level "
         "1 from phase 4 on, 6:none nothing from phase 6 on"),
    WHOLE("train.base_steps", base_steps, "1200", 0, 1e9, "steps", GLOBAL,
          "number of inner steps of the base model, from which all paths start; 0 is "
          "allowed only with model.import"),
    WHOLE(
        "train.base_replicas", base_replicas, "1", 1, 1024, "replicas", GLOBAL,
        "replicas of the base model that are trained at once; they share "
        "train.base_steps and are averaged every 10 steps, or train.tau if it is less"),
    WHOLE("train.base_threads", base_threads, "0", 0, PL_TASK_THREADS_MAX, "threads",
          GLOBAL,
          "threads with which a worker trains the base model on a CPU; 0: "
          "workers.threads; can change the order of sums"),
    CHOICE("train.schedule", schedule, "wsd", "cosine|wsd", GLOBAL,
           "learning rate; cosine: warm-up and decay for each arm; wsd: one warm-up, a "
           "constant rate through all arms, a decay at their end"),
    REAL("train.decay", decay_share, "0.4", 0, 1, "of an arm's steps", GLOBAL,
         "with wsd: share of an arm's steps, at its end, in which the learning rate "
         "falls linearly to train.lr_floor"),
    REAL("train.lr", lr, "2e-3", 1e-8, 1, "", GLOBAL,
         "peak learning rate; muon needs about twice the rate of adamw"),
    REAL("train.base_lr", base_lr, "0", 0, 1, "", GLOBAL,
         "peak learning rate of the base model; 0: train.lr, with replicas times the "
         "square root of their number, at most twice"),
    WHOLE("train.warmup", warmup, "20", 0, 1e9, "steps", GLOBAL,
          "number of steps of the linear warm-up"),
    WHOLE("train.base_warmup", base_warmup, "40", 0, 1e9, "steps", GLOBAL,
          "number of steps of the base model's linear warm-up"),
    REAL("train.lr_floor", lr_floor, "-1", -1, 1, "of the peak", GLOBAL,
         "learning rate at the end of the schedule, as a share of the peak; -1: 0.1 "
         "for cosine, 0 for wsd"),
    REAL("train.beta1", beta1, "0.9", 0, 0.9999, "", GLOBAL,
         "beta1 of AdamW (decay of the first moment)"),
    REAL("train.beta2", beta2, "0.95", 0, 0.99999, "", GLOBAL,
         "beta2 of AdamW (decay of the second moment)"),
    REAL("train.eps", adam_eps, "1e-8", 1e-16, 1, "", GLOBAL, "epsilon of AdamW"),
    REAL("train.weight_decay", weight_decay, "0.1", 0, 10, "", GLOBAL,
         "weight decay, applied to matrices only"),
    REAL("train.clip", clip, "1", 0, 1e6, "", GLOBAL,
         "gradient clipping: largest global norm of the gradient; 0: off"),
    CHOICE("train.state", state, "f32", "f32|bf16|local", GLOBAL,
           "how the optimizer's moments are kept between phases; bf16: rounded; local: "
           "lost when a path moves to another worker"),
    WHOLE(
        "train.state_every", state_every, "1", 1, 1000000, "phases", LOCAL,
        "how often a path's optimizer state is uploaded; more saves bytes; phases are "
        "repeated when a path moves"),
    REAL("train.holdout", holdout, "0", 0, 0.5, "of the documents", GLOBAL,
         "share of the documents that no arm trains on; with them `--select best` "
         "chooses each path's best version; 0: none"),
    BOOL("train.pack", pack, "false", GLOBAL,
         "put the ends of several documents into one row of a batch; attention stays "
         "within each document; fewer rows need padding"),

    SECTION("router", "which path a document takes"),
    CHOICE("router.kind", router_kind, "kmeans", "kmeans|product", GLOBAL,
           "how training documents are dealt to paths; kmeans: k-means with one "
           "centroid per path; product: a separate k-means per level"),
    WHOLE("router.prefix", prefix, "32", 1, 100000, "tokens", GLOBAL,
          "number of first tokens of a document that choose its path; they are "
          "excluded from perplexity"),
    WHOLE("router.sees", sees, "-1", -1, 1000000, "windows", GLOBAL,
          "windows of a training document whose features choose its path; 0: only "
          "router.prefix; -1: 4, or 0 if the router answers"),
    WHOLE("router.feature_docs", feature_docs, "0", 0, 1e8, "documents", GLOBAL,
          "training documents per task in which workers compute features; 0: as many "
          "as have 8 MiB of features"),
    WHOLE("router.overlap", overlap, "1", 1, 64, "shards", GLOBAL,
          "number of shards that get each training document: the shards with the "
          "nearest centroids"),
    REAL("router.balance", balance, "0.1", 0, 1000, "", GLOBAL,
         "a shard has at most (1 + balance) times the mean tokens per shard, if no "
         "group of alike documents has more; 0: no limit"),
    WHOLE("router.components", components, "20", 0, 65536, "", GLOBAL,
          "number of principal components of the features that are kept, each scaled "
          "to variance 1; 0: keep all features"),
    CHOICE("router.answer", answer, "auto", "auto|router|likelihood", LOCAL,
           "what chooses the path of new text: the router's counts, or the paths' "
           "likelihood (auto: up to 16 paths)"),
    TEXT("router.em", em, "", "phases", GLOBAL,
         "phases after which documents are dealt to the paths again, by a linear "
         "router fitted to scores (docs/DESIGN.md), such as 2,4"),
    REAL("router.share", share, "0.05", 0.0001, 0.5, "of the documents", GLOBAL,
         "with router.em: share of the training documents that are scored; no arm "
         "trains on them"),

    SECTION("outer", "how updates are merged into versions"),
    TEXT("outer.method", method, "diloco", "", GLOBAL,
         "outer method: diloco, fedavg, heavy-ball, noloco, co2, streaming, "
         "delayed-nesterov or iso"),
    REAL("outer.lr", outer_lr, "-1", -1, 100, "", GLOBAL,
         "outer learning rate; -1: the default of the method (diloco: 0.7)"),
    REAL("outer.momentum", outer_momentum, "-1", -1, 0.9999, "", GLOBAL,
         "outer momentum; 0: plain SGD; -1: the default of the method (diloco: 0.9)"),
    CHOICE("outer.rule", rule, "auto", "auto|nesterov|heavy-ball", GLOBAL,
           "noloco: kind of outer momentum; auto: heavy-ball"),
    REAL("outer.consensus", consensus, "-1", -1, 100, "", GLOBAL,
         "noloco: size of the step of two mates towards each other; -1: outer.lr; "
         "other values double the bytes"),
    REAL("outer.deadline_s", deadline_s, "0", 0, 86400, "s", GLOBAL,
         "how long noloco waits for a mate (0: without limit), or a quorum for further "
         "updates; above 0, timing changes results"),
    REAL("outer.quorum", quorum, "1", 0.01, 1, "", GLOBAL,
         "share of a module's updates that a round of diloco, iso, fedavg or "
         "heavy-ball needs; later updates are dropped; below 1, timing changes "
         "results"),
    WHOLE("outer.delay", delay, "1", 0, 16, "phases", GLOBAL,
          "co2: number of phases after which an update is used, so that it can be sent "
          "while training continues"),
    CHOICE("outer.gap", gap, "norm", "none|norm", GLOBAL,
           "co2: divisor of late updates; none: 1; norm: 1 + length of the previous "
           "outer step / norm of the update"),
    REAL(
        "outer.clip", outer_clip, "0", 0, 1e6, "", GLOBAL,
        "co2: largest absolute value of an element of the outer momentum; 0: no limit"),
    WHOLE("outer.fragments", fragments, "2", 1, 256, "", GLOBAL,
          "streaming: number of fragments of a path, which are sent at different "
          "times; train.tau must be a multiple of this number"),
    WHOLE("outer.overlap", outer_overlap, "5", 0, 1000000, "steps", GLOBAL,
          "streaming: number of inner steps between sending a fragment and mixing the "
          "next version of this fragment into the path"),
    REAL("outer.mix", mix, "0.5", 0, 1, "", GLOBAL,
         "streaming: weight of the path's own parameters when the next version of a "
         "fragment is mixed into the path"),
    CHOICE("outer.own", own, "f32", "f32|f24|bf16", GLOBAL,
           "streaming: how a path's own parameters are kept; f24, bf16: rounded to 3 "
           "or 2 bytes; bf16 loses small steps"),
    WHOLE("outer.buffer", buffer, "4", 1, 65536, "arrivals", GLOBAL,
          "delayed-nesterov: number of updates that arrive per momentum step"),
    REAL("outer.spread", spread, "0", 0, 1, "", GLOBAL,
         "delayed-nesterov: share of the momentum that is applied with each arriving "
         "update; at most 1 / outer.buffer"),
    WHOLE("outer.staleness", staleness, "1", 0, 1000, "phases", GLOBAL,
          "delayed-nesterov: largest number of phases by which a path may be ahead of "
          "the slowest path"),
    BOOL("outer.dynamic_steps", dynamic_steps, "false", GLOBAL,
         "delayed-nesterov: slower workers do fewer inner steps in a phase"),
    BOOL("outer.settle", settle, "true", GLOBAL,
         "diloco, iso, heavy-ball, streaming: while the inner rate decays (wsd), the "
         "outer step is the plain mean without momentum"),
    REAL("outer.curvature", curvature, "1", 1e-6, 1e6, "", GLOBAL,
         "outer.lr and outer.momentum must be stable up to this curvature; 1: each "
         "phase reaches its optimum"),
    REAL("outer.lr_private", lr_private, "1", -1, 100, "", GLOBAL,
         "outer learning rate of modules that only one path uses; -1: outer.lr"),
    REAL("outer.momentum_private", momentum_private, "0", -1, 0.9999, "", GLOBAL,
         "outer momentum of modules that only one path uses; -1: outer.momentum"),
    CHOICE("outer.weighting", weighting, "tokens", "tokens|uniform", GLOBAL,
           "weights of a module's contributors: in proportion to the tokens of their "
           "shards (tokens), or equal (uniform)"),
    CHOICE("outer.mean", mean, "all", "all|present", GLOBAL,
           "mean of each parameter over all contributors, or only over those whose "
           "update of it is not 0 (for topk with fedavg)"),
    BOOL("outer.rescale", rescale, "false", GLOBAL,
         "multiply the mean update by the square root of the number of contributors"),
    TEXT("codec.name", codec, "f32", "", GLOBAL,
         "encoding of updates: f32, bf16, i8, i4, topk, i8-shared, sketch16 or tagc; "
         "small tensors are always sent as f32"),
    CHOICE("codec.down", codec_down, "f32", "f32|bf16|i8|i4", GLOBAL,
           "encoding of the change from one merged version to the next, which is sent "
           "to workers that have the older version"),
    WHOLE("codec.k", codec_k, "0", 0, 4096, "of 4096", GLOBAL,
          "number of values of each 4096 that topk, sketch16 and tagc keep; 0: the "
          "default of the encoding (tagc 819, others 64)"),
    WHOLE("codec.value_bits", value_bits, "8", 2, 8, "bits", GLOBAL,
          "topk: bits per kept value; 8 or 2"),
    CHOICE("codec.residual", residual, "f32", "f32|bf16|i8", GLOBAL,
           "how the residual (what the encoding left out) is kept between phases; f32: "
           "exactly; bf16: rounded to 2 bytes; i8: rounded to 1 byte"),
    REAL("codec.beta", ef_beta, "-1", -1, 1, "", GLOBAL,
         "share of the residual that is added to the next update; -1: the default of "
         "the encoding (topk 0.95, others 1)"),
    REAL("codec.cells", cells, "1.3", 1.05, 16, "per kept value", GLOBAL,
         "sketch16: number of cells of the sketch"),

    SECTION("eval", "evaluation, and baselines for comparison with the mixture"),
    TEXT("eval.baselines", baselines, "dense,diloco,dense-eq,dense-batch", "", GLOBAL,
         "dense: as many steps as a path; diloco: a replica per path; dense-eq: all "
         "paths' steps; dense-batch: their batches; or none"),
    WHOLE("eval.max_tokens", eval_tokens, "0", 0, 9e15, "tokens", LOCAL,
          "largest number of held-out tokens that are scored; 0: all"),
    WHOLE("eval.sample_tokens", sample_tokens, "32", 0, 4096, "tokens", LOCAL,
          "number of tokens of the sample that the final report prints for each path"),
    REAL("eval.curves", curves, "0.04", 0, 100, "of the trained sequences", LOCAL,
         "held-out sequences scored for the curve of each arm, as a share of the "
         "trained ones; 0: no curves"),
    BOOL("eval.tensorboard", tensorboard, "false", LOCAL,
         "write the curves of every arm, path and worker as TensorBoard event files to "
         "RUN/tensorboard"),

    SECTION("workers", "the processes that train"),
    WHOLE("workers.count", workers, "0", 0, 128, "processes", LOCAL,
          "number of workers that `train` starts; 0: one per GPU or processor; none "
          "with net.attach"),
    BOOL("workers.local", local_workers, "true", LOCAL,
         "start workers on this machine; false: workers are started elsewhere "
         "(`pathloom worker --run`, `pathloom join`, Slurm)"),
    WHOLE("workers.relay", relays, "0", 0, 16, "processes", LOCAL,
          "number of relays between workers and home; they add up updates whose "
          "encoding is homomorphic"),
    WHOLE("workers.threads", threads, "1", 1, 256, "threads", GLOBAL,
          "number of threads of each worker"),
    CHOICE("workers.backend", backend, "auto", "auto|ref|cpu|cuda", GLOBAL,
           "code with which workers compute; auto: cuda if the machine has a working "
           "GPU that supports the precision, else cpu"),
    CHOICE("workers.precision", precision, "auto", "auto|f32|bf16|f16", GLOBAL,
           "precision of activations and products; f16 (fp16): cpu, only products"),
    BOOL("workers.recompute", recompute, "false", LOCAL,
         "compute activations again in the backward pass: far less memory, a third "
         "more arithmetic, the same bytes"),
    WHOLE("workers.cache", worker_cache, "512M", 0, 9e15, "bytes", LOCAL,
          "memory of each worker for modules and optimizer states that its next tasks "
          "may need"),
    WHOLE("workers.ttl_ms", ttl_ms, "2000", 500, 3600000, "ms", LOCAL,
          "a lease that was not renewed for this long (a new one: 5 s), or for a 20th "
          "of a task's usual time if that is longer, ends, and another worker gets the "
          "task"),
    WHOLE("workers.patience_s", patience_s, "60", 3, 86400, "s", LOCAL,
          "how long a worker waits for a hub; one that joined waits for a day"),

    SECTION("fleet",
            "audits and backup tasks, for workers that are slow or not trusted"),
    REAL("fleet.audit", audit, "0", 0, 1, "", LOCAL,
         "share of tasks that count only after one of the job's own workers has made "
         "the same bytes; not with noloco, delayed-nesterov or a quorum"),
    TEXT("fleet.devices", devices, "", "devices", LOCAL,
         "kinds of devices, as `status` shows them, with commas between them, that get "
         "tasks under fleet.audit though the job has no own worker with them; their "
         "tasks count unchecked"),
    CHOICE("fleet.backup", backup, "auto", "off|auto|any", LOCAL,
           "whether an idle worker repeats a slow worker's task; auto: on the same "
           "kind of device, or any if the task is late; not with noloco"),

    SECTION("store", "contents and place of the store"),
    WHOLE(
        "store.homes", homes, "1", 1, PL_HOMES_MAX, "processes", LOCAL,
        "number of homes, which share the modules; each has its own store; later only "
        "`pathloom homes set` changes it"),
    TEXT("store.engine", engine, "rocksdb", "", LOCAL,
         "where parameters are stored (docs/ENGINES.md); rados://POOL/NAMESPACE, "
         "s3://BUCKET/PREFIX?endpoint=URL"),
    BOOL("store.keep_updates", keep_updates, "false", LOCAL,
         "keep merged updates, for `store verify`; versions before the newest also "
         "need store.keep_momentum"),
    BOOL("store.keep_momentum", keep_momentum, "false", LOCAL,
         "keep the outer momentum of old versions"),
    BOOL("store.keep_states", keep_states, "false", LOCAL,
         "keep every state of every path (checkpoint), so that `pathloom forget` "
         "repeats few phases "
         "(docs/STORE.md)"),
    CHOICE("store.compress", compress, "auto", "auto|off", LOCAL,
           "auto: compress old versions while the home has nothing else to do"),
    REAL("store.norm_gate", norm_gate, "10", 0, 1e6, "", LOCAL,
         "refuse an update that is this many times longer than usual in its module; 0: "
         "refuse none"),
    WHOLE("store.staging", staging, "4G", 1048576, 9e15, "bytes", LOCAL,
          "memory of a home for uploads that are not complete yet"),
    WHOLE("store.quota", quota, "0", 0, 9e15, "bytes", LOCAL,
          "largest size of a home's store; old versions that nothing needs are dropped "
          "(docs/STORE.md); 0: no limit"),

    SECTION(
        "net",
        "addresses at which processes listen; messages between machines are encrypted"),
    TEXT("net.hub", hub_bind, "ipc://*", "", LOCAL,
         "where the hub listens; ipc://*: for this user only; tcp://HOST:PORT: "
         "0.0.0.0: all interfaces, *: any port"),
    TEXT("net.home", home_bind, "ipc://*", "", LOCAL,
         "address at which the home listens, in the same form as net.hub"),
    TEXT("net.advertise", advertise, "", "", LOCAL,
         "host name or address by which other machines reach this machine; empty: this "
         "machine's first address"),
    CHOICE("net.encrypt", encrypt, "auto", "auto|on|off", LOCAL,
           "encryption of messages; auto: if other machines can reach the address of "
           "net.hub or net.home"),
    TEXT("net.metrics", metrics, "", "", LOCAL,
         "HOST:PORT where the hub serves Prometheus metrics at /metrics; empty: "
         "nowhere"),
    BOOL("net.attach", attach, "false", LOCAL,
         "hub and home of this run are started by hand (`pathloom home --run`, "
         "`pathloom hub --run`); they end with the job"),
};

/* Keys that were deleted, with their last default, which is the value that the program
 * still uses; and values that were deleted of keys that remain. The saved configuration
 * of an older run may have them. */
static const pl_gone gone[] = {
    {"outer.method", "eager"},
    {"outer.gap", "constant"},
    {"workers.precision", "fp8"},
    {"train.skip_prefix", "false"},
    {"router.restarts", "8"},
    {"router.iterations", "100"},
    {"router.standardize", "true"},
    {"router.sharpen", "3"},
    {"router.unit", "true"},
    {"router.temperature", "0"},
    {"router.decay", "0.01"},
    {"outer.gap_constant", "1"},
    {"outer.decay", "constant"},
    {"outer.warmup", "0"},
    {"outer.floor", "0.1"},
    {"outer.lr_embed", "-1"},
    {"outer.lr_head", "-1"},
    {"outer.lr_common", "-1"},
    {"outer.lr_level", "-1"},
    {"outer.momentum_embed", "-1"},
    {"outer.momentum_head", "-1"},
    {"outer.momentum_common", "-1"},
    {"outer.momentum_level", "-1"},
    {"codec.attention", ""},
    {"codec.mlp", ""},
    {"codec.embed", ""},
    {"codec.head", ""},
    {"codec.entropy", "true"},
    {"codec.feedback", "auto"},
    {"eval.batch_lr", "0"},
    {"fleet.audit_tolerance", "0.25"},
    {"outer.late_weight", "0"},
};

const pl_table config_table = {.keys = keys,
                               .n_keys = sizeof keys / sizeof *keys,
                               .gone = gone,
                               .n_gone = sizeof gone / sizeof *gone};
