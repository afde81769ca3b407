/* folder: home
 *
 * Fuzzes the bodies of messages: any record, SUBMIT with its contributors, and the
 * definition of an arm. */
#include "codec/codec.h"
#include "net/net.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tiny_arm.h"

/* Calls every getter for every field, as processes do when they read a message. */
static void read_all(const uint8_t *data, size_t len)
{
    pl_reader r;
    char text[64];
    size_t n_bytes;
    pl_reader_open(&r, "fuzz", data, len);
    for (uint16_t tag = 0; tag < 64; tag++) {
        size_t n = pl_field_count(&r, tag);
        for (size_t i = 0; i < n; i++) {
            pl_reader each = r;
            (void)pl_get_u64(&each, tag, i);
            (void)pl_get_f64(&each, tag, i);
            (void)pl_get_hash(&each, tag, i);
            pl_get_text(&each, tag, i, text, sizeof text);
            (void)pl_get_bytes(&each, tag, i, &n_bytes);
            each.status = PL_OK;
            const uint8_t *nested = pl_get_bytes(&each, tag, i, &n_bytes);
            if (nested && n_bytes < len)
                pl_reader_open(&each, "nested", nested, n_bytes);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    pl_submit_message s;
    pl_arm arm;
    pl_topology *topology = NULL;
    if (len < 1)
        return 0;
    pl_message m = {.type = PL_MSG_SUBMIT};
    pl_buf_append(&m.body, input + 1, len - 1);
    switch (input[0] % 3) {
    case 0:
        read_all(m.body.data, m.body.len);
        break;
    case 1:
        (void)pl_submission_read(&m, &s);
        pl_submission_clear(&s);
        break;
    default:
        if (pl_arm_decode(m.body.data, m.body.len, &arm) != PL_OK)
            break;
        if (pl_topology_create(&arm.shape, &arm.spec, &topology) == PL_OK)
            pl_topology_destroy(&topology);
        pl_arm_clear(&arm);
    }
    pl_message_destroy(&m);
    return 0;
}

static void seed_submission(void (*give)(const void *, size_t), int n)
{
    pl_message m;
    pl_submit_message s = {
        .module = "mix/L1.E0", .round = 3, .base_version = 3, .n = n};
    s.contributors = pl_alloc((size_t)n * sizeof *s.contributors);
    s.proofs = pl_alloc((size_t)n * sizeof *s.proofs);
    for (int i = 0; i < n; i++) {
        pl_contribution *c = &s.contributors[i];
        pl_copy_text(c->codec, sizeof c->codec, "sketch16");
        c->path = i;
        c->phase = 3;
        c->work.loss = 2.5;
        s.proofs[i].len = 200;
    }
    pl_message_init(&m, PL_MSG_SUBMIT);
    pl_submission_write(&s, &m);
    fuzz_give(give, 1, m.body.data, m.body.len);
    fuzz_give(give, 0, m.body.data, m.body.len);
    pl_message_destroy(&m);
    pl_submission_clear(&s);
}

static void seed_arm(void (*give)(const void *, size_t), pl_method method)
{
    pl_arm arm;
    pl_buf bytes = {0};
    memset(&arm, 0, sizeof arm);
    pl_copy_text(arm.name, sizeof arm.name, "mix");
    arm.shape = tiny_shape(2);
    arm.spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    arm.inner = (pl_inner){.batch = 2, .context = 16, .tau = 12, .phases = 4};
    for (int c = 0; c < PL_CLASS_COUNT; c++)
        arm.outer.lr[c] = 0.5;
    arm.outer.method = pl_method_defaults(method);
    pl_copy_text(arm.outer.codec_name, sizeof arm.outer.codec_name, "f32");
    if (pl_codec_options_default("f32", &arm.outer.codec) != PL_OK)
        return;
    tiny_shards(&arm, 4);
    pl_arm_encode(&arm, &bytes);
    fuzz_give(give, 2, bytes.data, bytes.len);
    pl_buf_destroy(&bytes);
    pl_arm_clear(&arm);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    seed_submission(give, 1);
    seed_submission(give, 3);
    for (int method = 0; method < PL_METHOD_COUNT; method++)
        seed_arm(give, (pl_method)method);
}
