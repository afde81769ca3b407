/* Checks processor, memory, clock, libraries and disk for problems that would make a
 * job slow or its data unsafe, before a job runs into them. */
#include "measure/doctor_internal.h"
#include "measure/home_process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- processor and memory ---- */
static bool has_flag(const char *info, const char *flag)
{
    size_t len = strlen(flag);
    for (const char *at = info; (at = strstr(at, flag)); at += len)
        if (at > info && at[-1] == ' ' && (at[len] == ' ' || at[len] == '\n'))
            return true;
    return false;
}

/* ---- disk ---- */
void doctor_disk(doctor *d, const char *folder)
{
    char left[16];
    uint64_t bytes = pl_disk_free_bytes(folder);
    pl_human_bytes((double)bytes, left);
    health how = bytes < (256u << 20)   ? HEALTH_FAIL
                 : bytes < (2ull << 30) ? HEALTH_WARN
                                        : HEALTH_OK;
    doctor_say(d, how, "disk", "free some space, or use another folder (--run)",
               "%s are free in %s", left, folder);
    /* the median time of writing 4 KiB to a file in the folder and flushing it to the
     * disk; negative if a write fails */
    enum { TIMES = 41 };
    char path[PL_PATH_MAX], block[4096] = {0};
    double times[TIMES], ms = -1;
    int n = 0;
    pl_join(path, folder, ".pathloom-doctor-XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    for (; fd >= 0 && n < TIMES; n++) {
        double start = pl_now();
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block ||
            fdatasync(fd) != 0)
            break;
        times[n] = 1e3 * (pl_now() - start);
    }
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    if (n == TIMES) {
        measure_sort(times, TIMES);
        ms = times[TIMES / 2];
    }
    struct statfs fs = {0};
    bool in_memory = statfs(folder, &fs) == 0 && fs.f_type == 0x01021994; /* tmpfs */
    if (ms < 0)
        doctor_say(d, HEALTH_FAIL, "flush",
                   "choose a folder that this user can write to", "cannot write to %s",
                   folder);
    else if (in_memory)
        doctor_say(d, HEALTH_WARN, "flush", "keep runs on a disk",
                   "%s is in memory, so a power failure loses even committed data",
                   folder);
    else
        doctor_say(d, ms < 20 ? HEALTH_OK : HEALTH_WARN, "flush",
                   "every commit waits for such a write: use a faster disk, or a disk "
                   "that other programs use less",
                   "writing 4 KiB to the disk of %s takes %.2f ms (median)", folder,
                   ms);
}

void doctor_machine(doctor *d)
{
    static const char *const wanted[] = {"avx2",        "fma",         "avx512f",
                                         "avx512_vnni", "avx512_bf16", "amx_bf16"};
    pl_buf info = {0};
    char found[128] = "";
    if (pl_read_file("/proc/cpuinfo", &info) == PL_OK) {
        const char *text = pl_buf_text(&info);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (has_flag(text, wanted[i])) {
                strncat(found, " ", sizeof found - strlen(found) - 1);
                strncat(found, wanted[i], sizeof found - strlen(found) - 1);
            }
        bool fast = has_flag(text, "avx2") && has_flag(text, "fma");
        char why[PL_CPU_WHY_MAX];
        const int n = pl_cpu_count_at("", why);
        doctor_say(d, fast ? HEALTH_OK : HEALTH_WARN, "processor",
                   "use a machine whose processors have AVX2 and FMA; this machine "
                   "has about a tenth of their speed",
                   "%d processor%s%s%s%s,%s", n, n == 1 ? "" : "s", why[0] ? " (" : "",
                   why, why[0] ? ")" : "",
                   found[0] ? found : " none of the vector units that pathloom uses");
    }
    pl_buf_destroy(&info);
    char all[16], left[16];
    const pl_memory memory = pl_memory_now();
    pl_human_bytes((double)memory.total_bytes, all);
    pl_human_bytes((double)memory.available_bytes, left);
    doctor_say(d, memory.available_bytes > 1e9 ? HEALTH_OK : HEALTH_WARN, "memory",
               "end other programs, or use fewer workers", "%s of %s are free", left,
               all);
    pl_backend *backend = NULL;
    pl_backend_options options = {.name = "auto", .n_threads = 1, .precision = "auto"};
    if (pl_backend_open(&options, &backend) == PL_OK)
        doctor_say(d, HEALTH_OK, "backend", "", "%s", backend->device);
    else
        doctor_say(d, HEALTH_FAIL, "backend", "install the libraries of packages.txt",
                   "%s", pl_last_error());
    pl_backend_close(&backend);
    char text[128];
    bool safe = pl_wire_library(text);
    doctor_say(d, safe ? HEALTH_OK : HEALTH_FAIL, "libraries",
               "install ZeroMQ 4.3 or newer, built with CURVE", "%s", text);
    struct rlimit files = {0, 0};
    getrlimit(RLIMIT_NOFILE, &files);
    bool enough = files.rlim_cur >= 1024;
    doctor_say(d, enough ? HEALTH_OK : HEALTH_WARN, "open files", "ulimit -n 4096",
               "a process may open %llu files", (unsigned long long)files.rlim_cur);
    /* A wrong clock does not harm leases, which use the monotonic clock. But keys and
     * invitations expire at the wrong time, and records get wrong dates. */
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);
    int64_t now_s = pl_wall_ms() / 1000;
    bool sane = now_s > 1704067200; /* 2024-01-01 */
    bool synced = state != -1 && state != TIME_ERROR && !(t.status & STA_UNSYNC);
    if (!sane)
        doctor_say(
            d, HEALTH_FAIL, "clock", "set the clock: timedatectl set-ntp true",
            "the clock shows %lld s after 1970, which is before 2024, so invitations "
            "would not expire in time",
            (long long)now_s);
    else
        doctor_say(d, synced ? HEALTH_OK : HEALTH_WARN, "clock",
                   "use timedatectl set-ntp true, or another time service",
                   synced ? "a time service sets the clock"
                          : "no time service sets the clock");
}
