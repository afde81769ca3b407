/* Private to the folder home: the norm gate. The gate refuses an update whose norm is
 * far above the usual norm of the module's updates. An update of a broken or hostile
 * worker may ruin the module for all paths, even if all its values are finite.
 *
 * The usual norm is the median norm of the newest contributions to the module's
 * versions (at most NORM_GATE_MEMORY of them). So it is the same after a restart, and
 * no single worker can change it much. A sum of n updates may be n times as long. */
#pragma once
#include <stddef.h>

enum { NORM_GATE_MEMORY = 32, NORM_GATE_LEAST = 4 };
/* The gate accepts an update whose norm is at most this fraction of the norm of the
 * module's parameters, even if the norms of other updates are much smaller. */
#define NORM_GATE_HARMLESS 0.1

/* A gate whose fields are all zero is empty. */
typedef struct norm_gate {
    double norms[NORM_GATE_MEMORY]; /* ring buffer of the newest norms */
    size_t n_noted;                 /* number of norms noted so far */
} norm_gate;

void norm_gate_note(norm_gate *gate, double norm);
/* Returns the usual norm; 0 while fewer than NORM_GATE_LEAST norms are known. */
double norm_gate_usual(const norm_gate *gate);
