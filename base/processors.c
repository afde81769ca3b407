/* Reads the limits of processors (processors.h): affinity, cgroups and Slurm. */
#include "base/processors.h"
#include "base/text.h"
#include "base/thread.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP_MAX = 384, FOLDER_MAX = 512, LINE_MAX_BYTES = 512 };

/* ---- cgroups ---- */
/* Calls fn for the group `path` below `mount`, and for all groups above it. */
static void visit_upwards(const char *mount, const char *path,
                          void (*fn)(void *context, const char *folder), void *context)
{
    char group[GROUP_MAX], folder[FOLDER_MAX + GROUP_MAX];
    pl_copy_text(group, sizeof group, strcmp(path, "/") == 0 ? "" : path);
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        fn(context, folder);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
 * Version 2 is mounted in /sys/fs/cgroup, or in its folder `unified` if version 1 is
 * used, too. Version 1 has a folder for each controller. In a container, the path may
 * name groups of the host whose folders are not there; then only the group at the mount
 * point is found, which is the container's. */
void pl_cgroup_each(const char *root, const char *controller,
                    void (*fn)(void *context, const char *folder), void *context)
{
    char path[FOLDER_MAX], line[LINE_MAX_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *group = list ? strchr(++list, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (list[0] == '\0') {
            snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
            visit_upwards(path, group, fn, context);
            snprintf(path, sizeof path, "%s/sys/fs/cgroup/unified", root);
            visit_upwards(path, group, fn, context);
        } else if (pl_lists_word(list, ',', controller)) {
            snprintf(path, sizeof path, "%s/sys/fs/cgroup/%s", root, controller);
            visit_upwards(path, group, fn, context);
        }
    }
    fclose(file);
}

/* ---- the smallest limit ---- */
typedef struct cpu_limit {
    int n;
    char *why;
} cpu_limit;

/* Reads up to two numbers from a file; returns how many there are. */
static int read_numbers(const char *folder, const char *name, double out[2])
{
    char path[FOLDER_MAX + GROUP_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int n = fscanf(file, "%lf %lf", &out[0], &out[1]);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* A group without a quota has "max" (version 2) or -1 (version 1). */
static void apply_quota(void *context, const char *folder)
{
    cpu_limit *limit = context;
    double quota[2] = {0, 0}, period[2] = {0, 0};
    if (read_numbers(folder, "cpu.max", quota) == 2)
        period[0] = quota[1];
    else if (read_numbers(folder, "cpu.cfs_quota_us", quota) < 1 ||
             read_numbers(folder, "cpu.cfs_period_us", period) < 1)
        return;
    if (!(quota[0] > 0) || !(period[0] > 0))
        return;
    const double share = quota[0] / period[0];
    if (share >= limit->n)
        return;
    limit->n = (int)share;
    if (limit->n < share)
        limit->n++;
    snprintf(limit->why, PL_CPU_WHY_MAX,
             "the quota of the cgroup %s is %.3g processors", folder, share);
}

static void apply_variable(cpu_limit *limit, const char *name)
{
    const char *text = getenv(name);
    int64_t n = 0;
    if (!text || pl_parse_int(text, &n) != PL_OK || n < 1 || n >= limit->n)
        return;
    limit->n = (int)n;
    snprintf(limit->why, PL_CPU_WHY_MAX, "%s is %d", name, limit->n);
}

static int bound_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int pl_cpu_count_at(const char *root, char why[PL_CPU_WHY_MAX])
{
    cpu_limit limit = {.n = bound_processors(), .why = why};
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    why[0] = '\0';
    if (online > limit.n)
        snprintf(why, PL_CPU_WHY_MAX, "the process is bound to %d of %ld processors",
                 limit.n, online);
    pl_cgroup_each(root, "cpu", apply_quota, &limit);
    apply_variable(&limit, "SLURM_CPUS_PER_TASK");
    apply_variable(&limit, "SLURM_CPUS_ON_NODE");
    return limit.n;
}

static int first_count;

static void count_first(void)
{
    char why[PL_CPU_WHY_MAX];
    first_count = pl_cpu_count_at("", why);
}

/* A process may bind itself to fewer processors later, so the binding is read again. */
int pl_cpu_count(void)
{
    static bool counted;
    pl_once(&counted, count_first);
    const int bound = bound_processors();
    return bound < first_count ? bound : first_count;
}
