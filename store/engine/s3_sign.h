/* Signed URLs of S3: AWS signature version 4, in the query. */
#pragma once
#include "store/engine/s3_keys.h"

typedef struct s3_signing {
    const char *url; /* scheme://host/path; the path needs no escapes */
    const char *region;
    const s3_keys *keys;
    /* 0: the URL allows GET; else PUT of so many bytes, if there is no such object */
    uint64_t put_bytes;
    int64_t now_s;
    int valid_s;
} s3_signing;

/* Appends the URL. Its query has no secret but the session token, if there is one. */
void s3_signed_url(const s3_signing *what, pl_buf *out);
