/* FORMAT: what a release must understand to open a store (PROTOCOL 4.2). */
#pragma once
#include "base/base.h"

/* Checks the format of the store in `folder`. Sets *in_engine to whether the chunks are
 * in the engine that the file ENGINE names. ERR_NOT_FOUND if there is no store;
 * ERR_UNSUPPORTED if the store has a different format; ERR_DAMAGED if FORMAT cannot be
 * parsed, or is missing although there is a database. */
pl_status store_format_check(const char *folder, bool *in_engine);

/* Makes the folder a store. ERR_EXISTS if the folder already holds anything else. */
pl_status store_format_write(const char *folder, bool in_engine);
/* The two steps of store_format_write, for a caller with files in between. */
pl_status store_format_refuse_others(const char *folder);
pl_status store_format_finish(const char *folder, bool in_engine);
