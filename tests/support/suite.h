/* The tests of a program, on cmocka. A test registers itself, so that its name is
 * written once:
 *
 *   PL_TEST(a_sentence_that_says_what_holds)
 *   {
 *       assert_int_equal(1 + 1, 2);
 *   }
 *
 * Tests run in the order of the source. A program that defines no main gets the one of
 * suite_main.c, which runs all tests. Like cmocka.h, this header comes last. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void suite_add(const struct CMUnitTest *test);

/* Runs all tests between `setup` and `teardown`, each of which may be NULL. Returns the
 * number of tests that failed. */
int suite_run(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Fails the test with the last error sentence unless `expression` is PL_OK. */
#define assert_ok(expression)                                                          \
    do {                                                                               \
        const int assert_ok_status = (int)(expression);                                \
        if (assert_ok_status != PL_OK)                                                 \
            fail_msg("%s: %s: %s", #expression,                                        \
                     pl_status_name((pl_status)assert_ok_status), pl_last_error());    \
    } while (0)

/* Fails the test unless the last error sentence contains `words`. */
#define assert_said(words)                                                             \
    do {                                                                               \
        if (!strstr(pl_last_error(), words))                                           \
            fail_msg("'%s' does not say '%s'", pl_last_error(), words);                \
    } while (0)

/* A test between the functions `before` and `after`; what `before` puts into *state is
 * the test's. */
#define PL_TEST_WITH(name, before, after)                                              \
    static void name(void **);                                                         \
    SUITE_ADD(name, before, after)                                                     \
    static void name(__attribute__((unused)) void **state)

#define PL_TEST(name)                                                                  \
    static void name(void **);                                                         \
    SUITE_ADD(name, NULL, NULL)                                                        \
    static void name(__attribute__((unused)) void **nothing)

#define SUITE_ADD(name, before, after)                                                 \
    __attribute__((constructor)) static void name##_is_a_test(void)                    \
    {                                                                                  \
        static const struct CMUnitTest test =                                          \
            cmocka_unit_test_setup_teardown(name, before, after);                      \
        suite_add(&test);                                                              \
    }
