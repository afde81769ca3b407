/* What the outer method, the codec and the topology of an arm mean for one of its
 * modules, as numbers. Hub, home and worker compute the contracts of all modules once,
 * when an arm is installed; every machine gets the same numbers. No file outside of
 * outer/ asks for the method: it reads these numbers and calls the functions below.
 *
 * A merge of a module is called a round; round r makes version r + 1. The work of a
 * path is divided into phases. For most methods phase and round have the same number.
 * The methods differ in how old the version may be from which a phase starts:
 *
 *   diloco, iso, fedavg,         phase p starts from version p
 *   heavy-ball
 *   co2 (delay D)                phase p starts from version max(0, p - D)
 *   noloco                       a phase starts from the path's own parameters; updates
 *                                are relative to version 0, which every worker has
 *   streaming (F fragments)      H is the number of inner steps between two merges of a
 *                                fragment; a phase is H/F inner steps; phase p sends
 *                                fragment p mod F, in that fragment's round p / F
 *   delayed-nesterov             a phase starts from the newest version; each arrival
 *                                of an update is a round, and only the home knows its
 *                                number
 *
 * A module with a single contributor is merged as in diloco under every method, because
 * it has no other contributors to wait for. But under streaming such a module is sent
 * in its fragment, like other modules. An arm that scores documents, and a frozen
 * module, have no rounds. */
#pragma once
#include "outer/arm.h"
#include "outer/step.h"

/* The number of a version: the newest one. */
enum { PL_NEWEST = -1 };
/* a number of rounds that no training reaches */
#define PL_FOREVER INT64_MAX
/* largest number of messages in an update */
enum { PL_ROUND_VECTORS_MAX = 2 };

typedef struct pl_contract {
    char name[96]; /* of the module, "ARM/L1.E0" */
    const pl_topology
        *topology; /* borrowed, as are `weights`; both belong to the arm */
    int module;
    size_t n_params;

    /* ---- rounds ---- */
    int n_holders;      /* number of paths through the module, times replicas */
    int n_contributors; /* number of contributions that complete a round */
    /* number of contributions after which a round can be merged without the missing
     * ones; n_contributors unless the arm has a quorum */
    int quorum;
    int window;        /* number of rounds for which updates are accepted at once */
    uint64_t n_rounds; /* of the whole training; also the number of the last version */
    /* Phase first + r * period contributes to round r; with period 0, no phase does. */
    int64_t first, period;
    /* an update of round r is relative to version max(0, r - lag) */
    int64_t lag;
    /* a phase waits for all rounds to which phases before `phase` - wait contribute */
    int64_t wait;
    bool meets;      /* holders meet in pairs after each phase (pl_round_mate) */
    bool by_arrival; /* the home numbers rounds in the order in which updates arrive */
    bool mixes;      /* new versions are mixed in during a phase (pl_round_takes) */
    bool sums;       /* whether one update may be the sum of several contributors */
    /* Whether a worker can compute the next version from its own update: its path is
     * the only contributor, and no momentum is kept. */
    bool predicts;
    int keep_late;    /* pl_keep.late */
    bool keeps_first; /* version 0 is needed during the whole training */
    /* an update may be relative to a version that is this many versions older than the
     * newest; 0: lag decides */
    uint64_t reach;

    /* ---- updates ---- */
    int n_vectors; /* number of messages in an update (outer/gossip.h) */
    bool homomorphic;
    /* whether versions are made from kept, rounded changes (outer/change.h) */
    bool keeps_change;

    /* ---- private to outer ---- */
    pl_method_settings settings;
    pl_outer_schedule schedule;
    const struct outer_method *kind; /* outer/method.h */
    bool rescale, weighted, counts_weights;
    float carries; /* see pl_holder_keep_left */
    const double *weights;
    double total_weight;   /* sum of the weights of the module's paths */
    uint64_t stream, seed; /* random numbers of the module, seed of the arm */
} pl_contract;

pl_contract pl_contract_of(const pl_arm *arm, const pl_topology *t, int module);
/* The contracts of all modules; free (pl_free) them before topology and arm. */
pl_contract *pl_contracts_create(const pl_arm *arm, const pl_topology *t);

/* Returns the number of the module's versions, without version 0, that exist when all
 * paths have finished this number of phases. */
uint64_t pl_rounds_after(const pl_contract *c, int64_t phases);
/* Returns the round to which a phase contributes, or -1 if it contributes to none. Do
 * not use the result if `by_arrival`. */
int64_t pl_round_of(const pl_contract *c, int64_t phase);
/* Returns whether an update of the phase may belong to the round. */
bool pl_round_has(const pl_contract *c, int64_t round, int64_t phase);
/* Returns the base version of this round's updates; not for `by_arrival`. */
uint64_t pl_round_base(const pl_contract *c, int64_t round);
/* Returns whether an update of this round may be relative to the version `base`. */
bool pl_round_accepts(const pl_contract *c, int64_t round, uint64_t base,
                      uint64_t newest);
/* Returns the version that must exist before the phase can begin. */
uint64_t pl_round_needs(const pl_contract *c, int64_t phase);
/* Returns the version that a worker loads before the phase: its update will be relative
 * to this version. PL_NEWEST: the newest one; below PL_NEWEST: none is needed yet. */
int64_t pl_round_start(const pl_contract *c, int64_t phase);
/* Returns the version with which a path that has lost its own parameters begins the
 * phase again. PL_NEWEST: any newest one, if versions belong to no phase. */
int64_t pl_round_restart(const pl_contract *c, int64_t phase);
/* Streaming: returns the version that is mixed into the path's parameters `overlap`
 * steps after the start of the phase; 0 if no version is mixed in. For a module with a
 * single contributor it is always 0, as the path keeps its own parameters. */
uint64_t pl_round_takes(const pl_contract *c, int64_t phase);
/* Returns the oldest version that tasks and merges still need. `needed` is the oldest
 * version that the paths' tasks name, UINT64_MAX if all paths are done. */
uint64_t pl_round_oldest(const pl_contract *c, uint64_t newest, uint64_t needed);

/* Returns a path's weight in the module's mean; all add up to 1. */
double pl_round_share(const pl_contract *c, int path);
/* Returns the values with which the codec encodes the path's update in this round. All
 * values except the weight must be equal for all contributors. `norm` is the update
 * norm of version pl_round_base. */
pl_codec_round pl_round_codec(const pl_contract *c, int path, int64_t round,
                              double norm);
/* noloco: finds the mate that a path and replica meets after `phase`. `index` and *mate
 * are path * R + replica. *mate equals `index` if there is no mate. */
pl_status pl_round_mate(const pl_contract *c, int index, int64_t phase, int *mate);

/* How the version after `newest` is made from n contributions. */
typedef struct pl_round_step {
    pl_outer_step step;
    double lr; /* outer learning rate of the round */
    /* the mean is multiplied by this, and the norm in the version's record divided */
    double factor;
    bool from_first; /* updates are relative to version 0 and become relative to
                      * `newest` by adding the difference of both versions */
    bool equalizes;  /* the singular values of matrices are made equal (outer/iso.h) */
    const char *method; /* text for the version's record */
} pl_round_step;
pl_round_step pl_round_step_of(const pl_contract *c, uint64_t newest, int n);
/* Returns the memory that a home needs to make singular values of any of these modules
 * equal; 0 if the method does not. */
uint64_t pl_equalizing_bytes(const pl_outer *outer, const pl_topology *t);
/* Returns the weight in the record of a path's contribution. */
double pl_round_record_weight(const pl_contract *c, int path);
/* Returns the weight of one of n contributions in the mean: `weight` is that of its
 * record, `total` the sum of all. */
double pl_round_weight(const pl_contract *c, int path, double weight, double total,
                       int n);
/* Computes the version that the home will make from this message, with the same
 * arithmetic as the home. Needs `predicts`. `params` is version `round` on entry and
 * version `round` + 1 on return. *norm: the update norm that the home records. */
pl_status pl_round_predict(const pl_contract *c, int64_t round,
                           const pl_codec_message *message, float *params,
                           double *norm);

/* Decodes an update of a module: out[v] gets the n_params values of vector v. If `out`
 * is NULL, the update is only checked. ERR_DATA, ERR_NUMERIC: pl_codec_add. */
pl_status pl_round_decode(const pl_contract *of, const void *data, uint64_t bytes,
                          float *const *out);
