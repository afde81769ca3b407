/* Private to fs and output: errors of files. */
#ifndef PL_BASE_FS_INTERNAL_H
#define PL_BASE_FS_INTERNAL_H
#include "base/status.h"

/* Turns errno into a status and a sentence: "cannot VERB PATH: REASON". */
PL_MUST_CHECK pl_status fs_failed(const char *verb, const char *path);

#endif
