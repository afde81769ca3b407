/* Checks a range of memory at once, for short loops that most of the time of tests with
 * AddressSanitizer would go to if it checked each access of them. Without
 * AddressSanitizer nothing here has an effect. */
#ifndef PL_BASE_SANITIZE_H
#define PL_BASE_SANITIZE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
/* for a function that calls pl_check_range for all memory that it reads or writes */
#define PL_CHECKS_RANGES __attribute__((no_sanitize("address", "undefined")))

static inline void pl_check_range(const void *at, size_t bytes)
{
    const volatile char *bad = __asan_region_is_poisoned((void *)(uintptr_t)at, bytes);
    if (bad)
        (void)*bad; /* AddressSanitizer reports this access and ends the process */
}
#else
#define PL_CHECKS_RANGES
static inline void pl_check_range(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}
#endif
#endif
