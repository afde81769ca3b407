/* Decides whether an operation uses all threads of its backend (team.h).
 *
 * States of a calling thread, which owns its OpenMP threads and this state:
 *
 *   together --(LOOK_S of operations, the caller rarely computed)--> alone
 *   alone    --(the rest is over)--> together
 *
 * A rest is RESTS times as long as the attempt that was a hindrance, and at least twice
 * as long as the rest before, up to REST_MAX_S. So attempts with all threads take at
 * most a few hundredths of the time, and after a short disturbance all threads soon
 * compute again.
 *
 * Reading a thread's processor time is a system call, so only one LOOK_S in PAUSES is
 * measured while the threads are no hindrance. */
#include "modules/cpu/team.h"
#include "base/base.h"

#define LOOK_S     0.010
#define RESTS      20.0
#define REST_MAX_S 2.0
enum { PAUSES = 10 };

/* With n threads of which the caller computes for the share s of the time, the work
 * proceeds about n * s times as fast as with one thread that never waits. Below this
 * number all threads are not worth their processors: each of several programs on this
 * machine might do this at the cost of the others. */
#define WORTH 1.5

typedef struct team_state {
    bool alone, open, measured;
    double begin, used; /* when this sequence began, and the processor time then */
    double wall, busy;  /* measured so far: time that passed, and processor time */
    double next;        /* alone: end of the rest; together: next measurement */
    double rest;        /* length of the last rest; 0: there was none */
    double steady;      /* together: since when the threads have been no hindrance */
} team_state;

static _Thread_local team_state team;

static void open_sequence(double now)
{
    team.open = true;
    team.begin = now;
    team.measured = now >= team.next;
    if (team.measured)
        team.used = pl_thread_s();
}

/* Adds the measured part of the sequence to the sums. */
static void count_sequence(double now)
{
    team.wall += now - team.begin;
    team.busy += pl_thread_s() - team.used;
    team.begin = now;
}

int cpu_threads(int n_threads)
{
    if (n_threads == 1)
        return 1;
    const double now = pl_now();
    if (!team.open || (now >= team.next && !team.measured)) {
        team.alone = team.alone && now < team.next;
        open_sequence(now);
    }
    if (!team.measured || team.wall + now - team.begin < LOOK_S)
        return team.alone ? 1 : n_threads;

    /* The measurement is long enough for a decision. */
    count_sequence(now);
    const bool hinder = n_threads * team.busy < WORTH * team.wall;
    const double rest = RESTS * team.wall;
    team.wall = team.busy = 0;
    if (hinder) {
        team.rest = rest > 2 * team.rest ? rest : 2 * team.rest;
        if (team.rest > REST_MAX_S)
            team.rest = REST_MAX_S;
        team.alone = true;
        team.next = team.steady = now + team.rest;
    } else {
        team.next = now + (PAUSES - 1) * LOOK_S;
        if (now - team.steady > team.rest)
            team.rest = 0;
    }
    open_sequence(now);
    return team.alone ? 1 : n_threads;
}

void cpu_threads_rest(void)
{
    if (team.open && team.measured)
        count_sequence(pl_now());
    team.open = false;
}
