/* A folder for the files of a test. Setup functions make and remove it:
 * PL_SUITE(make_scratch, remove_scratch). */
#pragma once
#include "tests/support/suite.h"

extern char scratch[64]; /* the path of the folder */

int make_scratch(void **state);

int remove_scratch(void **state);

/* Returns the path of `name` in the scratch folder. The eighth call after this one
 * overwrites the path. */
const char *in_scratch(const char *name);

void write_bytes(const char *name, const void *data, size_t len);

void write_text(const char *name, const char *text);
