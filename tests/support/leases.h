/* Makes leases for tests that use a home without a hub. The leases are sealed with the
 * home's secret. A home without encryption tells its secret to every client that claims
 * to be the hub. */
#ifndef PL_TESTS_LEASES_H
#define PL_TESTS_LEASES_H
#include "outer/outer.h"
#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern pl_lease_secret home_secret; /* set by learn_secret */

void learn_secret(const char *home);

pl_lease lease_of(const pl_arm *arm, int64_t path, int64_t phase, uint64_t token);

void act_under(pl_client *client, const pl_lease *lease);

/* Makes a lease for the contribution c and lets the client work under it. Sets the
 * samples in c (the first one and their number) to those of the whole phase. */
void lease_for(pl_client *client, const pl_arm *arm, pl_contribution *c, int64_t phase);

#endif
