/* Prints versions and tags for `pathloom store`, as text or as one line of JSON per
 * item. The JSON contains nothing that depends on the time of the call, so
 * two calls on an unchanged store print the same bytes. */
#pragma once
#include "cli/row.h"
#include "cli/store_call.h"

/* Prints a line of `store ls`. `width`: of the column of names. `full`: also prints the
 * versions of the tag, which the JSON always has. */
void print_tag(bool json, const pl_snapshot *tag, int width, bool full);

/* Writes the path's name, as in "p01"; its number if the store lacks the definition of
 * the module's arm. Returns `out`. */
const char *path_text(store_call *call, const char *module, int64_t path,
                      char out[PL_NAME_MAX]);
/* Adds which path trained an update, as in "p01.r0". `shown`: in the text, too. */
void print_task(row *r, store_call *call, const char *module, int64_t path,
                int64_t replica, bool shown);

/* best: the paths whose best version contains this version, or ""; end: the chapter in
 * which the module no longer exists, or ""; tags: that name this version, or "". */
typedef struct version_notes {
    const char *best, *end, *tags;
} version_notes;
/* Prints an entry of `store log`, or with `full` all fields. `bytes`: size of the
 * parameters; `momentum_bytes`: size of the momentum, or 0 if there is none. */
void print_version(store_call *call, const pl_version *version, uint64_t bytes,
                   uint64_t momentum_bytes, bool full, version_notes notes);
