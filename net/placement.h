/* Computes which home owns a name: rendezvous hashing with weights (docs/PROTOCOL.md
 * 2.4).
 *
 *   h_i  = XXH3-64 of "home I NAME",  u_i = h_i / 2^64
 *   home = argmin over i of -log2(u_i) / w_i
 *
 * Home i gets the fraction w_i / sum w of all names (Thaler & Ravishankar 1998; with
 * weights: Schindelhauer & Schomaker 2005). If a home is added or gets a higher weight,
 * names move only to that home, from all other homes in proportion. The logarithm is
 * computed with integers, so all machines get the same result. With equal weights the
 * home with the highest h_i is chosen. */
#ifndef PL_NET_PLACEMENT_H
#define PL_NET_PLACEMENT_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PL_HOMES_MAX = 16, PL_WEIGHT_MAX = 10000, PL_PLACES_TEXT = 160 };

/* Refs in a home's store: the table in use, and the next table. */
#define PLACES_REF      "sys/places"
#define PLACES_NEXT_REF "sys/places-next"

/* The table of weights. A newer table has a higher epoch; epoch 0 means that no table
 * was ever made. */
typedef struct pl_places {
    uint64_t epoch;
    int n;
    int weights[PL_HOMES_MAX]; /* with weight 0 a home gets no names */
} pl_places;

/* makes a table with epoch 0 and weight 1 for each of n homes */
void pl_places_equal(pl_places *out, int n);
int pl_places_home(const pl_places *places, const char *name);
/* Tables are stored and sent as the text "EPOCH W1 W2 ...". ERR_DATA: the text is not a
 * table. */
void pl_places_format(const pl_places *places, char out[PL_PLACES_TEXT]);
PL_MUST_CHECK pl_status pl_places_parse(const char *text, pl_places *out);

#ifdef __cplusplus
}
#endif
#endif
