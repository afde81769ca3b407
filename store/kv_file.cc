/* SstFileWriter behind C, over files that a thread writes. */
#include "store/kv_file.h"
#include "store/behind.h"
#include <cstring>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

static IOStatus status_of(int error)
{
    return error ? IOStatus::IOError(strerror(error)) : IOStatus::OK();
}

namespace
{
/* Flushing and closing only say that it is the end: kv_table_finish waits. */
class thread_file : public rocksdb::FSWritableFile
{
  public:
    explicit thread_file(behind *file) : file_(file)
    {
    }
    using FSWritableFile::Append;
    IOStatus Append(const rocksdb::Slice &data, const IOOptions &,
                    IODebugContext *) override
    {
        return status_of(behind_append(file_, data.data(), data.size()));
    }
    IOStatus Flush(const IOOptions &, IODebugContext *) override
    {
        return IOStatus::OK();
    }
    IOStatus Sync(const IOOptions &, IODebugContext *) override
    {
        behind_end(file_);
        return IOStatus::OK();
    }
    IOStatus Close(const IOOptions &, IODebugContext *) override
    {
        behind_end(file_);
        return IOStatus::OK();
    }

  private:
    behind *file_;
};

/* The writer's file is ours; everything else is the system's. */
class thread_files : public rocksdb::FileSystemWrapper
{
  public:
    behind *file = nullptr;

    thread_files() : FileSystemWrapper(rocksdb::FileSystem::Default())
    {
    }
    ~thread_files() override
    {
        behind_close(&file);
    }
    const char *Name() const override
    {
        return "thread_files";
    }
    IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &,
                             std::unique_ptr<rocksdb::FSWritableFile> *out,
                             IODebugContext *) override
    {
        IOStatus status = status_of(behind_open(path.c_str(), &file));
        if (status.ok())
            out->reset(new thread_file(file));
        return status;
    }
};

rocksdb::Options options_over(rocksdb::Env *env)
{
    rocksdb::Options options;
    rocksdb::BlockBasedTableOptions table;
    table.no_block_cache = true;
    options.env = env;
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return options;
}
} // namespace

struct kv_table {
    std::shared_ptr<thread_files> files = std::make_shared<thread_files>();
    std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
    rocksdb::Options options = options_over(env.get());
    rocksdb::SstFileWriter writer{rocksdb::EnvOptions(options), options, nullptr,
                                  false};
};

static bool failed(const rocksdb::Status &status, char **error)
{
    if (status.ok())
        return false;
    *error = strdup(status.ToString().c_str());
    return true;
}

kv_table *kv_table_open(const char *path, char **error)
{
    kv_table *table = new kv_table;
    if (!failed(table->writer.Open(path), error))
        return table;
    delete table;
    return nullptr;
}

void kv_table_put(kv_table *table, const void *key, size_t key_len, const void *value,
                  size_t value_len, char **error)
{
    failed(
        table->writer.Put(rocksdb::Slice(static_cast<const char *>(key), key_len),
                          rocksdb::Slice(static_cast<const char *>(value), value_len)),
        error);
}

void kv_table_end(kv_table *table, char **error)
{
    failed(table->writer.Finish(), error);
}

void kv_table_finish(kv_table *table, char **error)
{
    failed(status_of(behind_wait(table->files->file)), error);
}

/* The writer ends its file when it goes. */
void kv_table_free(kv_table *table)
{
    if (table && table->files->file)
        behind_cancel(table->files->file);
    delete table;
}
