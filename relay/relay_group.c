/* Decides which updates are added to one sum, and how long they wait for others. */
#include "codec/codec.h"
#include "relay/relay_internal.h"

/* Returns whether the update can be added to the group. Two workers that did the same
 * task may both send an update to the relay; a sum may contain only one of the two. */
static bool fits_group(const relay_group *g, const pl_submit_message *s)
{
    const pl_submit_message *first = &g->parts[0]->submit;
    const bool same_round =
        strcmp(first->module, s->module) == 0 && first->round == s->round &&
        first->base_version == s->base_version && pl_hash_equal(&first->base, &s->base);
    if (!same_round || g->n_contributors + s->n > g->limit)
        return false;
    for (int i = 0; i < g->n_parts; i++) {
        const pl_submit_message *a = &g->parts[i]->submit;
        for (int c = 0; c < a->n; c++)
            for (int k = 0; k < s->n; k++)
                if (pl_submission_order(&a->contributors[c], &s->contributors[k]) == 0)
                    return false;
    }
    return true;
}

void relay_groups_add(relay_group **all, relay_part *part, uint64_t values_max)
{
    relay_group **at = all;
    /* A group is complete at this number of contributors. An update that cannot be
     * added gets a separate group, which is complete at once: the relay sends it
     * unchanged, and the home's answer says why it is wrong. The claimed number of
     * values determines how much memory an addition takes. It is read again here,
     * because the bytes need not begin as the question for room said. */
    pl_codec_info info;
    uint64_t n = 0;
    const staging_blob *b = part->blob;
    int limit = part->submit.n;
    if (pl_codec_claims_homomorphic(b->data, (size_t)b->bytes, &n) && n <= values_max &&
        pl_codec_inspect(b->data, b->bytes, (size_t)n, &info) == PL_OK &&
        info.contributors == part->submit.n)
        limit = info.n_contributors < PL_SUBMISSION_MAX ? info.n_contributors
                                                        : PL_SUBMISSION_MAX;
    while (*at && (limit != (*at)->limit || !fits_group(*at, &part->submit)))
        at = &(*at)->next;
    if (!*at) {
        *at = pl_alloc(sizeof **at);
        (*at)->limit = limit;
        (*at)->since_ms = pl_now_ms();
    }
    relay_group *g = *at;
    g->parts[g->n_parts++] = part;
    g->n_contributors += part->submit.n;
}

relay_group *relay_groups_take(relay_group **all, const pl_relay_options *options,
                               bool everybody_waits)
{
    for (relay_group **at = all; *at; at = &(*at)->next) {
        relay_group *g = *at;
        const bool is_due = g->n_contributors >= g->limit ||
                            (options->expect > 0 && g->n_parts >= options->expect) ||
                            pl_now_ms() - g->since_ms >= options->wait_ms;
        if (!everybody_waits && !is_due)
            continue;
        *at = g->next;
        g->next = NULL;
        return g;
    }
    return NULL;
}

void relay_group_destroy(relay_group **group, staging *uploads)
{
    relay_group *g = *group;
    if (!g)
        return;
    for (int i = 0; i < g->n_parts; i++) {
        staging_free(uploads, g->parts[i]->blob);
        pl_submission_clear(&g->parts[i]->submit);
        pl_free(g->parts[i]->receipts);
        pl_free(g->parts[i]);
    }
    pl_free(g);
    *group = NULL;
}
