/* Private to job: the parts of a page (page.h). */
#ifndef PL_JOB_PAGE_INTERNAL_H
#define PL_JOB_PAGE_INTERNAL_H
#include "job/job.h"
#include "job/page.h"
#include "job/page_history.h"
#include "job/page_log.h"

enum { PAGE_LEASES_MAX = 8192, PAGE_SAMPLES = 64 };

typedef struct page_lease {
    int64_t wall_ms, phase;
    char task[PL_NAME_MAX + PL_ARM_NAME_MAX];
    int worker;
} page_lease;

/* How much was done at a time, for the rate. */
typedef struct page_sample {
    int64_t ms;
    double done;
} page_sample;

struct page {
    pl_run r;
    char folder[PL_PATH_MAX]; /* of the store */
    pl_store *store;          /* NULL: there is none yet */
    char trouble[512];        /* why the store cannot be read; "": it can */
    uint64_t sequence;        /* of the state that was looked at */
    bool finished, reading;
    bool anew; /* the store is to be opened anew */
    page_history history;
    page_log log;
    page_lease *leases; /* a ring of the newest */
    uint64_t n_leases;
    int joined[PAGE_WORKERS_MAX]; /* how often each worker joined */
    pl_json *hub;                 /* its newest status; NULL: no job runs */
    bool silent;                  /* a job seems to run, but its hub does not answer */
    int64_t asked_ms;
    pl_json *report; /* NULL: the run was not evaluated */
    int64_t report_ms;
    page_sample samples[PAGE_SAMPLES];
    int n_samples;
    uint64_t number;
};

/* page_modules.c: answers /modules.json */
PL_MUST_CHECK pl_status page_modules_json(page *p, const pl_page_question *q,
                                          pl_buf *out);
/* page_state.c */
void page_state_json(const page *p, pl_buf *out);
/* Steps done and to do, of the arms in the hub's status. */
void page_work(const pl_json *hub, double *done, double *total);

#endif
