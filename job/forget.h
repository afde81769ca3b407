/* Exact unlearning (pathloom forget): a run ends with the parameters of a run whose
 * samples never had some documents.
 *
 * Definition. A forgotten document is blank (corpus/corpus.h): it keeps its place in
 * its shard and its weight, but none of its tokens is read and none of its targets
 * counts. So all other samples, and the sums of all other updates, stay what they were.
 * RUN/data/forgotten lists these documents, one line each: the hash of the text, and
 * from where on it is blank:
 *
 *   paths   for the mixture and its baselines: base model, router and tokenizer saw it
 *   start   for the base model and the router, too: only the tokenizer saw it
 *
 * A run that has the list from its beginning (data.forget), and a run that forgets a
 * document after it has ended, have the same parameters.
 *
 * How a run forgets. The store is copied without all that depends on the documents
 * (home/rewind.h). The copy takes the place of the store:
 *
 *   RUN/forget/store   the copy while it is made; without RUN/forget/ready it is
 *                      incomplete, and the next command makes it again
 *   RUN/forget/ready   the new list. Now it is decided: the next `train` or `forget`
 *                      first finishes the exchange
 *   RUN/forgotten/N    the old store, until `forget --purge`
 *
 * Then the run is one whose training has not ended, and `train` ends it. */
#ifndef PL_JOB_FORGET_H
#define PL_JOB_FORGET_H
#include "job/run.h"

typedef struct forgotten {
    uint64_t *hashes; /* [n] owned */
    bool *starts;     /* [n] blank from the start; owned */
    size_t n;
} forgotten;

/* Reads a list. No file: an empty list. ERR_CONFIG names the line that is wrong. Call
 * forgotten_clear also after a failure. */
PL_MUST_CHECK pl_status forgotten_read(const char *path, forgotten *out);
PL_MUST_CHECK pl_status forgotten_parse(const char *what, const pl_buf *text,
                                        forgotten *out);
void forgotten_clear(forgotten *list);

/* For `train`. The first function takes over the list of data.forget in a new run, and
 * makes documents blank in the run's training text: those that are blank from the
 * start, or with `all` every one. The second stores the list in the homes, so that
 * `pathloom check` knows it. */
PL_MUST_CHECK pl_status forgotten_blank(pl_run *r, bool all);
PL_MUST_CHECK pl_status forgotten_note(const pl_run *r);

typedef struct forget_request {
    const char *run;
    const char *const *docs; /* files, folders, or hashes of 16 hex digits */
    int n_docs;
    bool from_start, only_cost, purge;
} forget_request;

/* Prints the cost; then exchanges the store. *trains: the run must now be trained to
 * its end. ERR_BUSY: the training has not ended. ERR_UNSUPPORTED: the run cannot forget
 * exactly. */
PL_MUST_CHECK pl_status forget_run(const forget_request *q, bool *trains);
/* Finishes an exchange that was decided. Does nothing if there is none. */
PL_MUST_CHECK pl_status forget_finish(const char *dir);

#endif
