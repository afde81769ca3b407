/* Private to serve: finds HTTP requests whose end is not certain.
 *
 * A proxy in front of the server might see the end of such a request at another byte,
 * and treat the bytes after it as a request of another client (RFC 9112, section
 * 6.3). */
#ifndef PL_SERVE_SERVER_FRAMING_H
#define PL_SERVE_SERVER_FRAMING_H

struct MHD_Connection;

/* Returns why the end of this request is not certain, and the status for the answer;
 * NULL if it is certain. */
const char *framing_doubt(struct MHD_Connection *c, const char *version,
                          unsigned *http);

#endif
