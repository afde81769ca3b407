/* Reads the updates of one round from the store, one batch (pl_codec_run) at a time.
 * Updates are added in the order of the contributions. If several contributions name
 * one homomorphic update, which is their sum, the update is added once. */
#include "home/home_updates.h"

struct home_updates {
    home_round round;
    int at;           /* index of the next contribution */
    int contributors; /* number of contributors of the updates read so far */
    /* [round.n] number of contributors in the contribution's update, which may be a
     * sum; set only for the first contribution that names the update */
    int *stands_for;
    /* the following fields describe the batch that the codec is reading */
    int n;
    int *indices; /* [n] the contributions whose updates are in the batch */
    pl_blob_read *reads;
    pl_codec_message *messages;
    float *weights;
    uint8_t *data;
    size_t room;
};

enum { ALIGN = 64 };

static size_t room_of(const home_updates *u, int index)
{
    return ((size_t)u->round.contributions[index].update_bytes + ALIGN - 1) / ALIGN *
           ALIGN;
}

/* Chooses the updates of the next batch, reads them, and prepares them for the codec. A
 * batch has one update per thread, or more if they are small (round.ahead_bytes). */
static pl_status next_run(void *context, bool anew, pl_codec_run *out)
{
    home_updates *u = context;
    const home_round *r = &u->round;
    const int n_threads = pl_codec_add_threads();
    size_t bytes = 0;
    *out = (pl_codec_run){.n = 0};
    if (anew)
        u->at = u->contributors = 0;
    for (u->n = 0; u->at < r->n; u->at++) {
        const pl_contribution *c = r->contributions;
        const pl_hash *update = &c[u->at].update;
        /* An update waits for the next batch if this batch has one with the same hash,
         * whose number of contributors is known only after the batch was read. */
        bool waits = false;
        for (int i = 0; r->homomorphic && i < u->n && !waits; i++)
            waits = pl_hash_equal(&c[u->indices[i]].update, update);
        if (waits)
            break;
        /* A sum of c contributors' updates is named by c contributions (or by 2c, if
         * two sums have exactly the same bytes). It is added at the first of each c
         * such contributions, and left out at the others. */
        int first = u->at, n_before = 0;
        for (int i = u->at - 1; u->round.homomorphic && i >= 0; i--)
            if (pl_hash_equal(&c[i].update, update)) {
                first = i;
                n_before++;
            }
        if (n_before > 0 && n_before % u->stands_for[first] != 0)
            continue;
        size_t more = room_of(u, u->at);
        if (u->n >= n_threads && bytes + more > r->ahead_bytes)
            break;
        bytes += more;
        u->indices[u->n++] = u->at;
    }
    if (u->n == 0) {
        if (!r->homomorphic || u->contributors == r->n)
            return PL_OK;
        return pl_fail(PL_ERR_INTERNAL,
                       "the updates of %s have %d contributors together instead of %d",
                       r->module, u->contributors, r->n);
    }
    /* Reserves a little more memory than this batch needs, because the lengths of
     * compressed updates differ from batch to batch. */
    if (bytes > u->room) {
        pl_free(u->data);
        u->data = NULL;
        u->room = 0;
        bytes += bytes / 32;
        PL_CHECK(pl_try_alloc_bare(bytes, "updates", (void **)&u->data));
        u->room = bytes;
    }
    uint8_t *to = u->data;
    for (int i = 0; i < u->n; i++) {
        const pl_contribution *c = &r->contributions[u->indices[i]];
        u->reads[i] = (pl_blob_read){&c->update, (size_t)c->update_bytes, to};
        u->messages[i] = (pl_codec_message){to, c->update_bytes};
        to += room_of(u, u->indices[i]);
    }
    PL_CHECK(pl_store_read_blobs(r->store, u->reads, (size_t)u->n));
    for (int i = 0; i < u->n; i++) {
        pl_codec_message *m = &u->messages[i], vectors[2];
        pl_codec_info info;
        if (r->homomorphic) {
            PL_CHECK(pl_codec_inspect(m->data, m->bytes, r->n_params, &info));
            u->stands_for[u->indices[i]] = info.contributors;
            u->contributors += info.contributors;
        } else {
            PL_CHECK(pl_codec_split(m->data, m->bytes, r->n_vectors, vectors));
            *m = vectors[0];
            u->weights[i] = r->weights[u->indices[i]];
        }
    }
    *out = (pl_codec_run){u->messages, r->homomorphic ? NULL : u->weights, u->n};
    return PL_OK;
}

pl_codec_source home_updates_source(home_updates *u)
{
    return (pl_codec_source){next_run, u};
}

home_updates *home_updates_create(const home_round *round)
{
    size_t n = (size_t)round->n;
    home_updates *u = pl_alloc(sizeof *u);
    u->round = *round;
    u->stands_for = pl_alloc(n * sizeof *u->stands_for);
    u->indices = pl_alloc(n * sizeof *u->indices);
    u->reads = pl_alloc(n * sizeof *u->reads);
    u->messages = pl_alloc(n * sizeof *u->messages);
    u->weights = pl_alloc(n * sizeof *u->weights);
    return u;
}

void home_updates_destroy(home_updates **updates)
{
    home_updates *u = *updates;
    if (!u)
        return;
    pl_free_all(u->stands_for, u->indices, u->reads, u->messages, u->weights, u->data,
                u);
    *updates = NULL;
}
