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

/* A text to evaluate in the place of the run's held-out text (text_report.c). */
typedef struct evaluation_text {
    const char *path;
    pl_buf file, sources; /* as pl_documents_encode gives them */
} evaluation_text;

/* What is wanted beyond the table. */
typedef struct evaluation_wish {
    const evaluation_text *text;      /* show its documents; NULL: the run's text */
    mixture_wish mixture;             /* what of it is evaluated */
    int every[PL_EVERY_MAX], n_every; /* the path chosen again every so many tokens */
    bool best; /* the mixture with each path's best version, not with the newest */
} evaluation_wish;

typedef struct evaluation {
    evaluation_row rows[ROW_COUNT];
    row_kind answer;         /* the row whose rule `generate` and `serve` follow */
    uint32_t *docs;          /* scored */
    int *path_of;            /* of each scored document, by the router */
    pl_likeliest *likeliest; /* and by likelihood; NULL if not known */
    uint64_t *bytes;         /* [n_docs] of the counted text of each */
    size_t n_docs;
    pl_every_choice *every; /* [wish.n_every, n_docs]; NULL: none */
    evaluation_wish wish;
    uint64_t n_targets, n_bytes; /* counted tokens, and the bytes of their text */
    pl_score best, best_windows; /* in hindsight: best path per document, per window */
    double rate;                 /* tokens per second of one machine, over all arms */
    double purity, nmi, purity_k8; /* of the training documents; NaN without domains */
    double seconds;
} evaluation;

/* Scores the heads of a run's store, also while it trains. `wish` may be NULL. */
pl_status evaluate(pl_run *r, pl_store *store, const evaluation_wish *wish,
                   evaluation *out);
void evaluation_clear(evaluation *e);
/* The path that answers scored document i. */
static inline int evaluation_path(const evaluation *e, size_t i)
{
    return e->answer == ROW_LIKELIHOOD ? e->likeliest[i].path : e->path_of[i];
}
/* Bits per byte of a sum over the scored documents. */
double evaluation_bits(const evaluation *e, const pl_score *score);
void evaluation_json(const pl_run *r, const evaluation *e, int indent, pl_buf *out);
void evaluation_print(const pl_run *r, const evaluation *e);
/* every_report.c: the rows once, history W and oracle W; a JSON array. */
void evaluation_print_every(const evaluation *e);
pl_json *evaluation_every_json(const evaluation *e);
/* text_report.c: encodes a text with the run's tokenizer and makes it r->valid; clear
 * `out` after the run is closed. Then one line per document of it, or a JSON array. */
pl_status evaluation_read_text(pl_run *r, const char *path, evaluation_text *out);
void evaluation_text_clear(evaluation_text *text);
void evaluation_print_documents(const pl_run *r, const evaluation *e);
pl_json *evaluation_documents_json(const pl_run *r, const evaluation *e);
/* RUN/report.json. */
pl_status evaluation_save(const pl_run *r, const evaluation *e);

/* One line of text from each path (at most 8), which begins like a held-out document of
 * that path. */
pl_status evaluation_samples(pl_run *r, pl_store *store, const evaluation *e);

#endif
