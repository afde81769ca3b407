/* Leases for tests that speak to a home without a hub: sealed with the home's secret,
 * which it tells whoever says that it is the hub of a job that is not encrypted. */
#ifndef PL_TESTS_LEASES_H
#define PL_TESTS_LEASES_H
#include "outer/outer.h"
#include "net/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern pl_lease_secret home_secret; /* of the home that was asked last */

void learn_secret(const char *home);

pl_lease lease_of(const pl_arm *arm, int64_t path, int64_t phase, uint64_t token);

void act_under(pl_client *client, const pl_lease *lease);

/* For a contribution of a whole phase, whose samples are filled in. */
void lease_for(pl_client *client, const pl_arm *arm, pl_contribution *c, int64_t phase);

#endif
