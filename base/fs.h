/* Files and folders: whole-file reads, mapping, locks. */
#pragma once
#include "base/buf.h"
PL_C_BEGIN

bool pl_path_exists(const char *path);
bool pl_path_is_folder(const char *path);
pl_status pl_make_folders(const char *path); /* mkdir -p, durable */
/* Deletes a file, or a folder with everything in it. A missing path is not an error. */
pl_status pl_remove_tree(const char *path);
pl_status pl_read_file(const char *path, pl_buf *out);
/* Checks a path that a user gave. ERR_DATA if it is a pipe, a device or a socket, which
 * might block or never end. PL_OK if the path does not exist. */
pl_status pl_refuse_special(const char *path);

/* Syncs the folder, so that the names of new files in it survive a power cut. */
pl_status pl_sync_folder(const char *folder);
/* Syncs the folder that contains `path`, because the name of a file is durable only
 * after its folder was synced. */
pl_status pl_sync_parent(const char *path);
/* Exchanges the names of two folders of one file system in one step: at every moment
 * each name stands for one whole folder. ERR_IO: the file system cannot do this. */
pl_status pl_exchange_folders(const char *a, const char *b);
/* Tries this with two empty folders, which it makes in `folder` and removes. */
pl_status pl_try_exchange(const char *folder);

typedef struct pl_mapping {
    const uint8_t *data;
    size_t len;
} pl_mapping;
pl_status pl_map_file(const char *path, pl_mapping *out);
void pl_unmap_file(pl_mapping *mapping);
/* Zeroed memory that the kernel may write to an unnamed file in `folder` when memory is
 * short. ERR_NOSPACE: no room. Unmap with pl_unmap_scratch. */
pl_status pl_map_scratch(const char *folder, size_t bytes, void **out);
void pl_unmap_scratch(void *memory, size_t bytes); /* accepts NULL */
/* Releases the mapping's pages from this process's memory. The next access to a
 * released page reads it from the file again. */
void pl_rest_file(const pl_mapping *mapping);

/* Locks a folder with flock on the folder itself: no lock file can be deleted. ERR_BUSY
 * if another process holds the lock. pl_unlock_folder closes *fd. */
pl_status pl_lock_folder(const char *path, int *fd);
/* Returns whether a process holds the lock. For an instant the call holds a shared
 * lock, so that pl_lock_folder may fail in another process. */
bool pl_folder_is_locked(const char *path);
void pl_unlock_folder(int *fd);

/* Disk space of the files directly in this folder; 0 if it cannot be read. */
uint64_t pl_folder_bytes(const char *path);
/* Returns what to do about errno `cause` of a file at `path`, as "; SENTENCE" with the
 * number of the limit; "" if nothing is known: no inodes left, a quota, a limit on open
 * files or on a file's size. `needed` is the number of files that the caller must have
 * open at the same time; 0 if it is not known. */
enum { PL_REMEDY_MAX = 192 };
const char *pl_file_remedy(int cause, const char *path, uint64_t needed,
                           char out[PL_REMEDY_MAX]);
/* Returns the status of a system call that failed with errno `cause`: ERR_NOT_FOUND,
 * ERR_NOPERM, ERR_NOSPACE, ERR_FILES (then the launcher starts the process again), or
 * `otherwise`. */
pl_status pl_status_of_errno(int cause, pl_status otherwise);
/* Turns errno into a status and a sentence: "cannot VERB PATH: REASON; REMEDY". */
pl_status pl_file_failed(const char *verb, const char *path);
uint64_t pl_disk_free_bytes(const char *path); /* 0 if unknown */
/* Checks that the folder can be used: writes, syncs, reads and deletes a file in it. */
pl_status pl_check_writable(const char *folder);

/* Joins a path into `out` (PL_PATH_MAX bytes), which it returns; "": no room. */
enum { PL_PATH_MAX = 1024 };
char *pl_join(char out[PL_PATH_MAX], const char *folder, const char *name);
/* Writes the part of `path` before its last name: "." for "a", "/" for "/a". Symbolic
 * links are not followed. Returns `out`. */
char *pl_path_above(char out[PL_PATH_MAX], const char *path);
/* Whether `path` is `folder` or lies in it. Symbolic links are followed. `path` need
 * not exist yet. False if `folder` does not exist. */
bool pl_path_within(const char *path, const char *folder);

PL_C_END
