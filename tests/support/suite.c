/* Keeps the tests of a program, and runs those of one file. */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { FILES_MAX = 64, TESTS_MAX = 64 };

typedef struct suite_file {
    const char *path;
    CMFixtureFunction setup, teardown;
    int (*child)(int argc, char **argv);
    struct CMUnitTest tests[TESTS_MAX];
    size_t n_tests;
} suite_file;

static suite_file files[FILES_MAX];
static int n_files;

void free_memory(void *owner)
{
    void *memory;
    memcpy(&memory, owner, sizeof memory);
    free(memory);
}

pid_t start_self(const char *failpoint, const char *program, const char *first,
                 const char *second)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (failpoint)
            setenv("PATHLOOM_FAILPOINT", failpoint, 1);
        execl("/proc/self/exe", program, first, second, (char *)NULL);
        _exit(99);
    }
    return child;
}

int run_self(const char *failpoint, const char *program, const char *first,
             const char *second)
{
    int how = 0;
    const pid_t child = start_self(failpoint, program, first, second);
    assert_int_equal(waitpid(child, &how, 0), child);
    /* a failed assertion ends a child with 255 */
    assert_true(!WIFEXITED(how) || WEXITSTATUS(how) < 128);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Constructors call this before main. */
static suite_file *file_at(const char *path)
{
    for (int i = 0; i < n_files; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    if (n_files == FILES_MAX) {
        fprintf(stderr, "%s: suite.c has room for %d files\n", path, FILES_MAX);
        abort();
    }
    files[n_files].path = path;
    return &files[n_files++];
}

void suite_add(const char *file, const struct CMUnitTest *test)
{
    suite_file *f = file_at(file);
    if (f->n_tests == TESTS_MAX) {
        fprintf(stderr, "%s: suite.c has room for %d tests of a file\n", file,
                TESTS_MAX);
        abort();
    }
    f->tests[f->n_tests++] = *test;
}

void suite_frame(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    suite_file *f = file_at(file);
    f->setup = setup;
    f->teardown = teardown;
}

void suite_child(const char *file, int (*child)(int argc, char **argv))
{
    file_at(file)->child = child;
}

/* Returns the file whose name without folder and extension is the last part of `name`;
 * NULL: none. */
static const suite_file *file_named(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *stem = slash ? slash + 1 : name;
    const size_t n = strlen(stem);
    for (int i = 0; i < n_files; i++) {
        const char *path = files[i].path, *last = strrchr(path, '/');
        const char *base = last ? last + 1 : path;
        if (strncmp(base, stem, n) == 0 && (base[n] == '.' || !base[n]))
            return &files[i];
    }
    return NULL;
}

/* A child's argv[0] may be any name, so its parent tells it the file. */
int main(int argc, char **argv)
{
    static const char variable[] = "PL_TEST_FILE";
    const char *told = getenv(variable);
    const suite_file *f = n_files == 1 ? &files[0] : file_named(argv[0]);
    if (!f && told)
        f = file_named(told);
    if (!f) {
        print_error("%s has the tests of these files; start it as test_X:\n", argv[0]);
        for (int i = 0; i < n_files; i++)
            print_error("  %s\n", files[i].path);
        return 64;
    }
    setenv(variable, f->path, 1);
    if (argc > 1 && f->child && (told || n_files == 1))
        return f->child(argc, argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    pl_log_open("test", PL_LOG_ERROR, false);
    return _cmocka_run_group_tests("tests", f->tests, f->n_tests, f->setup,
                                   f->teardown);
}
