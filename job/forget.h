/* Exact unlearning (pathloom forget): a run ends with the parameters that it would have
 * if some documents had never been in its samples.
 *
 * Definition. A forgotten document is blank (corpus/corpus.h): it keeps its place in
 * its shard and its weight, but none of its tokens is read and none of its targets
 * counts. So all other samples, and the sums of all other updates, stay the same.
 * RUN/data/forgotten lists these documents. Each line has the hash of a text and a word
 * for the parts of the run in which the text is blank:
 *
 *   paths   in the mixture and its baselines; base model, router and tokenizer have
 *           read it
 *   start   in the base model and the router, too; only the tokenizer has read it
 *
 * A run that has the list from its beginning (data.forget), and a run that forgets a
 * document after it has ended, have the same parameters.
 *
 * How a run forgets. The store is copied without the data that depends on the documents
 * (history/rewind.h). Then the copy replaces the store. This exchange of the stores
 * uses these files:
 *
 *   RUN/forget/store   the copy; without RUN/forget/ready it is incomplete, and the
 *                      next command makes it again
 *   RUN/forget/ready   the new list; once this file exists, the exchange is decided:
 *                      every command that opens the run finishes it first
 *   RUN/forgotten/N    the old store, until `forget --purge` deletes it
 *
 * After the exchange, the training of the run has not ended; `train` continues it to
 * its end. */
#pragma once
#include "job/run.h"

typedef struct forgotten {
    uint64_t *hashes; /* [n] owned */
    bool *starts;     /* [n] the word `start`; owned */
    size_t n;
} forgotten;

/* Reads a list. If there is no file, the list is empty. The sentence of ERR_CONFIG
 * names the line that is wrong. The caller calls forgotten_clear, also after a
 * failure. */
pl_status forgotten_read(const char *path, forgotten *out);
pl_status forgotten_parse(const char *what, const pl_buf *text, forgotten *out);
void forgotten_clear(forgotten *list);

/* For `train`. In a new run, the first function makes the list of data.forget the list
 * of the run. In every run, it makes the listed documents blank in the training text:
 * those with the word `start`, or all if `all` is true. The second function stores the
 * list in the homes, where `pathloom check` reads it. */
pl_status forgotten_blank(pl_run *r, bool all);
pl_status forgotten_note(const pl_run *r);

typedef struct forget_request {
    const char *run;
    const char *const *docs; /* files, folders, or hashes of 16 hex digits */
    int n_docs;              /* 0: forget nothing, only delete the old stores */
    /* from_start: base model and router forget, too; only_cost: print the cost and
     * change nothing; purge: delete the old stores */
    bool from_start, only_cost, purge;
} forget_request;

/* Prints the cost, then replaces the store by one without the effect of the documents.
 * Sets *trains to true if that store lacks phases, so that the caller must train the
 * run to its end. ERR_BUSY: the training has not ended. ERR_UNSUPPORTED: the run cannot
 * forget exactly. */
pl_status forget_run(const forget_request *q, bool *trains);
/* If RUN/forget/ready exists, finishes the exchange of the stores. Otherwise does
 * nothing. */
pl_status forget_finish(const char *dir);
