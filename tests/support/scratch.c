/* Defines the functions of scratch.h. */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

char scratch[64];

int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/pl_scratch_XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

int remove_scratch(void **state)
{
    (void)state;
    return pl_remove_tree(scratch) == PL_OK ? 0 : -1;
}

const char *in_scratch(const char *name)
{
    static char paths[8][PL_PATH_MAX];
    static int turn;
    return pl_join(paths[turn++ % 8], scratch, name);
}

void write_bytes(const char *name, const void *data, size_t len)
{
    FILE *file = fopen(in_scratch(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}
