/* Private to wire: how much each key may ask of one server per second.
 *
 * A token bucket for each key: it holds QUOTA_AT_ONCE, gains QUOTA_PER_S in a second,
 * and every message takes out its cost. A message that finds too little is dropped,
 * which costs its sender a repetition (every question is repeated until it is answered)
 * and nobody else anything. Keys that may not speak, and invitations, have one small
 * bucket together. The keys of the job itself, hubs, homes and administrators have
 * none.
 *
 * An honest worker with 0.5 s between renewals sends 2 messages a second and the pieces
 * of what it loads, each of up to 1 MiB (cost 4). So a key has room for its 64 workers,
 * and for 1,000 MiB/s, which is more than an encrypted connection carries. */
#ifndef PL_BASE_QUOTA_H
#define PL_BASE_QUOTA_H
#include "base/wire.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    QUOTA_PER_S = 4000,
    QUOTA_AT_ONCE = 8000,
    QUOTA_OTHERS_PER_S = 100,
    QUOTA_OTHERS_AT_ONCE = 400
};

typedef struct quota quota; /* of one thread */
quota *quota_create(void);
void quota_destroy(quota **q); /* accepts NULL */

/* Takes `cost` out of the sender's bucket; false: it has less. */
bool quota_take(quota *q, const pl_peer *from, unsigned cost, int64_t now_ms);

#ifdef __cplusplus
}
#endif
#endif
