/* Fibers: stacks between which one thread of the host switches. Each fiber runs one
 * thread of a block. There are thousands of fibers, so a switch saves only the
 * registers that the ABI requires. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK_BYTES = 64 << 10, FIBERS_MAX = 1024 };

/* A stack that was left, and what is needed to continue there. */
struct fiber_context {
    void *stack_pointer;
    void *machine_context; /* a ucontext_t on machines without our own switch */
    void *fake_stack;      /* belongs to AddressSanitizer */
};

struct fiber {
    fiber_context context;
    uint8_t *stack; /* the lowest byte; the page below it is protected */
};

/* Returns the i-th fiber, i < FIBERS_MAX. Its stack is made at its first use and then
 * kept. */
fiber *fiber_at(unsigned i);

/* After this call, the next fiber_resume calls `entry`, which must not return. */
void fiber_prepare(fiber *f, void (*entry)(void));

/* Switches from the host's stack to fiber f. Returns when f, or another fiber, calls
 * fiber_pause. */
void fiber_resume(fiber *f);
/* Switches from fiber f to fiber `to`, or to the host's stack. If `forever` is set, f
 * must not be resumed again. */
void fiber_switch(fiber *f, fiber *to, bool forever);
void fiber_pause(fiber *f, bool forever);
