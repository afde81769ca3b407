/* Private to the home: an update that is far longer than its module's usual ones is not
 * merged. What a broken or hostile worker sends may be finite and still ruin a module
 * for everybody.
 *
 * Usual is the median of the norms of the newest contributions to versions (at most
 * NORM_GATE_MEMORY), so it is the same after a restart, and no single worker moves it.
 * Homomorphic updates need no gate: their scale is bounded by the norm before. */
#ifndef PL_HOME_NORM_GATE_H
#define PL_HOME_NORM_GATE_H
#include <stddef.h>

enum { NORM_GATE_MEMORY = 32, NORM_GATE_LEAST = 4 };

/* Zero: nothing known. */
typedef struct norm_gate {
    double norms[NORM_GATE_MEMORY]; /* the newest, round and round */
    size_t n_noted;                 /* ever */
} norm_gate;

void norm_gate_note(norm_gate *gate, double norm);
/* The usual norm; 0 while fewer than NORM_GATE_LEAST are known. */
double norm_gate_usual(const norm_gate *gate);

#endif
