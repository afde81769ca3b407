/* folder: home. A home for the fuzz targets that send it messages, and what workers
 * send to it. */
#pragma once
#include "codec/codec.h"
#include "home/home.h"
#include "home/home_internal.h"
#include "net/net.h"
#include "tests/fault/hostile.h"

enum { STAGING = 1 << 20 };

/* Audits draw this share of the tasks, with a known secret, so that an input is
 * repeatable. */
static inline void fuzz_open_home(home *h, pl_home_options *options, const char *store,
                                  double audit, pl_socket *listens)
{
    *options = (pl_home_options){
        .store = store, .norm_gate = 10, .audit = audit, .staging_bytes = STAGING};
    *h = (home){
        .options = options,
        .socket = listens,
        .draw = {.share = audit},
        .uploads = {.keeper = "the home", .key = "store.staging", .limit = STAGING}};
    demand_ok(pl_store_open(store, PL_STORE_CREATE, &h->store),
              "the store cannot be opened");
    h->epoch = pl_store_epoch(h->store);
    demand_ok(home_load(h), "the home cannot load what it wrote");
}

static inline void fuzz_close_home(home *h)
{
    pl_txn_abort(&h->txn);
    for (size_t i = 0; i < h->n_answers; i++)
        pl_message_destroy(&h->answers[i].message);
    pl_free(h->answers);
    pl_free(h->room.tickets);
    pl_buf_destroy(&h->state);
    staging_expire(&h->uploads, true);
    home_free_waiting(h);
    home_unload(h);
    pl_store_close(&h->store);
}

/* Encodes an update of the slot's module with normally distributed values. */
static inline void fuzz_update(const pl_arm *arm, const pl_topology *topology, int slot,
                               uint64_t seed, pl_buf *out)
{
    pl_codec_part parts[32];
    const int module = pl_topology_module_of_path(topology, slot, 0);
    const int n_parts = pl_codec_parts(topology, module, NULL);
    const size_t n = pl_topology_slot(topology, slot)->n_params;
    float *update = pl_alloc(n * sizeof *update);
    fuzz_demand(n_parts <= 32, "a module has too many parts");
    (void)pl_codec_parts(topology, module, parts);
    for (size_t i = 0; i < n; i++)
        update[i] = pl_random_normal(seed, (uint64_t)slot, i) * 1e-2f;
    demand_ok(pl_codec_encode_module(&arm->outer.codec, parts, n_parts, NULL, update,
                                     NULL, out),
              "an update cannot be encoded");
    pl_free(update);
}

/* Makes the upload of a blob in one piece, under the lease of `k` if it has one. */
static inline void fuzz_upload(const known *k, const pl_hash *hash, const void *data,
                               size_t len, pl_message *out)
{
    pl_message_init(out, PL_MSG_PUT_BLOB);
    pl_put_hash(&out->body, PL_TAG_BLOB, hash);
    pl_put_u64(&out->body, PL_TAG_TOTAL, len);
    pl_put_u64(&out->body, PL_TAG_OFFSET, 0);
    if (k->lease_len > 0)
        pl_put_bytes(&out->body, PL_TAG_LEASE, k->lease, k->lease_len);
    pl_buf_append(&out->data, data, len);
}
