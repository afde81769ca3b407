/* Starts a home or a relay as a process that a test can kill. Makes the arm that the
 * tests publish in the home. */
#pragma once
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "home/home.h"
#include "tests/support/leases.h"
#include "tests/support/tiny_arm.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { PATHS = 4, PATIENCE_MS = 15000 };
/* True if the test starts a hub. Then start_child does not say HELLO to a new home in
 * the name of a hub (tell_secret). */
extern bool has_hub;
enum { SLOT_EMBED, SLOT_L1, SLOT_L2, SLOT_HEAD, N_SLOTS };

/* ---- children: processes of this program, started again with execl, because sockets
 * do not survive a fork ---- */
typedef struct child {
    /* kind: "home", "relay" or "hub"; ready: the file into which the child writes its
     * address when it is ready */
    char kind[8], ready[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    /* for a home the folder of its store, for a relay or hub the address of its home */
    char target[PL_PATH_MAX];
    char wait_ms[16], expect[16];
    pid_t pid;
} child;

extern volatile sig_atomic_t child_stop;

void on_term(int number);

pl_status run_home(char **argv, pl_home_options o);

/* What a child does first, and the exit code with which it ends. */
void begin_child(char **argv);
int end_child(char **argv, pl_status status);

/* Runs a home until SIGTERM, and returns the exit code. The test's main
 * calls this function if the program was started as a child, with the arguments that
 * start_failing_child passes. `home` contains the options of a home that differ from
 * the defaults. */
int run_child(char **argv, pl_home_options home);

void name_child(child *c, const char *dir, const char *kind, const char *file);

/* Starts the child with this fail point ("" for none). If the child ends before it is
 * ready, starts it again without the fail point, up to five starts in all. The child
 * may have died at the fail point. Or another process may have taken the child's port,
 * which is free while the child does not run. */
void start_failing_child(child *c, const char *failpoint);

void start_child(child *c);

/* Returns the child's resident memory in KiB; 0 under AddressSanitizer. */
long child_kib(const child *c);

/* Sends the signal `how` to the child and waits until it ends. After SIGTERM its exit
 * code must be 0. */
void kill_child(child *c, int how);

/* Kills the child with SIGKILL and starts it again. */
void restart_child(child *c);

/* ---- what a job publishes: a 2x2 mixture, that is, its modules and its arm ---- */
void define_grid(pl_arm *arm, const char *codec);

pl_client *open_client(const char *address);

void publish_arm(pl_client *client, const pl_arm *arm, const pl_topology *topology);
