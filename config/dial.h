/* The dial of `pathloom train`: chooses the keys of a run from a given time or number
 * of tokens.
 *
 * The choice depends only on the facts below, which measure/train_dial.c measures. The
 * dial predicts the held-out bits per byte of every candidate and takes the candidate
 * with the fewest:
 *
 *   dense(N, D)   = E + A / N^a + B / D^b         bits per byte of one model
 *   mixture of P  = dense + GAIN log2(P) (EVEN - log2(D / N))
 *
 * N is the number of parameters of a path in millions. D is the number of training
 * tokens in millions, including the tokens of the base model; in dense(N, D) a token of
 * Muon counts as MUON_TOKENS tokens of AdamW. P is the number of paths.
 * E, A, B, a, b, GAIN, EVEN and REPEATS are constants. Text that is read again
 * counts less each time (Muennighoff et al. 2023, arXiv:2305.16264, eq. 5): R further
 * epochs after the first count as REPEATS (1 - exp(-R / REPEATS)) epochs. A path reads
 * a shard of mean size at most PATH_EPOCHS times; the base model gets the other steps.
 * docs/results/dial.md has the measurements to which the constants were fitted. */
#pragma once
#include "config/settings.h"

/* The parts of a run for which the dial plans time, in the order in which they run. */
typedef enum dial_part {
    DIAL_START,
    DIAL_BASE,
    DIAL_ROUTING,
    DIAL_PATHS,
    DIAL_EVALUATION,
    DIAL_PARTS
} dial_part;
extern const char *const dial_part_names[DIAL_PARTS];

/* A worker's tokens per second on a model with a certain number of FLOPs per token.
 * `alone`: while only those workers train that train the base model, each with
 * train.base_threads. `together`: while all workers train, as on the paths. */
typedef struct dial_speed {
    double flops, alone, together;
} dial_speed;
enum { DIAL_SPEEDS = 2 };

/* The facts from which the dial chooses. The fields from `width` to `base_steps` have
 * the values that the user's keys give; 0: the dial chooses the value. */
typedef struct dial_facts {
    /* size of the text: training tokens, training documents, held-out tokens */
    double tokens, documents, valid_tokens;
    int workers;                    /* number of workers that train at the same time */
    dial_speed speeds[DIAL_SPEEDS]; /* measured speeds, in rising order of `flops` */
    int n_speeds;                   /* number of measured speeds; may be 0 */
    /* time left for training, routing, merges and evaluation; 0: not limited */
    double seconds;
    double n_tokens;              /* tokens to train on if `seconds` is 0 */
    int vocab;                    /* size of the tokenizer's vocabulary */
    int context;                  /* tokens of a sequence */
    bool muon;                    /* Muon is used: its learning rate is twice AdamW's */
    int64_t width, heads, blocks; /* either all three are fixed or all are 0 */
    double params;                /* parameters of a path with this shape */
    int64_t paths, batch, tau, phases, base_steps;
    int64_t base_replicas; /* replicas of the base model; 0 stands for 1 */
    /* Steps of all baselines, and of the longest one, per step of all paths. */
    double baselines, longest_baseline;
    int n_baselines;
} dial_facts;

typedef struct dial_choice {
    int64_t width, heads, blocks, paths, batch, base_steps, tau, phases, eval_tokens;
    double lr;
    double params;           /* parameters of a path */
    double tokens;           /* training tokens of mixture and base model together */
    double epochs;           /* passes over the text */
    double part[DIAL_PARTS]; /* predicted seconds; 0 if no speed was measured */
    double seconds;          /* sum of the parts */
    double bits;             /* predicted bits per byte */
    bool short_of_time; /* even the fewest steps would take more than the given time */
} dial_choice;

enum { DIAL_LEAST_BYTES = 1000000 }; /* smallest text for --for and --tokens */

/* Parses a time such as "90s", "15min", "2h" or "1.5h" to seconds. ERR_USAGE. */
pl_status dial_parse_time(const char *text, double *seconds);
/* Returns a training step's FLOPs per token. Only ratios of these are used. */
double dial_flops(double params, int64_t width, int64_t blocks, int64_t context);
/* Chooses, before the text is known, the size of the vocabulary and the number of bytes
 * of text to read. If a time is given: as many bytes as can be read in a tenth of this
 * time. Otherwise: as many as a single epoch with the given number of tokens needs. */
void dial_text(const dial_facts *f, int64_t *vocab, int64_t *bytes);
/* Predicts the tokens per second on a model with this number of FLOPs per token.
 * Between two measured models the rate is a power of the FLOPs; outside the measured
 * range it is inversely proportional to them. Returns 0 if nothing was measured. */
double dial_rate(const dial_facts *f, double flops, bool alone);
/* Chooses all keys except those for vocabulary and text. The caller may measure the
 * speed on the chosen model and then call this function again. */
void dial_choose(const dial_facts *f, dial_choice *out);
/* Replicas of the base model that train at the same time, and the threads of each. */
typedef struct dial_team {
    int64_t threads, replicas;
} dial_team;
/* Divides the processors that the workers of a machine use together among replicas of
 * the base model. A replica gets at least the threads of a worker, and up to 4, because
 * small models gain little from more; further processors train further replicas.
 * `replicas` is the number that the user gave, or 0. */
dial_team dial_base_team(int64_t processors, int64_t threads, int64_t replicas);
