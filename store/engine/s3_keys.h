/* The keys with which S3 requests are signed. They are never written or shown. */
#pragma once
#include "base/base.h"

typedef struct s3_keys {
    char id[160], secret[160];
    char token[2048]; /* the token of a temporary session; "" if none */
} s3_keys;

/* Reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. If the first is
 * not set, reads the profile AWS_PROFILE (default) of the file
 * AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). ERR_NOPERM if neither the
 * environment nor the file has keys. */
pl_status s3_keys_load(s3_keys *out);
