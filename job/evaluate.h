/* Private to job: measures how well a run's arms predict held-out text, and shows
 * it. */
#pragma once
#include "job/run.h"

/* Rows of the table: the mixture with three ways to choose a document's path, then the
 * baselines. */
typedef enum row_kind {
    ROW_ROUTER, /* the router chooses the path, once per document */
    /* the path under which the prefix is likeliest, once per document */
    ROW_LIKELIHOOD,
    /* chosen again after every `prefix` tokens, by the likelihood of the text before */
    ROW_REROUTED,
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
    const char *brief; /* heading of the arm's column in the table by domain */
    char title[40];    /* title of the row in the table */
    /* present: the arm exists and was scored; finished: it has done its last phase */
    bool present, finished;
    pl_score *scores; /* [n_docs] */
    pl_score score;   /* sum of the scores */
    double ppl, bits; /* perplexity per token; bits per byte of text */
    /* perplexity on the first window of each document alone; its geometric mean over
     * the domains */
    double ppl_first, ppl_macro;
    pl_effort effort;    /* of training */
    double flops_read;   /* floating-point operations per token of reading the text */
    uint64_t n_params;   /* parameters of all modules of the arm */
    pl_score *by_domain; /* [domains of the text] sums of the scores per domain */
} evaluation_row;

/* A text to evaluate instead of the run's held-out text (text_report.c). */
typedef struct evaluation_text {
    const char *path;
    pl_buf file, sources; /* encoded by pl_documents_encode */
} evaluation_text;

/* The wishes of a command. All fields 0: evaluate the run's newest versions. */
typedef struct evaluation_wish {
    /* evaluate this text and show each of its documents; NULL: the run's text */
    const evaluation_text *text;
    /* which version of the mixture, and which paths, are evaluated */
    mixture_wish mixture;
    /* for each of these numbers W: also score the rules that choose the path again
     * every W tokens */
    int every[PL_EVERY_MAX], n_every;
    bool best; /* evaluate each path's best version, not its newest */
    /* evaluate these versions of the mixture, not those of mixture.at; borrowed */
    const pl_snapshot *versions;
    const char *domain; /* evaluate only documents of this domain; NULL: all */
    bool only_mixture;  /* evaluate no baselines */
} evaluation_wish;

typedef struct evaluation {
    char chapter[PL_ARM_NAME_MAX]; /* the mixture's chapter that was scored */
    evaluation_row rows[ROW_COUNT];
    row_kind answer; /* the row with the rule that `generate` and `serve` use */
    uint32_t *docs;  /* documents that are scored */
    int *path_of;    /* path that the router chooses for each document */
    /* for each scored document, the likeliest path; NULL if not known */
    pl_likeliest *likeliest;
    uint64_t *bytes; /* [n_docs] bytes of the counted text of each document */
    size_t n_docs;
    int n_open;             /* number of paths that may be chosen */
    pl_every_choice *every; /* [wish.n_every, n_docs]; NULL: none */
    evaluation_wish wish;
    /* n_targets: number of counted tokens; n_bytes: bytes of the text of these
     * tokens */
    uint64_t n_targets, n_bytes;
    /* scores of the path that is best in hindsight, chosen per document and per piece
     * of `prefix` tokens */
    pl_score best, best_pieces;
    double rate; /* training tokens per second of one machine: the mean over all arms */
    /* purity and normalised mutual information of the paths and the domains of the
     * training documents; purity_k8: the purity of a router with 8 paths, to compare
     * runs; NaN if the documents have no domains */
    double purity, nmi, purity_k8;
    double seconds;
} evaluation;

/* Opens the run's held-out text as r->valid. The text is hashed and checked, because
 * damaged text would give wrong numbers that look right. */
pl_status evaluation_open_valid(pl_run *r);
/* Scores the versions in a run's store that `wish` names (NULL: the newest versions).
 * The run may be training meanwhile. */
pl_status evaluate(pl_run *r, pl_store *store, const evaluation_wish *wish,
                   evaluation *out);
void evaluation_clear(evaluation *e);
/* Returns the path that answers the scored document with index i. */
static inline int evaluation_path(const evaluation *e, size_t i)
{
    return e->answer == ROW_LIKELIHOOD ? e->likeliest[i].path : e->path_of[i];
}
pl_json *evaluation_json(const pl_run *r, const evaluation *e);
/* Prints the table of results; the other function prints what only `pathloom eval`
 * shows: documents by path, choices in hindsight, perplexity by domain. */
void evaluation_print(const pl_run *r, const evaluation *e);
void evaluation_print_details(const pl_run *r, const evaluation *e);
/* If the run was lengthened (train.more): also evaluates the last versions of the
 * chapter before, and says whether the longer run is better. */
pl_status evaluation_print_before(pl_run *r, pl_store *store, const evaluation *e);
/* Writes "12.3 ±0.4" and the unit, or only "12.3" and the unit if there is only one
 * document, so that the error is not known. "±" has two bytes but takes one column, so
 * `width` columns need one byte more. */
void evaluation_write_error(char out[48], int width, int digits, double value,
                            double error, const char *unit);
/* loss_report.c: if a baseline is better than the mixture, says why. */
void evaluation_print_loss(const pl_run *r, const evaluation *e);
/* every_report.c: prints the rows of pl_every_rows for the values of wish.every, or
 * makes a JSON array of them. */
void evaluation_print_every(const evaluation *e);
pl_json *evaluation_every_json(const evaluation *e);
/* text_report.c: evaluation_read_text encodes a text with the run's tokenizer and sets
 * r->valid to it; evaluation_text_clear is called after the run is closed. The other
 * functions print one line per document, or make a JSON array of the lines. */
pl_status evaluation_read_text(pl_run *r, const char *path, evaluation_text *out);
void evaluation_text_clear(evaluation_text *text);
void evaluation_print_documents(const pl_run *r, const evaluation *e);
pl_json *evaluation_documents_json(const pl_run *r, const evaluation *e);
/* Deletes the report of the run that has this store: the newest versions are about to
 * change, and the report describes the versions before. Does nothing if the store
 * belongs to no run. `train` and the end of training write the report again. */
pl_status run_drop_report(const char *store);

/* Prints one line of text from each path (at most 8 paths), prompted with the beginning
 * of a held-out document of that path. */
pl_status evaluation_samples(pl_run *r, pl_store *store, const evaluation *e);
