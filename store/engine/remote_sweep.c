/* Garbage in an engine: objects that the store does not name.
 *
 * Two kinds of objects are kept, because this home cannot know whether they are needed:
 * objects of a higher epoch, which belong to a home that has taken the store over; and
 * commits with a higher number than the commit in the head, which belong to that home
 * or to a home that was killed.
 *
 * Chunks, bases and uploads are dropped only if their epoch is lower than this store's
 * epoch, commits only if their number is not above that of the commit in the head. This
 * store has every commit that was acknowledged under lower epochs, so such an object
 * can be dropped at once. A reader counts the objects that a writer would drop if it
 * opened the store now. */
#include "store/store_internal.h"
#include <inttypes.h>
#include <string.h>

typedef struct sweep {
    pl_store *store;
    pl_gc_report *report;
    engine_objects found;
} sweep;

/* Returns whether objects of this epoch can be garbage. For a writer, objects of its
 * present epoch are never garbage: they are named by records, about to be dropped, or
 * being written. */
static bool is_past(const pl_store *store, uint64_t epoch)
{
    return store->mode == PL_STORE_READ ? epoch <= store->epoch : epoch < store->epoch;
}

static bool chunk_is_garbage(const pl_store *store, const char *name)
{
    pl_hash id;
    chunk_record chunk;
    char hash[PL_HASH_TEXT], own[ENGINE_NAME_MAX];
    uint64_t epoch;
    const remote_doomed *doomed = &store->engine->doomed;
    const char *text = name + strlen("chunk/");
    if (strlen(text) < PL_HASH_TEXT - 1)
        return false;
    snprintf(hash, sizeof hash, "%.*s", PL_HASH_TEXT - 1, text);
    if (pl_hash_parse(hash, &id) != PL_OK ||
        sscanf(text + PL_HASH_TEXT - 1, ".%" SCNx64 ".", &epoch) != 1 ||
        !is_past(store, epoch))
        return false;
    /* if the row is damaged, none of its objects may be dropped */
    if (chunk_read(store_source(store), &id, &chunk) != PL_OK)
        return false;
    remote_chunk_name(&id, &chunk, own);
    if (chunk.exists && strcmp(own, name) == 0)
        return false;
    for (size_t i = 0; i < doomed->n; i++)
        if (strcmp(doomed->names[i].name, name) == 0)
            return false; /* this process will drop it */
    return true;
}

static bool log_is_garbage(const pl_store *store, const char *name)
{
    kv_pin pin;
    pl_hash log;
    uint64_t number;
    char own[ENGINE_NAME_MAX];
    const remote_head *head = &store->engine->head;
    if (sscanf(name, "log/%16" SCNx64 ".", &number) != 1 || number > head->sequence)
        return false;
    if (number <= head->base_sequence)
        return true;
    row_key key = key_of_number(number);
    if (kv_get(store->db, KV_LOG, key_slice(&key), &pin) != PL_OK || !pin.data)
        return false;
    pl_hash_of("log", pin.data, pin.len, &log);
    kv_unpin(&pin);
    remote_log_name(number, &log, own);
    return strcmp(own, name) != 0;
}

static pl_status note_garbage(void *context, const engine_entry *entry)
{
    sweep *s = context;
    const char *name = entry->name;
    const remote_head *head = &s->store->engine->head;
    uint64_t epoch, sequence, part;
    bool is_garbage;
    if (pl_starts_with(name, "chunk/"))
        is_garbage = chunk_is_garbage(s->store, name);
    else if (pl_starts_with(name, "log/"))
        is_garbage = log_is_garbage(s->store, name);
    else if (pl_starts_with(name, "upload/"))
        is_garbage = sscanf(name, "upload/%" SCNx64 ".", &epoch) == 1 &&
                     is_past(s->store, epoch);
    else if (pl_starts_with(name, "base/"))
        is_garbage = sscanf(name, "base/%" SCNx64 ".%" SCNx64 ".%" SCNx64, &epoch,
                            &sequence, &part) == 3 &&
                     is_past(s->store, epoch) &&
                     !(epoch == head->base_epoch && sequence == head->base_sequence);
    else /* a test object of engine_s3.c, which a killed home may have left */
        is_garbage = pl_starts_with(name, "probe/");
    if (!is_garbage)
        return PL_OK;
    pl_copy_text(engine_objects_add(&s->found)->name, ENGINE_NAME_MAX, name);
    s->report->n_garbage++;
    s->report->garbage_bytes += entry->bytes;
    return PL_OK;
}

/* A reader may also count objects of commits that it has not read yet, but it drops
 * nothing. */
pl_status remote_sweep(pl_store *store, bool run, pl_gc_report *out)
{
    sweep s = {.store = store, .report = out};
    bool found = true;
    pl_status status = PL_OK;
    if (!store->engine)
        return PL_OK;
    if (store->mode == PL_STORE_READ)
        PL_TRY(remote_read_head(store->engine, &found));
    if (found)
        PL_TRY(engine_list(store->engine->service, "", note_garbage, &s));
    if (run)
        PL_TRY(engine_drop_all(store->engine->service, s.found.at, s.found.n));
done:
    pl_free(s.found.at);
    return status;
}
