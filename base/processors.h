/* How many processors this process may use. */
#pragma once
#include "base/status.h"
PL_C_BEGIN

/* Returns the number of processors that this process may use, at least 1: the smallest
 * of
 *
 * - the number of processors to which the process is bound (affinity, cpusets);
 * - the quotas of all cgroups that enclose it, rounded up (version 2: cpu.max; version
 *   1: cpu.cfs_quota_us);
 * - SLURM_CPUS_PER_TASK and SLURM_CPUS_ON_NODE, if they are set.
 *
 * Quotas and variables are read by the first call only. */
int pl_cpu_count(void);

/* Like pl_cpu_count, but reads all limits now. `root` precedes the paths /proc and
 * /sys; "" except in tests. `why` gets a text that names the smallest limit, such as
 * "the quota of the cgroup /sys/fs/cgroup/job is 0.5 processors", or "" if the process
 * may use all processors of the machine. */
enum { PL_CPU_WHY_MAX = 640 };
int pl_cpu_count_at(const char *root, char why[PL_CPU_WHY_MAX]);

/* Calls fn for the folder of each cgroup that encloses this process and may limit
 * `controller` ("cpu", "memory"), under version 1 and version 2. The folders need not
 * exist or have the controller's files. */
void pl_cgroup_each(const char *root, const char *controller,
                    void (*fn)(void *context, const char *folder), void *context);

PL_C_END
