/* What tests of the accelerator ask the emulation, on a real device: it has no order to
 * choose, no findings, and no list of kernels. */
#include "tests/emulation/emulation.h"

void emulation_set_order(emulation_order order, uint64_t seed)
{
    (void)order, (void)seed;
}

const char *emulation_take_finding(void)
{
    return NULL;
}

void emulation_fail(const char *why)
{
    (void)why;
}

size_t emulation_n_kernels(void)
{
    return 0;
}

const char *emulation_kernel(size_t i)
{
    (void)i;
    return "";
}

size_t emulation_n_allocations(size_t *bytes)
{
    *bytes = 0;
    return 0;
}

uint64_t emulation_n_launches(void)
{
    return 0;
}
