/* Seals and opens leases. A record is read only after its MAC was checked, so a wrong
 * record can only come from the hub. */
#include "net/lease.h"

void pl_lease_secret_create(pl_lease_secret *out)
{
    pl_keypair pair;
    pl_keypair_create(&pair);
    memcpy(out->bytes, pair.secret, sizeof out->bytes);
    pl_keypair_wipe(&pair);
}

static const pl_field lease_fields[] = {PL_FIELD(pl_lease, PL_TAG_NAME, worker),
                                        PL_FIELD(pl_lease, PL_TAG_DEVICE, device),
                                        PL_FIELD(pl_lease, PL_TAG_KEY, key.bytes),
                                        PL_FIELD(pl_lease, PL_TAG_ARM, arm),
                                        PL_FIELD(pl_lease, PL_TAG_PATH, path),
                                        PL_FIELD(pl_lease, PL_TAG_REPLICA, replica),
                                        PL_FIELD(pl_lease, PL_TAG_PHASE, phase),
                                        PL_FIELD(pl_lease, PL_TAG_TOKEN, token),
                                        PL_FIELD(pl_lease, PL_TAG_LATE, late),
                                        PL_FIELDS_END};

void pl_lease_seal(const pl_lease_secret *secret, const pl_lease *lease, pl_buf *out)
{
    pl_buf record = {0};
    pl_hash mac;
    pl_put_fields(&record, lease_fields, lease);
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
    memset(out, 0, sizeof *out);
    if (len < sizeof mac.bytes || len > PL_LEASE_MAX)
        return pl_fail(PL_ERR_STALE,
                       "a lease of %zu bytes was sent, but leases have %zu to %d bytes",
                       len, sizeof mac.bytes, PL_LEASE_MAX);
    const uint8_t *record = bytes + sizeof mac.bytes;
    size_t record_len = len - sizeof mac.bytes;
    pl_hash_keyed("lease", secret->bytes, record, record_len, &mac);
    if (!pl_hash_is_mac(&mac, bytes))
        return pl_fail(PL_ERR_STALE,
                       "the lease was not made by this job's hub, or was changed");
    pl_reader_open(&r, "a lease", record, record_len);
    pl_get_fields(&r, lease_fields, out);
    return pl_reader_status(&r);
}
