/* On x86-64, a switch between fibers is eight instructions. On other machines it is
 * swapcontext, which asks the kernel for the signal mask each time. AddressSanitizer
 * must be told of every switch, because it knows the bounds of the current stack. */
#include "tests/gpu/emulation/fiber.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static fiber fibers[FIBERS_MAX];
static fiber_context host;
static const void *host_stack;
static size_t host_stack_bytes;

fiber *fiber_at(unsigned i)
{
    fiber *f = &fibers[i];
    if (f->stack)
        return f;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, page + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0)
        abort();
    f->stack = (uint8_t *)memory + page;
    return f;
}

/* ---- the switch ---- */

#if defined(__x86_64__)
extern "C" void emulation_switch(void **save, void *load);
__asm__(".text\n"
        ".type emulation_switch,@function\n"
        "emulation_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n"
        "  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n"
        "  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emulation_switch,.-emulation_switch\n");

static void switch_context(fiber_context *from, fiber_context *to)
{
    emulation_switch(&from->stack_pointer, to->stack_pointer);
}

/* Prepares a stack as if `entry` had been called and had paused immediately. The stack
 * has six registers, the return address, and a word that aligns it for the ABI. Stacks
 * begin at different offsets in their pages, because otherwise the stacks of a warp
 * would compete for the same few lines of the cache. */
static void prepare_context(fiber *f, void (*entry)(void))
{
    const size_t offset = (size_t)(f - fibers) % 32 * 128;
    void **top = (void **)(f->stack + FIBER_STACK_BYTES - offset) - 8;
    for (int i = 0; i < 8; i++)
        top[i] = NULL;
    top[6] = (void *)entry;
    f->context.stack_pointer = top;
}
#else
static ucontext_t *ucontext_of(fiber_context *context)
{
    if (!context->machine_context)
        context->machine_context = calloc(1, sizeof(ucontext_t));
    return (ucontext_t *)context->machine_context;
}

static void switch_context(fiber_context *from, fiber_context *to)
{
    if (swapcontext(ucontext_of(from), ucontext_of(to)) != 0)
        abort();
}

static void prepare_context(fiber *f, void (*entry)(void))
{
    ucontext_t *context = ucontext_of(&f->context);
    if (getcontext(context) != 0)
        abort();
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = FIBER_STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, entry, 0);
}
#endif

/* ---- telling AddressSanitizer about switches ---- */

#if defined(__SANITIZE_ADDRESS__)
static void about_to_switch(void **save, const void *stack, size_t bytes)
{
    __sanitizer_start_switch_fiber(save, stack, bytes);
}
/* If a fiber was left inside a function, the marks of this function's variables remain.
 * They are removed here. */
static void forget_stack(fiber *f)
{
    __asan_unpoison_memory_region(f->stack, FIBER_STACK_BYTES);
}
static void arrived(void *saved, const void **stack, size_t *bytes)
{
    __sanitizer_finish_switch_fiber(saved, stack, bytes);
}
#else
static void about_to_switch(void **save, const void *stack, size_t bytes)
{
    (void)save, (void)stack, (void)bytes;
}
static void forget_stack(fiber *)
{
}
static void arrived(void *, const void **stack, size_t *bytes)
{
    if (stack)
        *stack = NULL, *bytes = 0;
}
#endif

static void (*first_entry)(void);
static bool from_host; /* the last switch was one from the host's stack */

/* Ends a switch to a fiber. A switch from the host's stack tells where this stack is.
 */
static void arrive_in_fiber(void *saved)
{
    const void *stack;
    size_t bytes;
    arrived(saved, &stack, &bytes);
    if (from_host)
        host_stack = stack, host_stack_bytes = bytes;
}

static void enter()
{
    arrive_in_fiber(NULL);
    first_entry();
    abort(); /* an entry must pause forever and never return */
}

void fiber_prepare(fiber *f, void (*entry)(void))
{
    first_entry = entry;
    forget_stack(f);
    f->context.fake_stack = NULL;
    prepare_context(f, enter);
}

void fiber_resume(fiber *f)
{
    from_host = true;
    about_to_switch(&host.fake_stack, f->stack, FIBER_STACK_BYTES);
    switch_context(&host, &f->context);
    arrived(host.fake_stack, NULL, NULL);
}

void fiber_switch(fiber *f, fiber *to, bool forever)
{
    from_host = false;
    about_to_switch(forever ? NULL : &f->context.fake_stack, to->stack,
                    FIBER_STACK_BYTES);
    switch_context(&f->context, &to->context);
    arrive_in_fiber(f->context.fake_stack);
}

void fiber_pause(fiber *f, bool forever)
{
    about_to_switch(forever ? NULL : &f->context.fake_stack, host_stack,
                    host_stack_bytes);
    switch_context(&f->context, &host);
    arrive_in_fiber(f->context.fake_stack);
}
