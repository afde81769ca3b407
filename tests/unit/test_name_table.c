/* folder: base; label: unit */
#include "base/base.h"
#include <stdio.h>

#include "tests/support/suite.h"

enum { N = 20000 };

PL_TEST(every_name_finds_its_number)
{
    char name[32];
    OWNED(pl_name_table_destroy) pl_name_table *table = pl_name_table_create();
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "mix/p%05d.r0", i);
        assert_int_equal(pl_name_table_get(table, name), -1);
        pl_name_table_put(table, name, i);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "mix/p%05d.r0", i);
        assert_int_equal(pl_name_table_get(table, name), i);
    }
    assert_int_equal(pl_name_table_get(table, "mix/p00000.r1"), -1);
    assert_int_equal(pl_name_table_get(table, ""), -1);
    pl_name_table_destroy(&table);
    assert_null(table);
}

PL_TEST(a_name_that_is_there_gets_the_new_number)
{
    char name[] = "worker-1";
    OWNED(pl_name_table_destroy) pl_name_table *table = pl_name_table_create();
    pl_name_table_put(table, name, 3);
    pl_name_table_put(table, name, 7);
    name[0] = 'W'; /* the table has its own copy of the name */
    assert_int_equal(pl_name_table_get(table, "worker-1"), 7);
    assert_int_equal(pl_name_table_get(table, name), -1);
}
