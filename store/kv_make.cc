/* Creates an empty RocksDB database with all column families at once.
 *
 * Through the C interface RocksDB would create the families one by one, and after each
 * it would write a file with the options of all families, and read it again. With this
 * function a store is made in 55 instead of 95 ms. */
#include "store/kv_make.h"
#include "base/base.h"
#include <memory>
#include <rocksdb/db.h>
#include <string.h>

char *kv_make(const char *path, const char *const *names, int n)
{
    rocksdb::Options options;
    rocksdb::DB *opened = nullptr;
    options.create_if_missing = true;
    /* as set_durability in kv.c */
    options.info_log_level = rocksdb::ERROR_LEVEL;
    options.max_file_opening_threads = 1;
    options.stats_dump_period_sec = 0;
    options.stats_persist_period_sec = 0;
    options.max_bgerror_resume_count = 0;
    options.track_and_verify_wals_in_manifest = true;
    options.atomic_flush = true;
    rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
    std::unique_ptr<rocksdb::DB> db(opened);
    std::vector<rocksdb::ColumnFamilyHandle *> families;
    if (status.ok())
        status = db->CreateColumnFamilies(
            options, std::vector<std::string>(names, names + n), &families);
    for (rocksdb::ColumnFamilyHandle *family : families)
        (void)db->DestroyColumnFamilyHandle(family);
    if (status.ok())
        return nullptr;
    const std::string text = status.ToString();
    char *error = strdup(text.c_str());
    if (!error)
        pl_memory_exhausted(text.size());
    return error;
}
