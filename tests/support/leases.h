/* Makes leases for tests that use homes without a hub. The test makes the secret that
 * seals leases and tells it to the homes, as a hub does. */
#pragma once
#include "outer/outer.h"
#include "net/net.h"
#include "tests/support/suite.h"

extern pl_lease_secret home_secret; /* set by tell_secret */

/* Sends `q` to a home as a hub with this epoch (UINT64_MAX: none is newer) and destroys
 * it. The caller destroys the answer. */
pl_status ask_home(const char *home, pl_message *q, uint64_t epoch, pl_message *answer);

/* Tells the secret to a home, which is from now on the only one that is told of leases.
 * tell_secret_also adds a home. */
void tell_secret(const char *home);
void tell_secret_also(const char *home);
/* Tells it also that it is home `number` of n. */
void tell_number(const char *home, int number, int n);

/* A token of 0 becomes 1: homes refuse results without a token. */
pl_lease lease_of(const pl_arm *arm, int64_t path, int64_t phase, uint64_t token);

/* Tells the homes that only this lease of its path is valid, and that `newest` is the
 * highest token of the path. */
void tell_valid(const pl_arm *arm, const pl_lease *lease, uint64_t newest);
void act_under(pl_client *client, const pl_arm *arm, const pl_lease *lease);

/* Submits only the state of a path, with the hash in the state or, if that is zero, the
 * hash of the moments. */
pl_status send_state(pl_client *client, const pl_path_state *state, const void *moments,
                     uint64_t bytes, pl_submit_result *result, char text[256]);

/* Makes a lease for the contribution c and lets the client work under it. Sets the
 * samples in c (the first one and their number) to those of the whole phase. */
void lease_for(pl_client *client, const pl_arm *arm, pl_contribution *c, int64_t phase);
