/* Checks whole ranges of memory in short loops that would take most of the time of the
 * tests if AddressSanitizer checked each access in them. Without AddressSanitizer
 * nothing here has an effect. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
/* Marks a function that calls pl_check_range for each array whose length its caller
 * gives. Nothing else in this function is checked by AddressSanitizer, nor by
 * UndefinedBehaviorSanitizer, whose checks here make tests 1.4 to 2.3 times as slow. */
#define PL_CHECKS_RANGES __attribute__((no_sanitize("address", "undefined")))

static inline void pl_check_range(const void *at, size_t bytes)
{
    const volatile char *bad =
        (const volatile char *)__asan_region_is_poisoned((void *)(uintptr_t)at, bytes);
    if (bad)
        (void)*bad; /* AddressSanitizer reports this access and ends the process */
}
#else
#define PL_CHECKS_RANGES
static inline void pl_check_range(const void *at, size_t bytes)
{
    (void)at, (void)bytes;
}
#endif
