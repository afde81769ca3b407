/* Computes how the parameters of two versions differ, tensor by tensor. */
#pragma once
#include "outer/outer.h"

/* Sums over the `n` values of one tensor or of a whole module. For each value let `a`
 * be its number in the first version, `b` its number in the second, and d = b - a. `aa`
 * is the sum of a * a; `bb`, `ab` and `dd` likewise. `max` is the largest |d|,
 * `n_changed` the number of values whose bits differ. */
typedef struct pl_difference {
    double aa, bb, ab, dd, max;
    uint64_t n, n_changed;
} pl_difference;

double pl_difference_relative(const pl_difference *d); /* |b - a| / |a| */
double pl_difference_cosine(const pl_difference *d);
double pl_difference_changed(const pl_difference *d);

typedef struct pl_comparison {
    pl_store *store; /* the store to read; the caller sets this field */
    char arm_name[PL_MODULE_NAME_MAX]; /* the name of `arm`; "" if no arm was read */
    pl_arm arm;
    pl_topology *topology; /* NULL if the store does not define the arm */
    float *x, *y;          /* [n] parameters of the two versions */
    /* n: parameters of the module; width: of the longest tensor name, or "all" */
    size_t n, width;
    /* slot of the module; -1: the module's tensors are not known */
    int slot;
    bool equal; /* whether the two versions have the same hash */
} pl_comparison;

/* Reads both versions. The definition of the arm names the tensors. Without the
 * definition each module is compared as one vector. The definition is kept for the next
 * call. ERR_NOT_FOUND: garbage collection removed the parameters of a version.
 * ERR_USAGE: the versions have different numbers of parameters. */
pl_status pl_comparison_load(pl_comparison *c, const pl_version *a,
                             const pl_version *b);
/* Calls fn for each tensor, unless the versions are equal or the tensors are not known.
 * In every case, a last call is made for the whole module, with `tensor` NULL. */
typedef void (*pl_difference_fn)(void *context, const char *tensor, const char *shape,
                                 const pl_difference *d);
void pl_comparison_run(const pl_comparison *c, pl_difference_fn fn, void *context);
void pl_comparison_clear(pl_comparison *c);
