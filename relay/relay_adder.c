/* A thread that adds the updates of a group and sends the sum. If the home refuses the
 * sum, the thread sends each update unchanged. The thread waits for the home's answers,
 * so that the relay's loop need not wait. */
#include "codec/codec.h"
#include "relay/relay_internal.h"

#include <stdlib.h>

static int by_contributor(const void *a, const void *b)
{
    relay_part *const *x = a, *const *y = b;
    return pl_submission_order((*x)->submit.contributors, (*y)->submit.contributors);
}

typedef struct joined {
    pl_contribution contributor;
    pl_submission_proof proof;
    pl_hash *receipt; /* of its part */
} joined;

static int joined_order(const void *a, const void *b)
{
    const joined *x = a, *y = b;
    return pl_submission_order(&x->contributor, &y->contributor);
}

/* ---- sending sums and updates ---- */
/* A single update is uploaded under its lease, so that the home checks the lease before
 * it keeps bytes. A sum has several leases. The relay has no task key: it cannot check
 * the home's answers, and those to an upload and a SUBMIT have no proof. */
static pl_status send_update(relay_adder *u, const pl_submit_message *s,
                             const pl_codec_message *update, pl_submit_result *result,
                             char text[256], pl_hash *receipts)
{
    if (atomic_load(&u->stopping))
        return pl_fail(PL_ERR_CANCELLED,
                       "the relay is stopping; send the update again");
    pl_sealed_lease lease = {.len = s->n == 1 ? s->proofs->len : 0};
    memcpy(lease.bytes, s->proofs->lease, lease.len);
    pl_client_act_under(u->home, &lease);
    return pl_client_submit_as(u->home, s, update->data, update->bytes, result, text,
                               receipts);
}

/* Sends a sum, with the contributors of all its parts and what they have shown. The
 * home accepts the whole sum or none of its parts. Sets *in to whether the home has the
 * updates of the sum now. Fails only without the home, or if the relay is stopping. */
static pl_status send_sum(relay_adder *u, relay_group *g, const bool *taken,
                          const pl_codec_message *sum, bool *in)
{
    pl_submit_result result = PL_SUBMIT_REJECTED;
    char text[256];
    /* the SUBMITs of the parts differ only in contributors and the update's hash */
    pl_submit_message s = g->parts[0]->submit;
    s.n = 0;
    joined *all = pl_alloc((size_t)g->n_contributors * sizeof *all);
    for (int i = 0; i < g->n_parts; i++) {
        const pl_submit_message *one = &g->parts[i]->submit;
        for (int k = 0; taken[i] && k < one->n; k++)
            all[s.n++] = (joined){one->contributors[k], one->proofs[k],
                                  &g->parts[i]->receipts[k]};
    }
    qsort(all, (size_t)s.n, sizeof *all, joined_order);
    s.contributors = pl_alloc((size_t)s.n * sizeof *s.contributors);
    s.proofs = pl_alloc((size_t)s.n * sizeof *s.proofs);
    pl_hash *receipts = pl_alloc((size_t)s.n * sizeof *receipts);
    for (int i = 0; i < s.n; i++) {
        s.contributors[i] = all[i].contributor;
        s.proofs[i] = all[i].proof;
    }
    pl_blob_hash(sum->data, sum->bytes, &s.update);
    pl_status status = send_update(u, &s, sum, &result, text, receipts);
    for (int i = 0; i < s.n; i++)
        *all[i].receipt = receipts[i];
    pl_free(receipts);
    pl_free(all);
    pl_submission_clear(&s);
    if (status == PL_ERR_TIMEOUT || status == PL_ERR_CANCELLED)
        return status;
    *in =
        status == PL_OK && (result == PL_SUBMIT_ACCEPTED ||
                            result == PL_SUBMIT_DUPLICATE || result == PL_SUBMIT_OTHER);
    for (int i = 0; *in && i < g->n_parts; i++) {
        g->n_summed += taken[i];
        if (taken[i])
            g->parts[i]->result = result;
    }
    return PL_OK;
}

static void add_and_send(void *self, void *job)
{
    relay_adder *u = self;
    relay_group *g = job;
    bool taken[PL_SUBMISSION_MAX] = {true}, in = false;
    pl_buf sums[2] = {{0}};
    pl_status status = PL_OK;
    /* parts are sorted, so that the sum does not depend on their arrival */
    qsort(g->parts, (size_t)g->n_parts, sizeof g->parts[0], by_contributor);
    /* Adds to the first part all other parts that can be added. The sums are written to
     * two buffers in turn. */
    int n = 1;
    uint64_t n_values = 0;
    pl_codec_message sum = {g->parts[0]->blob->data, g->parts[0]->blob->bytes};
    (void)pl_codec_claims_homomorphic(sum.data, (size_t)sum.bytes, &n_values);
    for (int i = 1; i < g->n_parts; i++) {
        const staging_blob *b = g->parts[i]->blob;
        pl_buf *next = &sums[n % 2];
        pl_buf_clear(next);
        taken[i] = pl_codec_combine(sum.data, sum.bytes, b->data, b->bytes,
                                    (size_t)n_values, next) == PL_OK;
        if (!taken[i])
            continue;
        sum = (pl_codec_message){next->data, next->len};
        n++;
    }
    /* A sum of sketches (codec sketch16) may have too many entries to be decoded.
     * Without this check the home would refuse such a sum, but only after all its bytes
     * were sent. */
    double norm = 0;
    if (n > 1 &&
        pl_codec_add(sum.data, sum.bytes, (size_t)n_values, 1.0f, NULL, &norm) == PL_OK)
        status = send_sum(u, g, taken, &sum, &in);
    pl_buf_destroy(&sums[0]);
    pl_buf_destroy(&sums[1]);
    for (int i = 0; i < g->n_parts; i++) {
        relay_part *part = g->parts[i];
        if (in && taken[i])
            continue;
        pl_codec_message update = {part->blob->data, part->blob->bytes};
        part->status = status != PL_OK
                           ? status
                           : send_update(u, &part->submit, &update, &part->result,
                                         part->text, part->receipts);
        if (part->status != PL_OK)
            pl_copy_text(part->text, sizeof part->text, pl_last_error());
    }
}

/* ---- the thread and its queue ---- */
static pl_status on_adder_wait(void *context)
{
    relay_adder *u = context;
    pl_link l;
    pl_client_link(u->home, &l);
    atomic_store(&u->moved, l.up_bytes + l.n_full);
    return atomic_load(&u->stopping)
               ? pl_fail(PL_ERR_CANCELLED,
                         "the relay is stopping; send the update again")
               : PL_OK;
}

pl_status relay_adder_create(const pl_relay_options *options, relay_adder **out)
{
    pl_status status = PL_OK;
    relay_adder *u = pl_alloc(sizeof *u);
    pl_client_options client = {.homes = &options->home,
                                .n_homes = 1,
                                .patience_ms = options->patience_ms,
                                .idle = on_adder_wait,
                                .idle_context = u};
    *out = NULL;
    PL_TRY(pl_client_create(&client, &u->home));
    PL_TRY(pl_actor_start("adder", add_and_send, u, &u->actor));
    *out = u;
    u = NULL;
done:
    relay_adder_destroy(&u);
    return status;
}

void relay_adder_stop(relay_adder *u)
{
    atomic_store(&u->stopping, 1);
    pl_actor_stop(u->actor);
}

void relay_adder_destroy(relay_adder **adder)
{
    relay_adder *u = *adder;
    if (!u)
        return;
    relay_adder_stop(u);
    pl_actor_destroy(&u->actor);
    pl_client_destroy(&u->home);
    pl_free(u);
    *adder = NULL;
}
