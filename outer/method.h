/* Private to outer: the interface of outer methods. Each method tells its story in one
 * file: method_diloco.c (diloco, fedavg, heavy-ball, iso), method_noloco.c,
 * method_co2.c, method_streaming.c, method_delayed_nesterov.c. The rules of diloco are
 * the default; a method gives only what differs. */
#pragma once
#include "outer/holder.h"
#include "outer/path_layout.h"

typedef struct outer_method {
    const char *name;
    /* the coefficients that differ from those of all methods (pl_method_defaults) */
    pl_method_settings defaults;
    bool either_rule; /* both rules of momentum are allowed, not only the default */
    bool settles;     /* pl_outer_schedule.settle has an effect */
    bool quorum;      /* a round can be merged without missing updates */
    bool mates;       /* paths step in pairs, which exchange their updates */
    bool arrivals;    /* each update makes a version when it arrives */
    bool equalizes;   /* the singular values of each matrix in a mean are made equal */

    /* Copies the coefficients that the method uses; NULL: it uses no special ones. */
    void (*fit)(const pl_method_settings *wish, pl_method_settings *out);
    /* Checks the coefficients for a module (pl_method_check). */
    pl_status (*check)(const pl_method_settings *s);
    /* Adds the vectors that paths keep to the state; NULL: none. */
    void (*lay_out)(const pl_arm *arm, pl_path_layout *layout);
    /* Changes diloco's contract for a module; NULL: nothing differs. */
    void (*agree)(const pl_arm *arm, pl_contract *c);
    /* Changes diloco's way to merge a round; NULL: nothing differs. */
    void (*merge)(const pl_contract *c, pl_round_step *how);
    /* What a path does between two phases (holder.h); `begin` from phase 1 on. NULL: as
     * in diloco. */
    pl_status (*begin)(const pl_holder *h, const float *mate, const float *mate_start,
                       float *start);
    void (*update)(const pl_holder *h, const float *start, const float *now,
                   float *update);
    void (*keep)(const pl_holder *h, const float *start, const float *now,
                 const float *sent, const float *sent_start);
} outer_method;

/* Returns NULL for the number of a method that was removed. */
const outer_method *outer_method_of(pl_method method);

extern const outer_method method_diloco, method_fedavg, method_heavy_ball, method_iso,
    method_noloco, method_co2, method_streaming, method_delayed_nesterov;

/* Sets out = a - b; `out` may be one of them. */
void method_subtract(const float *a, const float *b, size_t n, float *out);

/* Checks that the step is stable if updates are late by `delay` phases. */
pl_status method_check_limit(const pl_method_settings *s, int delay);
