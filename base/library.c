/* Loads shared libraries while the program runs, and looks up their functions. */
#include "base/library.h"
#include <dlfcn.h>
#include <stdbool.h>

/* Another thread may store the same addresses at the same time, or call the functions
 * already. So an address is written only once. */
static void store_address(void **function, void *found)
{
    void *none = NULL;
    (void)__atomic_compare_exchange_n(function, &none, found, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
}

pl_status pl_library_load(const char *file, const char *package,
                          const char *const *names, void *functions, size_t bytes)
{
    void **function = functions;
    if (__atomic_load_n(&function[0], __ATOMIC_ACQUIRE))
        return PL_OK;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "a library cannot be loaded (%s); install the package %s",
                       dlerror(), package);
    /* the first address comes last, because it says that all others are there */
    for (size_t i = bytes / sizeof *function; i-- > 0;) {
        void *found = dlsym(library, names[i]);
        if (!found)
            return pl_fail(PL_ERR_UNSUPPORTED,
                           "%s has no function %s; install a newer version of the "
                           "package %s",
                           file, names[i], package);
        store_address(&function[i], found);
    }
    return PL_OK;
}
