/* Computes which home owns a name: rendezvous hashing (docs/PROTOCOL.md 2.4).
 *
 *   h_i  = XXH3-64 of "home I NAME"
 *   home = argmax over i of h_i
 *
 * Every home gets an equal share of all names (Thaler & Ravishankar 1998). The number
 * of homes is fixed while a job runs, so every process computes the same home. */
#pragma once
#include "base/base.h"

enum { PL_HOMES_MAX = 16 };

/* Refs that are not placed by their own name: the meetings of modules
 * ("meet/MODULE/..."), which are where the module is. */
#define PL_MEET_REFS "meet/"

/* Returns the number (from 0) of the name's home; 0 if n_homes is below 2. */
int pl_home_of(const char *name, int n_homes);
