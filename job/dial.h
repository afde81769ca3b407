/* The dial of `pathloom train`: chooses the keys of a run from the time, or the number
 * of tokens, that it may take.
 *
 * The choice is a pure function of the facts below; cli/train_dial.c measures them. It
 * predicts the held-out bits per byte of every candidate and takes the least:
 *
 *   dense(N, D)   = E + A / N^a + B / D^b         bits per byte of one model
 *   mixture of P  = dense + GAIN log2(P) (EVEN - log2(D / N))
 *
 * N are the parameters of a path in millions, D the training tokens in millions, base
 * model included. Text that is read again counts less and less (Muennighoff et al.
 * 2023, arXiv:2305.16264, eq. 5): R epochs after the first are worth
 * REPEATS (1 - exp(-R / REPEATS)) of it. docs/results/dial.md has the measurements
 * that the constants were fitted to. */
#ifndef PL_JOB_DIAL_H
#define PL_JOB_DIAL_H
#include "job/config.h"

/* What a run does one after the other, as far as the dial plans it. */
typedef enum dial_part {
    DIAL_START,
    DIAL_BASE,
    DIAL_ROUTING,
    DIAL_PATHS,
    DIAL_EVALUATION,
    DIAL_PARTS
} dial_part;
extern const char *const dial_part_names[DIAL_PARTS];

/* Tokens per second of a worker on a model that costs so many FLOPs per token: while it
 * trains alone, as for the base model, and while all workers train, as for the paths.
 */
typedef struct dial_speed {
    double flops, alone, together;
} dial_speed;
enum { DIAL_SPEEDS = 2 };

/* A fact that the user has fixed has its value; 0 lets the dial choose. */
typedef struct dial_facts {
    double tokens, documents, valid_tokens; /* of the text */
    int workers;                            /* that train at the same time */
    dial_speed speeds[DIAL_SPEEDS];         /* smallest model first */
    int n_speeds;                           /* 0: not measured */
    double seconds;  /* left for training, routing, merges and evaluation; or 0 */
    double n_tokens; /* to train on in all, if seconds is 0 */
    int vocab;       /* of the tokenizer */
    int context;     /* tokens of a sequence */
    bool muon;       /* its learning rate is twice that of AdamW */
    int64_t width, heads, blocks; /* all three fixed, or none */
    double params;                /* of a path of that shape */
    int64_t paths, batch, tau, phases, base_steps;
    /* Baselines: total steps of all, and of the longest, relative to the steps of all
     * paths. */
    double baselines, longest_baseline;
    int n_baselines;
} dial_facts;

typedef struct dial_choice {
    int64_t width, heads, blocks, paths, batch, base_steps, tau, phases, eval_tokens;
    double lr;
    double params;           /* of a path */
    double tokens;           /* that the mixture is trained on, base model included */
    double epochs;           /* passes over the text */
    double part[DIAL_PARTS]; /* predicted seconds; 0 without a speed */
    double seconds;          /* their sum */
    double bits;             /* predicted */
    bool short_of_time;      /* the smallest run takes longer than there is time */
} dial_choice;

enum { DIAL_LEAST_BYTES = 1000000 }; /* of text */

/* "90s", "15min", "2h" and "1.5h" in seconds. ERR_USAGE. */
PL_MUST_CHECK pl_status dial_parse_time(const char *text, double *seconds);
/* FLOPs of a training step per token; only ratios of it count. */
double dial_flops(double params, int64_t width, int64_t blocks, int64_t context);
/* The size of the vocabulary, and the bytes of text that are worth reading, before the
 * text is known: with a time what is read in a tenth of it, else what the training
 * passes over once. */
void dial_text(const dial_facts *f, int64_t *vocab, int64_t *bytes);
/* Tokens per second on a model that costs so many FLOPs per token. Between two measured
 * models the rate is a power of the FLOPs; outside it is inverse to them. 0: nothing
 * was measured. */
double dial_rate(const dial_facts *f, double flops, bool alone);
/* Everything else. The speed may be measured again on the chosen model before the final
 * call. */
void dial_choose(const dial_facts *f, dial_choice *out);
/* "2", "2x2", "2x4" or "4x4". */
const char *dial_levels(int64_t paths);

#endif
