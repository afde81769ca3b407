/* Private to view: the parts of a page (page.h). */
#pragma once
#include "job/job.h"
#include "view/page.h"
#include "view/page_heat.h"
#include "view/page_log.h"

enum { PAGE_LEASES_MAX = 8192, PAGE_SAMPLES = 64 };

typedef struct page_lease {
    int64_t wall_ms, phase;
    char task[PL_NAME_MAX + PL_ARM_NAME_MAX]; /* "mix/p01.r0" */
    int worker; /* number in the history's list of workers; -1: not listed */
} page_lease;

/* The number of inner steps done at a certain time; used to compute the time left. */
typedef struct page_sample {
    int64_t ms;
    double done;
} page_sample;

/* Routes the texts that a browser sends. */
typedef struct page_route {
    pl_mixture mix;
    text_router *router; /* NULL: not opened yet */
    uint64_t sequence;   /* commit number of the store when the router was opened */
    int64_t free_ms;     /* no text is accepted before this time */
    char note[256]; /* why the page does not route by the run's rule; "" if it does */
} page_route;

struct page {
    pl_run r;
    /* for a job on another machine, otherwise NULL: the hub's address, and the file
     * with the key. r.dir is then a folder for the copy of the hub's log, which
     * page_close removes. */
    const char *hub_at, *key;
    uint64_t log_read;        /* bytes of the hub's log that were copied */
    char folder[PL_PATH_MAX]; /* the store's folder */
    pl_store *store;          /* NULL: there is no store yet */
    char trouble[512];        /* why the store cannot be read; "" if it can */
    uint64_t sequence;        /* commit number of the state that was read last */
    bool finished;            /* the run has ended */
    bool reading;             /* there are versions that were not read yet */
    bool anew;                /* page_tick must open the store again */
    phase_history history;
    page_log log;
    page_lease *leases;            /* [PAGE_LEASES_MAX] a ring of the newest leases */
    uint64_t n_leases;             /* number of leases so far */
    int joined[PHASE_WORKERS_MAX]; /* [worker] how often each worker joined */
    pl_json *hub;      /* the hub's newest status; NULL: the hub has not answered */
    bool silent;       /* a job seems to be running, but its hub does not answer */
    int64_t asked_ms;  /* time when the hub was asked last */
    pl_json *report;   /* report.json; NULL: not evaluated yet */
    int64_t report_ms; /* when report.json was last changed */
    page_sample samples[PAGE_SAMPLES]; /* the oldest first */
    int n_samples;
    uint64_t number; /* number of the newest state; rises with each change */
    page_route route;
};

uint64_t page_asked_number(const pl_page_question *q, const char *name, uint64_t other);
pl_status page_modules_json(page *p, const pl_page_question *q, pl_buf *out);
pl_status page_router_json(page *p, const pl_page_question *q, pl_buf *out);
void page_route_close(page_route *route);
void page_state_json(const page *p, pl_buf *out);
/* Adds up the inner steps of all arms in the hub's status: *done gets the number of
 * steps that are done, *total the number of all steps. */
void page_work(const pl_json *hub, double *done, double *total);
