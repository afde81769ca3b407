/* Seals and opens leases. A record is read only after its MAC was found correct, so an
 * error in it can only be the hub's. */
#include "net/lease.h"

void pl_lease_secret_create(pl_lease_secret *out)
{
    pl_keypair pair;
    pl_keypair_create(&pair);
    memcpy(out->bytes, pair.secret, sizeof out->bytes);
    pl_keypair_wipe(&pair);
}

static void write_record(const pl_lease *lease, pl_buf *out)
{
    pl_put_text(out, PL_TAG_NAME, lease->worker);
    pl_put_text(out, PL_TAG_DEVICE, lease->device);
    pl_put_bytes(out, PL_TAG_KEY, lease->key.bytes, sizeof lease->key.bytes);
    pl_put_text(out, PL_TAG_ARM, lease->arm);
    pl_put_u64(out, PL_TAG_PATH, (uint64_t)lease->path);
    pl_put_u64(out, PL_TAG_REPLICA, (uint64_t)lease->replica);
    pl_put_u64(out, PL_TAG_PHASE, (uint64_t)lease->phase);
    pl_put_u64(out, PL_TAG_TOKEN, lease->token);
}

void pl_lease_seal(const pl_lease_secret *secret, const pl_lease *lease, pl_buf *out)
{
    pl_buf record = {0};
    pl_hash mac;
    write_record(lease, &record);
    pl_hash_keyed("lease", secret->bytes, record.data, record.len, &mac);
    pl_buf_append(out, mac.bytes, sizeof mac.bytes);
    pl_buf_append(out, record.data, record.len);
    pl_buf_destroy(&record);
}

pl_status pl_lease_open(const pl_lease_secret *secret, const uint8_t *bytes, size_t len,
                        pl_lease *out)
{
    pl_reader r;
    pl_hash mac;
    size_t key_len = 0;
    memset(out, 0, sizeof *out);
    if (len < sizeof mac.bytes || len > PL_LEASE_MAX)
        return pl_fail(PL_ERR_STALE, "a lease has %zu bytes; leases have %zu to %d",
                       len, sizeof mac.bytes, PL_LEASE_MAX);
    const uint8_t *record = bytes + sizeof mac.bytes;
    size_t record_len = len - sizeof mac.bytes;
    pl_hash_keyed("lease", secret->bytes, record, record_len, &mac);
    if (!pl_hash_is_mac(&mac, bytes))
        return pl_fail(PL_ERR_STALE,
                       "the lease was not given by this job's hub, or was changed");
    pl_reader_open(&r, "a lease", record, record_len);
    pl_get_text(&r, PL_TAG_NAME, 0, out->worker, sizeof out->worker);
    pl_get_text(&r, PL_TAG_DEVICE, 0, out->device, sizeof out->device);
    const uint8_t *key = pl_get_bytes(&r, PL_TAG_KEY, 0, &key_len);
    pl_get_text(&r, PL_TAG_ARM, 0, out->arm, sizeof out->arm);
    out->path = (int64_t)pl_get_u64(&r, PL_TAG_PATH, 0);
    out->replica = (int64_t)pl_get_u64(&r, PL_TAG_REPLICA, 0);
    out->phase = (int64_t)pl_get_u64(&r, PL_TAG_PHASE, 0);
    out->token = pl_get_u64(&r, PL_TAG_TOKEN, 0);
    PL_RETURN_IF(pl_reader_status(&r));
    if (key_len != sizeof out->key.bytes)
        return pl_fail(PL_ERR_PROTO, "a lease's key has %zu bytes", key_len);
    memcpy(out->key.bytes, key, key_len);
    return PL_OK;
}
