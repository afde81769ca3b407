/* Creates an empty RocksDB database with all column families at once.
 *
 * Through the C interface RocksDB would create the families one by one, and after each
 * it would write a file with the options of all families, and read it again. With this
 * function a store is made in 55 instead of 95 ms. */
#include "store/kv_make.h"
#include <memory>
#include <rocksdb/db.h>
#include <string.h>

char *kv_make(const char *path, const char *const *names, int n)
{
    rocksdb::Options options;
    rocksdb::DB *opened = nullptr;
    options.create_if_missing = true;
    options.info_log_level = rocksdb::ERROR_LEVEL;
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
    return status.ok() ? nullptr : strdup(status.ToString().c_str());
}
