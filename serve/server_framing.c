/* Finds requests whose end is not certain (server_framing.h). */
#include "serve/server_framing.h"
#include "serve/http.h"
#include <strings.h>

typedef struct framing {
    int lengths, codings, hosts;
    bool chunked; /* the last transfer coding is chunked */
    bool odd;     /* there is a header that programs may read in different ways */
} framing;

/* Whether a header's name is longer than `known` and begins with it. The library
 * (0.9.75) appends a folded line to the name of the header above it. Without this check
 * such a header would not count as Content-Length or Transfer-Encoding. */
static bool name_goes_on(const char *name, const char *known)
{
    size_t len = strlen(known);
    return strncasecmp(name, known, len) == 0 && name[len] != '\0';
}

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind,
                                      const char *name, const char *value)
{
    /* the characters of a token by RFC 9110, section 5.6.2 */
    static const char letters[] =
        "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    framing *f = context;
    (void)kind;
    f->odd = f->odd || !name[0] || name[strspn(name, letters)] ||
             (value && strpbrk(value, "\r\n")) ||
             name_goes_on(name, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
             name_goes_on(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    f->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    f->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->codings++;
        f->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* These checks are needed because of what the library (0.9.75) does: it uses the first
 * of several lengths, prefers a transfer coding to a length, and waits for chunks of
 * any size. Its strict mode checks only the Host header, and writes the head of the
 * answer twice when it refuses a request. */
const char *framing_doubt(struct MHD_Connection *c, const char *version, bool *chunked,
                          unsigned *http)
{
    framing f = {0};
    if (chunked)
        *chunked = false;
    mhd.MHD_get_connection_values(c, MHD_HEADER_KIND, look_at_header, &f);
    *http = MHD_HTTP_BAD_REQUEST;
    if (f.odd)
        return "a header's name or value has characters that are not allowed there";
    if (f.hosts > 1 || (f.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) != 0))
        return "a request must have exactly one Host header";
    if (f.lengths > 1)
        return "the request has more than one Content-Length";
    if (f.lengths > 0 && f.codings > 0)
        return "send either Content-Length or Transfer-Encoding, not both";
    if (f.codings == 0)
        return NULL;
    const bool chunks = f.codings == 1 && f.chunked;
    if (chunks && chunked && strcmp(version, MHD_HTTP_VERSION_1_1) == 0) {
        *chunked = true;
        return NULL;
    }
    *http = chunks ? MHD_HTTP_LENGTH_REQUIRED : MHD_HTTP_NOT_IMPLEMENTED;
    return chunked ? "send the body with Content-Length, or in chunks over HTTP/1.1, "
                     "without another Transfer-Encoding"
                   : "send the request without Transfer-Encoding";
}
