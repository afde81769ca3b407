/* folder: corpus
 *
 * What users give as text: JSON lines, plain text, compressed or not; JSON alone. */
#include "corpus/corpus.h"
#include "tests/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static pl_status on_document(void *context, const pl_document *document)
{
    size_t *bytes = context;
    for (size_t i = 0; i < document->len; i++) /* every byte is there */
        *bytes += (uint8_t)document->text[i];
    return PL_OK;
}

/* Names choose how a file is read; each leads to the same file in memory. */
static const char *const names[] = {"in.jsonl", "in.txt", "in.jsonl.zst", "in.md"};
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
    pl_json *json;
    if (len < 1)
        return 0;
    if (input[0] % 8 == 7) {
        if (pl_json_parse((const char *)input + 1, len - 1, &json) == PL_OK)
            pl_json_destroy(&json);
        return 0;
    }
    if (fd < 0)
        make_names();
    if (ftruncate(fd, 0) != 0 || pwrite(fd, input + 1, len - 1, 0) != (ssize_t)len - 1)
        abort();
    (void)pl_documents_read(pl_join(path, folder, names[input[0] % 4]), on_document,
                            &bytes, NULL);
    return 0;
}

static void give_compressed(void (*give)(const void *, size_t), const char *text)
{
    pl_buf seed = {0};
    pl_buf_append(&seed, "\2", 1);
    pl_buf packed = {0};
    if (pl_zip(text, strlen(text), 3, &packed) == PL_OK) {
        pl_buf_append(&seed, packed.data, packed.len);
        give(seed.data, seed.len);
    }
    pl_buf_destroy(&packed);
    pl_buf_destroy(&seed);
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char lines[] =
        "{\"text\":\"one "
        "two\",\"domain\":\"code\"}\n{\"text\":\"\\u00e9\\ud83d\\ude00\"}\n"
        "\n{\"x\":[1,2.5e3,null,true],\"text\":\"three\"}";
    char seed[sizeof lines + 1];
    for (char mode = 0; mode < 8; mode++) {
        seed[0] = mode;
        memcpy(seed + 1, lines, sizeof lines);
        give(seed, sizeof lines);
    }
    static const char plain[] = "\1plain text\n\n\nmore \377\376 of it\n";
    static const char json[] = "\7{\"a\":[{\"b\":{}},-1e-3,\"\\n\"]}";
    give(plain, sizeof plain - 1);
    give(json, sizeof json - 1);
    give_compressed(give, lines);
}
