/* What an S3 answers, read without trust and without a library: statuses, one header,
 * and lists of keys. */
#ifndef PL_STORE_S3_TEXT_H
#define PL_STORE_S3_TEXT_H
#include "store/engine.h"

enum { S3_TOKEN_MAX = 1200 };

/* OK for 2xx. ERR_NET for what may pass, ERR_STALE for a condition that does not hold;
 * the sentence has the service's own code from `body`. */
PL_MUST_CHECK pl_status s3_judge(int code, const char *body);
/* Takes the value, quotes included, if the line (not terminated) is an ETag header. */
void s3_etag_of_header(const char *line, size_t len, char *out, size_t size);
/* Each key of a page, without its first `skip` bytes. ERR_PROTO. */
PL_MUST_CHECK pl_status s3_each_key(const char *page, size_t skip, engine_entry_fn fn,
                                    void *context);
/* What asks for the page after this one; "" after the last. */
PL_MUST_CHECK pl_status s3_next_page(const char *page, char token[S3_TOKEN_MAX]);

#endif
