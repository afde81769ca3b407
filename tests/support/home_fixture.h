/* A home, or a relay, as a process that a test can kill; and the arm that such tests
 * publish in it. */
#ifndef PL_TESTS_HOME_FIXTURE_H
#define PL_TESTS_HOME_FIXTURE_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "home/home.h"
#include "tests/support/leases.h"
#include "tests/support/tiny_arm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATHS = 4, PATIENCE_MS = 15000 };
extern bool has_hub; /* the test's own, which is then the first to speak to the home */
enum { SLOT_EMBED, SLOT_L1, SLOT_L2, SLOT_HEAD, N_SLOTS };

/* ---- this program started again: sockets do not survive a fork ---- */
typedef struct child {
    char kind[8], ready[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    char target[PL_PATH_MAX]; /* a home's store, a relay's home */
    char wait_ms[16], expect[16];
    pid_t pid;
} child;

extern volatile sig_atomic_t child_stop;

void on_term(int number);

pl_status run_home(char **argv, pl_home_options o);

pl_status run_relay(char **argv);

/* What main does with seven arguments; `home` says what is special of a home. */
int run_child(char **argv, pl_home_options home);

void name_child(child *c, const char *dir, const char *kind, const char *file);

/* As long as it lives: on a machine that stands still every few moments a start has
 * taken longer than ten seconds. False: it died. */
bool await_child(child *c);

/* With a point to fail at, unless that is empty; a child that dies there before it is
 * ready is started again without. So is one whose port another process has for the
 * moment: between two lives of a child nobody holds it. */
void start_failing_child(child *c, const char *failpoint);

void start_child(child *c);

/* Resident memory, in KiB. */
long child_kib(const child *c);

/* One that is told to end, ends well. */
void kill_child(child *c, int how);

/* ---- what a job publishes: a mixture 2x2, its modules and itself ---- */
void define_grid(pl_arm *arm, const char *codec);

pl_client *open_client(const char *address);

void publish_arm(pl_client *client, const pl_arm *arm, const pl_topology *topology);

#endif
