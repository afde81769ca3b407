/* folder: router; label: unit */
#include "tests/support/router_support.h"

enum { N = 120, DIM = 10 };

static pl_router *make_router(int kind, const float *points)
{
    pl_router_options options = plain_options(6);
    options.standardize = kind >= 1;
    options.components = kind == 2 ? 5 : 0;
    options.unit = kind == 2;
    options.balance = kind == 2 ? 0.3 : 0.0;
    options.kind = kind >= 1 ? PL_ROUTER_PRODUCT : PL_ROUTER_KMEANS;
    options.n_levels = 2;
    options.experts[0] = 2;
    options.experts[1] = 3;
    double scores[N * 6];
    if (kind == 3) {
        for (uint64_t i = 0; i < N * 6; ++i)
            scores[i] = (double)pl_random_normal(5, 1, i);
        options.kind = PL_ROUTER_LINEAR;
        options.scores = scores;
        options.components = 4;
    }
    return fit(points, N, DIM, &options);
}

static void a_decoded_router_decides_alike(void **state)
{
    (void)state;
    float *points = make_clouds(N, DIM, 6, 0.5f);
    for (int kind = 0; kind < 4; ++kind) {
        pl_router *router = make_router(kind, points), *copy;
        pl_buf bytes = {0}, again = {0};
        pl_router_encode(router, &bytes);
        assert_ok(pl_router_decode(bytes.data, bytes.len, &copy));
        pl_router_encode(copy, &again);
        assert_int_equal(bytes.len, again.len);
        assert_memory_equal(bytes.data, again.data, bytes.len);
        assert_int_equal(copy->n_paths, 6);
        assert_int_equal(copy->lens.dim, DIM);
        assert_true(copy->inertia == router->inertia);
        for (int i = 0; i < N; ++i) {
            int a[6], b[6];
            pl_router_route(router, points + i * DIM, 6, a);
            pl_router_route(copy, points + i * DIM, 6, b);
            assert_memory_equal(a, b, sizeof a);
        }
        pl_buf_destroy(&bytes);
        pl_buf_destroy(&again);
        pl_router_destroy(&router);
        pl_router_destroy(&copy);
    }
    free(points);
}

static void encoding_appends(void **state)
{
    (void)state;
    float *points = make_clouds(N, DIM, 6, 0.5f);
    pl_router *router = make_router(0, points), *copy;
    pl_buf bytes = {0};
    pl_buf_append(&bytes, "head", 4);
    pl_router_encode(router, &bytes);
    assert_ok(pl_router_decode(bytes.data + 4, bytes.len - 4, &copy));
    pl_router_destroy(&copy);
    pl_router_destroy(&router);
    pl_buf_destroy(&bytes);
    free(points);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    float *points = make_clouds(N, DIM, 6, 0.5f);
    pl_router *router = make_router(2, points), *copy;
    pl_buf bytes = {0};
    pl_router_encode(router, &bytes);
    for (size_t len = 0; len < bytes.len; ++len) {
        uint8_t *part = malloc(len + 1); /* so that a sanitizer sees an overrun */
        memcpy(part, bytes.data, len);
        assert_int_not_equal(pl_router_decode(part, len, &copy), PL_OK);
        assert_null(copy);
        free(part);
    }
    pl_router_destroy(&router);
    pl_buf_destroy(&bytes);
    free(points);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    float *points = make_clouds(N, DIM, 6, 0.5f);
    pl_router *router = make_router(2, points), *copy;
    pl_buf bytes = {0};
    pl_router_encode(router, &bytes);
    for (size_t bit = 0; bit < 8 * bytes.len; ++bit) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(pl_router_decode(bytes.data, bytes.len, &copy), PL_OK);
        assert_null(copy);
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    pl_router_destroy(&router);
    pl_buf_destroy(&bytes);
    free(points);
}

/* Not damaged but wrong: the checksum is right, the content must be refused by itself.
 */
static void lies_under_a_good_checksum_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint16_t tag;
        uint64_t value;
        const char *says;
    } lies[] = {{1, 2, "format 2"},       {2, 9, "kind"},
                {3, 0, "sizes"},          {3, UINT64_MAX, "sizes"},
                {3, 65536, "shorter"},    {4, 65536, "sizes"},
                {5, 2, "kind"},           {6, 0x7ff0000000000000u, "inertia"},
                {7, 0, "experts"},        {7, 65536, "shorter"},
                {7, 1u << 20, "experts"}, {7, 5, "wrong size"}};
    for (size_t lie = 0; lie < sizeof lies / sizeof *lies; ++lie) {
        pl_buf bytes = {0};
        const double zeros[4] = {0};
        const uint64_t truth[] = {0, 1, 0, 4, 4, 0, 0, 2};
        for (uint16_t tag = 1; tag <= 7; ++tag)
            pl_put_u64(&bytes, tag,
                       tag == lies[lie].tag ? lies[lie].value : truth[tag]);
        if (lies[lie].tag == 3 && lies[lie].value == 65536) { /* rank follows dim */
            pl_buf_clear(&bytes);
            for (uint16_t tag = 1; tag <= 7; ++tag)
                pl_put_u64(&bytes, tag, tag == 3 || tag == 4 ? 65536 : truth[tag]);
        }
        pl_put_bytes(&bytes, 8, zeros, 16);
        pl_put_bytes(&bytes, 9, zeros, 16);
        pl_put_bytes(&bytes, 11, zeros, 32);
        pl_put_bytes(&bytes, 12, zeros, 16);
        pl_put_u64(&bytes, 0xffff, pl_checksum(bytes.data, bytes.len));
        pl_router *router;
        assert_int_not_equal(pl_router_decode(bytes.data, bytes.len, &router), PL_OK);
        assert_said(lies[lie].says);
        assert_null(router);
        pl_buf_destroy(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoded_router_decides_alike),
        cmocka_unit_test(encoding_appends),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(lies_under_a_good_checksum_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
