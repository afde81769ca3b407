/* A client of the homes: it gets and sends blobs, versions and objects, and submits
 * updates.
 *
 * A call blocks until its question is answered. If a home restarts, or if the
 * connection breaks, a call waits at most `patience_ms` and asks again; a transfer goes
 * on where it was. A question may be sent several times, because a repeated question
 * changes nothing at a home. Only one thread may use a
 * client. While a call waits, it calls `idle` at least every 100 ms, so that a worker
 * can renew its lease. If `idle` returns a failure, the call ends with this failure. */
#pragma once
#include "net/submission.h"

typedef struct pl_client pl_client;
/* What a client has measured of its connection to one process. Numbers are 0 while they
 * are not known. Bytes are those of blobs, without headers. */
typedef struct pl_link {
    /* rates that transfers of blobs reached; they fall slowly if transfers get slower
     */
    double up_bytes_per_s, down_bytes_per_s;
    uint32_t rtt_ms;               /* the shortest round trip, rounded up */
    uint64_t up_bytes, down_bytes; /* sent, and received, since the client was made */
    /* those of the bytes above that were sent or arrived more than once */
    uint64_t repeated_bytes;
    uint32_t n_connects; /* number of connections that were made */
    uint32_t n_full;     /* how often a home answered that it has no room yet */
} pl_link;
typedef enum pl_direct {
    PL_DIRECT_NONE,
    PL_DIRECT_SAFE, /* only by https://, from services with a valid certificate */
    PL_DIRECT_OWN   /* also by http:// on this machine: the homes are the user's own */
} pl_direct;
typedef struct pl_client_options {
    /* addresses of the homes, in the order of their numbers */
    const char *const *homes;
    int n_homes;
    /* key pair for the connections, borrowed; NULL: the key pair of the process */
    const pl_keypair *keys;
    /* longest time for which a call waits while nothing arrives from the home */
    int patience_ms;
    /* the largest blob that an untrusted server may send; 0: no limit */
    uint64_t blob_max;
    /* whether large blobs may go directly from and to the service that keeps a home's
     * chunks (client_direct.c) */
    pl_direct direct;
    pl_status (*idle)(void *context);
    void *idle_context;
} pl_client_options;

pl_status pl_client_create(const pl_client_options *options, pl_client **out);
void pl_client_destroy(pl_client **client);
/* Sets the lease (net/lease.h) under which uploads, submissions and meetings are sent
 * from now on. NULL: no lease; homes accept this only from the job's own processes. */
void pl_client_act_under(pl_client *client, const pl_sealed_lease *lease);
uint64_t pl_client_bytes_sent(const pl_client *client);
/* Describes the connections to all homes together: sums of bytes and connections, and
 * the rates and round trip of the home with which most bytes were exchanged. Call it on
 * the client's thread, for example in `idle`. */
void pl_client_link(const pl_client *client, pl_link *link);
/* Changes patience_ms for the calls that run, and for later ones. */
void pl_client_set_patience(pl_client *client, int patience_ms);
/* Returns the ms since this client lost a home; 0: connected. */
int64_t pl_client_lost_ms(const pl_client *client, int home);

/* Appends the complete blob to `out` and checks the blob's hash. `name` determines the
 * home that is asked: a blob is stored in the home that owns the module, path or object
 * to which the blob belongs. */
pl_status pl_client_get_blob(pl_client *c, const char *name, const pl_hash *blob,
                             pl_buf *out);
typedef struct pl_wanted {
    const char *name; /* as for pl_client_get_blob */
    pl_hash blob;
    uint64_t expected; /* bytes that it should have; 0: not known */
    pl_buf *out;
} pl_wanted;
/* Fetches the blobs together: small ones need one round trip and not one each. The
 * answers need memory for all of them. On failure every `out` is as before, except of
 * blobs that another home has sent already. */
pl_status pl_client_get_blobs(pl_client *c, const pl_wanted *wants, size_t n);
/* Sends the blob in pieces to the home of `name`. Several pieces are sent before the
 * first one is acknowledged. If the home has no room, the call waits for room without
 * sending bytes, and without a time limit as long as the home says so. */
pl_status pl_client_put_blob(pl_client *c, const char *name, const void *data,
                             uint64_t bytes, pl_hash *blob);
pl_status pl_client_put_object(pl_client *c, const char *name, const void *data,
                               uint64_t bytes, pl_hash *blob);
pl_status pl_client_get_object(pl_client *c, const char *name, pl_hash *blob);
pl_status pl_client_put_ref(pl_client *c, const char *name, const char *target);
/* Makes version 0 of a module from n fp32 parameters. `config` is the hash of the
 * configuration. A repeated call is harmless. */
pl_status pl_client_create_module(pl_client *c, const char *module, const float *params,
                                  size_t n, const pl_hash *config);
typedef struct pl_version_facts {
    uint64_t number;
    pl_hash params;
    /* `change` is the blob with the encoded difference to the parameters with the hash
     * `parent`; zero if the store does not keep it */
    pl_hash change, parent;
    double norm; /* norm of the update that made the version */
} pl_version_facts;
/* Gets a version's record; PL_NEWEST stands for the newest version. ERR_NOT_FOUND if
 * there is no such version yet. */
pl_status pl_client_get_version(pl_client *c, const char *module, int64_t number,
                                pl_version_facts *out);
typedef struct pl_wanted_version {
    const char *module;
    int64_t number;
    pl_version_facts *out;
    pl_status status; /* PL_OK, or ERR_NOT_FOUND as of pl_client_get_version */
} pl_wanted_version;
/* Gets the records in one round trip. Any other error ends the call. */
pl_status pl_client_get_versions(pl_client *c, pl_wanted_version *wants, int n);
/* noloco: gets the update that (path, replica) sent in a round, for its mate. The
 * update may still wait for its round, or belong to one of the two newest versions.
 * ERR_NOT_FOUND: the update has not arrived yet. */
pl_status pl_client_get_update(pl_client *c, const char *module, int64_t round,
                               int path, int replica, pl_hash *update);
/* noloco with a deadline: asks the home whether (path, replica) and its mate of this
 * round meet (take the step as a pair). The first `wish` that the home gets is the
 * decision, and it never changes. With PL_MEETING_OPEN as the wish, the call only asks
 * for the decision. ERR_STALE: both mates are already in later rounds. */
pl_status pl_client_meet(pl_client *c, const char *module, int64_t round, int path,
                         int replica, pl_meeting wish, pl_meeting *decision);
pl_status pl_client_get_path(pl_client *c, const char *name, pl_path_state *out);

/* One update of a module. The encoded update has `bytes` bytes at `data`. */
typedef struct pl_submission {
    const char *module;
    pl_contribution contribution; /* pl_client_submit fills in the hash of the update */
    uint64_t base_version;        /* the version that the update is relative to */
    pl_hash base;                 /* hash of that version's parameters */
    const void *data;
    uint64_t bytes;
    pl_hash receipt; /* set by the client: the home's receipt; zeros: there is none */
} pl_submission;
/* Uploads an update and submits it. *result says what the home did with the update, and
 * `text` gets the reason of a rejection. */
pl_status pl_client_submit(pl_client *c, pl_submission *submission,
                           pl_submit_result *result, char text[256]);
/* Submits `s` as it is, with the bytes of its update. A relay uses this function,
 * because it forwards or adds the messages of workers. `receipts` [s->n] get the homes'
 * receipts, or zeros. */
pl_status pl_client_submit_as(pl_client *c, const pl_submit_message *s,
                              const void *data, uint64_t bytes,
                              pl_submit_result *result, char text[256],
                              pl_hash *receipts);
/* Submits all results of a task: n updates, then the path's state. If the job has one
 * home, one commit makes everything durable; with several homes, the state is sent when
 * every update is durable. `results` and `texts` have n + 1 entries; the last one is
 * for the path's state. state->moments is its hash; with 0 bytes only the hash is sent,
 * and the home must not need the state (pl_phase_uploads). */
pl_status pl_client_submit_task(pl_client *c, pl_submission *submissions, int n,
                                const pl_path_state *state, const void *moments,
                                uint64_t bytes, pl_submit_result *results,
                                char (*texts)[256]);

/* Stops all homes from writing for `ms` (at most 10 s; 0 ends the stop). sequences
 * [n_homes] gets the newest commit of each home. If all stores, when read, still end
 * with these commits, they are a consistent snapshot. */
pl_status pl_client_hold_all(pl_client *c, int64_t ms, uint64_t *sequences);
