/* Replaces cmocka on machines where only the CUDA toolkit is installed (tests/gpu.sh).
 * It has the few macros that the tests of backends use. A check that fails ends its
 * test. */
#pragma once
#include <fnmatch.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
    const char *name;
    CMUnitTestFunction run;
    CMFixtureFunction before, after;
};

/* All sources of a program share these. */
__attribute__((weak)) jmp_buf standin_end;
__attribute__((weak)) const char *standin_filter; /* tests that run; NULL: all */

static inline void standin_fail(const char *file, int line)
{
    printf("%s:%d: failed\n", file, line);
    longjmp(standin_end, 1);
}

#define cmocka_unit_test_setup_teardown(function, before, after)                       \
    {                                                                                  \
#function, function, before, after                                             \
    }
static inline void cmocka_set_test_filter(const char *pattern)
{
    standin_filter = pattern;
}

#define print_message(...) printf(__VA_ARGS__)
#define print_error(...)   printf(__VA_ARGS__)
#define fail_msg(...)                                                                  \
    do {                                                                               \
        printf(__VA_ARGS__);                                                           \
        putchar('\n');                                                                 \
        standin_fail(__FILE__, __LINE__);                                              \
    } while (0)
#define assert_true(condition)                                                         \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_msg("not true: %s", #condition);                                      \
    } while (0)
#define assert_int_equal(a, b)                                                         \
    do {                                                                               \
        const long long standin_a = (long long)(a), standin_b = (long long)(b);        \
        if (standin_a != standin_b)                                                    \
            fail_msg("%s is %lld, not %lld", #a, standin_a, standin_b);                \
    } while (0)
#define assert_int_not_equal(a, b)       assert_true((long long)(a) != (long long)(b))
#define assert_string_equal(a, b)        assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)
#define assert_null(pointer)             assert_true((pointer) == NULL)
#define assert_non_null(pointer)         assert_true((pointer) != NULL)

#define _cmocka_run_group_tests(name, tests, n, before, after)                         \
    standin_run(tests, n, before, after)

static inline int standin_passes(const struct CMUnitTest *test)
{
    if (setjmp(standin_end) != 0)
        return 0;
    test->run(NULL);
    return 1;
}

/* Returns the number of failed tests, or 1 if no test has run. */
static inline int standin_run(const struct CMUnitTest *tests, size_t n,
                              CMFixtureFunction before, CMFixtureFunction after)
{
    int failed = 0, ran = 0;
    void *state = NULL;
    if (before && before(&state) != 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        if (standin_filter && fnmatch(standin_filter, tests[i].name, 0) != 0)
            continue;
        const int ok = standin_passes(&tests[i]);
        printf("[ %s ] %s\n", ok ? "OK" : "FAILED", tests[i].name);
        fflush(stdout);
        failed += !ok;
        ran++;
    }
    if (after)
        after(&state);
    return ran > 0 ? failed : 1;
}
