/* Loads shared libraries while the program runs, and looks up their functions. */
#include "base/library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

pl_status pl_library_load(const char *file, const char *package,
                          const char *const *names, void *functions, size_t bytes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void **first = functions;
    pl_status status = PL_OK;
    pthread_mutex_lock(&lock);
    if (*first)
        goto done;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *cause = dlerror();
        if (strstr(cause, "failed to map") || strstr(cause, "annot allocate"))
            PL_TRY(pl_fail(PL_ERR_NOMEM,
                           "a library cannot be loaded (%s); free memory, or raise the "
                           "limit (ulimit -v)",
                           cause));
        PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                       "a library cannot be loaded (%s); install the package %s", cause,
                       package));
    }
    /* the first address comes last, because it says that all others are there */
    for (size_t i = bytes / sizeof *first; i-- > 0;) {
        first[i] = dlsym(library, names[i]);
        if (!first[i])
            PL_TRY(pl_fail(PL_ERR_UNSUPPORTED,
                           "%s has no function %s; install a newer version of the "
                           "package %s",
                           file, names[i], package));
    }
done:
    pthread_mutex_unlock(&lock);
    return status;
}
