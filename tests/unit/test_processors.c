/* folder: base; label: unit
 * Tests how many processors a process may use: quotas of cgroups (version 1 and 2, of
 * all enclosing groups) in a folder with the files of a machine, and Slurm's
 * variables. */
#include "base/base.h"
#include <sched.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static char why[PL_CPU_WHY_MAX]; /* what limited the last count */
static int all; /* number of processors to which this process is bound */

static void put_file(const char *name, const char *text)
{
    char folder[PL_PATH_MAX];
    pl_path_above(folder, in_scratch(name));
    assert_ok(pl_make_folders(folder));
    write_text(name, text);
}

/* Makes an empty machine. */
static int setup(void **state)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    all = CPU_COUNT(&set);
    unsetenv("SLURM_CPUS_PER_TASK");
    unsetenv("SLURM_CPUS_ON_NODE");
    return make_scratch(state);
}

static int count(void)
{
    return pl_cpu_count_at(scratch, why);
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, setup, remove_scratch)

FIXTURE_TEST(without_limits_all_processors_count)
{
    assert_int_equal(count(), all);
    put_file("proc/self/cgroup", "0::/user.slice/job\n");
    put_file("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    assert_int_equal(count(), all);
}

FIXTURE_TEST(half_a_processor_of_version_2_counts_as_one)
{
    put_file("proc/self/cgroup", "0::/user.slice/job\n");
    put_file("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    assert_int_equal(count(), 1);
    assert_non_null(strstr(why, "/user.slice/job is 0.5 processors"));
}

FIXTURE_TEST(a_quota_of_an_enclosing_group_applies)
{
    put_file("proc/self/cgroup", "0::/user.slice/job/step\n");
    put_file("sys/fs/cgroup/user.slice/job/step/cpu.max", "max 100000\n");
    put_file("sys/fs/cgroup/user.slice/cpu.max", "20000 100000\n");
    assert_int_equal(count(), 1);
    assert_non_null(strstr(why, "/user.slice is 0.2 processors"));
}

FIXTURE_TEST(quotas_of_version_1_apply_beside_version_2)
{
    put_file("proc/self/cgroup", "9:name=systemd:/\n3:cpu,cpuacct:/a/b\n"
                                 "2:cpuset:/\n0::/\n");
    put_file("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put_file("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    assert_int_equal(count(), all);
    put_file("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "30000\n");
    put_file("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(count(), 1);
    assert_non_null(strstr(why, "cpu/a is 0.3 processors"));
}

/* In a container, the path names a group of the host. */
FIXTURE_TEST(the_quota_at_the_mount_point_applies_in_a_container)
{
    put_file("proc/self/cgroup", "4:cpu:/docker/0123\n0::/docker/0123\n");
    put_file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put_file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(count(), 1);
}

FIXTURE_TEST(slurms_numbers_apply)
{
    setenv("SLURM_CPUS_ON_NODE", "64", 1);
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    assert_int_equal(count(), 1);
    assert_true(all == 1 || strstr(why, "SLURM_CPUS_PER_TASK is 1"));
    setenv("SLURM_CPUS_PER_TASK", "many", 1);
    assert_int_equal(count(), all < 64 ? all : 64);
    setenv("SLURM_CPUS_ON_NODE", "1", 1);
    assert_int_equal(count(), 1);
}

FIXTURE_TEST(nonsense_in_these_files_limits_nothing)
{
    static const char *const texts[] = {"", "-5 100000\n", "0 0\n", "nan nan\n", "5\n"};
    put_file("proc/self/cgroup", "\n:::\n0:\n0::/a\n12:cpu\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_file("sys/fs/cgroup/a/cpu.max", texts[i]);
        assert_int_equal(count(), all);
    }
}
