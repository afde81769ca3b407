/* Requests to a hub of models (publish_ask.h). */
#include "serve/publish_ask.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 6,
    WAIT_MS = 250,
    WAIT_MAX_S = 60,
    SILENT_S = 30,
    ANSWER_MAX = 16 << 20
};
#define HUB "https://huggingface.co"

/* ---- the address and the token ---- */
static pl_status find_endpoint(asker *a)
{
    const char *named = getenv("HF_ENDPOINT"), *offline = getenv("HF_HUB_OFFLINE");
    if (offline && strcmp(offline, "1") == 0)
        return pl_fail(PL_ERR_CONFIG,
                       "HF_HUB_OFFLINE is 1, so nothing is published; unset "
                       "HF_HUB_OFFLINE");
    if (!pl_copy_text(a->endpoint, sizeof a->endpoint, named && *named ? named : HUB))
        return pl_fail(PL_ERR_CONFIG,
                       "HF_ENDPOINT is too long; give the address of a hub");
    size_t len = strlen(a->endpoint);
    if (len > 0 && a->endpoint[len - 1] == '/')
        a->endpoint[len - 1] = '\0';
    if (!pl_url_is_safe(a->endpoint) || strchr(a->endpoint, '@'))
        return pl_fail(PL_ERR_CONFIG,
                       "HF_ENDPOINT must be https://HOST (http://localhost for a hub "
                       "on this machine), without a user name: the token is sent "
                       "there");
    return PL_OK;
}

static const char *token_file(char out[PL_PATH_MAX])
{
    const char *file = getenv("HF_TOKEN_PATH"), *hub = getenv("HF_HOME"),
               *home = getenv("HOME");
    if (file && *file)
        pl_copy_text(out, PL_PATH_MAX, file);
    else if (hub && *hub)
        pl_join(out, hub, "token");
    else
        pl_join(out, home ? home : ".", ".cache/huggingface/token");
    return out;
}

static pl_status find_hub_token(asker *a)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    const char *token = getenv("HF_TOKEN"), *from = "HF_TOKEN";
    if (!token || !*token) {
        from = token_file(path);
        if (!pl_path_exists(from))
            return pl_fail(PL_ERR_NOPERM,
                           "there is no token for %s: set HF_TOKEN, or put a token "
                           "with write access into %s",
                           a->endpoint, from);
        PL_CHECK(pl_read_file(from, &text));
        token = pl_buf_text(&text);
    }
    size_t len = strcspn(token, " \t\r\n");
    bool fits =
        len > 0 && len < 512 && strspn(token + len, " \t\r\n") == strlen(token + len);
    for (size_t i = 0; i < len; i++)
        fits = fits && token[i] > ' ' && token[i] < 127;
    if (fits)
        snprintf(a->authorization, sizeof a->authorization,
                 "Authorization: Bearer %.*s", (int)len, token);
    if (text.len > 0)
        explicit_bzero(text.data, text.len);
    pl_buf_destroy(&text);
    return fits ? PL_OK
                : pl_fail(PL_ERR_NOPERM,
                          "%s does not hold a token; a token is one word of at most "
                          "511 ASCII characters",
                          from);
}

pl_status asker_open(asker *a)
{
    memset(a, 0, sizeof *a);
    PL_CHECK(find_endpoint(a));
    PL_CHECK(find_hub_token(a));
    return pl_web_open(&a->web);
}

void asker_close(asker *a)
{
    pl_web_close(&a->web);
    pl_buf_destroy(&a->answer);
    explicit_bzero(a->authorization, sizeof a->authorization);
}

/* ---- one request ---- */
/* Appends the hub's text about a failure, unless this text contains the token. */
static void add_reason(asker *a, pl_buf *out)
{
    pl_json *json = NULL;
    const char *token = a->authorization + strlen("Authorization: Bearer ");
    const char *text = pl_buf_text(&a->answer);
    if (pl_json_parse(text, a->answer.len, &json) == PL_OK)
        text = pl_json_get_text(json, "error")[0] ? pl_json_get_text(json, "error")
                                                  : pl_json_get_text(json, "message");
    else
        text = "";
    if (*text && !strstr(text, token)) {
        pl_buf_printf(out, ": ");
        pl_buf_printable(out, text, strnlen(text, 200), false);
    }
    pl_json_destroy(&json);
}

static pl_status judge(asker *a, const ask *q, int retry_after_s)
{
    if (a->code >= 200 && a->code < 300)
        return PL_OK;
    pl_buf said = {0};
    pl_status status = a->code == 401 || a->code == 403   ? PL_ERR_NOPERM
                       : a->code == 404                   ? PL_ERR_NOT_FOUND
                       : a->code == 429 || a->code >= 500 ? PL_ERR_NET
                                                          : PL_ERR_PROTO;
    pl_buf_printf(&said, "HTTP %d", a->code);
    add_reason(a, &said);
    if (status == PL_ERR_NOPERM)
        pl_buf_printf(&said, "; give a token that may write to the repository, in "
                             "HF_TOKEN or a file");
    if (a->code >= 300 && a->code < 400)
        pl_buf_printf(&said, "; the repository was renamed, or the model hub has a "
                             "new address: give the new name, or change HF_ENDPOINT");
    if (status == PL_ERR_NET && retry_after_s > WAIT_MAX_S) {
        status = PL_ERR_TIMEOUT;
        pl_buf_printf(&said,
                      "; the model hub asks for a pause of %d s; repeat the command "
                      "after this pause",
                      retry_after_s);
    }
    pl_fail(status, "cannot %s at %s: %s", q->what, a->endpoint, pl_buf_text(&said));
    pl_buf_destroy(&said);
    return status;
}

static pl_status ask_once(asker *a, const ask *q, const char *url, int *retry_after_s)
{
    pl_web_request r = {.method = q->method,
                        .url = url,
                        .data = q->data,
                        .len = q->len,
                        .answer_max = ANSWER_MAX,
                        .direct = pl_url_is_local(url),
                        .silent_s = SILENT_S,
                        .answer = &a->answer};
    const size_t end = strlen(a->endpoint);
    int n = 0;
    for (; q->headers && q->headers[n] && n < PL_WEB_HEADERS_MAX - 2; n++)
        r.headers[n] = q->headers[n];
    if (strncmp(url, a->endpoint, end) == 0 && url[end] == '/')
        r.headers[n] = a->authorization;
    pl_status status = pl_web_ask(a->web, &r);
    *retry_after_s = r.retry_after_s;
    if (status != PL_OK)
        return pl_fail_in(status == PL_ERR_TIMEOUT ? PL_ERR_NET : status,
                          "cannot %s at %s", q->what, a->endpoint);
    a->code = r.code;
    return judge(a, q, r.retry_after_s);
}

pl_status asker_do(asker *a, const ask *q)
{
    pl_buf url = {0};
    int wait_ms = WAIT_MS, retry_after_s = 0;
    pl_buf_printf(&url, "%s%s", q->url[0] == '/' ? a->endpoint : "", q->url);
    pl_status status =
        pl_url_is_safe(pl_buf_text(&url))
            ? ask_once(a, q, pl_buf_text(&url), &retry_after_s)
            : pl_fail(PL_ERR_PROTO,
                      "cannot %s: the model hub at %s gives an address without "
                      "encryption (not https://)",
                      q->what, a->endpoint);
    for (int i = 1; i < TRIES && status == PL_ERR_NET; i++, wait_ms *= 2) {
        pl_sleep_ms(retry_after_s > 0 ? 1000 * retry_after_s : wait_ms);
        status = ask_once(a, q, pl_buf_text(&url), &retry_after_s);
    }
    pl_buf_destroy(&url);
    if (status != PL_ERR_NET)
        return status;
    char last[1024];
    pl_copy_text(last, sizeof last, pl_last_error());
    return pl_fail(
        PL_ERR_NET,
        "%.800s (tried %d times); repeat the command later: files that the model hub "
        "has received are not sent again",
        last, TRIES);
}

pl_status asker_post(asker *a, const char *what, const char *url, const char *type,
                     const pl_buf *body, pl_json **answer)
{
    char content[96], accept[96];
    const char *headers[] = {content, accept, NULL};
    if (answer)
        *answer = NULL;
    snprintf(content, sizeof content, "Content-Type: %s", type);
    snprintf(accept, sizeof accept, "Accept: %s",
             strstr(type, "lfs") ? type : "application/json");
    PL_CHECK(asker_do(a, &(ask){what, "POST", url, headers, body->data, body->len}));
    if (!answer ||
        pl_json_parse(pl_buf_text(&a->answer), a->answer.len, answer) == PL_OK)
        return PL_OK;
    return pl_fail(
        PL_ERR_PROTO,
        "cannot %s: the answer of %s is not JSON; set HF_ENDPOINT to the address of a "
        "model hub",
        what, a->endpoint);
}
