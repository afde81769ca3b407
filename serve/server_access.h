/* Private to serve: the keys of clients.
 *
 * A file has one line per key: a name and the BLAKE2b-256 hash of the key in
 * hexadecimal, as `b2sum -l 256` prints it. If the keys are long and random, a person
 * who reads the file cannot compute the keys. Empty lines and lines that begin with #
 * are ignored. Any thread may call these functions. */
#pragma once
#include "base/base.h"

typedef struct server_access server_access;

/* Parses the text of a file of keys. `name` is the file's name for error messages.
 * ERR_CONFIG: a line is wrong, and the message has its number. */
pl_status server_access_parse(const char *text, size_t len, const char *name,
                              server_access **out);
/* Reads a file of keys. ERR_CONFIG also if it has no key, or if users other than the
 * file's owner may write to the file. */
pl_status server_access_load(const char *path, server_access **out);
/* Reads the file again into *access, for threads that read *access at the same time.
 * The list before stays until server_access_destroy, because requests may still use it.
 * After a failure nothing changes. A file without a key refuses all clients. */
pl_status server_access_reload(const char *path, server_access **access);
/* Destroys the list and all lists before it. Accepts NULL. */
void server_access_destroy(server_access **access);
/* Returns the name of the key in an Authorization header with the value "Bearer KEY";
 * NULL if the key is not known. `header` may be NULL. */
const char *server_access_find(const server_access *access, const char *header);
