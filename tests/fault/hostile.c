/* Makes a correct message of any type, and then makes one thing in it wrong. */
#include "codec/codec.h"
#include "tests/fault/hostile.h"
#include "tests/support/tiny_arm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- dice ---- */
uint32_t dice_roll(dice *d, uint32_t below)
{
    uint32_t value = 0;
    if (below == 0)
        return 0;
    if (!d->bytes)
        return pl_random_u32(d->seed, 0x64696365, d->n++) % below;
    for (size_t i = 0; i < (below > 256 ? 4u : 1u) && d->n < d->len; i++)
        value = value << 8 | d->bytes[d->n++];
    return value % below;
}

bool dice_is(dice *d, uint32_t one_in)
{
    return dice_roll(d, one_in) == one_in - 1;
}

uint64_t dice_edge(dice *d)
{
    static const uint64_t edges[] = {
        0,         1,          2,          0x7f,          0xff,
        0x10000,   INT32_MAX,  1ull << 31, 1ull << 32,    1ull << 53,
        INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 1};
    uint64_t value = edges[dice_roll(d, sizeof edges / sizeof *edges)];
    return dice_is(d, 4) ? value - 1 + dice_roll(d, 3) : value;
}

/* Returns a dangerous text. Lines that begin with "forged" can only come from an
 * attacker, so scripts search the output for them. */
const char *dice_word(dice *d)
{
    static const char *const words[] = {
        "",
        "\xff\xfe\xc0\xaf",
        "\x1b[2J\x1b[31mOWNED\x1b[0m",
        "x\nforged line level=info",
        "x\r\nforged line",
        "\x07\x08\x7f",
        "\xc2\x9b"
        "31mOWNED", /* the same escape sequence as one character of Latin-1 */
        "\xe2\x80\xae"
        "backwards",
        "../../../etc/passwd",
        "a\" reason=\"forged",
        "%s%n%s%n",
        "own-hub",
        "mix/p00.r0",
        "sys/hub-epoch",
        "\xed\xa0\x80\xf4\x90\x80\x80",
    };
    return words[dice_roll(d, sizeof words / sizeof *words)];
}

/* ---- correct messages ---- */
/* The kind of thing whose name a message has in its field NAME. */
typedef enum named { NO_NAME, WORKER, MODULE, PATH, OBJECT } named;

typedef struct message_row {
    uint16_t type;
    uint8_t places;
    named name;
    const pl_field *(*fields)(void); /* NULL if the message has no fields */
} message_row;

static const pl_field *fields_of_err(void) /* base/wire_ask.c */
{
    static const pl_field fields[] = {{.tag = PL_TAG_STATUS, .kind = PL_KIND_NUMBER},
                                      {.tag = PL_TAG_TEXT, .kind = PL_KIND_WORD},
                                      PL_FIELDS_END};
    return fields;
}

static const message_row messages[] = {
    {PL_MSG_HELLO, AT_HUB, WORKER, pl_fields_of_hello},
    {PL_MSG_HELLO, AT_HOME, WORKER, pl_fields_of_hello_home},
    {PL_MSG_ENROL, AT_HUB, WORKER, pl_fields_of_enrol},
    {PL_MSG_STOP, AT_HUB | AT_HOME, NO_NAME, NULL},
    {PL_MSG_TASK_REQ, AT_HUB, WORKER, pl_fields_of_task_req},
    {PL_MSG_RENEW, AT_HUB, WORKER, pl_fields_of_renew},
    {PL_MSG_DONE, AT_HUB, WORKER, pl_fields_of_done},
    {PL_MSG_RELEASE, AT_HUB, WORKER, pl_fields_of_release},
    {PL_MSG_RELEASE, AT_HUB, WORKER, pl_fields_of_leave},
    {PL_MSG_OFFER, AT_HUB, WORKER, pl_fields_of_offer},
    {PL_MSG_STATUS, AT_HUB | AT_HOME, NO_NAME, NULL},
    {PL_MSG_LOG, AT_HUB | AT_HOME, NO_NAME, pl_fields_of_log},
    {PL_MSG_DRAIN, AT_HUB, WORKER, pl_fields_of_drain},
    {PL_MSG_GET_BLOB, AT_HOME, NO_NAME, pl_fields_of_get_blob},
    {PL_MSG_PUT_BLOB, AT_HOME, NO_NAME, pl_fields_of_put_blob},
    {PL_MSG_SUBMIT, AT_HOME, NO_NAME, pl_fields_of_submit},
    {PL_MSG_SUBMIT, AT_HOME, NO_NAME, pl_fields_of_submit_sum},
    {PL_MSG_SUBMIT_PATH, AT_HOME, PATH, pl_fields_of_submit_path},
    {PL_MSG_PUT_OBJECT, AT_HOME, OBJECT, pl_fields_of_put_object},
    {PL_MSG_GET_OBJECT, AT_HOME, OBJECT, pl_fields_of_get_object},
    {PL_MSG_CREATE_MODULE, AT_HOME, MODULE, pl_fields_of_create_module},
    {PL_MSG_GET_VERSION, AT_HOME, MODULE, pl_fields_of_get_version},
    {PL_MSG_GET_PATH, AT_HOME, PATH, pl_fields_of_get_path},
    {PL_MSG_GET_STATE, AT_HOME, NO_NAME, pl_fields_of_get_state},
    {PL_MSG_FENCE, AT_HOME, PATH, pl_fields_of_fence},
    {PL_MSG_PUT_REF, AT_HOME, OBJECT, pl_fields_of_put_ref},
    {PL_MSG_GET_UPDATE, AT_HOME, MODULE, pl_fields_of_get_update},
    {PL_MSG_MEET, AT_HOME, MODULE, pl_fields_of_meet},
    {PL_MSG_PUT_AUDIT, AT_HOME, NO_NAME, pl_fields_of_put_audit},
    {PL_MSG_FENCE_WORKER, AT_HOME, WORKER, pl_fields_of_fence_worker},
    {PL_MSG_HOLD, AT_HOME, NO_NAME, pl_fields_of_hold},
    /* answers and events, which the adversary sends although nobody asked */
    {PL_MSG_ERR, AT_HUB | AT_HOME, NO_NAME, fields_of_err},
    {PL_MSG_WELCOME, AT_HUB | AT_HOME, NO_NAME, pl_fields_of_welcome},
    {PL_MSG_LEASE_LOST, AT_HUB | AT_HOME, NO_NAME, pl_fields_of_lease_lost},
    {PL_MSG_UPDATE_IS, AT_HUB, WORKER, pl_fields_of_update_is},
    {PL_MSG_EVENT, AT_HUB, MODULE, pl_fields_of_path_record},
    {PL_MSG_STATE_IS, AT_HUB, NO_NAME, pl_fields_of_piece},
    {999, AT_HUB | AT_HOME, WORKER, pl_fields_of_put_ref},
};
enum { MESSAGES = sizeof messages / sizeof *messages };

int draft_choose(dice *d, draft_place place)
{
    int kind;
    do
        kind = (int)dice_roll(d, MESSAGES);
    while (!(messages[kind].places & place) && (!d->bytes || d->n < d->len));
    return kind;
}

int draft_kind(pl_message_type type)
{
    int kind = 0;
    while (kind < MESSAGES - 1 && messages[kind].type != (uint16_t)type)
        kind++;
    return kind;
}

static const char *name_of(named name, const known *k)
{
    switch (name) {
    case WORKER:
        return k->worker;
    case MODULE:
        return k->module;
    case PATH:
        return k->path;
    case OBJECT:
        return k->object;
    case NO_NAME:
    default:
        return "";
    }
}

static const char *text_of(uint16_t tag, const known *k)
{
    const struct {
        uint16_t tag;
        const char *text;
    } texts[] = {{PL_TAG_TEXT, k->text},     {PL_TAG_ROLE, "worker"},
                 {PL_TAG_DEVICE, k->device}, {PL_TAG_ADDRESS, k->address},
                 {PL_TAG_MODULE, k->module}, {PL_TAG_TASK, k->path},
                 {PL_TAG_CODEC, k->codec},   {PL_TAG_RELEASE, PL_VERSION}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].tag == tag)
            return texts[i].text;
    return NULL;
}

static bool number_of(uint16_t tag, bool is_number, const known *k, uint64_t *out)
{
    const struct {
        uint16_t tag;
        uint64_t number;
    } numbers[] = {{PL_TAG_PATH, (uint64_t)k->index},
                   {PL_TAG_REPLICA, (uint64_t)k->replica},
                   {PL_TAG_PHASE, (uint64_t)k->phase},
                   {PL_TAG_VERSION, k->version},
                   {PL_TAG_FIRST_SAMPLE, k->first_sample},
                   {PL_TAG_SAMPLES, k->samples},
                   {PL_TAG_PID, k->pid},
                   {PL_TAG_AUDIT, 1},
                   {PL_TAG_MEETING, 1},
                   {PL_TAG_STATUS, PL_ERR_NUMERIC}};
    *out = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].tag == tag) {
            *out = numbers[i].number;
            return true;
        }
    return is_number;
}

static bool is_real(uint16_t tag)
{
    return tag == PL_TAG_LOSS || tag == PL_TAG_SECONDS || tag == PL_TAG_RATE ||
           tag == PL_TAG_OVERHEAD || tag == PL_TAG_IDLE || tag == PL_TAG_WAITED;
}

/* Writes the bytes of a field as the function pl_put_... of its type does after tag and
 * length. */
static void put_value(const pl_field *f, const known *k, pl_buf *out)
{
    uint64_t number = 0;
    double real = 1.5;
    const uint16_t tag = f->tag;
    const char *text = text_of(tag, k);
    if (text)
        pl_buf_append(out, text, strlen(text));
    else if (is_real(tag))
        pl_buf_append(out, &real, sizeof real);
    else if (tag == PL_TAG_BASE || tag == PL_TAG_BLOB)
        pl_buf_append(out, tag == PL_TAG_BASE ? &k->base : &k->blob, sizeof k->base);
    else if (number_of(tag, f->kind == PL_KIND_NUMBER, k, &number))
        pl_buf_append(out, &number, sizeof number);
    else if (tag == PL_TAG_LEASE)
        pl_buf_append(out, k->lease, k->lease_len);
    else /* keys of workers, secrets, and keys of rows */
        pl_buf_append(out, k->key.bytes, sizeof k->key.bytes);
}

/* Writes a contributor as a nested record. Where a message has a sum of contributors,
 * it lists this contributor twice. */
static void put_contributor(const known *k, pl_buf *out)
{
    pl_buf value = {0};
    for (const pl_field *f = pl_fields_of_contributor(); f->tag; f++) {
        pl_buf_clear(&value);
        put_value(f, k, &value);
        pl_put_bytes(out, f->tag, value.data, value.len);
    }
    pl_buf_destroy(&value);
}

static pl_buf *add_field(draft *m, uint16_t tag)
{
    int at = m->n++;
    for (; at > 0 && m->fields[at - 1].tag > tag; at--)
        m->fields[at] = m->fields[at - 1];
    m->fields[at] = (draft_field){.tag = tag};
    return &m->fields[at].value;
}

void draft_fill(draft *out, int kind, const known *k)
{
    const message_row *row = &messages[kind];
    memset(out, 0, sizeof *out);
    out->type = row->type;
    out->token = k->token;
    out->task_key = k->task_key;
    for (const pl_field *f = row->fields ? row->fields() : NULL; f && f->tag; f++) {
        pl_buf *value = add_field(out, f->tag);
        const char *name = name_of(row->name, k);
        if (f->tag == PL_TAG_NAME)
            pl_buf_append(value, name, strlen(name));
        else if (f->tag == PL_TAG_RECORD)
            put_contributor(k, value);
        else
            put_value(f, k, value);
    }
}

void draft_add(draft *m, uint16_t tag, const void *value, size_t len)
{
    pl_buf_append(add_field(m, tag), value, len);
}

void draft_set(draft *m, uint16_t tag, const void *value, size_t len)
{
    pl_buf *field = NULL;
    for (int i = 0; i < m->n && !field; i++)
        if (m->fields[i].tag == tag)
            field = &m->fields[i].value;
    if (!field)
        field = add_field(m, tag);
    pl_buf_clear(field);
    pl_buf_append(field, value, len);
}

void draft_clear(draft *m)
{
    for (int i = 0; i < m->n; i++)
        pl_buf_destroy(&m->fields[i].value);
    pl_buf_destroy(&m->data);
    m->n = 0;
}

/* ---- faults of a message ---- */
enum { LONG_BYTES = 60000 };

static void drop_field(draft *m, int at)
{
    pl_buf_destroy(&m->fields[at].value);
    memmove(&m->fields[at], &m->fields[at + 1],
            (size_t)(m->n - 1 - at) * sizeof *m->fields);
    m->n--;
}

static void repeat_field(draft *m, int at)
{
    if (m->n == DRAFT_FIELDS)
        return;
    const pl_buf from = m->fields[at].value;
    pl_buf_append(add_field(m, m->fields[at].tag), from.data, from.len);
}

static void set_bytes(pl_buf *value, const void *bytes, size_t len)
{
    pl_buf_clear(value);
    pl_buf_append(value, bytes, len);
}

static void set_long(pl_buf *value)
{
    pl_buf_clear(value);
    pl_buf_reserve(value, LONG_BYTES);
    memset(value->data, 'A', LONG_BYTES);
    value->len = LONG_BYTES;
}

static void set_real(pl_buf *value, dice *d)
{
    static const double odd[] = {NAN,    INFINITY, -INFINITY, 1e308,
                                 -1e308, -1,       5e-324,    0};
    set_bytes(value, &odd[dice_roll(d, sizeof odd / sizeof *odd)], sizeof *odd);
}

static void set_random(pl_buf *value, dice *d)
{
    uint8_t bytes[48];
    size_t len = dice_roll(d, sizeof bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)dice_roll(d, 256);
    set_bytes(value, bytes, len);
}

static void spoil_value(pl_buf *value, const known *k, dice *d)
{
    static const char with_nul[] = "before\0after";
    uint64_t number;
    const char *word;
    switch (dice_roll(d, 12)) {
    case 0: /* removes the end */
        value->len -= value->len > 0;
        break;
    case 1: /* adds one byte */
        pl_buf_append(value, "x", 1);
        break;
    case 2:
        value->len = 0;
        break;
    case 3:
        set_long(value);
        break;
    case 4:
        word = dice_word(d);
        set_bytes(value, word, strlen(word));
        break;
    case 5:
        set_bytes(value, with_nul, sizeof with_nul - 1);
        break;
    case 6:
        set_real(value, d);
        break;
    case 7:
        set_bytes(value, k->other, strlen(k->other));
        break;
    case 8:
        set_random(value, d);
        break;
    case 9: /* the right length, but wrong bytes */
        if (value->len > 0)
            memset(value->data, 0, value->len);
        break;
    case 10: /* changes one bit of a lease, hash or name */
        if (value->len > 0)
            value->data[dice_roll(d, (uint32_t)value->len)] ^=
                (uint8_t)(1u << dice_roll(d, 8));
        break;
    default:
        number = dice_edge(d);
        set_bytes(value, &number, sizeof number);
    }
}

static void spoil_data(draft *m, dice *d)
{
    pl_buf_clear(&m->data);
    size_t len = dice_is(d, 8) ? PL_WIRE_DATA_MAX : dice_roll(d, 4096);
    pl_buf_reserve(&m->data, len + 1);
    memset(m->data.data, (int)dice_roll(d, 256), len);
    m->data.len = len;
}

void draft_spoil(draft *m, const known *k, dice *d)
{
    int at = m->n > 0 ? (int)dice_roll(d, (uint32_t)m->n) : -1;
    switch (dice_roll(d, 10)) {
    case 0:
        if (at >= 0)
            drop_field(m, at);
        break;
    case 1:
        if (at >= 0)
            repeat_field(m, at);
        break;
    case 2: /* tags out of order, or unknown */
        if (at >= 0)
            m->fields[at].tag = (uint16_t)dice_roll(d, 80);
        break;
    case 3:
        m->token = dice_is(d, 2) ? dice_edge(d) : m->token + dice_roll(d, 5) - 2;
        break;
    case 4:
        spoil_data(m, d);
        break;
    default: /* in half of all cases, changes the value of a field */
        if (at >= 0)
            spoil_value(&m->fields[at].value, k, d);
    }
}

/* Seals a message of a task: what a worker has spoilt itself, it also seals. */
static void seal_draft(const pl_lease_secret *key, pl_message *m)
{
    pl_submit_message s;
    pl_msg_submit_path path;
    pl_msg_meet meet;
    pl_buf body = {0};
    pl_hash seal;
    if (m->type == PL_MSG_SUBMIT && pl_submission_read(m, &s) == PL_OK && s.n == 1) {
        pl_submission_seal(&s, 0, key, &s.proofs[0].seal);
        pl_buf_clear(&m->body);
        pl_submission_write(&s, m);
    } else if (m->type == PL_MSG_SUBMIT_PATH &&
               PL_HEAR(m, submit_path, &path) == PL_OK) {
        pl_lease_sign(key, m->type, pl_fields_of_submit_path(), &path, &seal);
        path.receipt = (pl_items){0};
        path.seal = seal.bytes;
        pl_put_fields(&body, pl_fields_of_submit_path(), &path);
    } else if (m->type == PL_MSG_MEET && PL_HEAR(m, meet, &meet) == PL_OK) {
        pl_lease_sign(key, m->type, pl_fields_of_meet(), &meet, &seal);
        meet.seal = seal.bytes;
        pl_put_fields(&body, pl_fields_of_meet(), &meet);
    }
    if (m->type == PL_MSG_SUBMIT)
        pl_submission_clear(&s);
    if (body.len > 0) {
        pl_buf_destroy(&m->body);
        m->body = body;
    }
}

void draft_message(const draft *m, dice *d, pl_message *out)
{
    static const pl_lease_secret none;
    pl_message_init(out, m->type);
    out->token = m->token;
    for (int i = 0; i < m->n; i++)
        if (out->body.len + m->fields[i].value.len + 6 <= PL_WIRE_BODY_MAX)
            pl_put_bytes(&out->body, m->fields[i].tag, m->fields[i].value.data,
                         m->fields[i].value.len);
    if (memcmp(&m->task_key, &none, sizeof none) != 0)
        seal_draft(&m->task_key, out);
    if (d && dice_is(d, 12)) /* the record ends in the middle of a field */
        out->body.len -=
            out->body.len > 0 ? 1 + dice_roll(d, (uint32_t)out->body.len) : 0;
    pl_buf_append(&out->data, m->data.data, m->data.len);
}

/* ---- for the fuzz targets ---- */
void fuzz_demand(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "%s: %s\n", what, pl_last_error());
    abort();
}

void demand_ok(pl_status status, const char *what)
{
    fuzz_demand(status == PL_OK, what);
}

void fuzz_prepare(const char *name, char folder[PL_PATH_MAX], pl_socket **listens)
{
    char bound[PL_ADDRESS_MAX], at[PL_ADDRESS_MAX];
    snprintf(folder, PL_PATH_MAX, "%s/pl-fuzz-%s-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", name);
    fuzz_demand(mkdtemp(folder) != NULL, "a folder cannot be made");
    snprintf(at, sizeof at, "ipc://%.100s/%s", folder, name);
    demand_ok(pl_wire_bind(at, listens, bound), "a socket cannot be bound");
    pl_log_open("fuzz", PL_LOG_ERROR, false);
}

pl_peer fuzz_peer(int sender, pl_key_role role)
{
    pl_peer peer = {.len = 5, .role = role};
    memset(peer.id, 'a' + sender, peer.len);
    memset(peer.key.bytes, 1 + sender, sizeof peer.key.bytes);
    return peer;
}

void fuzz_lease(const pl_lease_secret *secret, const char *arm, int path, int sender,
                known *k)
{
    pl_sealed_lease sealed;
    pl_lease lease = {.path = path,
                      .phase = k->phase,
                      .token = k->token,
                      .key = fuzz_peer(sender, PL_AS_WORKER).key};
    pl_copy_text(lease.arm, sizeof lease.arm, arm);
    pl_copy_text(lease.worker, sizeof lease.worker, k->worker);
    pl_copy_text(lease.device, sizeof lease.device, k->device);
    pl_lease_seal(secret, &lease, &sealed);
    memcpy(k->lease, sealed.bytes, sealed.len);
    k->lease_len = sealed.len;
    k->task_key = sealed.key;
}

void fuzz_arm(pl_arm *arm, pl_topology **topology)
{
    memset(arm, 0, sizeof *arm);
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    /* So few parameters that a sequence spends its time in the state machines, not in
     * hashes of blobs. */
    arm->shape = tiny_shape(1);
    arm->shape.vocab = arm->shape.width = arm->shape.ffn = 4;
    arm->shape.n_heads = arm->shape.n_kv_heads = 1;
    arm->shape.head_size = 4;
    arm->spec =
        (pl_topology_spec){.n_levels = 1, .experts = {FUZZ_PATHS}, .replicas = 1};
    arm->inner = (pl_inner){.batch = 1, .context = 8, .tau = 2, .phases = 8};
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        arm->outer.lr[c] = 0.7;
    arm->outer.method = pl_method_defaults(PL_METHOD_DILOCO);
    pl_copy_text(arm->outer.codec_name, sizeof arm->outer.codec_name, "f32");
    tiny_shards(arm, FUZZ_PATHS);
    fuzz_demand(pl_codec_options_default("f32", &arm->outer.codec) == PL_OK &&
                    pl_topology_create(&arm->shape, &arm->spec, topology) == PL_OK,
                "no arm");
}
