/* folder: modules; label: unit */
/* Tests PATHLOOM_CPU: which kernels a process uses with each value. Every case runs in
 * a child process, because a process reads the variable only once. */
#include "base/base.h"
#include "modules/backend.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

/* Runs `check` in a child process that has PATHLOOM_CPU=value (NULL: without it).
 * Returns the exit code of the child. */
static int with_value(const char *value, int (*check)(pl_isa), pl_isa want)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        if (value)
            setenv("PATHLOOM_CPU", value, 1);
        else
            unsetenv("PATHLOOM_CPU");
        _exit(check(want));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static pl_isa older(pl_isa a, pl_isa b)
{
    return a < b ? a : b;
}

static int newest_is(pl_isa want)
{
    return pl_isa_check() != PL_OK || pl_isa_newest() != want;
}

PL_TEST(a_named_instruction_set_lowers_what_the_machine_has)
{
    const pl_isa machine = pl_isa_machine();
    assert_int_equal(with_value(NULL, newest_is, machine), 0);
    assert_int_equal(with_value("", newest_is, machine), 0);
    for (int i = 0; i < PL_ISA_COUNT; i++)
        assert_int_equal(
            with_value(pl_isa_names[i], newest_is, older(machine, (pl_isa)i)), 0);
}

static int change_is_ignored(pl_isa want)
{
    const pl_isa before = pl_isa_newest();
    setenv("PATHLOOM_CPU", "portable", 1);
    return before != want || pl_isa_newest() != want;
}

PL_TEST(a_later_change_of_the_environment_has_no_effect)
{
    assert_int_equal(with_value(NULL, change_is_ignored, pl_isa_machine()), 0);
}

static int value_is_refused(pl_isa unused)
{
    (void)unused;
    return pl_isa_check() != PL_ERR_USAGE ||
           !strstr(pl_last_error(), "portable, avx2, avx512, avx512_vnni");
}

PL_TEST(an_unknown_name_is_refused_with_the_list_of_names)
{
    static const char *const bad[] = {"avx3", "AVX2",         "avx2 ",
                                      " ",    "avx512_vnni_", "0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(with_value(bad[i], value_is_refused, PL_ISA_PORTABLE), 0);
}

/* The device of the cpu backend must name the instruction set, and none of its
 * libraries may have kernels for a newer one. */
static int device_is_limited(pl_isa want)
{
    static const char *const precisions[] = {"auto", "f32", "bf16", "int8"};
    static const char *const newer[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake",
                                        "Sapphire"};
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        const pl_backend_options options = {
            .name = "cpu", .precision = precisions[i], .n_threads = 1};
        OWNED(pl_backend_close) pl_backend *be = NULL;
        char name[32];
        if (pl_backend_open(&options, &be) != PL_OK)
            return 2;
        snprintf(name, sizeof name, " %s ", pl_isa_names[want]);
        if (!strstr(be->device, name))
            return 3;
        for (size_t j = 0; j < sizeof newer / sizeof *newer; j++)
            if (want == PL_ISA_PORTABLE && strstr(be->device, newer[j]))
                return 4;
        if (want < PL_ISA_AVX512 &&
            (strstr(be->device, "SkylakeX") || strstr(be->device, "Cooperlake") ||
             strstr(be->device, " amx")))
            return 5;
    }
    return 0;
}

PL_TEST(the_backend_and_its_libraries_obey_the_named_instruction_set)
{
    const pl_isa machine = pl_isa_machine();
    for (int i = 0; i < PL_ISA_COUNT; i++)
        assert_int_equal(
            with_value(pl_isa_names[i], device_is_limited, older(machine, (pl_isa)i)),
            0);
}
