/* Private to wire: limits how much each key may ask of one server per second.
 *
 * Every key has a token bucket: it holds at most QUOTA_AT_ONCE, gains QUOTA_PER_S per
 * second, and every message takes its cost out of it. If the bucket holds less than the
 * cost, the message is dropped. The sender repeats the message, because every client
 * repeats a question that is not answered. Other clients are not affected. An
 * invitation or a revoked key has a small bucket (QUOTA_OTHERS_...); all keys that are
 * not in the list share one. The list bounds the number of buckets. The job's own keys
 * and the keys of hubs, homes and administrators have no limit.
 *
 * An honest worker renews its lease every 0.5 s, so it sends 2 messages per second. It
 * also loads data in pieces of up to 1 MiB, and each piece costs 1. So the limit of a
 * key is enough for 64 workers (the hub accepts no more per key) and for 4,000 pieces
 * per second, which is more than an encrypted connection can transfer.
 *
 * A client may also ask for data and not read them. So the messages of a key are also
 * dropped while more than QUOTA_UNSENT bytes of answers to it wait to be sent. */
#pragma once
#include "base/wire.h"
PL_C_BEGIN

enum {
    QUOTA_PER_S = 4000,
    QUOTA_AT_ONCE = 8000,
    QUOTA_RELAY = 8, /* a relay's key has so many times the share of a worker's */
    QUOTA_PARTS = 8,
    QUOTA_OTHERS_PER_S = 100,
    QUOTA_OTHERS_AT_ONCE = 400,
    QUOTA_UNSENT = 512 << 20 /* 64 workers whose windows have 8 MiB */
};

typedef struct quota quota; /* the object belongs to one thread */
quota *quota_create(void);
void quota_destroy(quota **q); /* accepts NULL */

/* Takes `cost` out of the sender's bucket. Returns false if the bucket holds less. */
bool quota_take(quota *q, const pl_peer *from, unsigned cost, int64_t now_ms);
/* Bytes of answers to one key that wait to be sent. Any thread may take bytes off. */
typedef struct quota_unsent quota_unsent;
/* Adds bytes; NULL: the key has no limit. */
quota_unsent *quota_give(quota *q, const pl_peer *to, size_t bytes);
void quota_sent(quota_unsent *u, size_t bytes); /* accepts NULL */
/* Takes as much as the key gains in QUOTA_PARTS times these seconds (pl_wire_charge).
 */
void quota_charge(quota *q, const pl_peer *from, double seconds, int64_t now_ms);

PL_C_END
