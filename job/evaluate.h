/* Private to job: how well a run's arms predict held-out text, and how it is shown. */
#ifndef PL_JOB_EVALUATE_H
#define PL_JOB_EVALUATE_H
#include "job/run.h"
#include "eval/eval.h"

/* Rows of the table: the mixture under three ways to choose a document's path, then the
 * baselines. */
typedef enum row_kind {
    ROW_ROUTER,     /* by the router, once per document */
    ROW_LIKELIHOOD, /* by the paths' likelihood of the prefix, once per document */
    /* by likelihood, chosen again for each window from the text before it */
    ROW_WINDOWS,
    ROW_DENSE,
    ROW_DILOCO,
    ROW_BATCH,
    ROW_EQUAL,
    ROW_BASE,
    ROW_COUNT
} row_kind;

typedef struct evaluation_row {
    const char *arm;   /* "mix", "dense", ... */
    const char *name;  /* name of the row in JSON */
    const char *brief; /* heading of its column in the table by domain */
    char title[40];    /* title for readers */
    bool present, finished;
    pl_score *scores;         /* [n_docs] */
    pl_score score;           /* their sum */
    double ppl, bits;         /* perplexity per token; bits per byte of text */
    uint64_t tokens_per_path; /* trained on, base model included */
    uint64_t tokens_total;
    double flops;   /* of training */
    double seconds; /* of training, if each path or replica had its own machine */
    pl_score *by_domain;
} evaluation_row;

typedef struct evaluation {
    evaluation_row rows[ROW_COUNT];
    row_kind answer; /* the row whose rule `generate` and `serve` follow */
    uint32_t *docs;  /* scored */
    int *path_of;    /* of each scored document, by the router */
    int *likeliest;  /* and by likelihood; NULL if not known */
    size_t n_docs;
    uint64_t n_targets, n_bytes; /* counted tokens, and the bytes of their text */
    pl_score best, best_windows; /* in hindsight: best path per document, per window */
    double rate;                 /* tokens per second of one machine, over all arms */
    double purity, nmi, purity_k8; /* of the training documents; NaN without domains */
    double seconds;
} evaluation;

/* Scores the heads of a run's store, also while it trains. */
pl_status evaluate(pl_run *r, pl_store *store, evaluation *out);
void evaluation_clear(evaluation *e);
/* Bits per byte of a sum over the scored documents. */
double evaluation_bits(const evaluation *e, const pl_score *score);
void evaluation_json(const pl_run *r, const evaluation *e, int indent, pl_buf *out);
void evaluation_print(const pl_run *r, const evaluation *e);
/* RUN/report.json. */
pl_status evaluation_save(const pl_run *r, const evaluation *e);

/* One line of text from each path (at most 8), which begins like a held-out document of
 * that path. */
pl_status evaluation_samples(pl_run *r, pl_store *store, const evaluation *e);

#endif
