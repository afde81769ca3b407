/* Private to cli: held-out perplexity of a run's arms, and how it is shown. */
#ifndef PL_CLI_EVALUATE_H
#define PL_CLI_EVALUATE_H
#include "cli/run.h"
#include "eval/eval.h"

typedef struct column {
    const char *arm;   /* "mix", "dense", ... */
    const char *title; /* what it is, for people */
    bool present, finished;
    pl_score score;
    double ppl;
    uint64_t tokens_per_path; /* trained on, base model included */
    uint64_t tokens_total;
    double flops; /* of training */
    pl_score *by_domain;
} column;

enum { COLUMNS = 5 };

typedef struct evaluation {
    column columns[COLUMNS]; /* mix, dense, diloco, dense-eq, base */
    uint32_t *docs;          /* scored */
    int *path_of;            /* of each scored document */
    size_t n_docs;
    uint64_t n_targets;
    double purity, nmi, purity_k8; /* of the training documents; NaN without domains */
    double seconds;
} evaluation;

/* Scores the heads of a run's store, also while it trains. */
pl_status evaluate(run *r, pl_store *store, evaluation *out);
void evaluation_clear(evaluation *e);
void evaluation_json(const run *r, const evaluation *e, int indent, pl_buf *out);
void evaluation_print(const run *r, const evaluation *e);
/* RUN/report.json. */
pl_status evaluation_save(const run *r, const evaluation *e);

/* One line of text from each path (at most 8), begun like a held-out document of it. */
pl_status print_samples(run *r, pl_store *store, const evaluation *e);

#endif
