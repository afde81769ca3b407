/* Shared libraries that are loaded when they are first needed.
 *
 * Each shared library costs time at every start of the program, and so does everything
 * on which this library depends. Most commands need neither OpenBLAS, oneDNN, libcurl,
 * libarchive, libmicrohttpd nor librados. Whoever needs one lists the functions that it
 * calls:
 *
 *   #define FUNCTIONS(X) X(curl_easy_init) X(curl_easy_perform)
 *   static struct { FUNCTIONS(PL_LIBRARY_MEMBER) } curl;
 *   static const char *const names[] = {FUNCTIONS(PL_LIBRARY_NAME)};
 *   PL_CHECK(pl_library_load("libcurl.so.4", "libcurl4", names, &curl, sizeof curl));
 *   ... curl.curl_easy_init() ... */
#pragma once
#include "base/status.h"
#include <stddef.h>
PL_C_BEGIN

#ifdef __cplusplus
#define PL_LIBRARY_MEMBER(name) __typeof__(&::name) name;
#else
#define PL_LIBRARY_MEMBER(name) __typeof__(&name) name;
#endif
#define PL_LIBRARY_NAME(name) #name,

/* Loads the library `file`, which stays loaded, and stores the addresses of its
 * functions `names` in the struct at `functions`. This struct consists of one pointer
 * per name, is static and begins as zero; later calls change nothing. Several threads
 * may call at once. ERR_UNSUPPORTED: the library or a function is missing; the error
 * says to install the Debian package `package`. ERR_NOMEM: the system has no memory for
 * the library. */
pl_status pl_library_load(const char *file, const char *package,
                          const char *const *names, void *functions, size_t bytes);

PL_C_END
