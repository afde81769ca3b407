/* The state of a path: the vectors that it passes from phase to phase in addition to
 * the versions of modules, and their size and form in the state's blob
 * (docs/PROTOCOL.md section 3.3). The optimizer's moments are always the first two. */
#pragma once
#include "outer/arm.h"

/* number of values per block of an i8 vector; each block is followed by 2 bytes with an
 * exponent e, and its scale is 2^e */
enum { PL_STATE_I8_BLOCK = 256 };
enum { PL_PATH_VECTORS_MAX = 7 };

/* The positions of the vectors in a path's state, which is passed from phase to phase.
 * A position is -1 if the arm has no such vector. */
typedef struct pl_path_layout {
    int n_vectors; /* number of vectors; 0 if the arm scores */
    int residual;  /* the part of updates that a lossy codec has not sent yet */
    int params;    /* the path's own parameters: noloco x_i, streaming */
    int velocity;  /* noloco v_i */
    /* noloco: the last vector that the path has sent, which is the offer (or the
     * update, if two vectors are sent) */
    int last;
    int before;   /* noloco with two vectors: x at the start of the phase */
} pl_path_layout; /* vectors 0 and 1 are the optimizer's m and v */
pl_path_layout pl_path_layout_of(const pl_arm *arm);
/* Returns the number of values of vector v. It is one per parameter, except that with
 * Muon the second moments have no values for the matrices that Muon updates
 * (pl_shape_hidden_params). */
size_t pl_path_vector_floats(const pl_arm *arm, int v, size_t n_params);
size_t pl_path_moments_floats(const pl_arm *arm, size_t n_params);
/* pl_path_kind: the form in which vector v is sent; pl_path_vector_bytes: its size. */
pl_state_kind pl_path_kind(const pl_arm *arm, int v);
uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params);
/* Reads values first .. first+n-1 of a vector of `size` values, which is stored in this
 * form at `at`. NULL stands for a vector of zeros, and so does PL_STATE_LOCAL. */
void pl_path_read(pl_state_kind kind, const uint8_t *at, size_t size, size_t first,
                  size_t n, float *out);
uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params);

/* Returns the bytes that a worker sends and fetches per phase if it stays with a path,
 * as means over many phases: its updates and its state (pl_outer.state_every), and the
 * new versions. Updates that are compressed may be smaller. */
void pl_phase_bytes(const pl_arm *arm, const pl_topology *topology, double *up,
                    double *down);
