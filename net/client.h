/* A client of the homes: blobs, versions, objects, submissions.
 *
 * Calls block and retry: if a home restarts, they wait for it (up to `patience_ms`). A
 * question may be sent again, because a repeated question changes nothing at a home.
 * One thread per client. `idle` is called at least every 100 ms while waiting, so that
 * a worker can keep its lease alive; a failure that it returns ends the call. */
#ifndef PL_NET_CLIENT_H
#define PL_NET_CLIENT_H
#include "net/messages.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_client pl_client;
typedef struct pl_client_options {
    const char *const *homes; /* addresses of the homes, in placement order */
    int n_homes;
    const pl_places *places; /* weights of the homes; NULL: equal */
    /* key pair for the connections, borrowed; NULL: the process's own */
    const pl_keypair *keys;
    int patience_ms;
    pl_status (*idle)(void *context);
    void *idle_context;
} pl_client_options;

PL_MUST_CHECK pl_status pl_client_create(const pl_client_options *options,
                                         pl_client **out);
void pl_client_destroy(pl_client **client);
/* Sets the sealed lease (net/lease.h) under which uploads, submissions and meetings are
 * sent from now on. With len 0 there is no lease; only the job's own processes may do
 * that. ERR_PROTO: the lease is too long. */
PL_MUST_CHECK pl_status pl_client_act_under(pl_client *client, const uint8_t *lease,
                                            size_t len);
uint64_t pl_client_bytes_sent(const pl_client *client);

/* Appends the whole blob to out and checks its hash. `name` determines the home: a blob
 * lies in the home of the module, path or object that names it. */
PL_MUST_CHECK pl_status pl_client_get_blob(pl_client *c, const char *name,
                                           const pl_hash *blob, pl_buf *out);
/* Sends the blob to the home of `name`, with several pieces under way at once. */
PL_MUST_CHECK pl_status pl_client_put_blob(pl_client *c, const char *name,
                                           const void *data, uint64_t bytes,
                                           pl_hash *blob);
PL_MUST_CHECK pl_status pl_client_put_object(pl_client *c, const char *name,
                                             const void *data, uint64_t bytes,
                                             pl_hash *blob);
/* Gets the hash of an object's blob. ERR_NOT_FOUND if there is no such object. */
PL_MUST_CHECK pl_status pl_client_get_object(pl_client *c, const char *name,
                                             pl_hash *blob);
PL_MUST_CHECK pl_status pl_client_put_ref(pl_client *c, const char *name,
                                          const char *target);
/* Makes version 0 of a module from fp32 parameters. A repeated call is harmless. */
PL_MUST_CHECK pl_status pl_client_create_module(pl_client *c, const char *module,
                                                const float *params, size_t n,
                                                const pl_hash *config);
enum { PL_NEWEST = -1 };
typedef struct pl_version_facts {
    uint64_t number;
    /* `momentum` is a zero hash if the store no longer has it */
    pl_hash params, momentum;
    /* `change` is the blob of the difference to the parameters of `parent`; zero if not
     * kept */
    pl_hash change, parent;
    double norm; /* norm of the update that made the version */
} pl_version_facts;
/* Gets a version's record; PL_NEWEST stands for the newest version. ERR_NOT_FOUND if
 * there is no such version yet. */
PL_MUST_CHECK pl_status pl_client_get_version(pl_client *c, const char *module,
                                              int64_t number, pl_version_facts *out);
/* Gets the update that (path, replica) sent in a round, for its mate under noloco: it
 * is pending, or part of one of the two newest versions. ERR_NOT_FOUND: the update has
 * not come yet. */
PL_MUST_CHECK pl_status pl_client_get_update(pl_client *c, const char *module,
                                             int64_t round, int path, int replica,
                                             pl_hash *update);
/* noloco with a deadline: asks whether (path, replica) and its mate of this round meet.
 * The first wish decides, and the decision never changes; OPEN expresses no wish.
 * ERR_STALE: both mates are already in later rounds. */
PL_MUST_CHECK pl_status pl_client_meet(pl_client *c, const char *module, int64_t round,
                                       int path, int replica, pl_meeting wish,
                                       pl_meeting *decision);
PL_MUST_CHECK pl_status pl_client_get_path(pl_client *c, const char *name,
                                           pl_path_state *out);

/* One update of a module; `bytes` at `data` are the encoded update. */
typedef struct pl_submission {
    const char *module;
    pl_contribution contribution; /* pl_client_submit fills in the hash of the update */
    uint64_t base_version;        /* the version that the update is relative to */
    pl_hash base;                 /* hash of that version's parameters */
    const void *data;
    uint64_t bytes;
} pl_submission;
/* `text` (256 bytes) gets the reason of a rejection. */
PL_MUST_CHECK pl_status pl_client_submit(pl_client *c, pl_submission *submission,
                                         pl_submit_result *result, char text[256]);
/* Submits a complete SUBMIT message, which is what a relay has. */
PL_MUST_CHECK pl_status pl_client_submit_as(pl_client *c, const char *module,
                                            pl_message *submit, const void *data,
                                            uint64_t bytes, pl_submit_result *result,
                                            char text[256]);
/* Set state->moments to the hash of the moments, or to zero if it is not known. */
PL_MUST_CHECK pl_status pl_client_submit_path(pl_client *c, const pl_path_state *state,
                                              const void *moments, uint64_t bytes,
                                              pl_submit_result *result, char text[256]);
/* Submits a whole task: n updates, then the path's state. If one home owns all names,
 * everything becomes durable in one commit; else the state is sent after every update
 * is durable. results and texts have n + 1 entries; the last one is for the path's
 * state. */
PL_MUST_CHECK pl_status pl_client_submit_task(pl_client *c, pl_submission *submissions,
                                              int n, const pl_path_state *state,
                                              const void *moments, uint64_t bytes,
                                              pl_submit_result *results,
                                              char (*texts)[256]);

#ifdef __cplusplus
}
#endif
#endif
