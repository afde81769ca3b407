/* Decides which short windows share a row (packing.h), by the method "best fit
 * decreasing".
 *
 * The room of a row is its number of free tokens. The short windows are placed from the
 * longest to the shortest. Each window goes into the row with the least room among the
 * rows that have enough room. If no row has enough room, the window begins a new row.
 * Windows of equal length are placed in the order of their documents, so the result
 * depends only on the lengths. There is one list of rows for each amount of room below
 * T (the length of a row), and one bit per list that says whether it has rows. */
#include "corpus/packing.h"

typedef struct rooms {
    /* [T] per amount of room: the document that began the newest row with it */
    uint32_t *first;
    /* [n] for a document that began a row: the document of the next older row with
     * equal room */
    uint32_t *other;
    /* one bit per amount of room: whether a row has exactly this room */
    uint64_t *some;
} rooms;

uint64_t packing_skipped(uint32_t n_tokens, int context, int skip_prefix)
{
    uint64_t T = (uint64_t)context, prefix = (uint64_t)skip_prefix;
    uint64_t n_targets = (uint64_t)n_tokens - 1;
    /* the last target of window w is target (w+1)*T, or the document's last target */
    if (n_targets < prefix)
        return (n_targets + T - 1) / T;
    return prefix <= T ? 0 : (prefix + T - 1) / T - 1;
}

static void put_row(rooms *r, uint32_t room, uint32_t doc)
{
    if (room == 0)
        return;
    r->other[doc] = r->first[room];
    r->first[room] = doc;
    r->some[room / 64] |= 1ull << room % 64;
}

/* Fills p->next; sets tails[d] to 0 if document d's short window begins no row. */
static pl_status pack_tails(uint32_t *tails, uint32_t n, uint32_t T, packing *p)
{
    static const char what[] = "the packing of short windows";
    pl_status status = PL_OK;
    void *next = NULL, *order = NULL, *other = NULL;
    rooms r = {0};
    uint64_t *counts = pl_alloc(((size_t)T + 1) * sizeof *counts);
    r.first = pl_alloc((size_t)T * sizeof *r.first);
    r.some = pl_alloc(((size_t)T / 64 + 1) * sizeof *r.some);
    memset(r.first, 0xff, (size_t)T * sizeof *r.first);
    PL_TRY(pl_try_alloc((size_t)n * sizeof(uint32_t), what, &next));
    p->next = next;
    PL_TRY(pl_try_alloc((size_t)n * sizeof(uint32_t), what, &order));
    PL_TRY(pl_try_alloc((size_t)n * sizeof(uint32_t), what, &other));
    r.other = other;
    /* lists the documents that have a short window, those with the longest windows
     * first */
    uint32_t *by_length = order;
    uint64_t n_tails = 0;
    for (uint32_t i = 0; i < n; i++) /* `counts` is zero here */
        counts[tails[i]]++;
    for (uint32_t length = T; length-- > 1;) {
        uint64_t count = counts[length];
        counts[length] = n_tails;
        n_tails += count;
    }
    for (uint32_t i = 0; i < n; i++)
        if (tails[i] > 0)
            by_length[counts[tails[i]]++] = i;
    for (uint32_t i = 0; i < n_tails; i++) {
        const uint32_t doc = by_length[i], length = tails[doc];
        p->next[doc] = PACKING_END;
        /* takes, from its list, the row with the least room among those with enough */
        uint32_t word = length / 64;
        uint64_t bits = r.some[word] & (~0ull << length % 64);
        while (bits == 0 && ++word * 64 < T)
            bits = r.some[word];
        if (bits == 0) {
            put_row(&r, T - length, doc);
            continue;
        }
        const uint32_t room = word * 64 + (uint32_t)__builtin_ctzll(bits);
        const uint32_t owner = r.first[room];
        r.first[room] = r.other[owner];
        if (r.first[room] == PACKING_END)
            r.some[word] &= ~(1ull << room % 64);
        p->next[doc] = p->next[owner];
        p->next[owner] = doc;
        tails[doc] = 0;
        put_row(&r, room - length, owner);
    }
done:
    pl_free(other);
    pl_free(order);
    pl_free_all(r.some, r.first, counts);
    return status;
}

pl_status packing_make(const pl_tokens *tokens, const uint32_t *docs, uint32_t n,
                       const pl_sampler_options *o, packing *out)
{
    static const char what[] = "the sampler's document index";
    pl_status status = PL_OK;
    void *rows = NULL, *lengths = NULL;
    *out = (packing){0};
    if (o->context < 1 || o->n_replicas < 1 || o->replica < 0 ||
        o->replica >= o->n_replicas || o->skip_prefix < 0)
        return pl_fail(PL_ERR_ARG,
                       "a sampler needs context >= 1, 0 <= replica < n_replicas and "
                       "skip_prefix >= 0, not context %d, replica %d of %d, "
                       "skip_prefix %d",
                       o->context, o->replica, o->n_replicas, o->skip_prefix);
    PL_TRY(pl_try_alloc(((size_t)n + 1) * sizeof(uint64_t), what, &rows));
    out->first_row = rows;
    PL_TRY(pl_try_alloc(((size_t)n + 1) * sizeof(uint32_t), what, &lengths));
    uint32_t *tails = lengths;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_tokens = pl_tokens_doc(tokens, docs ? docs[i] : i)->n_tokens;
        const uint64_t T = (uint64_t)o->context, n_targets = (uint64_t)n_tokens - 1;
        const uint64_t windows = (n_targets + T - 1) / T -
                                 packing_skipped(n_tokens, o->context, o->skip_prefix);
        /* the number of targets in the last window if this window is short */
        tails[i] = windows > 0 ? (uint32_t)(n_targets % T) : 0;
        /* here first_row[i] is only the number of the document's full windows */
        out->first_row[i] = windows - (tails[i] > 0);
    }
    if (o->pack && n > 0)
        PL_TRY(pack_tails(tails, n, (uint32_t)o->context, out));
    uint64_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t rows_of = out->first_row[i] + (tails[i] > 0);
        out->first_row[i] = next;
        next += rows_of;
    }
    out->first_row[n] = next;
done:
    pl_free(lengths);
    if (status != PL_OK)
        packing_clear(out);
    return status;
}

void packing_clear(packing *p)
{
    pl_free(p->first_row);
    pl_free(p->next);
    *p = (packing){0};
}
