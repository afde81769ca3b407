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
    bool made;       /* this call created the repository, as a private repository */
    int n_files,
        n_sent; /* n_files: files in the folder; n_sent: files that were sent */
    uint64_t sent_bytes;
} pl_publish_report;

/* Puts the files of `folder` into the hub's repository `name` ("USER/NAME"), in one
 * commit. The hub's hashes show which files it already has; these files are not sent
 * again, so a call that failed may be repeated. Other files of the repository stay.
 *
 * The environment variable HF_ENDPOINT has the hub's address (default
 * https://huggingface.co). The token is in HF_TOKEN, or in the file that HF_TOKEN_PATH
 * names, or in the file HF_HOME/token (default of HF_HOME: ~/.cache/huggingface). The
 * token is sent only to the hub's address, and no message contains the token.
 *
 * ERR_NOPERM: there is no token, or the hub refuses it. ERR_NET: the hub could not be
 * reached or had a temporary failure, after several tries. ERR_TIMEOUT: the hub asks
 * for a pause that is too long. ERR_DAMAGED: the hub has different bytes than were
 * sent. ERR_UNSUPPORTED: this build has no libcurl, or a file is too large. */
PL_MUST_CHECK pl_status pl_publish(const char *folder, const char *name,
                                   pl_publish_report *out);

#ifdef __cplusplus
}
#endif
#endif
