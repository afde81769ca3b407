/* folder: outer. What tests of the accelerator share: vectors there, and comparing.
 * They run on the emulated device in several orders of threads; on a real one, whose
 * order nobody chooses, several times. */
#ifndef PL_TESTS_ACCEL_SUPPORT_H
#define PL_TESTS_ACCEL_SUPPORT_H
#include "outer/accel.h"
#include "tests/codec_support.h"
#include "tests/emulation/emulation.h"
#include <dirent.h>

static struct {
    pl_accel *accel; /* NULL: no device here */
} rig;

static inline void ok(pl_status status)
{
    if (status != PL_OK)
        fail_msg("%s", pl_last_error());
}

/* On a machine without a device the tests of the real one have nothing to say. */
static inline int open_rig(void **state)
{
    (void)state;
    if (pl_accel_open(0, NULL, &rig.accel) != PL_OK)
        print_message("not on this machine: %s\n", pl_last_error());
    return 0;
}

static inline int close_rig(void **state)
{
    size_t bytes;
    (void)state;
    pl_accel_close(&rig.accel);
    return emulation_n_allocations(&bytes) == 0 ? 0 : -1;
}

static inline void need_device(void)
{
    if (!rig.accel)
        skip();
}

static inline void *to_device(const void *host, size_t bytes)
{
    void *device;
    ok(pl_accel_alloc(rig.accel, bytes, "a test", &device));
    ok(pl_accel_upload(rig.accel, device, host, bytes));
    return device;
}

static inline void from_device(void *host, void *device, size_t bytes)
{
    ok(pl_accel_download(rig.accel, host, device, bytes));
    pl_accel_free(rig.accel, device);
}

/* What the CPU made and what the device made; the bits of a NaN may differ. */
static inline void assert_same_floats(const float *cpu, const float *device, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&cpu[i], &device[i], sizeof(float)) != 0 &&
            !(isnan(cpu[i]) && isnan(device[i])))
            fail_msg("value %zu of %zu: %a on the CPU, %a on the device", i, n,
                     (double)cpu[i], (double)device[i]);
}

/* Values of very different sizes, zeros of both signs and subnormals among them. */
static inline void fill_odd(float *x, size_t n, uint64_t seed)
{
    static const float odd[] = {0.0f, -0.0f, 1e-42f, -3e-39f,
                                1.5f, -2.5f, 1e-3f,  65504.0f};
    for (size_t i = 0; i < n; i++) {
        uint32_t pick = pl_random_u32(seed, 3, i) % 40;
        x[i] = pick < 8 ? odd[pick] : pl_random_normal(seed, 7, i) * 1e-3f;
    }
}

/* Every kernel of a source, by name, must have run. Returns how many it has. */
static inline int assert_source_ran(const char *path)
{
    static const char mark[] = "_kernel(";
    pl_buf text = {0};
    ok(pl_read_file(path, &text));
    int found = 0;
    const char *source = pl_buf_text(&text);
    for (const char *at = source; (at = strstr(at, mark)); at += sizeof mark) {
        const char *start = at;
        while (start > source &&
               (start[-1] == '_' || (start[-1] >= '0' && start[-1] <= '9') ||
                (start[-1] >= 'a' && start[-1] <= 'z')))
            start--;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(at + 7 - start), start);
        bool ran = false;
        for (size_t i = 0; i < emulation_n_kernels(); i++)
            ran |= strcmp(emulation_kernel(i), name) == 0;
        if (!ran)
            fail_msg("no test launches %s of %s", name, path);
        found++;
    }
    pl_buf_destroy(&text);
    return found;
}

/* So must all of outer/cuda: those of codecs in one test, all others in another. */
static inline void assert_all_ran(bool codecs)
{
    int found = 0;
    if (emulation_n_launches() == 0)
        skip(); /* a real device keeps no list */
    DIR *folder = opendir("outer/cuda");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[PL_PATH_MAX];
        if (pl_ends_with(entry->d_name, ".cu") &&
            pl_starts_with(entry->d_name, "codec_") == codecs)
            found += assert_source_ran(pl_join(path, "outer/cuda", entry->d_name));
    }
    closedir(folder);
    assert_true(found > 5);
}

#endif
