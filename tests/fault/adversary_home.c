/* Acts against the home: updates without a lease or under the lease of a different
 * worker, bytes that are no update, uploads that are never used, and lies. */
#include "codec/codec.h"
#include "tests/fault/adversary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- updates ---- */
/* Kinds of wrong updates. They are well formed, finite and of a usual size, except
 * NOT_FINITE. DRIFT is small, and always has the same direction. */
typedef enum poison { SHRINK, NOTHING, NOISE, DRIFT, LIES, NOT_FINITE = LIES } poison;

static void fill_poison(adversary *a, poison what, const float *params, size_t n,
                        float *out)
{
    double norm = 0;
    for (size_t i = 0; i < n; i++)
        norm += (double)params[i] * (double)params[i];
    float scale = norm > 0 ? (float)(0.3 / sqrt(norm)) : 0;
    for (size_t i = 0; i < n; i++)
        out[i] = what == SHRINK  ? params[i] * scale
                 : what == NOISE ? 1e-3f * pl_random_normal(a->dice.seed, a->dice.n, i)
                 : what == DRIFT ? (i % 2 ? 1e-5f : -1e-5f)
                                 : 0;
    if (what == NOT_FINITE)
        out[dice_roll(&a->dice, (uint32_t)n)] = dice_is(&a->dice, 2) ? NAN : INFINITY;
}

static bool encode_poison(adversary *a, poison what, int slot, int path,
                          const pl_version_facts *base, const pl_buf *params,
                          pl_buf *out)
{
    int module = pl_topology_module_of_path(a->topology, slot, path);
    int n_parts = pl_codec_parts(a->topology, module, NULL);
    size_t n = params->len / sizeof(float);
    pl_codec_part *parts = pl_alloc((size_t)n_parts * sizeof *parts);
    float *update = pl_alloc((n + 1) * sizeof *update);
    float *from = pl_alloc((n + 1) * sizeof *from);
    memcpy(from, params->data, n * sizeof *from);
    (void)pl_codec_parts(a->topology, module, parts);
    fill_poison(a, what, from, n, update);
    pl_codec_options options = a->arm.outer.codec;
    if (what == NOT_FINITE) /* only f32 can encode such an update */
        memset(options.codec, PL_CODEC_F32, sizeof options.codec);
    const pl_contract of = pl_contract_of(&a->arm, a->topology, module);
    pl_codec_round round = pl_round_codec(&of, path, (int64_t)base->number, base->norm);
    bool done = n == pl_topology_slot(a->topology, slot)->n_params &&
                pl_codec_encode_module(&options, parts, n_parts, &round, update, NULL,
                                       out) == PL_OK;
    pl_free(parts);
    pl_free(update);
    pl_free(from);
    return done;
}

/* Forges a lease for the path and phase in `k` without knowing the hub's secret: with a
 * wrong secret, with the seal of an old lease, with a changed bit, or without a
 * seal. */
static void forge_lease(adversary *a, const party *p, known *k)
{
    pl_sealed_lease sealed;
    const pl_lease_secret guess = {{(uint8_t)dice_roll(&a->dice, 256)}};
    const lease *old = p->over.sealed_len > 0 ? &p->over : &p->lease;
    pl_lease forged = {.path = k->index,
                       .replica = k->replica,
                       .phase = k->phase,
                       .token = dice_is(&a->dice, 2)
                                    ? dice_edge(&a->dice)
                                    : p->over.token + dice_roll(&a->dice, 64),
                       .key = p->key.open};
    pl_copy_text(forged.arm, sizeof forged.arm, a->arm.name);
    pl_copy_text(forged.worker, sizeof forged.worker,
                 dice_is(&a->dice, 3) ? k->other : k->worker);
    pl_copy_text(forged.device, sizeof forged.device, k->device);
    pl_lease_seal(&guess, &forged, &sealed);
    switch (dice_roll(&a->dice, 4)) {
    case 0:
        sealed.len = 0;
        break;
    case 1:
        if (old->sealed_len >= PL_HASH_BYTES)
            memcpy(sealed.bytes, old->sealed, PL_HASH_BYTES);
        break;
    case 2:
        sealed.len = old->sealed_len;
        memcpy(sealed.bytes, old->sealed, sealed.len);
        if (sealed.len > 0)
            sealed.bytes[dice_roll(&a->dice, (uint32_t)sealed.len)] ^=
                (uint8_t)(1u << dice_roll(&a->dice, 8));
        break;
    default:
        break;
    }
    k->lease_len = sealed.len;
    memcpy(k->lease, sealed.bytes, sealed.len);
    k->task_key = sealed.key;
}

/* Makes a poisoned update of the slot's module, relative to its newest version. */
static bool make_update_of(adversary *a, party *p, poison what, int slot, int path,
                           known *k, pl_buf *out)
{
    pl_version_facts facts;
    pl_buf params = {0};
    bool made =
        find_version(a, p, slot, path, k->module, &facts) &&
        pl_client_get_blob(p->client, k->module, &facts.params, &params) == PL_OK &&
        encode_poison(a, what, slot, path, &facts, &params, out);
    pl_buf_destroy(&params);
    if (!made)
        return false;
    k->index = path;
    k->version = facts.number;
    k->base = facts.params;
    pl_blob_hash(out->data, out->len, &k->blob);
    return true;
}

static bool make_update(adversary *a, party *p, int slot, int path, known *k,
                        pl_buf *out)
{
    return make_update_of(a, p, (poison)dice_roll(&a->dice, LIES), slot, path, k, out);
}

/* Uploads a small blob in one piece, under the lease in `k`. */
static answer_kind upload(adversary *a, party *p, const pl_buf *bytes, const known *k)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_PUT_BLOB);
    pl_put_hash(&m.body, PL_TAG_BLOB, &k->blob);
    pl_put_u64(&m.body, PL_TAG_TOTAL, bytes->len);
    pl_put_u64(&m.body, PL_TAG_OFFSET, 0);
    pl_put_bytes(&m.body, PL_TAG_LEASE, k->lease, k->lease_len);
    if (bytes->len <= PL_WIRE_DATA_MAX)
        pl_buf_append(&m.data, bytes->data, bytes->len);
    return ask(a, p, AT_HOME, &m, NULL);
}

static void right_numbers(const adversary *a, known *k)
{
    k->samples = (uint64_t)(a->arm.inner.tau * a->arm.inner.batch);
    k->first_sample = (uint64_t)k->phase * k->samples;
}

static answer_kind submit(adversary *a, party *p, const known *k)
{
    draft d;
    uint64_t tokens = k->samples * (uint64_t)a->arm.inner.context;
    double loss = 4.0;
    draft_fill(&d, draft_kind(PL_MSG_SUBMIT), k);
    draft_set(&d, PL_TAG_TOKENS, &tokens, sizeof tokens);
    draft_set(&d, PL_TAG_LOSS, &loss, sizeof loss);
    return ask_draft(a, p, AT_HOME, &d, NULL);
}

/* Makes moments at a bound, or beyond it: the largest first moments that the second
 * moments allow, and second moments that are tiny, or whose sum is the largest of a
 * first phase, or four times that. */
static void longest_steps(const adversary *a, float *state, size_t n)
{
    const pl_inner *inner = &a->arm.inner;
    double b1 = inner->beta1, b2 = inner->beta2;
    double bound = (1 - b1) * (1 - b1) / ((1 - b2) * (1 - b1 * b1 / b2));
    double most = (1 - pow(b2, inner->tau)) * inner->clip * inner->clip / (double)n;
    float second = (float)(const double[]){1e-12, most, 4 * most}[a->dice.n % 3];
    for (size_t i = 0; i < n; i++) {
        state[i] = (float)sqrt(bound * (double)second);
        state[n + i] = second;
    }
}

/* Chooses the state of the path that is sent: its old state, zeros, the moments of
 * longest_steps, or an impossible state, which the home must refuse. In an impossible
 * state all bytes are equal, so that the values are 3.5e9 or NaN. */
static void choose_state(adversary *a, party *p, bool zeros, known *k)
{
    pl_path_state before;
    pl_buf state = {0};
    if (!zeros && p->client &&
        pl_client_get_path(p->client, k->path, &before) == PL_OK &&
        !pl_hash_none(&before.moments)) {
        k->blob = before.moments;
        return;
    }
    size_t n = pl_topology_path_params(a->topology);
    size_t bytes = (size_t)pl_path_state_bytes(&a->arm, n);
    pl_buf_reserve(&state, bytes + 1);
    int kind = (int)dice_roll(&a->dice, 6);
    memset(state.data, (const int[]){0, 0x4f, 0xff, 0, 0, 0}[kind], bytes);
    if (kind > 3 && a->arm.outer.state == PL_STATE_F32)
        longest_steps(a, (float *)(void *)state.data, n);
    state.len = bytes;
    pl_blob_hash(state.data, state.len, &k->blob);
    (void)upload(a, p, &state, k);
    pl_buf_destroy(&state);
}

/* Reports that the path's phase is over. If `wild` is set, the numbers are
 * impossible. */
static answer_kind submit_path(adversary *a, party *p, const known *k, bool zeros,
                               bool wild)
{
    draft d;
    known next = *k;
    uint64_t tokens =
        wild ? dice_edge(&a->dice)
             : (uint64_t)(k->phase + 1) * k->samples * (uint64_t)a->arm.inner.context;
    double loss = wild ? (double)NAN : 4.0, seconds = wild ? (double)INFINITY : 1.0;
    choose_state(a, p, zeros, &next);
    next.samples = (uint64_t)(k->phase + 1) * k->samples;
    next.phase = k->phase + 1;
    draft_fill(&d, draft_kind(PL_MSG_SUBMIT_PATH), &next);
    draft_set(&d, PL_TAG_TOKENS, &tokens, sizeof tokens);
    draft_set(&d, PL_TAG_LOSS, &loss, sizeof loss);
    draft_set(&d, PL_TAG_SECONDS, &seconds, sizeof seconds);
    return ask_draft(a, p, AT_HOME, &d, NULL);
}

static int some_slot(adversary *a)
{
    return (int)dice_roll(&a->dice, (uint32_t)pl_topology_n_slots(a->topology));
}

static int some_path(adversary *a)
{
    return (int)dice_roll(&a->dice, (uint32_t)pl_topology_n_paths(a->topology));
}

/* Sends one poisoned update of a path's slot under the lease `under`. If `under` is
 * NULL, the lease is forged. */
static void poison_path(adversary *a, party *p, int slot, int path, const lease *under)
{
    known k;
    pl_buf update = {0};
    know(a, p, &k);
    if (make_update(a, p, slot, path, &k, &update)) {
        k.phase = (int64_t)k.version;
        right_numbers(a, &k);
        if (under)
            know_sealed(under, &k);
        else
            forge_lease(a, p, &k);
        (void)upload(a, p, &update, &k);
        (void)submit(a, p, &k);
    }
    pl_buf_destroy(&update);
}

/* ---- without a lease ---- */
void act_forge_update(adversary *a)
{
    party *p = some_worker(a);
    if (look_at_job(a))
        poison_path(a, p, some_slot(a), some_path(a), NULL);
}

/* Sends all results of a task that was never leased. */
void act_forge_path(adversary *a)
{
    party *p = some_worker(a);
    known k;
    if (!look_at_job(a))
        return;
    int path = some_path(a);
    know(a, p, &k);
    pl_arm_path_name(&a->arm, a->topology, path, 0, k.path);
    for (int slot = 0; slot < pl_topology_n_slots(a->topology); slot++) {
        pl_buf update = {0};
        if (make_update(a, p, slot, path, &k, &update)) {
            k.phase = (int64_t)k.version;
            right_numbers(a, &k);
            forge_lease(a, p, &k);
            (void)upload(a, p, &update, &k);
            (void)submit(a, p, &k);
        }
        pl_buf_destroy(&update);
    }
    (void)submit_path(a, p, &k, dice_is(&a->dice, 2), false);
}

/* Uses unknown names and the name of a different worker. The home must ignore them and
 * use the name in the lease. */
void act_home_names(adversary *a)
{
    enum { NAMES = 100 };
    party *p = some_worker(a);
    known k;
    know(a, p, &k);
    for (int i = 0; i < NAMES; i++) {
        draft d;
        pl_message m;
        snprintf(k.worker, sizeof k.worker, "%.40s-%u", p->name,
                 dice_roll(&a->dice, 1u << 30));
        if (i == 0)
            pl_copy_text(k.worker, sizeof k.worker, k.other);
        forge_lease(a, p, &k);
        draft_fill(&d, draft_kind(PL_MSG_SUBMIT), &k);
        draft_message(&d, NULL, &m);
        draft_clear(&d);
        tell(a, p, AT_HOME, &m);
    }
    hear(p, 100);
}

static void ask_for(adversary *a, party *p, pl_message *m, const char *what)
{
    pl_message answer;
    if (ask(a, p, AT_HOME, m, &answer) == ANSWER_OK && answer.type != PL_MSG_ERR)
        printf("learnt %s as %s\n", what, p->name);
    pl_message_destroy(&answer);
}

/* Asks for what would betray which tasks are audited, and for the results of others,
 * which an auditor could copy. Only mates (noloco) may know these. */
void act_peek(adversary *a)
{
    static const char *const names[] = {"draw/", "audit/", "fenced/", "sys/hub-epoch"};
    party *p = some_worker(a);
    known k;
    pl_message m = {0};
    if (!look_at_job(a))
        return;
    know(a, p, &k);
    const char *name = names[dice_roll(&a->dice, 4)];
    PL_SAY(&m, GET_OBJECT, get_object, .name = name);
    ask_for(a, p, &m, name);
    PL_SAY(&m, GET_STATE, get_state, .offset = 0);
    ask_for(a, p, &m, "the state of a home");
    /* the module's name in the topology is that behind the arm's */
    const char *short_name = strchr(k.module, '/');
    const int module =
        short_name ? pl_topology_find_module(a->topology, short_name + 1) : -1;
    if (module < 0 || pl_contract_of(&a->arm, a->topology, module).meets)
        return;
    for (int64_t phase = k.phase > 0 ? k.phase - 1 : 0; phase <= k.phase; phase++) {
        PL_SAY(&m, GET_UPDATE, get_update, .name = k.module, .path = k.index,
               .replica = 0, .phase = phase);
        ask_for(a, p, &m, "an update");
    }
}

/* ---- uploads ---- */
/* Sends one piece of an upload, under a lease if there is one. An upload must not
 * exceed the share of the home's memory that its lease has. */
static void put_piece(adversary *a, party *p, uint64_t total, uint64_t offset,
                      size_t len)
{
    pl_message m;
    pl_hash hash;
    uint64_t n[] = {a->dice.seed, a->dice.n++};
    pl_hash_of("hog", n, sizeof n, &hash);
    pl_message_init(&m, PL_MSG_PUT_BLOB);
    pl_put_hash(&m.body, PL_TAG_BLOB, &hash);
    pl_put_u64(&m.body, PL_TAG_TOTAL, total);
    pl_put_u64(&m.body, PL_TAG_OFFSET, offset);
    if (p->lease.held)
        pl_put_bytes(&m.body, PL_TAG_LEASE, p->lease.sealed, p->lease.sealed_len);
    pl_buf_reserve(&m.data, len + 1);
    memset(m.data.data, 'h', len);
    m.data.len = len;
    (void)ask(a, p, AT_HOME, &m, NULL);
}

/* Uploads blobs in small pieces. The first piece reserves the memory of the whole blob,
 * and the last piece of a blob may have only one byte. */
void act_hog_staging(adversary *a)
{
    enum { PIECES = 12 };
    party *p = some_worker(a);
    bool leased = dice_is(&a->dice, 2) && take_task(a, p);
    for (int i = 0; i < PIECES; i++) {
        uint64_t mib = 1ull << dice_roll(&a->dice, 12);
        put_piece(a, p, (mib << 20) + 1, mib << 20, 1);
    }
    put_piece(a, p, dice_edge(&a->dice), 0, 1);
    if (leased)
        release(a, p, PL_OK, "");
}

/* Begins an upload and never completes it, or completes it with bytes that do not have
 * the hash in the blob's name. */
void act_half_upload(adversary *a)
{
    party *p = some_worker(a);
    bool leased = dice_is(&a->dice, 2) && take_task(a, p);
    put_piece(a, p, 2u << 20, 0, PL_WIRE_DATA_MAX);
    for (int i = 0; i < 8; i++) {
        size_t len = dice_roll(&a->dice, 4096);
        put_piece(a, p, len, 0, len);
    }
    if (leased)
        release(a, p, PL_OK, "");
}

void act_blob_flood(adversary *a)
{
    enum { QUESTIONS = 60 };
    party *p = some_worker(a);
    known k;
    know(a, p, &k);
    for (int i = 0; i < QUESTIONS; i++) {
        pl_message m;
        pl_message_init(&m, dice_is(&a->dice, 2) ? PL_MSG_GET_BLOB : PL_MSG_GET_STATE);
        pl_put_text(&m.body, PL_TAG_NAME, k.module);
        pl_put_hash(&m.body, PL_TAG_BLOB, &k.blob);
        pl_put_u64(&m.body, PL_TAG_OFFSET, 0);
        tell(a, p, AT_HOME, &m);
    }
    hear(p, 100);
}

/* ---- under a lease ---- */
static void spoil_update(adversary *a, pl_buf *update)
{
    size_t at;
    switch (dice_roll(&a->dice, 4)) {
    case 0:
        update->len = dice_roll(&a->dice, (uint32_t)update->len);
        break;
    case 1:
        pl_buf_append(update, "x", 1);
        break;
    case 2: /* changes counts and lengths of the header */
        at = 4 * dice_roll(&a->dice, 12);
        memset(update->data + at, 0xff, 4);
        break;
    default:
        update->len = 0;
    }
}

void act_malformed_update(adversary *a)
{
    party *p = some_worker(a);
    known k;
    draft d;
    pl_buf update = {0};
    if (!look_at_job(a) || !take_task(a, p))
        return;
    know(a, p, &k);
    poison what = (poison)dice_roll(&a->dice, NOT_FINITE + 1);
    if (make_update_of(a, p, what, some_slot(a), (int)p->lease.index, &k, &update)) {
        know_lease(p, &k);
        right_numbers(a, &k);
        char *end = strrchr(k.module, '.');
        if (end && dice_roll(&a->dice, 4) == 0) /* "mix/embed" for "mix/embed.E0" */
            *end = '\0';
        else if (what != NOT_FINITE)
            spoil_update(a, &update);
        pl_blob_hash(update.data, update.len, &k.blob);
        (void)upload(a, p, &update, &k);
        (void)submit(a, p, &k);
        draft_fill(&d, draft_kind(PL_MSG_SUBMIT), &k);
        draft_spoil(&d, &k, &a->dice);
        (void)ask_draft(a, p, AT_HOME, &d, &a->dice);
    }
    pl_buf_destroy(&update);
    release(a, p, PL_OK, "");
}

void act_other_path(adversary *a)
{
    party *p = some_worker(a);
    if (!look_at_job(a) || !take_task(a, p))
        return;
    int n = pl_topology_n_paths(a->topology);
    if (n > 1 && strncmp(p->lease.task, a->arm.name, strlen(a->arm.name)) == 0)
        poison_path(a, p, some_slot(a), (int)(p->lease.index + 1) % n, &p->lease);
    release(a, p, PL_OK, "");
}

/* Sends an update under a lease that belongs to a different key. */
void act_lent_lease(adversary *a)
{
    party *p = some_worker(a);
    party *q = &a->workers[p == &a->workers[0]];
    if (q == a->sitter || !look_at_job(a) || !take_task(a, p))
        return;
    if (strncmp(p->lease.task, a->arm.name, strlen(a->arm.name)) == 0)
        poison_path(a, q, some_slot(a), (int)p->lease.index, &p->lease);
    release(a, p, PL_OK, "");
}

/* Sends an update under the worker's lease of an earlier phase. */
void act_old_lease(adversary *a)
{
    party *p = some_worker(a);
    pl_version_facts facts;
    char module[96];
    if (!look_at_job(a))
        return;
    bool is_old = strncmp(p->over.task, a->arm.name, strlen(a->arm.name)) == 0 &&
                  find_version(a, p, 0, (int)p->over.index, module, &facts) &&
                  (int64_t)facts.number > p->over.phase;
    if (is_old)
        poison_path(a, p, 0, (int)p->over.index, &p->over);
    else if (p->over.token == 0 && take_task(a, p))
        release(a, p, PL_OK, "");
}

/* Sends an update under any lease that it ever had and that is over: given back, or not
 * renewed for long, so that another worker has the task. (Under a lease that is valid
 * it would be a lie.) The phase of such a lease may have come again: after a verdict,
 * after a restore, or because a document is forgotten. */
void act_replay(adversary *a)
{
    party *p = some_worker(a);
    const int n = a->n_past < PAST_MAX ? a->n_past : PAST_MAX;
    if (n == 0 || !look_at_job(a))
        return;
    const lease *old = &a->past[dice_roll(&a->dice, (uint32_t)n)];
    if (strncmp(old->task, a->arm.name, strlen(a->arm.name)) != 0 ||
        (!old->given_back && pl_now_ms() - old->taken_ms < 60000))
        return;
    known k;
    pl_message m;
    poison_path(a, p, some_slot(a), (int)old->index, old);
    know(a, p, &k);
    know_sealed(old, &k);
    k.index = old->index;
    k.phase = old->phase;
    k.replica = old->replica;
    pl_copy_text(k.path, sizeof k.path, old->task);
    right_numbers(a, &k);
    (void)submit_path(a, p, &k, dice_is(&a->dice, 2), false);
    const lease now = p->lease;
    p->lease = *old;
    put_lease(p, PL_MSG_RENEW, &m);
    p->lease = now;
    pl_put_bytes(&m.body, PL_TAG_LEASE, old->sealed, old->sealed_len);
    (void)ask(a, p, AT_HUB, &m, NULL);
}

/* Sends what passes a relay, with something changed: an update whose seal belongs to
 * other bytes, the end of the task, or a sum with contributors that are made up. The
 * relay does not have the key of the task. */
void act_relay(adversary *a)
{
    party *p = some_worker(a);
    known k;
    pl_buf update = {0};
    if (!a->has_relay || !look_at_job(a) || !take_task(a, p))
        return;
    know(a, p, &k);
    if (make_update(a, p, some_slot(a), (int)p->lease.index, &k, &update)) {
        draft d;
        know_lease(p, &k);
        right_numbers(a, &k);
        k.task_key.bytes[dice_roll(&a->dice, 32)] ^= 1;
        (void)upload(a, &a->relay, &update, &k);
        (void)submit(a, &a->relay, &k);
        draft_fill(&d, draft_kind(PL_MSG_SUBMIT) + 1, &k);
        (void)ask_draft(a, &a->relay, AT_HOME, &d, NULL);
        (void)submit_path(a, &a->relay, &k, dice_is(&a->dice, 2), false);
    }
    pl_buf_destroy(&update);
    release(a, p, PL_OK, "");
}

/* Tries to split a pair of mates (noloco). Only the two mates may do so, and only after
 * the deadline. */
void act_split_pair(adversary *a)
{
    party *p = some_worker(a);
    known k;
    bool leased = look_at_job(a) && take_task(a, p);
    know(a, p, &k);
    if (leased)
        know_sealed(&p->lease, &k);
    /* With the worker's own lease, but before the deadline. */
    if (leased && dice_is(&a->dice, 3)) {
        pl_version_facts facts;
        know_lease(p, &k);
        (void)find_version(a, p, some_slot(a), (int)k.index, k.module, &facts);
    } else if (!leased ||
               k.index == p->lease.index) { /* else its lease, but another path */
        forge_lease(a, p, &k);
    }
    for (int64_t round = k.phase > 1 ? k.phase - 2 : 0; round <= k.phase + 2; round++) {
        const uint64_t at = (uint64_t)round, split = PL_MEETING_SPLIT;
        draft d;
        draft_fill(&d, draft_kind(PL_MSG_MEET), &k);
        draft_set(&d, PL_TAG_PHASE, &at, sizeof at);
        draft_set(&d, PL_TAG_MEETING, &split, sizeof split);
        (void)ask_draft(a, p, AT_HOME, &d, NULL);
    }
    release(a, p, PL_OK, "");
}

/* Pretends to be the hub, to get or to set the secret with which leases are sealed. */
void act_be_hub(adversary *a)
{
    party *p = some_party(a);
    pl_message m, answer;
    pl_reader r;
    pl_message_init(&m, PL_MSG_HELLO);
    pl_put_text(&m.body, PL_TAG_ROLE, "hub");
    if (dice_is(&a->dice, 2))
        pl_put_bytes(&m.body, PL_TAG_SECRET, p->key.open.bytes,
                     sizeof p->key.open.bytes);
    if (ask(a, p, AT_HOME, &m, &answer) == ANSWER_OK) {
        pl_reader_open(&r, "WELCOME", answer.body.data, answer.body.len);
        if (pl_field_count(&r, PL_TAG_SECRET) > 0)
            printf("learnt the secret of leases as %s\n", p->name);
    }
    pl_message_destroy(&answer);
}

/* Ends a task without its updates. If no module of the path is at the path's home, only
 * receipts of the other homes can show that the updates are missing. */
void act_end_empty(adversary *a)
{
    party *p = some_worker(a);
    known k;
    if (!look_at_job(a) || !take_task(a, p))
        return;
    know(a, p, &k);
    if (strncmp(p->lease.task, a->arm.name, strlen(a->arm.name)) == 0) {
        know_lease(p, &k);
        right_numbers(a, &k);
        (void)submit_path(a, p, &k, false, false);
    }
    release(a, p, PL_OK, "");
}

/* ---- lies ---- */
/* Takes a task of the mixture; false: it got none. */
static bool take_mix_task(adversary *a, party *p)
{
    enum { TRIES = 3 };
    if (!look_at_job(a) || strcmp(a->arm.name, "mix") != 0)
        return false;
    for (int i = 0; i < TRIES && !take_task(a, p); i++)
        if (p->refused)
            return false;
    if (p->lease.held && strncmp(p->lease.task, "mix/", 4) != 0)
        release(a, p, PL_OK, "");
    return p->lease.held;
}

/* Sends untrained updates of slots [from, to) of the leased task. Returns how many were
 * accepted. */
static int send_lies(adversary *a, party *p, poison what, int from, int to, known *k)
{
    int accepted = 0;
    for (int slot = from; slot < to; slot++) {
        pl_buf update = {0};
        know(a, p, k);
        if (make_update_of(a, p, what, slot, (int)p->lease.index, k, &update)) {
            know_lease(p, k);
            right_numbers(a, k);
            (void)upload(a, p, &update, k);
            accepted += submit(a, p, k) == ANSWER_ACCEPTED;
        }
        pl_buf_destroy(&update);
    }
    return accepted;
}

static void confess(const adversary *a, const party *p, int updates, bool path)
{
    if (updates > 0)
        printf("lied task %s %lld %s updates %d path %d act %s\n", p->lease.task,
               (long long)p->lease.phase, p->name, updates, path, act_name(a->act));
}

static poison some_lie(adversary *a)
{
    return (poison)dice_roll(&a->dice, LIES);
}

/* Delivers the results of slots from `from` on and the state of the task that the
 * worker has, without any training, and reports the task as done. */
static void finish_lie(adversary *a, party *p, poison what, int from, bool zeros)
{
    known k;
    pl_message m;
    know(a, p, &k);
    const int updates =
        send_lies(a, p, what, from, pl_topology_n_slots(a->topology), &k);
    const bool path =
        updates > 0 &&
        (submit_path(a, p, &k, zeros, dice_is(&a->dice, 3)) == ANSWER_ACCEPTED ||
         submit_path(a, p, &k, zeros, false) == ANSWER_ACCEPTED);
    confess(a, p, updates, path);
    put_lease(p, PL_MSG_DONE, &m);
    pl_put_u64(&m.body, PL_TAG_TOKENS, 1);
    pl_put_f64(&m.body, PL_TAG_LOSS, 1);
    pl_put_f64(&m.body, PL_TAG_SECONDS, 1);
    pl_put_f64(&m.body, PL_TAG_OVERHEAD, 0);
    pl_put_f64(&m.body, PL_TAG_IDLE, 0);
    pl_put_f64(&m.body, PL_TAG_WAITED, 0);
    (void)ask(a, p, AT_HUB, &m, NULL);
    end_lease(a, p);
}

void act_lie(adversary *a)
{
    party *p = some_worker(a);
    if (take_mix_task(a, p))
        finish_lie(a, p, some_lie(a), 0, false);
}

void act_false_state(adversary *a)
{
    party *p = some_worker(a);
    if (take_mix_task(a, p))
        finish_lie(a, p, some_lie(a), 0, true);
}

/* Small updates that always have the same direction: together they would move a model
 * far, and none of them is unusual. */
void act_drift(adversary *a)
{
    party *p = some_worker(a);
    if (take_mix_task(a, p))
        finish_lie(a, p, DRIFT, 0, false);
}

/* Lies only where no audit is expected: draws as the home does, with everything that a
 * worker knows in place of the secret. */
void act_lie_unseen(adversary *a)
{
    party *p = some_worker(a);
    if (!take_mix_task(a, p))
        return;
    pl_hash guesses[] = {a->arm_blob, {{0}}, {{0}}, {{0}}};
    memcpy(guesses[1].bytes, p->lease.key.bytes, sizeof guesses[1].bytes);
    memcpy(guesses[2].bytes, p->key.open.bytes, sizeof guesses[2].bytes);
    for (int i = 0; i < 4; i++) {
        const pl_draw guess = {.secret = guesses[i], .share = 0.2};
        if (pl_draw_has(&guess, &a->arm, (int)p->lease.index, (int)p->lease.replica,
                        p->lease.phase)) {
            release(a, p, PL_OK, "");
            return;
        }
    }
    finish_lie(a, p, some_lie(a), 0, false);
}

/* Lies under a kind of device that nobody could use to repeat the task. */
void act_lie_as_new_device(adversary *a)
{
    party *p = some_worker(a);
    if (begin_anew(a, p, NO_DEVICE) && take_mix_task(a, p))
        finish_lie(a, p, some_lie(a), 0, false);
    (void)begin_anew(a, p, p->device);
}

/* Sends a part of a task's results without training, and leaves the rest to an honest
 * worker, which must not be blamed for them. */
static bool lie_by_half(adversary *a, party *p)
{
    known k;
    if (!take_mix_task(a, p))
        return false;
    const int n_slots = pl_topology_n_slots(a->topology);
    const int most = dice_is(&a->dice, 2) ? n_slots : (n_slots + 1) / 2;
    confess(a, p, send_lies(a, p, some_lie(a), 0, most, &k), false);
    release(a, p, PL_OK, "");
    return true;
}

void act_half_lie(adversary *a)
{
    (void)lie_by_half(a, some_worker(a));
}

/* Two keys of one person: the one sends some updates and gives the task back, and the
 * other one takes a task, which is often the same, and sends the rest. */
void act_collude(adversary *a)
{
    party *p = some_worker(a);
    party *q = &a->workers[p == &a->workers[0]];
    if (q == a->sitter || q->refused || !q->said_hello || !lie_by_half(a, p))
        return;
    if (take_mix_task(a, q))
        finish_lie(a, q, some_lie(a), pl_topology_n_slots(a->topology) / 2, false);
}
