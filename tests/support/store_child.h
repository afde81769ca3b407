/* Starts the test's own program again as a child process, with the folder of a store as
 * the only argument. The child works on the store until it is killed, and writes
 * numbers of 8 bytes to standard output. */
#pragma once
#include "tests/support/store_fixture.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

typedef struct store_child {
    pid_t pid;
    int fd; /* a pipe from which the test reads the child's standard output */
} store_child;

store_child start_store_child(const char *folder);

/* Waits until the child has written something, but at most 10 s. */
void await_store_child(const store_child *child);

/* Kills the child, which never ends by itself. The numbers that the child wrote can
 * still be read. */
void kill_store_child(const store_child *child);

bool read_number(const store_child *child, uint64_t *number);

/* Runs the test's own program again, with argv[0] = `program` and the arguments
 * `folder` and `more` (unless NULL). The process is killed when it passes the fail
 * point `point` for the `passage`-th time. Returns SIGKILL, or 0 if the process ended
 * with exit code 0 before that. */
int die_at(const char *point, int passage, const char *program, const char *folder,
           const char *more);
