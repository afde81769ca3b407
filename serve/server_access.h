/* Private to serve: the keys that a client needs.
 *
 * A file has a line per key: a name and the BLAKE2b-256 of the key in hexadecimal, as
 * `b2sum -l 256` prints it. So who reads the file cannot use the keys in it, if they
 * are as long and as random as keys should be. Empty lines and lines that begin with #
 * do not count. Any thread may ask. */
#ifndef PL_SERVE_SERVER_ACCESS_H
#define PL_SERVE_SERVER_ACCESS_H
#include "base/base.h"

typedef struct server_access server_access;

/* `name` is used in errors. ERR_CONFIG names the line. */
PL_MUST_CHECK pl_status server_access_parse(const char *text, size_t len,
                                            const char *name, server_access **out);
/* Reads a file. A file that others may write to is refused. */
PL_MUST_CHECK pl_status server_access_load(const char *path, server_access **out);
void server_access_destroy(server_access **access); /* accepts NULL */
/* The name of the key in the value of an Authorization header, "Bearer KEY"; NULL if
 * there is none. `header` may be NULL. */
const char *server_access_find(const server_access *access, const char *header);

#endif
