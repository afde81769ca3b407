/* Decides which updates are added to one sum, and how long an update waits for other
 * updates. */
#include "codec/codec.h"
#include "relay/relay_internal.h"

/* ---- which updates belong together ---- */
static bool same_round(const pl_submit_message *a, const pl_submit_message *b)
{
    return strcmp(a->module, b->module) == 0 && a->round == b->round &&
           a->base_version == b->base_version && pl_hash_equal(&a->base, &b->base);
}

static bool overlap(const pl_submit_message *a, const pl_submit_message *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (pl_submission_order(&a->contributors[i], &b->contributors[k]) == 0)
                return true;
    return false;
}

/* Returns whether the update can be added to the group. Two workers that did the same
 * task may both send an update to the relay; a sum may contain only one of the two. */
static bool fits_group(const relay_group *g, const pl_submit_message *s)
{
    if (!same_round(&g->parts[0]->submit, s) || g->n_contributors + s->n > g->limit)
        return false;
    for (int i = 0; i < g->n_parts; i++)
        if (overlap(&g->parts[i]->submit, s))
            return false;
    return true;
}

/* Returns the number of contributors at which the group of this update is complete. An
 * update that cannot be added gets a separate group, which is complete at once. The
 * relay then sends the update unchanged, and the home's answer says why the update is
 * wrong. */
static int limit_of(const relay_part *part)
{
    pl_codec_info info;
    uint64_t n = 0;
    const staging_blob *b = part->blob;
    if (!pl_codec_claims_homomorphic(b->data, (size_t)b->bytes, &n) ||
        pl_codec_inspect(b->data, b->bytes, (size_t)n, &info) != PL_OK ||
        info.contributors != part->submit.n)
        return part->submit.n;
    return info.n_contributors < PL_SUBMISSION_MAX ? info.n_contributors
                                                   : PL_SUBMISSION_MAX;
}

static void append_part(relay_group *g, relay_part *part)
{
    g->parts[g->n_parts++] = part;
    g->n_contributors += part->submit.n;
}

void relay_groups_add(relay_groups *all, relay_part *part)
{
    relay_group **at = &all->first;
    int limit = limit_of(part);
    for (; *at; at = &(*at)->next)
        if (limit == (*at)->limit && fits_group(*at, &part->submit)) {
            append_part(*at, part);
            return;
        }
    relay_group *g = pl_alloc(sizeof *g);
    g->limit = limit;
    g->since_ms = pl_now_ms();
    append_part(g, part);
    *at = g;
}

/* ---- how long updates wait ---- */
static bool is_group_whole(const relay_group *g, const pl_relay_options *o)
{
    return g->n_contributors >= g->limit ||
           (o->expect > 0 && g->n_parts >= o->expect) ||
           pl_now_ms() - g->since_ms >= o->wait_ms;
}

relay_group *relay_groups_take(relay_groups *all, const pl_relay_options *options,
                               bool everybody_waits)
{
    for (relay_group **at = &all->first; *at; at = &(*at)->next) {
        relay_group *g = *at;
        if (!everybody_waits && !is_group_whole(g, options))
            continue;
        *at = g->next;
        g->next = NULL;
        return g;
    }
    return NULL;
}

int relay_groups_due_ms(const relay_groups *all, int wait_ms, int most)
{
    if (!all->first)
        return most;
    int64_t left = all->first->since_ms + wait_ms - pl_now_ms();
    if (left < 0)
        return 0;
    return left < most ? (int)left : most;
}

void relay_group_destroy(relay_group **group, staging *uploads)
{
    relay_group *g = *group;
    if (!g)
        return;
    for (int i = 0; i < g->n_parts; i++) {
        staging_free(uploads, g->parts[i]->blob);
        pl_submission_clear(&g->parts[i]->submit);
        pl_free(g->parts[i]);
    }
    pl_free(g);
    *group = NULL;
}
