/* folder: outer
 *
 * Fuzzes encoded updates. A home, a mate of the sender, a relay and a merge read
 * them. */
#include "outer/outer.h"
#include "tests/support/codec_support.h"
#include "tests/fuzz/fuzz.h"
#include "outer/change.h"

enum { N = 100 }; /* a small number, so that inputs are short and many can be tried */

static void put_checksum(uint8_t *at, const uint8_t *data, size_t len)
{
    uint64_t checksum = pl_checksum(data, len);
    memcpy(at, &checksum, 8);
}

/* Returns how many section entries follow a record of the table (docs/PROTOCOL.md
 * 3.4). */
static size_t n_entries(const uint8_t *record)
{
    static const size_t most[] = {1, 1, 1, 2, 2, 3, 2, 1, 1, 2, 2};
    size_t codec = record[0];
    if ((codec == 1 || codec == 2) && record[1] == 1)
        return 2;
    return codec < sizeof most / sizeof *most ? most[codec] : 1;
}

/* Corrects the checksums of the sections that the table lists, as far as the table can
 * be read, and then the checksum of the header and the table. */
static void forge(uint8_t *m, size_t len)
{
    if (len < HEADER_BYTES)
        return;
    size_t table = fuzz_u32(m + 36), at = HEADER_BYTES;
    if (table > len - HEADER_BYTES)
        table = len - HEADER_BYTES;
    size_t body = HEADER_BYTES + table, end = body;
    while (at + RECORD_BYTES <= end) {
        size_t n = n_entries(m + at);
        at += RECORD_BYTES;
        for (; n > 0 && at + SECTION_BYTES <= end; n--, at += SECTION_BYTES) {
            uint64_t wire = fuzz_u64(m + at + 8);
            if (wire > len - body)
                wire = len - body;
            put_checksum(m + at + 16, m + body, (size_t)wire);
            body += (size_t)wire;
        }
    }
    memset(m + 56, 0, 8);
    put_checksum(m + 56, m, end);
}

static void read_update(const uint8_t *m, size_t len)
{
    static float sum[N];
    static pl_buf
        before; /* the last accepted update, used as another contributor's update */
    pl_codec_info info;
    pl_buf both = {0};
    uint64_t claimed;
    double norm;
    (void)pl_codec_claims_homomorphic(m, len, &claimed);
    if (pl_codec_inspect(m, len, N, &info) != PL_OK)
        return;
    if (pl_codec_add(m, len, N, 0.5f, NULL, &norm) != PL_OK)
        return;
    (void)pl_codec_add(m, len, N, 0.5f, sum, &norm);
    (void)pl_change_apply(m, len, N, sum);
    pl_codec_message two[] = {{m, len}, {before.data, before.len}};
    if (before.len > 0) {
        (void)pl_codec_combine(m, len, before.data, before.len, N, &both);
        pl_codec_list list = {two, NULL, 2, 0};
        const pl_codec_source both_of = pl_codec_source_of(&list);
        (void)pl_codec_add_all(&both_of, N, sum);
    }
    pl_buf_destroy(&both);
    pl_buf_clear(&before);
    pl_buf_append(&before, m, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    if (len < 1)
        return 0;
    /* a separate block, so that a sanitizer finds reads beyond its end */
    uint8_t *m = malloc(len);
    if (!m)
        return 0;
    memcpy(m, input + 1, len - 1);
    if (input[0] & 1)
        forge(m, len - 1);
    read_update(m, len - 1);
    free(m);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const names[] = {"f32",  "bf16",     "i8",       "i4",
                                        "topk", "sketch16", "i8-shared"};
    static float x[N];
    pl_buf seed = {0};
    for (size_t c = 0; c < sizeof names / sizeof *names; c++)
        for (int i = 0; i < 4; i++) {
            pl_codec_options o = options_of(names[c]);
            pl_codec_round round = round_of(3);
            o.entropy = i & 1;
            o.value_bits = i & 2 ? 2 : 8;
            fill_values(x, N, 7 + (uint64_t)i);
            pl_buf_clear(&seed);
            pl_buf_append(&seed, "\1", 1);
            encode_all(&o, &round, x, N, NULL, &seed);
            give(seed.data, seed.len);
        }
    pl_buf_destroy(&seed);
}
