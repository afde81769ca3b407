/* Reads keys from the environment, or from the credentials file of AWS's own tools.
 * That file has section names in brackets, with lines `name = value` below them. */
#include "store/engine/s3_keys.h"
#include <stdlib.h>
#include <string.h>

static bool take_credential(char *out, size_t size, const char *value)
{
    return value && *value && pl_copy_text(out, size, value);
}

static bool from_environment(s3_keys *out)
{
    const char *token = getenv("AWS_SESSION_TOKEN");
    if (token && !pl_copy_text(out->token, sizeof out->token, token))
        return false;
    return take_credential(out->id, sizeof out->id, getenv("AWS_ACCESS_KEY_ID")) &&
           take_credential(out->secret, sizeof out->secret,
                           getenv("AWS_SECRET_ACCESS_KEY"));
}

static const char *file_path(char out[PL_PATH_MAX])
{
    const char *named = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME");
    if (named && *named)
        pl_copy_text(out, PL_PATH_MAX, named);
    else
        pl_join(out, home ? home : ".", ".aws/credentials");
    return out;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Reads one line of the credentials file. The function writes NUL bytes into `line`. */
static void take_line(char *line, const char *profile, bool *inside, s3_keys *out)
{
    char section[128];
    char *equal = strchr(line, '=');
    line = trim(line);
    if (*line == '[') {
        snprintf(section, sizeof section, "[%s]", profile);
        *inside = strcmp(line, section) == 0;
        return;
    }
    if (!*inside || !equal || *line == '#')
        return;
    *equal = '\0';
    const char *name = trim(line), *value = trim(equal + 1);
    if (strcmp(name, "aws_access_key_id") == 0)
        (void)take_credential(out->id, sizeof out->id, value);
    else if (strcmp(name, "aws_secret_access_key") == 0)
        (void)take_credential(out->secret, sizeof out->secret, value);
    else if (strcmp(name, "aws_session_token") == 0)
        (void)take_credential(out->token, sizeof out->token, value);
}

static bool from_file(const char *path, s3_keys *out)
{
    const char *profile = getenv("AWS_PROFILE");
    bool inside = false;
    pl_buf text = {0};
    memset(out, 0, sizeof *out);
    if (pl_read_file(path, &text) == PL_OK) {
        pl_buf_append(&text, "", 1);
        char *rest = (char *)text.data, *line;
        while ((line = strsep(&rest, "\n")))
            take_line(line, profile && *profile ? profile : "default", &inside, out);
        explicit_bzero(text.data, text.len);
    }
    pl_buf_destroy(&text);
    return out->id[0] && out->secret[0];
}

pl_status s3_keys_load(s3_keys *out)
{
    char path[PL_PATH_MAX];
    memset(out, 0, sizeof *out);
    if (from_environment(out) || from_file(file_path(path), out))
        return PL_OK;
    s3_keys_wipe(out);
    return pl_fail(PL_ERR_NOPERM,
                   "there are no keys for S3: set AWS_ACCESS_KEY_ID and "
                   "AWS_SECRET_ACCESS_KEY, or put them into %s",
                   path);
}

void s3_keys_wipe(s3_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}
