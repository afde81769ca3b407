/* Parses the answers of an S3 service: statuses and lists of keys. The answers are not
 * trusted, so all lengths are checked. */
#pragma once
#include "store/engine/engine.h"

enum { S3_TOKEN_MAX = 1200 };

/* Translates an HTTP status: OK for 2xx, ERR_NET for a temporary failure, ERR_STALE if
 * a condition of the request does not hold. The error contains the service's own error
 * code, read from `body`. */
pl_status s3_judge(int code, const char *body);
/* Calls fn for each key in a page of a list. The name that fn gets lacks the key's
 * first `skip` bytes. ERR_PROTO if the page cannot be parsed. */
pl_status s3_each_key(const char *page, size_t skip, engine_entry_fn fn, void *context);
/* Reads the token with which the next page is requested; "" after the last page. */
pl_status s3_next_page(const char *page, char token[S3_TOKEN_MAX]);
