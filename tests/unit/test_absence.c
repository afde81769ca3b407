/* folder: net; label: unit
 *
 * Tests when a process says that a hub or a home is away. */
#include "net/net.h"
#include "tests/support/suite.h"

enum { DAY_MS = 24 * 3600 * 1000 };

PL_TEST(intervals_between_lines_grow)
{
    pl_absence a = {0};
    int64_t said[32];
    int n = 0;
    for (int64_t silent = 0; silent <= DAY_MS && n < 32; silent += 1000) {
        if (pl_absence_is_due(&a, silent))
            said[n++] = silent;
        pl_absence_note(&a, "hub", "tcp://10.0.0.1:7000", "", silent, DAY_MS);
    }
    assert_true(said[0] == 5000 && said[1] == 10000 && said[2] == 20000);
    for (int i = 1; i < n; i++) {
        const int64_t gap = said[i] - said[i - 1];
        assert_true(gap >= said[i - 1] || gap >= 600000);
        assert_true(gap <= 600000);
    }
    assert_true(a.since[0] != '\0');
}

PL_TEST(return_is_said_once_and_the_next_absence_begins_anew)
{
    pl_absence a = {0};
    pl_absence_note(&a, "home-1", "tcp://10.0.0.1:7001", "", 6000, DAY_MS);
    assert_true(pl_absence_is_due(&a, 0));
    pl_absence_note(&a, "home-1", "tcp://10.0.0.1:7001", "", 0, DAY_MS);
    assert_true(a.since[0] == '\0');
    assert_false(pl_absence_is_due(&a, 0));
    assert_false(pl_absence_is_due(&a, 4999));
    assert_true(pl_absence_is_due(&a, 5000));
}

PL_TEST(short_silence_is_not_worth_a_line)
{
    pl_absence a = {0};
    for (int64_t silent = 0; silent < 5000; silent += 100) {
        assert_false(pl_absence_is_due(&a, silent));
        pl_absence_note(&a, "hub", "tcp://10.0.0.1:7000", "", silent, DAY_MS);
    }
    assert_false(pl_absence_is_due(&a, 0));
}
