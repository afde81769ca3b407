/* Keeps the list of a program's tests and runs them. */
#include "tests/support/suite.h"

enum { TESTS_MAX = 128 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t n_tests;

void suite_add(const struct CMUnitTest *test)
{
    if (n_tests < TESTS_MAX)
        tests[n_tests] = *test;
    n_tests++;
}

int suite_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    if (n_tests == 0 || n_tests > TESTS_MAX) {
        print_message("the program has %zu tests; it must have 1 to %d (TESTS_MAX)\n",
                      n_tests, TESTS_MAX);
        return 1;
    }
    return _cmocka_run_group_tests("tests", tests, n_tests, setup, teardown);
}
