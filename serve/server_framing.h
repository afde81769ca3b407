/* Private to serve: finds HTTP requests whose end is not certain.
 *
 * A proxy in front of the server might see the end of the request at a different byte
 * than the server, and treat the bytes after it as the request of another client (RFC
 * 9112, section 6.3). */
#ifndef PL_SERVE_SERVER_FRAMING_H
#define PL_SERVE_SERVER_FRAMING_H

struct MHD_Connection;

/* Returns why the end of this request is not certain, and sets the HTTP status of the
 * answer. Returns NULL if the end is certain. */
const char *framing_doubt(struct MHD_Connection *c, const char *version,
                          unsigned *http);

#endif
