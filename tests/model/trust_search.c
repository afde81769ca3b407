/* Visits all states of the model of trust.c.
 *
 *   model_trust                   visits all states of small jobs, then checks that
 *                                 without each rule a promise is broken
 *   model_trust --large           larger jobs: minutes, and 4 GiB of memory
 *   model_trust --without RULE    prints the shortest trace that breaks a promise
 *                                 without this rule
 *
 * The search is breadth first, so a trace is a shortest one. Besides the promises that
 * trust.c checks at each step, the job must be able to finish from every state
 * (can_finish). */
#include "tests/model/trust.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *text;
} rules[] = {
#define AS_TEXT(name, text) {#name, text},
    RULES(AS_TEXT)};

/* ---- steps ---- */
/* name, its numbers of choices for a, b, c and d, and its text in a trace */
#define KINDS(X)                                                                       \
    X(start, HUBS, 1, 1, 1, "hub %d starts")                                           \
    X(stop, HUBS, 1, 1, 1, "hub %d ends")                                              \
    X(hello, HUBS, N, 1, 1, "hub %d says HELLO to home %d")                            \
    X(grant, HUBS, N, OWNERS, 2, "hub %d grants path %d to worker %d (backup: %d)")    \
    X(end, HUBS, N, 2, 2, "hub %d ends a lease of path %d (backup: %d, released: %d)") \
    X(renew, HUBS, TOKENS_MAX, 1, 1, "hub %d renews lease %d")                         \
    X(extend, HUBS, N, 1, 1, "hub %d extends the lease of path %d")                    \
    X(judge, HUBS, N, 2, 1, "hub %d audits path %d (undecided: %d)")                   \
    X(drop, HUBS, N, N, 1, "hub %d tells home %d to drop the task of path %d")         \
    X(verdict, HUBS, N, 1, 1, "hub %d sends the verdict about path %d")                \
    X(confirm, HUBS, N, 1, 1, "hub %d tells home %d which phases count")               \
    X(fence, HUBS, N, N, 1, "hub %d repeats to home %d the fence of path %d")          \
    X(restart, N, 1, 1, 1, "home %d restarts")                                         \
    X(forget, N, 1, 1, 1, "home %d forgets the secret before the newest")              \
    X(copy, N, 1, 1, 1, "a backup of home %d is made")                                 \
    X(restore, 1, 1, 1, 1, "the job starts again with that backup")                    \
    X(update, TOKENS_MAX, N, 1, 1, "honest, lease %d: update of module %d")            \
    X(ahead, N, 1, 1, 1, "honest, next phase: update of module %d")                    \
    X(finish, TOKENS_MAX, 2, 2, 1, "honest, lease %d: end (drawn: %d, is told: %d)")   \
    X(crash, 1, 1, 1, 1, "the honest worker ends")                                     \
    X(lie, TOKENS_MAX, N, 2, 2,                                                        \
      "liar, lease %d: update of module %d (next phase: %d, false: %d)")               \
    X(close, TOKENS_MAX, 2, 2, 2,                                                      \
      "liar, lease %d: end (next phase: %d, false: %d, drawn: %d)")

enum kind {
#define AS_KIND(name, a, b, c, d, text) K_##name,
    KINDS(AS_KIND) N_KINDS
};
typedef struct step {
    u8 kind, a, b, c, d;
} step;
enum { STEPS_MAX = 512 };
static step steps[STEPS_MAX];
static int n_steps;

static void list_steps(void)
{
    static const u8 sizes[][4] = {
#define AS_SIZES(name, a, b, c, d, text) {a, b, c, d},
        KINDS(AS_SIZES)};
    n_steps = 0;
    for (int kind = 0; kind < N_KINDS; kind++) {
        u8 n[4];
        for (int i = 0; i < 4; i++) {
            n[i] = sizes[kind][i];
            if (n[i] == TOKENS_MAX) /* an index of a lease */
                n[i] = now.tokens;
        }
        if (kind <= K_fence && now.hubs < HUBS)
            n[0] = 1;
        for (int i = 0; i < n[0] * n[1] * n[2] * n[3]; i++)
            steps[n_steps++] =
                (step){(u8)kind, (u8)(i % n[0]), (u8)(i / n[0] % n[1]),
                       (u8)(i / (n[0] * n[1]) % n[2]), (u8)(i / (n[0] * n[1] * n[2]))};
    }
}

static void print_step(const step *t)
{
    static const char *const texts[] = {
#define AS_LINE(name, a, b, c, d, text) text,
        KINDS(AS_LINE)};
    const int numbers[] = {t->a, t->b, t->c, t->d};
    int i = 0;
    for (const char *at = texts[t->kind]; *at; at++)
        if (at[0] == '%')
            printf("%d", numbers[i++]), at++;
        else
            putchar(*at);
    putchar('\n');
}

static bool stop_hub(hub *j)
{
    const bool lives = j->epoch != 0;
    memset(j, 0, sizeof *j);
    return lives;
}

static bool forget_secret(memory *home)
{
    const bool has = home->before != 0;
    home->before = 0;
    return has;
}

static bool take_hub_step(state *s, const step *t)
{
    hub *j = &s->hubs[t->a];
    switch (t->kind) {
    case K_start:
        return s->secrets < now.hubs &&
               (t->a == 0 || (s->hubs[0].epoch && now.restores == 0)) &&
               start_hub(s, t->a);
    case K_stop:
        return stop_hub(j);
    case K_hello:
        return hello(s, j, t->b);
    case K_grant:
        return s->n_tokens < now.tokens && (!t->d || now.backups) &&
               !(now.alone && t->b != 0) && grant(s, j, t->b, (enum owner)t->c, t->d);
    case K_end:
        return end_lease(s, j, t->b, t->c, t->d);
    case K_renew:
        return t->b < s->n_tokens &&
               (s->tokens[t->b].owner != HONEST || s->honest == t->b + 1) &&
               renew(s, j, t->b);
    case K_extend:
        return extend(s, j, t->b);
    case K_judge:
        return judge(s, j, t->b, t->c);
    case K_drop:
        return send_drop(s, j, t->b, t->c);
    case K_verdict:
        return send_verdict(s, j, t->b);
    case K_confirm:
        return confirm(s, j, t->b);
    default:
        return fence_again(s, j, t->b, t->c);
    }
}

static bool take_step(state *s, const step *t)
{
    switch (t->kind) {
    case K_restart:
        return restart_home(s, t->a);
    case K_forget:
        return forget_secret(&s->homes[t->a]);
    case K_copy:
        return copy_disk(s, t->a);
    case K_restore:
        return restore(s);
    case K_update:
        return honest_update(s, t->a, t->b);
    case K_ahead:
        return honest_update_ahead(s, t->a);
    case K_finish:
        return honest_end(s, t->a, t->b, t->c);
    case K_crash:
        return honest_crash(s);
    case K_lie:
        return lie_update(s, t->a, t->b, t->c, t->d ? WRONG : RIGHT);
    case K_close:
        return lie_end(s, t->a, t->b, t->c ? WRONG : RIGHT, t->d);
    default:
        return take_hub_step(s, t);
    }
}

static bool has_hub(const state *s, int k)
{
    for (int j = 0; j < HUBS; j++)
        for (int p = 0; p < N; p++)
            if (s->hubs[j].lease[p] == k + 1 || s->hubs[j].backup[p] == k + 1)
                return true;
    return false;
}

/* Ends leases of finished phases in the hubs' tables. Forgets leases under which no
 * message has an effect any more, so that states which differ only in them are one. */
static void settle(state *s)
{
    for (int j = 0; j < HUBS; j++)
        for (int p = 0; p < N; p++) {
            hub *at = &s->hubs[j];
            const token *t = at->lease[p] ? &s->tokens[at->lease[p] - 1] : NULL;
            if (at->backup[p] && s->tokens[at->backup[p] - 1].phase < s->disks[p].phase)
                at->backup[p] = 0;
            if (t && t->phase + t->ahead < s->disks[p].phase)
                at->lease[p] = 0;
        }
    for (int m = 0; m < N; m++)
        for (int p = 0; p < N; p++) {
            const disk *d = &s->disks[p];
            if (d->phase >= s->disks[m].version)
                s->disks[m].merged[p] = NONE;
        }
    for (int p = 0; p < N; p++) {
        const int merged = s->disks[0].version < s->disks[1].version
                               ? s->disks[0].version
                               : s->disks[1].version;
        disk *d = &s->disks[p];
        for (int t = 0; t < merged && t < d->phase && s->copy_of == 0; t++)
            d->drawn &= (u8)~bit(t);
        if (now.ahead == 0)
            d->state = NONE;
    }
    for (int k = 0; k < s->n_tokens; k++) {
        token *t = &s->tokens[k];
        const int last = t->phase + t->ahead;
        const bool is_over = s->disks[t->path].phase > last &&
                             s->disks[0].version > last && s->disks[1].version > last &&
                             s->copy_of == 0;
        const bool is_barred =
            is_bit(s->disks[0].fenced & s->disks[1].fenced, t->owner);
        if ((is_over || is_barred) && !off[R_bound] && s->honest != k + 1 &&
            !has_hub(s, k))
            memset(t, 0, sizeof *t);
    }
}

/* ---- the visited states ---- */
/* A state is remembered as a fingerprint of 64 bits: two of 10^7 states have the same
 * one with a probability of 3 in a million. */
static uint64_t fingerprint(const state *s)
{
    const uint8_t *at = (const uint8_t *)s;
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < sizeof *s; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, sizeof *s - i < 8 ? sizeof *s - i : 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h ? h : 1;
}

typedef struct set {
    uint64_t *slots;
    size_t size, n;
} set;

/* Returns the place of the fingerprint; `added` tells whether it is new. */
static size_t set_add(set *v, uint64_t print, bool *added)
{
    if (v->n * 2 >= v->size) {
        set larger = {.size = v->size ? v->size * 2 : 1 << 16};
        larger.slots = calloc(larger.size, sizeof *larger.slots);
        if (!larger.slots)
            fputs("out of memory\n", stderr), exit(70);
        bool ignored;
        for (size_t i = 0; i < v->size; i++)
            if (v->slots[i])
                set_add(&larger, v->slots[i], &ignored);
        free(v->slots);
        *v = larger;
    }
    size_t i = (size_t)(print * 0x9e3779b97f4a7c15u >> 20) & (v->size - 1);
    while (v->slots[i] && v->slots[i] != print)
        i = (i + 1) & (v->size - 1);
    *added = v->slots[i] == 0;
    v->slots[i] = print;
    v->n += *added;
    return i;
}

static set finishing; /* states from which the fixed schedule finishes the job */

static bool work_on(state *s, hub *j, int p)
{
    bool moved = false;
    for (int h = 0; h < N; h++)
        moved = send_drop(s, j, h, p) || moved;
    moved = send_verdict(s, j, p) || moved;
    moved = judge(s, j, p, false) || moved;
    j->blames[p] &=
        (u8)~bit(HONEST); /* the search itself finds an honest worker's fence */
    for (int h = 0; h < N; h++)
        moved = confirm(s, j, h) || moved;
    s->n_tokens = s->honest = 0;
    if (!grant(s, j, p, HONEST, false))
        return moved;
    for (int m = 0; m < N; m++)
        (void)honest_update(s, 0, m);
    moved = honest_end(s, 0, false, false) || moved;
    j->lease[p] = 0;
    return moved;
}

/* Whether the job can finish from here: the newest hub stays, all leases run out, the
 * liar is silent, and an own worker does what the plan gives it. */
static bool can_finish(state s)
{
    const char *const kept = broken;
    bool added;
    int newest = s.hubs[1].epoch > s.hubs[0].epoch;
    hub *j = &s.hubs[newest];
    memset(&s.hubs[!newest], 0, sizeof *s.hubs);
    if (j->epoch < s.disks[0].epoch)
        memset(j, 0, sizeof *j);
    if (!j->epoch)
        (void)start_hub(&s, newest);
    for (int h = 0; h < N; h++)
        (void)hello(&s, j, h);
    for (int p = 0; p < N; p++)
        j->lease[p] = j->backup[p] = 0;
    memset(s.tokens, 0, sizeof s.tokens);
    memset(&s.copy, 0, sizeof s.copy);
    s.remembers = 0;
    s.honest = s.honest_ahead = s.copy_of = s.n_tokens = 0;
    s.restarts = s.restores = s.undecided = 0;
    set_add(&finishing, fingerprint(&s), &added);
    for (bool moved = added; moved;) {
        moved = work_on(&s, j, 0);
        moved = work_on(&s, j, 1) || moved;
    }
    broken = kept;
    for (int p = 0; p < N && added; p++)
        if (s.disks[p].phase < PHASES || s.disks[p].version < PHASES)
            return false; /* stays in the set: the search ends with this state */
    return true;
}

/* ---- the search ---- */
typedef struct node {
    uint32_t from;
    uint16_t by; /* the step that led here */
} node;

typedef struct search {
    node *nodes;
    size_t n, room;
    state *level, *next; /* the states of two depths */
    size_t n_level, n_next, room_level, room_next;
    set seen;
    uint64_t transitions;
    int depth;
} search;

static void *grow(void *at, size_t *room, size_t n, size_t each)
{
    if (n < *room)
        return at;
    *room = *room ? *room * 2 : 4096;
    at = realloc(at, *room * each);
    if (!at)
        fputs("out of memory\n", stderr), exit(70);
    return at;
}

static void keep(search *q, const state *s, size_t from, int by)
{
    q->nodes = grow(q->nodes, &q->room, q->n, sizeof *q->nodes);
    q->next = grow(q->next, &q->room_next, q->n_next, sizeof *q->next);
    q->nodes[q->n++] = (node){(uint32_t)from, (uint16_t)by};
    q->next[q->n_next++] = *s;
}

static void print_trace(const search *q, size_t at)
{
    int path[256], n = 0;
    for (; at != 0 && n < 256; at = q->nodes[at].from)
        path[n++] = q->nodes[at].by;
    for (int i = n - 1, number = 1; i >= 0; i--, number++)
        printf("  %2d. ", number), print_step(&steps[path[i]]);
}

/* Tries all steps from one state. Returns whether a promise is broken. */
static bool expand(search *q, const state *s, size_t from)
{
    for (int i = 0; i < n_steps; i++) {
        state next = *s;
        bool added;
        if (!take_step(&next, &steps[i]) && !broken)
            continue;
        settle(&next);
        q->transitions++;
        set_add(&q->seen, fingerprint(&next), &added);
        if (!added && !broken)
            continue;
        keep(q, &next, from, i);
        demand(can_finish(next), "the job cannot finish from here");
        if (broken)
            return true;
    }
    return false;
}

/* Visits all states. Prints their number, and the trace if a promise is
 * broken. Returns the promise, or NULL. */
static const char *visit_all(const scenario *which)
{
    search q = {0};
    state first;
    bool added;
    now = *which;
    list_steps();
    broken = NULL;
    free(finishing.slots);
    finishing = (set){0};
    memset(&first, 0, sizeof first);
    (void)start_hub(&first, 0);
    (void)hello(&first, &first.hubs[0], 1);
    for (int m = 0; m < N && now.alone; m++)
        first.disks[m].pending[0][1] = (update){RIGHT, HONEST};
    first.disks[1].phase = now.alone;
    set_add(&q.seen, fingerprint(&first), &added);
    keep(&q, &first, 0, 0);
    for (; q.n_next > 0 && !broken; q.depth++) {
        state *level = q.level;
        const size_t room = q.room_level, begin = q.n - q.n_next;
        q.level = q.next, q.n_level = q.n_next, q.room_level = q.room_next;
        q.next = level, q.n_next = 0, q.room_next = room;
        for (size_t i = 0; i < q.n_level && !broken; i++)
            expand(&q, &q.level[i], begin + i);
    }
    printf("%s: %zu states, %llu transitions, depth %d\n", which->name, q.n,
           (unsigned long long)q.transitions, q.depth);
    if (broken) {
        printf("  broken: %s\n", broken);
        print_trace(&q, q.n - 1);
    }
    fflush(stdout);
    free(q.nodes);
    free(q.level);
    free(q.next);
    free(q.seen.slots);
    return broken;
}

/* Two hubs at once need few leases, because each step of theirs may happen at any time.
 * With `alone`, path 1 has finished its first phase, and only path 0 is trained. */
static const scenario small[] = {
    {"two paths, with backups", .tokens = 2, .hubs = 1, .undecided = 1, .backups = 1},
    {"leases that run ahead", .tokens = 2, .hubs = 1, .ahead = 1, .backups = 1},
    {"a home restarts", .tokens = 2, .hubs = 1, .restarts = 1},
    {"two hubs", .tokens = 2, .hubs = 2, .alone = 1},
    {"two hubs, a home restarts", .tokens = 1, .hubs = 2, .restarts = 1, .undecided = 1,
     .alone = 1},
    {"a home is restored", .tokens = 1, .hubs = 2, .restores = 1}};
static const scenario large[] = {{"three leases", .tokens = 3, .hubs = 1},
                                 {"two hubs, two leases, a home restarts", .tokens = 2,
                                  .hubs = 2, .restarts = 1, .alone = 1},
                                 {"three hubs, a home restarts", .tokens = 1, .hubs = 3,
                                  .restarts = 1, .undecided = 1, .alone = 1},
                                 {"three leases that run ahead", .tokens = 3, .hubs = 1,
                                  .undecided = 1, .ahead = 1, .backups = 1, .alone = 1},
                                 {"two leases, a home is restored", .tokens = 2,
                                  .hubs = 2, .restores = 1, .alone = 1}};

/* Without these rules, a scenario breaks a promise. */
typedef struct need {
    enum rule rule, also;
    const scenario *in;
} need;
static const need needs[] = {
    {R_receipts, R_receipts, &small[0]},     {R_bound, R_bound, &small[0]},
    {R_other, R_other, &small[1]},           {R_new_secret, R_new_secret, &small[5]},
    {R_fence, R_fence, &small[0]},           {R_fence, R_deny, &small[3]},
    {R_exact, R_exact, &small[0]},           {R_once, R_once, &small[4]},
    {R_first, R_first, &small[4]},           {R_deny, R_deny, &small[0]},
    {R_older, R_older, &small[4]},           {R_hold, R_hold, &small[0]},
    {R_confirm, R_confirm, &small[0]},       {R_missing, R_missing, &small[0]},
    {R_everywhere, R_everywhere, &small[0]}, {R_coverage, R_sequence, &small[5]}};
static const need large_needs[] = {{R_sequence, R_sequence, &large[4]}};

static int visit_list(const scenario *list, size_t n, bool stops)
{
    for (size_t i = 0; i < n; i++)
        if (visit_all(&list[i]) && stops)
            return 1;
    return 0;
}

static int check_rules(const need *list, size_t n)
{
    int n_failed = 0;
    for (size_t i = 0; i < n; i++) {
        const enum rule rule = list[i].rule, also = list[i].also;
        off[rule] = off[also] = true;
        printf("without \"%s\"", rules[rule].text);
        if (also != rule)
            printf(" and \"%s\"", rules[also].text);
        printf("\n");
        if (!visit_all(list[i].in)) {
            printf("  FAILED: no promise is broken, so the model does not see this "
                   "rule\n");
            n_failed++;
        }
        off[rule] = off[also] = false;
    }
    return n_failed > 0;
}

int main(int argc, char **argv)
{
    const size_t n_small = sizeof small / sizeof *small;
    if (argc == 2 && strcmp(argv[1], "--large") == 0)
        return visit_list(large, sizeof large / sizeof *large, true) ||
               check_rules(large_needs, sizeof large_needs / sizeof *large_needs);
    if (argc == 3 && strcmp(argv[1], "--without") == 0)
        for (int r = 0; r < N_RULES; r++)
            if (strcmp(argv[2], rules[r].name) == 0) {
                off[r] = true;
                return visit_list(small, n_small, false);
            }
    if (argc > 1) {
        fputs("usage: model_trust [--large | --without RULE]\n", stderr);
        return 64;
    }
    return visit_list(small, n_small, true) ||
           check_rules(needs, sizeof needs / sizeof *needs);
}
