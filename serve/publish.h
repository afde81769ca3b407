/* Publishes an exported folder on a hub of models (the HTTP API of huggingface.co).
 *
 * The protocol is in publish.c; the hub's address, the token and repeated requests are
 * in publish_ask.c. */
#ifndef PL_SERVE_PUBLISH_H
#define PL_SERVE_PUBLISH_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_publish_report {
    char url[640];   /* address of the repository's page */
    char commit[80]; /* the hub's identifier of the commit; "": nothing had changed */
    bool made;       /* this call created the repository, as a private one */
    int n_files, n_sent; /* n_sent: those whose bytes were sent */
    uint64_t sent_bytes;
} pl_publish_report;

/* Makes the hub's repository `name` ("USER/NAME") have the files of `folder`, in one
 * commit. Bytes that the hub has already, by their hash, are not sent again, so a call
 * that failed may be repeated. Other files of the repository stay.
 *
 * The hub is HF_ENDPOINT (https://huggingface.co). The token is HF_TOKEN, or the
 * content of the file HF_TOKEN_PATH, or of HF_HOME/token (~/.cache/huggingface). It is
 * sent to no other host and is in no message.
 *
 * ERR_NOPERM: there is no token, or the hub refuses it. ERR_NET, ERR_TIMEOUT: the hub
 * did not answer, after several tries. ERR_DAMAGED: the hub has different bytes than
 * were sent. ERR_UNSUPPORTED: this build has no libcurl. */
PL_MUST_CHECK pl_status pl_publish(const char *folder, const char *name,
                                   pl_publish_report *out);

#ifdef __cplusplus
}
#endif
#endif
