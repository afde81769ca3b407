/* Writes files. What a user named as an output is never destroyed:
 *
 *   what is at the path          what happens
 *   nothing, or a regular file   The bytes go to PATH.tmp-PID, which is synced and then
 *                                renamed, so that a crash or an error leaves either the
 *                                whole old file or the whole new one. The permissions
 *                                and the owner of an old file are kept.
 *   a link                       Its target is written by these rules.
 *   a pipe, a device             It is opened, and the bytes are written into it.
 *   /dev/fd/N, /dev/stdout       The bytes are written to this descriptor of the
 *                                process.
 *
 * Only this file, and those that tools/check_tree.sh lists, make or rename files. */
#pragma once
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

/* ---- a file in pieces ---- */
typedef struct pl_output pl_output;
pl_status pl_output_open(const char *path, pl_output **out);
pl_status pl_output_write(pl_output *o, const void *data, size_t len);
/* Writes zeros until the number of bytes is a multiple of `multiple`, at most 64. */
pl_status pl_output_align(pl_output *o, uint64_t multiple);
/* Completes the output. After OK the new content survives a power cut. After a failure
 * it is the old content, or the new one if only the sync of the folder failed. */
pl_status pl_output_end(pl_output *o);
/* Removes the temporary file if pl_output_end has not succeeded. Accepts NULL. */
void pl_output_close(pl_output **o);

/* ---- a file at once ---- */
pl_status pl_write_output(const char *path, const void *data, size_t len);
/* For the program's own files in a run or a store. A link is replaced and not followed:
 * in a folder that somebody else made it could lead to any file of the user. */
pl_status pl_replace_file(const char *path, const void *data, size_t len);
/* Makes a file that only its owner may read. ERR_EXISTS if anything is at the path.
 * After a failure there is no file. */
pl_status pl_create_secret(const char *path, const void *data, size_t len);

PL_C_END
