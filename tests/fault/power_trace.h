/* The trace that power_trace.c writes and power_model.c reads: one entry for each call
 * that changes files under POWER_ROOT, in the order of the calls. */
#pragma once
#include <stdint.h>

typedef enum power_kind {
    POWER_OPEN,      /* fd; text: path */
    POWER_CUT_SHORT, /* fd, offset: the new length */
    POWER_WRITE,     /* fd, offset; text: the bytes */
    POWER_SYNC,      /* fd */
    POWER_RENAME,    /* text: from, 0, to */
    POWER_REMOVE,    /* text: path of a file or folder */
    POWER_FOLDER,    /* text: path of a new folder */
    POWER_LINK       /* text: from, 0, to */
} power_kind;

/* Paths are relative to POWER_ROOT; the root itself is "". */
typedef struct power_entry {
    uint32_t kind;
    int32_t fd;
    uint64_t offset;
    uint64_t len; /* length of the text that follows */
} power_entry;
