/* A process of its own that works on a store until it is killed: the test's own program
 * with the folder as its only argument. What it writes to standard output are numbers
 * of 8 bytes. */
#ifndef PL_TESTS_STORE_CHILD_H
#define PL_TESTS_STORE_CHILD_H
#include "tests/support/store_fixture.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

typedef struct store_child {
    pid_t pid;
    int fd; /* its standard output */
} store_child;

store_child start_store_child(const char *folder);

void await_store_child(const store_child *child);

/* It never ends by itself. What it wrote can still be read. */
void kill_store_child(const store_child *child);

bool read_number(const store_child *child, uint64_t *number);

/* The test's own program with a folder, and one word more or NULL, killed when it
 * passes a fail point for the n-th time: SIGKILL; 0 if it ended well before that. */
int die_at(const char *point, int passage, const char *program, const char *folder,
           const char *more);

#endif
