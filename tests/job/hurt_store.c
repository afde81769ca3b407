/* folder: store
 *
 * Damages a copy of a store in one way. The damaged records have correct checksums, as
 * if a faulty program had written them. Usage: hurt_store FOLDER DAMAGE
 *
 *   lost, twice      version 1 of mix/L1.E0 lacks a contribution, or has one twice
 *   update, config   version 1 has an update of the newest version, or a wrong config
 *   params, origin   the newest version, or version 0, has the parameters of version 1
 *   rounds, weight   version 1 has the samples of version 2 and vice versa, or a wrong
 *                    weight
 *   rollback         version 2 has become a rollback that nobody made
 *   older            as a release without sums of rows and records of rollbacks leaves
 *                    it: the newest commit has no sum, and no record is there
 *   path, back       the state of mix/p00 is one phase too far, or two phases behind
 *   shard            the data shard of mix/p00 is missing
 *   tag              the tag `early` has a wrong hash
 *   own3, own5       the third of the 3 (5) vectors in the states of all paths of mix
 * is random, and the states come from a worker that no job knows
 *
 * To damage a module, one commit writes all its versions again. */
#include "store/store_internal.h"

#include <stdio.h>
#include <string.h>

enum { VERSIONS_MAX = 64, HURT = 1 };
static const char module[] = "mix/L1.E0";

typedef struct history {
    pl_version v[VERSIONS_MAX];
    int n;
} history;

static pl_status read_history(pl_store *store, history *h)
{
    pl_version head;
    PL_CHECK(pl_store_head(store, module, &head));
    h->n = (int)head.number + 1;
    pl_version_clear(&head);
    if (h->n <= HURT || h->n > VERSIONS_MAX)
        return pl_fail(PL_ERR_ARG, "%s has %d versions", module, h->n);
    for (int i = 0; i < h->n; i++)
        PL_CHECK(pl_store_get_version(store, module, (uint64_t)i, &h->v[i]));
    return PL_OK;
}

static bool edit(const char *damage, history *h)
{
    pl_version *v = &h->v[HURT], *head = &h->v[h->n - 1];
    if (strcmp(damage, "lost") == 0)
        v->contributions[0] = v->contributions[--v->n_contributions];
    else if (strcmp(damage, "twice") == 0)
        v->contributions[1] = v->contributions[0];
    else if (strcmp(damage, "update") == 0) {
        v->contributions[0].update = head->contributions[0].update;
        v->contributions[0].update_bytes = head->contributions[0].update_bytes;
    } else if (strcmp(damage, "params") == 0)
        head->params = v->params;
    else if (strcmp(damage, "origin") == 0)
        h->v[0].params = v->params;
    else if (strcmp(damage, "rounds") == 0) {
        pl_work *a = &v->contributions[0].work, *b = &v[1].contributions[0].work;
        const uint64_t first = a->first_sample;
        a->first_sample = b->first_sample;
        b->first_sample = first;
    } else if (strcmp(damage, "weight") == 0)
        v->contributions[0].weight = 100;
    else if (strcmp(damage, "rollback") == 0) {
        v[1].n_contributions = 0;
        v[1].params = v->params;
        v[1].momentum = v[1].change = (pl_hash){{0}};
        pl_copy_text(v[1].method, sizeof v[1].method, "rollback to 1");
    } else if (strcmp(damage, "config") == 0)
        v->config.bytes[0] ^= 1;
    else
        return false;
    for (int i = 1; i < h->n; i++)
        h->v[i].parent = h->v[i - 1].params;
    return true;
}

static pl_status drop_versions(pl_txn *txn)
{
    const row_key name = key_of_name(module);
    history old;
    PL_CHECK(read_history(txn->store, &old));
    for (int i = 0; i < old.n; i++) {
        pl_version *v = &old.v[i];
        const row_key key = key_of_version(module, v->number);
        kv_delete(txn->batch, KV_VERSION, key_slice(&key));
        PL_CHECK(blob_release(txn, &v->params));
        PL_CHECK(blob_release(txn, &v->momentum));
        PL_CHECK(blob_release(txn, &v->change));
        for (int c = 0; v->has_updates && c < v->n_contributions; c++)
            PL_CHECK(blob_release(txn, &v->contributions[c].update));
        pl_version_clear(v);
    }
    kv_delete(txn->batch, KV_HEAD, key_slice(&name));
    return PL_OK;
}

static pl_status hurt_module(pl_store *store, pl_txn *txn, const char *damage)
{
    static history h;
    PL_CHECK(read_history(store, &h));
    if (!edit(damage, &h))
        return pl_fail(PL_ERR_USAGE, "there is no damage `%s`", damage);
    PL_CHECK(drop_versions(txn));
    for (int i = 0; i < h.n; i++) {
        for (int c = 0; c < h.v[i].n_contributions; c++) {
            /* put_version takes over the references that pending updates have */
            pl_status status =
                pl_txn_put_pending(txn, module, &h.v[i].contributions[c]);
            if (status != PL_ERR_EXISTS)
                PL_CHECK(status);
        }
        PL_CHECK(pl_txn_put_version(txn, &h.v[i], (pl_keep){true, true, 0}));
    }
    return PL_OK;
}

static pl_status hurt_path(pl_store *store, pl_txn *txn, int64_t phases)
{
    pl_path_state path;
    PL_CHECK(pl_store_get_path(store, "mix/p00.r0", &path));
    if (phases < 0)
        path.work.n_samples = path.work.n_samples / (uint64_t)path.phase *
                              (uint64_t)(path.phase + phases);
    path.phase += phases;
    return pl_txn_put_path(txn, &path);
}

static pl_status hurt_own(pl_store *store, pl_txn *txn, size_t n_vectors)
{
    for (int p = 0; p < 4; p++) {
        char name[PL_MODULE_NAME_MAX];
        pl_path_state path;
        uint64_t bytes = 0;
        snprintf(name, sizeof name, "mix/p%d%d.r0", p / 2, p % 2);
        PL_CHECK(pl_store_get_path(store, name, &path));
        PL_CHECK(pl_store_blob_bytes(store, &path.moments, &bytes));
        const size_t n = (size_t)bytes / sizeof(float);
        float *values = pl_alloc((size_t)bytes);
        pl_status status =
            pl_store_read_blob(store, &path.moments, 0, (size_t)bytes, values);
        for (size_t i = n / n_vectors * 2; i < n / n_vectors * 3; i++)
            values[i] = 2.0f * pl_random_normal(1, (uint64_t)p, (uint64_t)i);
        if (status == PL_OK)
            status = pl_txn_put_blob(txn, values, bytes, &path.moments);
        pl_free(values);
        PL_CHECK(status);
        pl_copy_text(path.worker, sizeof path.worker, "stranger");
        PL_CHECK(pl_txn_put_path(txn, &path));
    }
    return PL_OK;
}

static pl_status hurt_tag(pl_store *store, pl_txn *txn)
{
    pl_snapshot tag;
    pl_hash blob;
    pl_buf bytes = {0};
    PL_CHECK(pl_store_get_tag(store, "early", &tag));
    tag.items[0].params.bytes[0] ^= 1;
    pl_snapshot_encode(&tag, &bytes);
    PL_CHECK(pl_txn_put_blob(txn, bytes.data, bytes.len, &blob));
    return pl_txn_put_object(txn, "tag/early", &blob);
}

static pl_status drop_record(void *context, const pl_object *object)
{
    return pl_txn_drop_object(context, object->name);
}

/* Takes the sum of rows out of the newest commit. */
static pl_status forget_sum(pl_store *store)
{
    row_view row;
    log_record entry;
    watermark mark = {.sequence = store->sequence, .epoch = store->epoch};
    row_key key = key_of_number(store->sequence);
    PL_CHECK(row_read(store_source(store), KV_LOG, &key, &row));
    PL_CHECK(log_decode(&row, &entry));
    entry.rows = (pl_hash){{0}};
    kv_batch *batch = kv_batch_create(store->db);
    log_write(batch, store->sequence, &entry, &mark.log);
    PL_CHECK(kv_commit(store->db, batch));
    kv_batch_destroy(&batch);
    return watermark_make(store->folder, &mark);
}

static pl_status hurt(const char *folder, const char *damage)
{
    pl_store *store = NULL;
    pl_txn *txn = NULL;
    PL_CHECK(pl_store_open(folder, PL_STORE_WRITE, &store));
    PL_CHECK(pl_txn_begin(store, &txn));
    if (strcmp(damage, "path") == 0)
        PL_CHECK(hurt_path(store, txn, 1));
    else if (strcmp(damage, "back") == 0)
        PL_CHECK(hurt_path(store, txn, -2));
    else if (strcmp(damage, "tag") == 0)
        PL_CHECK(hurt_tag(store, txn));
    else if (strcmp(damage, "own3") == 0 || strcmp(damage, "own5") == 0)
        PL_CHECK(hurt_own(store, txn, (size_t)(damage[3] - '0')));
    else if (strcmp(damage, "shard") == 0)
        PL_CHECK(pl_txn_drop_object(txn, "shard/mix/p00"));
    else if (strcmp(damage, "older") == 0)
        PL_CHECK(pl_store_each_object(store, "rollback/", drop_record, txn));
    else
        PL_CHECK(hurt_module(store, txn, damage));
    PL_CHECK(pl_txn_commit(&txn));
    if (strcmp(damage, "older") == 0)
        PL_CHECK(forget_sum(store));
    pl_store_close(&store);
    return PL_OK;
}

int main(int argc, char **argv)
{
    pl_status status = argc == 3 ? hurt(argv[1], argv[2])
                                 : pl_fail(PL_ERR_USAGE, "hurt_store FOLDER DAMAGE");
    if (status != PL_OK)
        fprintf(stderr, "%s\n", pl_last_error());
    return pl_status_exit_code(status);
}
