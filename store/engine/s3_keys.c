/* Reads keys from the environment, or from the credentials file of AWS's own tools.
 * That file has section names in brackets, with lines `name = value` below them. */
#include "store/engine/s3_keys.h"
#include <stdlib.h>
#include <string.h>

static bool take_credential(char *out, size_t size, const char *value)
{
    return value && *value && pl_copy_text(out, size, value);
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

pl_status s3_keys_load(s3_keys *out)
{
    const char *token = getenv("AWS_SESSION_TOKEN"), *home = getenv("HOME"),
               *profile = getenv("AWS_PROFILE"),
               *named = getenv("AWS_SHARED_CREDENTIALS_FILE");
    char path[PL_PATH_MAX];
    bool inside = false;
    pl_buf text = {0};
    memset(out, 0, sizeof *out);
    if ((!token || pl_copy_text(out->token, sizeof out->token, token)) &&
        take_credential(out->id, sizeof out->id, getenv("AWS_ACCESS_KEY_ID")) &&
        take_credential(out->secret, sizeof out->secret,
                        getenv("AWS_SECRET_ACCESS_KEY")))
        return PL_OK;
    memset(out, 0, sizeof *out);
    if (named && *named)
        pl_copy_text(path, sizeof path, named);
    else
        pl_join(path, home ? home : ".", ".aws/credentials");
    if (pl_read_file(path, &text) == PL_OK) {
        pl_buf_append(&text, "", 1);
        char *rest = (char *)text.data, *line, section[128];
        snprintf(section, sizeof section, "[%s]",
                 profile && *profile ? profile : "default");
        while ((line = strsep(&rest, "\n"))) {
            char *equal = strchr(line, '=');
            line = trim(line);
            if (*line == '[')
                inside = strcmp(line, section) == 0;
            if (*line == '[' || !inside || !equal || *line == '#')
                continue;
            *equal = '\0';
            const char *name = trim(line), *value = trim(equal + 1);
            if (strcmp(name, "aws_access_key_id") == 0)
                (void)take_credential(out->id, sizeof out->id, value);
            else if (strcmp(name, "aws_secret_access_key") == 0)
                (void)take_credential(out->secret, sizeof out->secret, value);
            else if (strcmp(name, "aws_session_token") == 0)
                (void)take_credential(out->token, sizeof out->token, value);
        }
        explicit_bzero(text.data, text.len);
    }
    pl_buf_destroy(&text);
    if (out->id[0] && out->secret[0])
        return PL_OK;
    explicit_bzero(out, sizeof *out);
    return pl_fail(PL_ERR_NOPERM,
                   "there are no keys for S3: set AWS_ACCESS_KEY_ID and "
                   "AWS_SECRET_ACCESS_KEY, or put them into %s",
                   path);
}
