/* Private to serve: finds HTTP requests whose end is not certain.
 *
 * A proxy in front of the server might see the end of such a request at a different
 * byte than the server. Bytes of one client's request could then be treated as a
 * request of another client (RFC 9112, section 6.3). */
#pragma once

#include <stdbool.h>

struct MHD_Connection;

/* If the end of this request is not certain, returns the reason as a sentence for the
 * client, and sets *http to the status of the answer. Otherwise returns NULL, and
 * *chunked says whether the body comes in chunks; with chunked NULL, chunks are
 * refused. */
const char *framing_doubt(struct MHD_Connection *c, const char *version, bool *chunked,
                          unsigned *http);
