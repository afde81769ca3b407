/* Computes which home owns a name, and writes and reads the table of weights as text
 * (placement.h). The code uses only whole numbers, because every process must get the
 * same result. */
#include "net/placement.h"

#include <stdio.h>
#include <string.h>

/* Returns -log2(h / 2^64) in units of 2^-30, rounded up. The value is computed digit by
 * digit, by squaring the mantissa. It never rises when h rises. */
static uint64_t cost_of(uint64_t h)
{
    enum { DIGITS = 30 };
    uint64_t top = 63, log = 0;
    if (h == 0)
        return (uint64_t)64 << DIGITS;
    while (!(h >> top))
        top--;
    /* x is the mantissa of h, in [2^31, 2^32) */
    uint64_t x = top >= 31 ? h >> (top - 31) : h << (31 - top);
    for (int i = 0; i < DIGITS; i++) {
        x = x * x >> 31;
        uint64_t digit = x >> 32;
        log = log << 1 | digit;
        x >>= digit;
    }
    return ((64 - top) << DIGITS) - log;
}

typedef struct bid {
    uint64_t cost, hash;
    int weight;
} bid;

/* Returns whether a has the smaller cost / weight. The function compares products,
 * which are exact, because costs are below 2^37 and weights below 2^14. */
static bool is_better(const bid *a, const bid *b)
{
    uint64_t left = a->cost * (uint64_t)b->weight,
             right = b->cost * (uint64_t)a->weight;
    return left != right ? left < right : a->hash > b->hash;
}

void pl_places_equal(pl_places *out, int n)
{
    *out = (pl_places){.n = n};
    for (int i = 0; i < n; i++)
        out->weights[i] = 1;
}

int pl_places_home(const pl_places *places, const char *name)
{
    int home = 0;
    bid best = {0};
    for (int i = 0; i < places->n; i++) {
        char key[256];
        int len = snprintf(key, sizeof key, "home %d %s", i, name);
        uint64_t hash =
            pl_checksum(key, len < (int)sizeof key ? (size_t)len : sizeof key - 1);
        bid own = {cost_of(hash), hash, places->weights[i]};
        if (own.weight == 0 || (best.weight > 0 && !is_better(&own, &best)))
            continue;
        best = own;
        home = i;
    }
    return home;
}

/* ---- the table as text ---- */
void pl_places_format(const pl_places *places, char out[PL_PLACES_TEXT])
{
    int used = snprintf(out, PL_PLACES_TEXT, "%llu", (unsigned long long)places->epoch);
    for (int i = 0; i < places->n; i++)
        used += snprintf(out + used, PL_PLACES_TEXT - (size_t)used, " %d",
                         places->weights[i]);
}

static pl_status no_places(const char *text)
{
    return pl_fail(PL_ERR_DATA,
                   "`%.100s` is not a table of homes: it must be a number (the epoch), "
                   "then 1 to %d weights of 0 to %d, not all 0",
                   text, PL_HOMES_MAX, PL_WEIGHT_MAX);
}

pl_status pl_places_parse(const char *text, pl_places *out)
{
    char copy[PL_PLACES_TEXT], *rest = NULL;
    int64_t value = 0, sum = 0;
    *out = (pl_places){0};
    if (!pl_copy_text(copy, sizeof copy, text))
        return no_places(text);
    char *word = strtok_r(copy, " ", &rest);
    if (!word || pl_parse_int(word, &value) != PL_OK || value < 0)
        return no_places(text);
    out->epoch = (uint64_t)value;
    while ((word = strtok_r(NULL, " ", &rest))) {
        if (out->n == PL_HOMES_MAX || pl_parse_int(word, &value) != PL_OK ||
            value < 0 || value > PL_WEIGHT_MAX)
            return no_places(text);
        out->weights[out->n++] = (int)value;
        sum += value;
    }
    return sum > 0 ? PL_OK : no_places(text);
}
