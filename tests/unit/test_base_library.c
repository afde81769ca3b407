/* folder: base; label: unit */
/* Tests the loading of shared libraries (base/library.h). */
#include "base/base.h"
#include <math.h>

#include "tests/support/suite.h"

#define MATHS        "libm.so.6"
#define FUNCTIONS(X) X(cos) X(atan2)

static const char *const names[] = {FUNCTIONS(PL_LIBRARY_NAME)};

PL_TEST(functions_of_a_library_can_be_called)
{
    static struct {
        FUNCTIONS(PL_LIBRARY_MEMBER)
    } maths;
    for (int call = 0; call < 2; call++) {
        assert_ok(pl_library_load(MATHS, "libc6", names, &maths, sizeof maths));
        assert_true(maths.cos(0.0) == 1.0);
        assert_true(maths.atan2(0.0, 1.0) == 0.0);
    }
}

PL_TEST(a_missing_library_or_function_is_named_with_its_package)
{
    static const char *const wrong[] = {"cos", "pl_no_such_function"};
    static struct {
        FUNCTIONS(PL_LIBRARY_MEMBER)
    } maths;
    assert_fails(
        pl_library_load("libpl-none.so.7", "libnone7", names, &maths, sizeof maths),
        PL_ERR_UNSUPPORTED, "libpl-none.so.7");
    assert_said("libnone7");
    assert_fails(pl_library_load(MATHS, "libc6", wrong, &maths, sizeof maths),
                 PL_ERR_UNSUPPORTED, "pl_no_such_function");
    assert_null(maths.cos); /* so a later call does not take it for loaded */
}

/* Every thread runs this at the same time as the others. */
static pl_status load_and_call(void *context, size_t item, int thread)
{
    static struct {
        FUNCTIONS(PL_LIBRARY_MEMBER)
    } maths;
    (void)context, (void)item, (void)thread;
    PL_CHECK(pl_library_load(MATHS, "libc6", names, &maths, sizeof maths));
    return maths.cos(0.0) == 1.0 ? PL_OK : pl_fail(PL_ERR_DATA, "a wrong function");
}

PL_TEST(several_threads_may_load_at_once)
{
    assert_ok(pl_parallel(8, 64, load_and_call, NULL));
}
