/* Files and folders: whole-file reads, durable replacement, mapping, locks. */
#ifndef PL_BASE_FS_H
#define PL_BASE_FS_H
#include "base/buf.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

bool pl_path_exists(const char *path);
bool pl_path_is_folder(const char *path);
PL_MUST_CHECK pl_status pl_make_folders(const char *path); /* mkdir -p, durable */
PL_MUST_CHECK pl_status pl_remove_tree(const char *path);  /* absent is fine */
PL_MUST_CHECK pl_status pl_read_file(const char *path, pl_buf *out);
/* ERR_DATA if the path is a pipe, a device or a socket, whose bytes may never come or
 * never end. For files that a person names; OK if there is nothing at the path. */
PL_MUST_CHECK pl_status pl_refuse_special(const char *path);

/* Writes path.tmp-PID, fsyncs, renames, fsyncs the folder: after OK the new content
 * survives a power cut; after a failure the old content is still there. */
PL_MUST_CHECK pl_status pl_replace_file(const char *path, const void *data, size_t len);

/* The names in the folder survive a power cut. */
PL_MUST_CHECK pl_status pl_sync_folder(const char *folder);
/* A name is durable only when the folder that holds it is. */
PL_MUST_CHECK pl_status pl_sync_parent(const char *path);

/* A read-only mapping. Unmap with pl_unmap_file. */
typedef struct pl_mapping {
    const uint8_t *data;
    size_t len;
} pl_mapping;
PL_MUST_CHECK pl_status pl_map_file(const char *path, pl_mapping *out);
void pl_unmap_file(pl_mapping *mapping);
/* Zeroed memory that the kernel may write to a file without a name in `folder`, where
 * memory is short. ERR_NOSPACE: the disk has no room for it. Unmap with
 * pl_unmap_scratch. */
PL_MUST_CHECK pl_status pl_map_scratch(const char *folder, size_t bytes, void **out);
void pl_unmap_scratch(void *memory, size_t bytes); /* accepts NULL */
/* Its pages leave this process's memory, and come back when they are read. */
void pl_rest_file(const pl_mapping *mapping);

/* flock on the folder itself (cannot be defeated by deleting a lock file).
 * ERR_BUSY if another process holds it. *fd is closed by pl_unlock_folder. */
PL_MUST_CHECK pl_status pl_lock_folder(const char *path, int *fd);
void pl_unlock_folder(int *fd);

/* Blocks in use by the files of one folder, not of those in it; 0 if it cannot be read.
 */
uint64_t pl_folder_bytes(const char *path);
uint64_t pl_disk_free_bytes(const char *path); /* 0 if unknown */
PL_MUST_CHECK pl_status
pl_check_writable(const char *folder); /* write, fsync, read, delete */

/* Joins into out (PL_PATH_MAX bytes); "" if it does not fit. Returns out. */
enum { PL_PATH_MAX = 1024 };
char *pl_join(char out[PL_PATH_MAX], const char *folder, const char *name);
/* The folder that holds it, by its name: of a link, where the link lies; "." of "a",
 * "/" of "/a". Returns out. */
char *pl_path_above(char out[PL_PATH_MAX], const char *path);
/* Whether it is that folder or lies in it, also by links; a path that is not there yet
 * lies where it would be made. False if there is no such folder. */
bool pl_path_within(const char *path, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
