/* The tests of a folder's program, on cmocka. A test registers itself, so that its name
 * is written once:
 *
 *   PL_TEST(a_sentence_that_says_what_holds)
 *   {
 *       assert_int_equal(1 + 1, 2);
 *   }
 *
 * The program has the tests of several files test_X.c. The link test_X to it runs those
 * of one file, in the order of the source, or those whose names match an argument:
 * test_store "a_backup*". Like cmocka.h, this header comes last. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>

void suite_add(const char *file, const struct CMUnitTest *test);
void suite_frame(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown);
void suite_child(const char *file, int (*child)(int argc, char **argv));

/* Frees the memory to which the pointer *owner points: OWNED(free_memory) float *x. */
void free_memory(void *owner);

/* Starts this program again, as a child (PL_CHILD) with the words of which none is NULL
 * as its argv. Unless `failpoint` is NULL, it is the child's PATHLOOM_FAILPOINT. The
 * child dies with the test. */
pid_t start_self(const char *failpoint, const char *program, const char *first,
                 const char *second);

/* The same, but waits for the child. Returns its exit code, or 128 and the number of
 * the signal that has ended it. */
int run_self(const char *failpoint, const char *program, const char *first,
             const char *second);
#ifdef __cplusplus
}
#endif

/* Runs the tests of the file after `setup` and before `teardown`, each of which may be
 * NULL. */
#define PL_SUITE(setup, teardown)                                                      \
    __attribute__((constructor)) static void has_a_suite(void)                         \
    {                                                                                  \
        suite_frame(__BASE_FILE__, setup, teardown);                                   \
    }

/* A test may start its own program again, as a child with arguments. This is then the
 * main function. It returns the exit code. */
#define PL_CHILD(argc, argv)                                                           \
    static int main_of_child(int argc, char **argv);                                   \
    __attribute__((constructor)) static void has_a_child(void)                         \
    {                                                                                  \
        suite_child(__BASE_FILE__, main_of_child);                                     \
    }                                                                                  \
    static int main_of_child(__attribute__((unused)) int argc, char **argv)

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

/* Fails the test unless `expression` is the error `status` and the last error sentence
 * contains `words`. */
#define assert_fails(expression, status, words)                                        \
    do {                                                                               \
        assert_int_equal(expression, status);                                          \
        assert_said(words);                                                            \
    } while (0)

/* Fails the test unless two buffers (pl_buf) hold the same bytes. */
#define assert_same_bytes(a, b)                                                        \
    do {                                                                               \
        assert_int_equal((a).len, (b).len);                                            \
        assert_memory_equal((a).data, (b).data, (a).len);                              \
    } while (0)

/* Before the declaration of a variable: calls destroy(&variable) at the end of its
 * block. A test that fails leaves the variable to the end of the program. */
#define OWNED(destroy) __attribute__((cleanup(destroy)))

/* A test between the functions `before` and `after`; what `before` puts into *state is
 * the test's. */
#define PL_TEST_WITH(name, before, after)                                              \
    static void name(void **);                                                         \
    SUITE_ADD(name, before, after)                                                     \
    static void name(__attribute__((unused)) void **state)

/* The same; the test has what *state points to as the parameter `of`:
 *   #define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown) */
#define PL_TEST_ON(name, of, before, after)                                            \
    static void name##_on(of);                                                         \
    static void name(void **state)                                                     \
    {                                                                                  \
        name##_on(*state);                                                             \
    }                                                                                  \
    SUITE_ADD(name, before, after)                                                     \
    static void name##_on(__attribute__((unused)) of)

#define PL_TEST(name)                                                                  \
    static void name(void **);                                                         \
    SUITE_ADD(name, NULL, NULL)                                                        \
    static void name(__attribute__((unused)) void **nothing)

#define SUITE_ADD(name, before, after)                                                 \
    __attribute__((constructor)) static void name##_is_a_test(void)                    \
    {                                                                                  \
        static const struct CMUnitTest test =                                          \
            cmocka_unit_test_setup_teardown(name, before, after);                      \
        suite_add(__BASE_FILE__, &test);                                               \
    }
