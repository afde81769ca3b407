/* folder: corpus
 *
 * Fuzzes texts of users in compressed files. The inputs go through files, so this
 * target is slower than the others. */
#include "corpus/corpus.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static pl_status on_document(void *context, const pl_document *document)
{
    size_t *bytes = context;
    /* Reads all bytes, so that a sanitizer finds a length that is too large. */
    for (size_t i = 0; i < document->len; i++)
        *bytes += (uint8_t)document->text[i];
    return PL_OK;
}

/* The end of a file's name decides how the file is read. All names lead to the same
 * file in memory. */
static const char *const names[] = {"in.jsonl.gz", "in.txt", "in.jsonl.zst",
                                    "in.md.xz"};
static char folder[] = "/tmp/pathloom-fuzz-XXXXXX";
static int fd = -1;

static void remove_names(void)
{
    char path[PL_PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(pl_join(path, folder, names[i]));
    rmdir(folder);
}

static void make_names(void)
{
    char path[PL_PATH_MAX], target[64];
    if (!mkdtemp(folder))
        abort();
    fd = memfd_create("fuzz", 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (symlink(target, pl_join(path, folder, names[i])) != 0)
            abort();
    atexit(remove_names);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    char path[PL_PATH_MAX];
    size_t bytes = 0;
    if (len < 1)
        return 0;
    if (fd < 0)
        make_names();
    if (ftruncate(fd, 0) != 0 || pwrite(fd, input + 1, len - 1, 0) != (ssize_t)len - 1)
        abort();
    (void)pl_documents_cut(pl_join(path, folder, names[input[0] % 4]), 0, on_document,
                           &bytes, NULL);
    return 0;
}

static void give_compressed(void (*give)(const void *, size_t), const char *text)
{
    pl_buf packed = {0};
    if (pl_zip(text, strlen(text), 3, &packed) == PL_OK)
        fuzz_give(give, 2, packed.data, packed.len);
    pl_buf_destroy(&packed);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char gzip[] = "\0\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4c\x4a\xe6"
                               "\x02\0\x4e\x81\x88\x47\x04\0\0";
    static const char plain[] = "\1plain text\n\n\nmore \377\376 of it\n";
    give(plain, sizeof plain - 1);
    give(gzip, sizeof gzip - 1);
    give_compressed(give, "{\"text\":\"one two\"}\n{\"text\":\"three\"}\n");
    give_compressed(give, "");
}
