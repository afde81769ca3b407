/* Private to the home: the norm gate. An update whose norm is far above its module's
 * usual norm is not merged: even if all its values are finite, an update of a broken or
 * hostile worker may ruin a module for all paths.
 *
 * The usual norm is the median over the newest contributions to versions (at most
 * NORM_GATE_MEMORY). So the usual norm is the same after a restart, and no single
 * worker can change it much. Homomorphic updates need no gate: their scale is computed
 * from the update norm of the module's previous version, and larger values are clipped
 * (pl_codec_exponent). */
#ifndef PL_HOME_NORM_GATE_H
#define PL_HOME_NORM_GATE_H
#include <stddef.h>

enum { NORM_GATE_MEMORY = 32, NORM_GATE_LEAST = 4 };
/* An update whose norm is at most this share of the norm of its module's parameters is
 * accepted, however short other updates are. */
#define NORM_GATE_HARMLESS 0.1

/* A gate whose fields are all zero knows no norm yet. */
typedef struct norm_gate {
    double norms[NORM_GATE_MEMORY]; /* ring buffer of the newest norms */
    size_t n_noted;                 /* number of norms noted so far */
} norm_gate;

void norm_gate_note(norm_gate *gate, double norm);
/* The usual norm; 0 while fewer than NORM_GATE_LEAST are known. */
double norm_gate_usual(const norm_gate *gate);

#endif
