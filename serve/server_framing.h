/* Private to serve: how an HTTP request says where it ends.
 *
 * A proxy before the server might assume another end, and take the following bytes for
 * a request of another client (RFC 9112, section 6.3). */
#ifndef PL_SERVE_SERVER_FRAMING_H
#define PL_SERVE_SERVER_FRAMING_H

struct MHD_Connection;

/* Why the end of this request is in doubt, with the status to answer; NULL: it is
 * clear. */
const char *framing_doubt(struct MHD_Connection *c, const char *version,
                          unsigned *http);

#endif
