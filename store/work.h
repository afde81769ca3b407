/* Included by the public header of store: the numbers of a phase. The trainer fills in
 * a pl_work, and it travels as this one struct through messages, records, the hub's
 * plan and all views. A new number needs a row in PL_WORK_MEASURES, tags in
 * store/records.c, net/messages.def and docs/PROTOCOL.md, and its measurement in
 * workers/train.c. */
#pragma once
#include "base/base.h"

/* The views that show a measurement, besides the record of an update. */
typedef enum pl_work_views {
    PL_WORK_IN_RECORDS,
    PL_WORK_OF_WORKERS, /* curves of workers and of all paths together */
    PL_WORK_OF_PATHS    /* these, and status, metrics and curves of each path */
} pl_work_views;

/* Measurements that do not influence training; 0: not measured.
 *
 *   MEASURE(type, member, rule, name, most, views, help)
 *
 * `rule` joins the values of several phases or paths to their mean, the first value
 * that is not 0, or the largest one. `name` is used in JSON, metrics and curves. A home
 * refuses values above `most`. */
#define PL_WORK_MEASURES(MEASURE)                                                      \
    MEASURE(double, gradient, MEAN, "gradient_norm", 1e15, PL_WORK_OF_PATHS,           \
            "Mean norm of a path's gradient in its last phase, before clipping")       \
    MEASURE(double, held, FIRST, "held_out_nats", 1e15, PL_WORK_IN_RECORDS,            \
            "Loss on held-out text at the start of the phase (outer/held.h), in nats") \
    MEASURE(uint64_t, memory_bytes, MOST, "memory_bytes", 0x1p50, PL_WORK_OF_WORKERS,  \
            "Largest memory of the worker's process so far")

#define PL_WORK_MEMBER(type, member, ...) type member;
/* What a worker did in a phase. In the state of a path: in all its phases, but `loss`
 * and the measurements are those of the last phase. */
typedef struct pl_work {
    /* the samples first_sample .. first_sample + n_samples - 1 of the path's stream */
    uint64_t first_sample, n_samples;
    uint64_t n_tokens; /* targets that count in the loss */
    double loss;       /* mean training loss over the phase, in nats per token */
    double seconds;    /* time spent on inner steps */
    PL_WORK_MEASURES(PL_WORK_MEMBER)
} pl_work;

/* Adds a phase to the work of all earlier phases of the path. */
void pl_work_add(pl_work *all, const pl_work *phase);
/* Joins n_later later phases, or the same phase of other paths, with n phases. */
void pl_work_join(pl_work *into, int n, const pl_work *later, int n_later);

typedef struct pl_work_measure {
    size_t offset;
    bool is_count; /* the member is a uint64_t, otherwise a double */
    const char *name;
    double most;
    pl_work_views views;
    const char *help;
} pl_work_measure;
#define PL_WORK_ONE(...) +1
enum { PL_WORK_N_MEASURES = PL_WORK_MEASURES(PL_WORK_ONE) };
extern const pl_work_measure pl_work_measures[PL_WORK_N_MEASURES];
double pl_work_value(const pl_work *work, const pl_work_measure *measure);
