/* folder: workers. A module and its holders: paths that have their own parameters of
 * the module. Here holders train and exchange updates without a network. Tests that
 * need a home can start one. */
#pragma once
#include "codec/codec.h"
#include "home/home.h"
#include "tests/support/leases.h"
#include "tests/support/tiny_arm.h"
#include "outer/outer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/support/suite.h"

enum {
    HOLDERS_MAX = 4,
    PHASES = 6,
    MODULE = 0 /* the embedding, which all paths share */
};

typedef struct holder {
    float *params, *velocity, *last, *before; /* the parts of the path's state */
    /* start, now: parameters before and after the phase; sent, sent_start: first and
     * second vector of the update, as a receiver decodes them; residual: the codec's
     * residual */
    float *start, *now, *update, *sent, *residual, *sent_start;
    /* results of the method's equations in double precision. x: parameters; v:
     * velocity; d: share * update in this round; step: noloco's step */
    double *x, *v, *d, *step;
} holder;

typedef struct world {
    pl_arm arm;
    pl_topology *topology;
    pl_contract contract;
    int k;
    size_t n;
    float *zero; /* parameters of version 0 */
    holder of[HOLDERS_MAX];
    /* [round][holder] true: in this round the holder did not get its mate's update */
    bool is_split[PHASES][HOLDERS_MAX];
    /* the home, in tests that start one */
    char dir[64], store[PL_PATH_MAX], ready[PL_PATH_MAX];
    volatile sig_atomic_t stop;
    pl_status home_status;
    pl_thread *home;
    pl_client *client;
} world;

float *floats(const world *w);

double *doubles(const world *w);

world *new_world(pl_method method, int k, const char *codec);

void end_world(world **owner);

/* Computes w->contract from the arm, which a test may have changed. */
const pl_contract *contract_of(world *w);

pl_holder slot_of(world *w, int i, int64_t phase);

double share(world *w, int i);

/* Stands in for a phase of training: moves the parameters of the holder towards a point
 * that differs per holder, and adds noise. */
void train(world *w, int i, int64_t phase);

int n_vectors(world *w);

void encode_one(world *w, int i, int64_t phase, double norm, float *residual,
                pl_buf *out);

void assert_near(const world *w, const float *got, const double *want,
                 double tolerance);

void mean_of_holders(const world *w, double *out);

/* ---- noloco ---- */
int mate_of(world *w, int i, int64_t round);

/* Takes each holder's outer step after phase `phase` - 1, if there is such a phase.
 * Then sets the parameters with which the holder starts `phase`. */
void begin_gossip(world *w, int64_t phase);

void end_gossip(world *w, int64_t phase, double norm, pl_buf encoded[]);

void forget(pl_buf encoded[]);

world *new_gossip(int k, const char *codec, double gamma, pl_rule rule);

/* ---- the home ---- */
void raise_home(world *w);

void start_home(world *w);

void lower_home(world *w);

void end_home(world *w);

void submit(world *w, int i, int64_t round, const pl_buf *encoded);

pl_version_facts wait_holder_version(world *w, int64_t number);

/* Reads floats of a blob into `out`, beginning with float number `first`. */
void fetch(world *w, const pl_hash *blob, size_t first, float *out);
