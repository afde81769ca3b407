/* Fibers: stacks between which one thread of the host switches. Each fiber runs one
 * thread of a block. There are thousands of fibers, so a switch saves only the
 * registers that the ABI requires. */
#ifndef PL_TESTS_EMULATION_FIBER_H
#define PL_TESTS_EMULATION_FIBER_H
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK_BYTES = 64 << 10, FIBERS_MAX = 1024 };

/* A saved place of execution. */
struct fiber_context {
    void *stack_pointer;
    void *machine_context; /* an ucontext_t if the ABI is not known */
    void *fake_stack;      /* AddressSanitizer's */
};

struct fiber {
    fiber_context context;
    uint8_t *stack; /* lowest byte; the page below is protected */
};

/* The i-th fiber, i < FIBERS_MAX; its stack is made at first use and kept. */
fiber *fiber_at(unsigned i);

/* The next fiber_resume calls `entry`, which must not return. */
void fiber_prepare(fiber *f, void (*entry)(void));

/* Switches from the host's stack to f; returns when f or another fiber calls
 * fiber_pause. */
void fiber_resume(fiber *f);
/* Switches from f to the host's stack. `forever`: f will not be resumed. */
void fiber_pause(fiber *f, bool forever);

#endif
