/* A process of its own that works on a store until it is killed: the test's own program
 * with the folder as its only argument. What it writes to standard output are numbers
 * of 8 bytes. */
#ifndef PL_TESTS_STORE_CHILD_H
#define PL_TESTS_STORE_CHILD_H
#include "tests/store_fixture.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

typedef struct store_child {
    pid_t pid;
    int fd; /* its standard output */
} store_child;

static inline store_child start_child(const char *folder)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    store_child child = {fork(), ends[0]};
    if (child.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "store-child", folder, (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    return child;
}

static inline void await_child(const store_child *child)
{
    struct pollfd first = {.fd = child->fd, .events = POLLIN};
    poll(&first, 1, 10000);
}

/* It never ends by itself. What it wrote can still be read. */
static inline void kill_child(const store_child *child)
{
    int status;
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFSIGNALED(status));
}

static inline bool read_number(const store_child *child, uint64_t *number)
{
    return read(child->fd, number, sizeof *number) == sizeof *number;
}

/* The test's own program with a folder, and one word more or NULL, killed when it
 * passes a fail point for the n-th time: SIGKILL; 0 if it ended well before that. */
static inline int die_at(const char *point, int passage, const char *program,
                         const char *folder, const char *more)
{
    int how = 0;
    char spec[96];
    snprintf(spec, sizeof spec, "%s:kill:%d", point, passage);
    pid_t child = fork();
    if (child == 0) {
        setenv("PATHLOOM_FAILPOINT", spec, 1);
        execl("/proc/self/exe", program, folder, more, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFSIGNALED(how))
        return WTERMSIG(how);
    assert_int_equal(WEXITSTATUS(how), 0);
    return 0;
}

#endif
