/* pathloom.h: the public C interface of libpathloom.
 *
 * With this library a program reads a run of `pathloom train` (while it trains, or
 * afterwards), lets its models score, route and continue text, and trains a single
 * model on a text. It never writes to a run.
 *
 *   cc program.c $(pkg-config --cflags --libs pathloom)
 *
 *   pathloom_error error;
 *   pathloom_run *run;
 *   if (pathloom_open("run", &run, &error) != PATHLOOM_OK)
 *       fprintf(stderr, "%s\n", error.message);
 *   else
 *       pathloom_each_version(run, "L1.E0", print_version, NULL, &error);
 *   pathloom_close(&run);
 *
 * Handles. There are four opaque types. pathloom_run reads the records of a run,
 * pathloom_module the parameters of one version of a module, pathloom_model computes,
 * and pathloom_trainer trains. A function that opens a handle sets it to NULL if it
 * fails. Every handle has a function that closes it, sets it to NULL and accepts NULL.
 * A pathloom_module reads through its run: close it before the run, and use both in one
 * thread. A pathloom_model does not need the run from which it was opened.
 *
 * Errors. Every function that can fail returns PATHLOOM_OK (0) or another
 * pathloom_status. If its last argument `error` is not NULL, the function writes the
 * same status and a sentence into it, which names the thing, the number and what to do.
 * After PATHLOOM_OK the message is empty. No function prints anything. If the system
 * has no memory for a small allocation, the library calls abort().
 *
 * Callbacks. A callback returns 0 to go on. If it returns another value, the function
 * that called it stops and returns PATHLOOM_ERR_CANCELLED. Everything that a callback
 * gets is valid only until it returns. A callback may not use the handle for which it
 * is called, and may not leave by longjmp or an exception.
 *
 * Threads. Only one thread at a time may use a handle. Different threads may use
 * different handles at the same time. After fork() the child may use no handle that the
 * parent has opened.
 *
 * Text. Names and messages are UTF-8 and end with a NUL. Texts of models have a length,
 * and need no NUL.
 *
 * Compatibility. Until version 1.0 a release may change this interface; the soname then
 * changes, too. */
#ifndef PATHLOOM_H
#define PATHLOOM_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PATHLOOM_API __attribute__((visibility("default")))
#else
#define PATHLOOM_API
#endif

/* ---- errors ---- */
/* These numbers do not change. */
typedef enum pathloom_status {
    PATHLOOM_OK = 0,
    PATHLOOM_ERR_ARG = 1,          /* an argument is wrong */
    PATHLOOM_ERR_USAGE = 2,        /* an option or a name is wrong */
    PATHLOOM_ERR_CONFIG = 3,       /* the configuration contradicts itself */
    PATHLOOM_ERR_DATA = 4,         /* a text cannot be used */
    PATHLOOM_ERR_DAMAGED = 5,      /* stored bytes are damaged */
    PATHLOOM_ERR_NOT_FOUND = 6,    /* the named thing does not exist */
    PATHLOOM_ERR_EXISTS = 7,       /* the named thing exists already */
    PATHLOOM_ERR_BUSY = 8,         /* another process uses the thing */
    PATHLOOM_ERR_IO = 9,           /* reading or writing failed */
    PATHLOOM_ERR_NOSPACE = 10,     /* the disk is full */
    PATHLOOM_ERR_NOMEM = 11,       /* there is not enough memory */
    PATHLOOM_ERR_OS = 12,          /* the system refused a request */
    PATHLOOM_ERR_NOPERM = 17,      /* permission denied */
    PATHLOOM_ERR_DEVICE = 18,      /* the compute device failed */
    PATHLOOM_ERR_NUMERIC = 19,     /* a value is not finite */
    PATHLOOM_ERR_CANCELLED = 20,   /* a callback asked to stop */
    PATHLOOM_ERR_UNSUPPORTED = 21, /* this build or machine cannot do that */
    PATHLOOM_ERR_INTERNAL = 22     /* a bug in the library; other values: see message */
} pathloom_status;

typedef struct pathloom_error {
    int status; /* a pathloom_status */
    char message[1024];
} pathloom_error;

/* Both return static texts: "0.1.0" and, for example, "ERR_NOT_FOUND". */
PATHLOOM_API const char *pathloom_version(void);
PATHLOOM_API const char *pathloom_status_name(int status);

/* ---- runs ---- */
typedef struct pathloom_run pathloom_run;

/* Opens the run in a folder, for reading. The run may be training: the handle shows its
 * state at one moment, until pathloom_refresh. NOT_FOUND: the folder has no run, or the
 * run has no store yet. */
PATHLOOM_API int pathloom_open(const char *folder, pathloom_run **run,
                               pathloom_error *error);
PATHLOOM_API void pathloom_close(pathloom_run **run);
/* Shows the newest commit of the run from now on. Modules that are open keep their
 * versions. */
PATHLOOM_API int pathloom_refresh(pathloom_run *run, pathloom_error *error);

typedef struct pathloom_run_info {
    const char *folder;
    const char *config; /* hash of the run's configuration, 64 hex digits */
    uint64_t n_commits;
    int n_homes;
    int is_training;    /* a process has the store open for writing now */
    int is_finished;    /* every arm has done its last phase */
    const char *newest; /* arm of the newest mixture, such as "mix" or "mix~1" */
} pathloom_run_info;
/* The texts are valid until the next call with this handle. */
PATHLOOM_API int pathloom_describe(pathloom_run *run, pathloom_run_info *info,
                                   pathloom_error *error);

/* ---- lists ---- */
/* An arm: a set of modules and paths that are trained together. */
typedef struct pathloom_arm {
    const char *name;
    int is_mixture; /* the mixture or one of its chapters; 0: a baseline */
    int n_paths, n_replicas, n_modules;
    uint64_t path_params, total_params; /* numbers of parameters */
    int vocab, width, n_blocks, n_heads, n_kv_heads, head_size, ffn, context;
    int is_tied; /* the output matrix is the embedding */
    double rope_theta, norm_eps;
} pathloom_arm;
typedef int (*pathloom_arm_fn)(void *context, const pathloom_arm *arm);
PATHLOOM_API int pathloom_each_arm(pathloom_run *run, pathloom_arm_fn fn, void *context,
                                   pathloom_error *error);

/* One update of a worker. In a merged version, `worker` names a source ("mix/L1.E0@3").
 */
typedef struct pathloom_contribution {
    const char *worker, *device, *codec;
    int64_t path, replica, phase;
    uint64_t first_sample, n_samples, n_tokens;
    double loss;    /* training loss, nats per token */
    double seconds; /* of training */
    double norm;    /* L2 norm of the update */
    double weight;  /* in the mean, not normalised */
} pathloom_contribution;
typedef struct pathloom_version_info {
    const char *module;        /* "mix/L1.E0" */
    uint64_t number;           /* 0: the initial version */
    const char *hash, *parent; /* of the parameters, 64 hex digits; parent: "" for 0 */
    const char *method;        /* "init", "nesterov", "merge ties", ... */
    double lr, momentum;       /* of the outer step */
    uint64_t n_params;
    double params_norm, update_norm; /* L2 norms */
    int64_t wall_ms;                 /* when it was committed; ms since 1970 */
    int has_params; /* 0: garbage collection has deleted the parameters */
    size_t n_contributions;
    const pathloom_contribution *contributions;
} pathloom_version_info;
typedef int (*pathloom_version_fn)(void *context, const pathloom_version_info *version);
/* Lists the newest version of each module of an arm; NULL: of all arms. */
PATHLOOM_API int pathloom_each_module(pathloom_run *run, const char *arm,
                                      pathloom_version_fn fn, void *context,
                                      pathloom_error *error);
/* Lists all versions of a module, from 0. A module is named as on the command line:
 * "L1.E0", "mix/L1.E0", "embed". */
PATHLOOM_API int pathloom_each_version(pathloom_run *run, const char *module,
                                       pathloom_version_fn fn, void *context,
                                       pathloom_error *error);

/* A worker that trained a version, with all its updates on one path. */
typedef struct pathloom_contributor {
    const char *worker, *device;
    int64_t path, replica;
    uint64_t n_samples, n_tokens, n_versions;
    double seconds, loss; /* loss: of the newest update */
    double share;         /* how far it moved the version, as a share of all */
} pathloom_contributor;
typedef int (*pathloom_contributor_fn)(void *context, const pathloom_contributor *c);
/* Lists the contributors of a version ("L1.E0@3", "L1.E0@TAG"; without @ the newest),
 * the largest share first. If `earlier` is not 0, all earlier
 * versions count, too. */
PATHLOOM_API int pathloom_each_contributor(pathloom_run *run, const char *version,
                                           int earlier, pathloom_contributor_fn fn,
                                           void *context, pathloom_error *error);

/* A tag: a name for one version of each module of an arm. */
typedef struct pathloom_tag {
    const char *name, *arm, *note;
    int64_t phase; /* -1: the newest versions at one moment */
    int64_t wall_ms;
    size_t n_modules;
    const char *const *modules; /* [n_modules] */
    const uint64_t *numbers;    /* [n_modules] */
} pathloom_tag;
typedef int (*pathloom_tag_fn)(void *context, const pathloom_tag *tag);
PATHLOOM_API int pathloom_each_tag(pathloom_run *run, pathloom_tag_fn fn, void *context,
                                   pathloom_error *error);

/* One replica of a path, and what it has trained so far. */
typedef struct pathloom_path {
    const char *name;   /* "mix/p00.r0" */
    const char *worker; /* that did the newest phase */
    int64_t n_phases;
    uint64_t n_samples, n_tokens;
    double loss, seconds; /* loss: of the newest phase */
} pathloom_path;
typedef int (*pathloom_path_fn)(void *context, const pathloom_path *path);
/* Lists the paths of an arm; NULL: of all arms. */
PATHLOOM_API int pathloom_each_path(pathloom_run *run, const char *arm,
                                    pathloom_path_fn fn, void *context,
                                    pathloom_error *error);

/* A finished phase of an arm, or several phases in a very long run. */
typedef struct pathloom_phase {
    const char *arm;
    int64_t phase, n_phases;
    int64_t from_ms, at_ms; /* first lease and last commit; ms since 1970 */
    int n_paths, n_done;    /* n_done: how many paths have finished the phase */
    double loss;            /* training loss, nats per token */
    double bits_per_byte;   /* of the held-out text before the phase; 0: not scored */
    double n_tokens, tokens_per_second;
    int64_t n_versions, n_audits, n_audits_differed, n_expired, n_restarts;
} pathloom_phase;
typedef int (*pathloom_phase_fn)(void *context, const pathloom_phase *phase);
/* Lists the finished phases of all arms in the order of time. */
PATHLOOM_API int pathloom_each_phase(pathloom_run *run, pathloom_phase_fn fn,
                                     void *context, pathloom_error *error);

/* ---- parameters ---- */
typedef struct pathloom_module pathloom_module;

/* Opens a version of a module ("L1.E0@3"). Reads no parameters yet. NOT_FOUND: there is
 * no such version, or garbage collection has deleted its parameters. */
PATHLOOM_API int pathloom_module_open(pathloom_run *run, const char *version,
                                      pathloom_module **module, pathloom_error *error);
PATHLOOM_API void pathloom_module_close(pathloom_module **module);
/* Valid until close. */
PATHLOOM_API const pathloom_version_info *
pathloom_module_info(const pathloom_module *module);
PATHLOOM_API int pathloom_module_n_tensors(const pathloom_module *module);

typedef struct pathloom_tensor {
    const char *name;    /* as in transformers: "model.layers.3.mlp.up_proj.weight" */
    int rows, cols;      /* row-major; rows is 1 for a vector */
    const float *values; /* [rows * cols]; NULL from pathloom_module_shape */
} pathloom_tensor;
/* Describes tensor i, from 0, without reading it. ERR_ARG: there is no tensor i. */
PATHLOOM_API int pathloom_module_shape(const pathloom_module *module, int i,
                                       pathloom_tensor *tensor, pathloom_error *error);
/* Reads tensor i when it is asked for the first time, and checks the hashes of its
 * bytes. The values belong to the module and are valid until close; nothing is
 * copied. */
PATHLOOM_API int pathloom_module_tensor(pathloom_module *module, int i,
                                        pathloom_tensor *tensor, pathloom_error *error);

typedef int (*pathloom_name_fn)(void *context, const char *name);
/* Lists the versions of the modules of a path, in the order of the model:
 * "mix/L1.E0@3". Opened one after another, they give all tensors of the path. `arm` may
 * be NULL for the newest mixture. `tag`: the versions that this tag names; NULL: the
 * newest. */
PATHLOOM_API int pathloom_each_path_module(pathloom_run *run, const char *arm,
                                           const char *path, const char *tag,
                                           pathloom_name_fn fn, void *context,
                                           pathloom_error *error);

/* ---- models ---- */
typedef struct pathloom_model pathloom_model;

typedef struct pathloom_model_options {
    const char *path; /* "p01": this path answers; NULL: the path that fits the text */
    const char *arm;  /* "dense", "base", ...; NULL: the newest mixture */
    const char *tag; /* the versions of this tag, also a merged one; NULL: the newest */
    const char *route;     /* "auto", "router" or "likelihood"; NULL: the run's rule */
    const char *precision; /* "f32", "bf16", "f16", "int8", "auto"; NULL: the run's */
    int n_threads;         /* 0: one per processor */
} pathloom_model_options;
/* Opens a mixture, or one path. `options` may be NULL. Parameters are read when they
 * are first needed. The versions are those of this moment: open the model again to use
 * newer ones. ERR_USAGE: an option is wrong. NOT_FOUND: there is no such path, arm or
 * tag, or the base model is not trained yet. */
PATHLOOM_API int pathloom_model_open(pathloom_run *run,
                                     const pathloom_model_options *options,
                                     pathloom_model **model, pathloom_error *error);
/* Opens a model in a folder with safetensors files, config.json and a tokenizer, such
 * as pathloom_trainer_save, `pathloom export` and transformers write. Only `precision`
 * and `n_threads` of the options are used. */
PATHLOOM_API int pathloom_model_open_folder(const char *folder,
                                            const pathloom_model_options *options,
                                            pathloom_model **model,
                                            pathloom_error *error);
PATHLOOM_API void pathloom_model_close(pathloom_model **model);
PATHLOOM_API int pathloom_model_n_paths(const pathloom_model *model);
PATHLOOM_API int pathloom_model_vocab(const pathloom_model *model);
PATHLOOM_API int pathloom_model_context(const pathloom_model *model);

/* Writes at most `capacity` tokens of a text, without begin and end. *n gets the number
 * of all its tokens, which may be larger. */
PATHLOOM_API int pathloom_tokenize(const pathloom_model *model, const char *text,
                                   size_t len, int32_t *tokens, size_t capacity,
                                   size_t *n, pathloom_error *error);
/* Writes at most `capacity` bytes of the text of n tokens. *len gets the number of all
 * its bytes, which may be larger. */
PATHLOOM_API int pathloom_detokenize(const pathloom_model *model, const int32_t *tokens,
                                     size_t n, char *text, size_t capacity, size_t *len,
                                     pathloom_error *error);

typedef struct pathloom_generate_options {
    int max_tokens;      /* 64 */
    double temperature;  /* 0.8; 0: always the likeliest token */
    int top_k;           /* 40; 0: all tokens */
    double top_p;        /* 0.95 */
    double min_p;        /* 0 */
    uint64_t seed;       /* 0; the same seed gives the same text */
    const char *stop[4]; /* texts that end the answer; unused ones are NULL */
} pathloom_generate_options;
PATHLOOM_API void pathloom_generate_defaults(pathloom_generate_options *options);
typedef struct pathloom_generated {
    char path[64];  /* that answered; "" for a model from a folder */
    int is_stopped; /* the end of the document or a stop text; 0: max_tokens or context
                     */
    int n_prompt, n_tokens;
    double prompt_seconds, decode_seconds;
} pathloom_generated;
/* Gets the next piece of an answer: whole characters, without a NUL. */
typedef int (*pathloom_piece_fn)(void *context, const char *text, size_t len);
/* Continues a prompt. `options`, `fn` and `result` may be NULL. ERR_USAGE: the prompt
 * fills the context, or an option is out of range. */
PATHLOOM_API int pathloom_generate(pathloom_model *model, const char *prompt,
                                   size_t len, const pathloom_generate_options *options,
                                   pathloom_piece_fn fn, void *context,
                                   pathloom_generated *result, pathloom_error *error);

typedef struct pathloom_score {
    char path[64];
    double nats;          /* -log p of all tokens that count */
    uint64_t n_tokens;    /* that count */
    uint64_t n_bytes;     /* of their text */
    double bits_per_byte; /* NaN if n_bytes is 0, as with unknown tokens */
} pathloom_score;
/* Measures how well the model predicts a text, as a document with its end. If the
 * mixture chooses the path, the first tokens (router.prefix) choose it and do not
 * count, as in `pathloom eval`; otherwise all tokens count. In longer texts each token
 * after the first window has at least half a context before it. */
PATHLOOM_API int pathloom_score_text(pathloom_model *model, const char *text,
                                     size_t len, pathloom_score *score,
                                     pathloom_error *error);

typedef struct pathloom_route {
    const char *path, *why; /* path: the path that answers */
    int by_likelihood;      /* 0: the router chose the path */
    int n_tokens, n_seen;   /* n_seen: first tokens that all paths read */
    double margin_nats;     /* by how much the likeliest path is ahead */
    int n_paths;
    const char *const *names; /* [n_paths] "p00", ... */
    const double *nats; /* [n_paths] -log p of the text under each path, or NULL */
    const double *posteriors; /* [n_paths] from nats, with equal priors, or NULL */
    const double *costs;      /* [n_paths] the router's costs */
} pathloom_route;
/* Finds which path answers a text, and why. The pointers are valid until the next call
 * with this model. ERR_USAGE: the model is that of a baseline or of a folder. */
PATHLOOM_API int pathloom_route_text(pathloom_model *model, const char *text,
                                     size_t len, pathloom_route *route,
                                     pathloom_error *error);

/* ---- training ---- */
typedef struct pathloom_trainer pathloom_trainer;

typedef struct pathloom_train_options {
    const char *text;   /* text file, folder or JSON lines; "": text below /usr */
    const char *folder; /* gets the prepared data; made if it is missing */
    int vocab;          /* 2048: size of the tokenizer that is trained */
    int width, n_heads, n_blocks, ffn, context; /* 128, 4, 4, 344, 128 */
    int batch;                                  /* 8: sequences per step */
    int steps;                                  /* 300 */
    double lr;                 /* 2e-3: peak; warm-up for a tenth, then a cosine */
    double weight_decay;       /* 0.1 */
    double valid_share;        /* 0.04: documents that are held out */
    uint64_t max_bytes;        /* 4 MiB of training text; 0: no limit */
    uint64_t seed;             /* 1 */
    int n_threads;             /* 2 */
    const char *backend;       /* "cpu", "cuda", "ref", "auto" */
    const char *precision;     /* "auto" */
    pathloom_name_fn progress; /* gets lines while text is prepared, or NULL */
    void *progress_context;
} pathloom_train_options;
PATHLOOM_API void pathloom_train_defaults(pathloom_train_options *options);

/* Prepares the text (documents, tokenizer, tokens) and makes a model with random
 * parameters. An earlier folder with the same text and options is used again. The same
 * text, options and kind of device give the same model, byte for byte. */
PATHLOOM_API int pathloom_trainer_open(const pathloom_train_options *options,
                                       pathloom_trainer **trainer,
                                       pathloom_error *error);
PATHLOOM_API void pathloom_trainer_close(pathloom_trainer **trainer);

typedef struct pathloom_trainer_info {
    uint64_t n_params;
    const char *device; /* valid until close */
    uint64_t train_documents, train_tokens, valid_documents, valid_tokens;
    int steps_done, steps;
} pathloom_trainer_info;
PATHLOOM_API void pathloom_trainer_describe(const pathloom_trainer *trainer,
                                            pathloom_trainer_info *info);

typedef struct pathloom_step {
    int step;    /* number of steps done */
    double loss; /* nats per token, before the step */
    double grad_norm, lr;
    uint64_t n_tokens;
} pathloom_step;
/* Does one optimizer step. `step` may be NULL. ERR_ARG after the last step. */
PATHLOOM_API int pathloom_trainer_step(pathloom_trainer *trainer, pathloom_step *step,
                                       pathloom_error *error);
/* Computes the loss of the held-out documents, in nats per token. */
PATHLOOM_API int pathloom_trainer_evaluate(pathloom_trainer *trainer, double *loss,
                                           pathloom_error *error);
/* Writes the model into a folder: model.safetensors, config.json and the tokenizer, as
 * transformers and pathloom_model_open_folder read them. Each file appears complete, or
 * not at all. */
PATHLOOM_API int pathloom_trainer_save(pathloom_trainer *trainer, const char *folder,
                                       const char *name, pathloom_error *error);

#ifdef __cplusplus
}
#endif
#endif
