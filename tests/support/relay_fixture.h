/* Shared by tests of relays. The home and the relays are processes, which a test can
 * kill. The workers are threads, because several workers must be able to wait at the
 * same time until their updates are accepted. */
#pragma once
#include "tests/support/home_fixture.h"

enum { WAIT_LONG_MS = 60000 };
static const char embed[] = "mix/embed.E0";

/* ---- a job ---- */
typedef struct fixture {
    char dir[64];
    child home, relay, second;
    pl_client *client; /* connected to the home, not to a relay */
    pl_arm arm;
    pl_topology *topology;
} fixture;

void define_arm(fixture *f, const char *codec);

void publish(fixture *f);

/* Makes a folder for the test, chooses the paths of the home's files in it, and makes
 * the arm. Starts no process. */
void place_home(fixture *f, const char *codec);

/* Starts the home, and publishes the arm, which a test may have changed. */
void start_job(fixture *f);

void open_job(fixture *f, const char *codec);

void start_relay(child *c, const char *home, int expect, int wait_ms);

void close_job(fixture *f);

/* ---- workers: one thread each ---- */
typedef struct worker {
    fixture *job;
    const char *address, *name;
    int slot, path;
    bool idle; /* sends an update of zeros */
    pl_status status;
    pl_submit_result result;
    char text[256];
    uint64_t bytes_sent;
    pl_thread *thread;
} worker;

void encode(const worker *w, int slot, double norm, pl_buf *out);

void fill(const worker *w, pl_client *client, int slot, char name[96], pl_buf *bytes,
          pl_submission *s);

/* Submits the update of a slot in phase 0 of a path, under a lease with this token. */
pl_status submit_slot(fixture *f, int path, int slot, uint64_t token,
                      pl_submit_result *result);

/* Ends a phase of the path with a state whose second moments are `v`. */
pl_status submit_state(fixture *f, int path, int64_t phase, float v, uint64_t token,
                       pl_submit_result *result);

void run_worker(void *context);

void start_worker(worker *w, fixture *f, const char *address, int path);

void start_workers(worker *w, int n, fixture *f, const char *address);

void join_workers(worker *w, int n);

worker send_one(fixture *f, const char *address, int path);

/* Waits at most a minute until the home has this version of the embedding. */
void await_version(fixture *f, int64_t number);

pl_hash wait_version(fixture *f, const char *module);

void assert_version(fixture *f, const char *codec);

/* Returns how many different updates version 1 of the embedding names. Checks that this
 * version names every path as a contributor. */
int n_updates(fixture *f);
