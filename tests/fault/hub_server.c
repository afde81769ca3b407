/* A small server of models, like Hugging Face, for tests of serve/publish.c. It keeps
 * one repository in memory.
 *
 *   hub_server PORTFILE LOGFILE [token=T] [busy=N] [cut=N] [down] [wrong] [pause=S]
 *              [nulls] [moved] [astray]
 *
 *   token=T  requests must have this token (default: hf_test)
 *   busy=N   the first N requests are answered 503
 *   pause=S  the requests of busy=N are answered 429 with Retry-After: S
 *   cut=N    the first N uploads of large files are cut in the middle
 *   down     every request is answered 500
 *   wrong    the hub stores a wrong byte of each large file, and says so when asked
 *   nulls    answers contain members that do not apply, with the value null
 *   moved    requests about the repository are answered with a redirect (307)
 *   astray   the server asks for large files at http://127.0.0.1:1@127.0.0.1:PORT
 *
 * Writes its port into PORTFILE, and one line "METHOD PATH BYTES" per request into
 * LOGFILE. Ends when its standard input is closed. */
#include "base/base.h"
#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES_MAX = 64, CUT_BYTES = 20000 };

typedef struct entry {
    char name[256], oid[PL_HASH_TEXT], git[41];
    size_t size;
    bool large;
} entry;

static struct {
    char repo[128], token[128], port[16];
    entry files[ENTRIES_MAX], blobs[ENTRIES_MAX];
    int n_files, n_blobs, busy, pause, cut;
    bool down, wrong, nulls, moved, astray;
    FILE *log;
} hub = {.token = "hf_test"};

typedef struct upload {
    pl_buf body;
    bool cut;
} upload;

/* ---- answers ---- */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *text)
{
    char seconds[16];
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    snprintf(seconds, sizeof seconds, "%d", hub.pause);
    if (code == 429)
        MHD_add_response_header(r, "Retry-After", seconds);
    enum MHD_Result queued = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return queued;
}

static enum MHD_Result answer_json(struct MHD_Connection *c, pl_json *json)
{
    pl_buf text = {0};
    pl_json_write(json, 0, &text);
    enum MHD_Result queued = answer(c, 200, pl_buf_text(&text));
    pl_buf_destroy(&text);
    pl_json_destroy(&json);
    return queued;
}

static entry *find(entry *all, int n, const char *oid, const char *name)
{
    for (int i = 0; i < n; i++)
        if (oid ? strcmp(all[i].oid, oid) == 0 : strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* ---- requests ---- */
static void add_null(pl_json *o, const char *key)
{
    if (hub.nulls && !pl_json_get(o, key))
        pl_json_set_real(o, key, NAN); /* JSON has no NaN, so this writes null */
}

static enum MHD_Result create(struct MHD_Connection *c, const pl_json *q)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", pl_json_get_text(q, "organization"),
             pl_json_get_text(q, "name"));
    if (strcmp(name, hub.repo) == 0)
        return answer(c, 409, "{\"error\":\"You already created this model repo\"}");
    if (!pl_json_get_bool(q, "private"))
        return answer(c, 400, "{\"error\":\"a test makes a public repository\"}");
    pl_copy_text(hub.repo, sizeof hub.repo, name);
    hub.n_files = 0;
    return answer(c, 200, "{\"url\":\"here\"}");
}

static enum MHD_Result paths_info(struct MHD_Connection *c, const pl_json *q)
{
    const pl_json *paths = pl_json_get(q, "paths");
    pl_json *list = pl_json_array();
    for (size_t i = 0; i < pl_json_count(paths); i++) {
        const entry *e = find(hub.files, hub.n_files, NULL,
                              pl_json_text(pl_json_at(paths, i), NULL));
        if (!e)
            continue;
        pl_json *o = pl_json_object(), *lfs = pl_json_object();
        pl_json_set_text(o, "type", "file");
        pl_json_set_text(o, "path", e->name);
        pl_json_set_int(o, "size", (int64_t)e->size);
        pl_json_set_text(o, "oid", e->git);
        pl_json_set_text(lfs, "oid", e->oid);
        if (e->large)
            pl_json_set(o, "lfs", lfs);
        else
            pl_json_destroy(&lfs);
        add_null(o, "lfs");
        pl_json_push(list, o);
    }
    return answer_json(c, list);
}

static enum MHD_Result preupload(struct MHD_Connection *c, const pl_json *q)
{
    const pl_json *files = pl_json_get(q, "files");
    pl_json *o = pl_json_object(), *list = pl_json_array();
    for (size_t i = 0; i < pl_json_count(files); i++) {
        const pl_json *f = pl_json_at(files, i);
        const char *path = pl_json_get_text(f, "path");
        pl_json *mode = pl_json_object();
        pl_json_set_text(mode, "path", path);
        pl_json_set_text(mode, "uploadMode",
                         pl_ends_with(path, ".safetensors") ? "lfs" : "regular");
        pl_json_push(list, mode);
    }
    pl_json_set(o, "files", list);
    return answer_json(c, o);
}

static pl_json *action_of(const char *where)
{
    char url[256];
    pl_json *o = pl_json_object();
    if (hub.astray)
        snprintf(url, sizeof url, "http://127.0.0.1:1@127.0.0.1:%s/%s", hub.port,
                 where);
    else
        snprintf(url, sizeof url, "http://127.0.0.1:%s/%s", hub.port, where);
    pl_json_set_text(o, "href", url);
    add_null(o, "header");
    return o;
}

static enum MHD_Result batch(struct MHD_Connection *c, const pl_json *q)
{
    const pl_json *objects = pl_json_get(q, "objects");
    pl_json *o = pl_json_object(), *list = pl_json_array();
    for (size_t i = 0; i < pl_json_count(objects); i++) {
        const char *oid = pl_json_get_text(pl_json_at(objects, i), "oid");
        char where[128];
        pl_json *row = pl_json_object(), *actions = pl_json_object();
        snprintf(where, sizeof where, "lfs/%s", oid);
        pl_json_set_text(row, "oid", oid);
        pl_json_set(actions, "upload", action_of(where));
        pl_json_set(actions, "verify", action_of("verify"));
        if (!find(hub.blobs, hub.n_blobs, oid, NULL))
            pl_json_set(row, "actions", actions);
        else
            pl_json_destroy(&actions);
        add_null(row, "actions");
        add_null(row, "error");
        pl_json_push(list, row);
    }
    pl_json_set(o, "objects", list);
    return answer_json(c, o);
}

static enum MHD_Result put(struct MHD_Connection *c, const char *oid, pl_buf *body)
{
    entry e = {.size = body->len, .large = true};
    pl_hash sha;
    pl_sha256(body->data, body->len, &sha);
    pl_hash_format(&sha, e.oid);
    if (strcmp(e.oid, oid) != 0)
        return answer(c, 400, "{\"error\":\"the bytes do not have their hash\"}");
    hub.blobs[hub.n_blobs++ % ENTRIES_MAX] = e;
    return answer(c, 200, "");
}

static void take_line(const char *line, size_t len)
{
    pl_json *o = NULL;
    if (pl_json_parse(line, len, &o) != PL_OK)
        return;
    const pl_json *v = pl_json_get(o, "value");
    entry e = {.large = strcmp(pl_json_get_text(o, "key"), "lfsFile") == 0};
    pl_copy_text(e.name, sizeof e.name, pl_json_get_text(v, "path"));
    pl_copy_text(e.oid, sizeof e.oid, pl_json_get_text(v, "oid"));
    if (hub.wrong && e.large)
        e.oid[0] = e.oid[0] == '0' ? '1' : '0';
    if (e.large)
        e.size = (size_t)pl_json_get_real(v, "size");
    else if (e.name[0]) {
        /* decodes base64 with the table of the encoder */
        const char *text = pl_json_get_text(v, "content");
        static const char letters[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        pl_buf bytes = {0};
        for (size_t i = 0; text[i]; i += 4) {
            uint32_t bits = 0;
            size_t n = 0;
            for (size_t k = 0; k < 4; k++) {
                const char *at =
                    text[i + k] == '=' ? NULL : strchr(letters, text[i + k]);
                bits = bits << 6 | (uint32_t)(at ? at - letters : 0);
                n += at != NULL;
            }
            const uint8_t three[3] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8),
                                      (uint8_t)bits};
            pl_buf_append(&bytes, three, n - 1);
        }
        pl_git_blob_name(bytes.data, bytes.len, e.git);
        e.size = bytes.len;
        pl_buf_destroy(&bytes);
    }
    entry *old = find(hub.files, hub.n_files, NULL, e.name);
    if (e.name[0])
        *(old ? old : &hub.files[hub.n_files++ % ENTRIES_MAX]) = e;
    pl_json_destroy(&o);
}

static enum MHD_Result commit(struct MHD_Connection *c, const pl_buf *body)
{
    const char *at = (const char *)body->data;
    for (size_t left = body->len; left > 0;) {
        const char *end = memchr(at, '\n', left);
        const size_t line = end ? (size_t)(end - at) : left;
        take_line(at, line);
        left -= line + (end != NULL);
        at += line + (end != NULL);
    }
    return answer(c, 200, "{\"success\":true,\"commitOid\":\"c0ffee\"}");
}

static enum MHD_Result serve_json(struct MHD_Connection *c, const char *path,
                                  const pl_json *q)
{
    if (strcmp(path, "/api/repos/create") == 0)
        return create(c, q);
    if (pl_ends_with(path, "/paths-info/main"))
        return paths_info(c, q);
    if (pl_ends_with(path, "/preupload/main"))
        return preupload(c, q);
    if (pl_ends_with(path, ".git/info/lfs/objects/batch"))
        return batch(c, q);
    if (strcmp(path, "/verify") == 0)
        return find(hub.blobs, hub.n_blobs, pl_json_get_text(q, "oid"), NULL)
                   ? answer(c, 200, "")
                   : answer(c, 404, "{\"error\":\"no such object\"}");
    return answer(c, 404, "{\"error\":\"no such page\"}");
}

static enum MHD_Result serve(struct MHD_Connection *c, const char *path,
                             const char *method, pl_buf *body)
{
    char bearer[160];
    const char *given =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
    pl_json *q = NULL;
    fprintf(hub.log, "%s %s %zu\n", method, path, body->len);
    fflush(hub.log);
    if (hub.moved && strcmp(path, "/api/repos/create") != 0)
        return answer(c, 307, "Temporary Redirect. Redirecting to elsewhere");
    if (hub.down)
        return answer(c, 500, "{\"error\":\"down\"}");
    if (hub.busy-- > 0)
        return answer(c, hub.pause ? 429 : 503, "{\"error\":\"busy\"}");
    snprintf(bearer, sizeof bearer, "Bearer %s", hub.token);
    if (!given || strcmp(given, bearer) != 0)
        return answer(c, 401,
                      "{\"error\":\"Invalid credentials in Authorization header\"}");
    if (strcmp(method, "PUT") == 0)
        return put(c, path + strlen("/lfs/"), body);
    if (pl_ends_with(path, "/commit/main"))
        return commit(c, body);
    if (pl_json_parse(pl_buf_text(body), body->len, &q) != PL_OK)
        return answer(c, 400, "{\"error\":\"no JSON\"}");
    enum MHD_Result queued = serve_json(c, path, q);
    pl_json_destroy(&q);
    return queued;
}

static enum MHD_Result handle(void *self, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *len, void **context)
{
    upload *u = *context;
    (void)self;
    (void)version;
    if (!u) {
        *context = u = pl_alloc(sizeof *u);
        u->cut = strcmp(method, "PUT") == 0 && hub.cut > 0;
        hub.cut -= u->cut;
        return MHD_YES;
    }
    if (*len > 0) {
        pl_buf_append(&u->body, data, *len);
        *len = 0;
        return u->cut && u->body.len > CUT_BYTES ? MHD_NO : MHD_YES;
    }
    return serve(c, path, method, &u->body);
}

static void done(void *self, struct MHD_Connection *c, void **context,
                 enum MHD_RequestTerminationCode code)
{
    upload *u = *context;
    (void)self;
    (void)c;
    (void)code;
    if (u)
        pl_buf_destroy(&u->body);
    pl_free(u);
    *context = NULL;
}

static void take_word(const char *word)
{
    if (pl_starts_with(word, "token="))
        pl_copy_text(hub.token, sizeof hub.token, word + 6);
    else if (pl_starts_with(word, "busy="))
        hub.busy = atoi(word + 5);
    else if (pl_starts_with(word, "pause="))
        hub.pause = atoi(word + 6);
    else if (pl_starts_with(word, "cut="))
        hub.cut = atoi(word + 4);
    else if (strcmp(word, "down") == 0)
        hub.down = true;
    else if (strcmp(word, "wrong") == 0)
        hub.wrong = true;
    else if (strcmp(word, "nulls") == 0)
        hub.nulls = true;
    else if (strcmp(word, "moved") == 0)
        hub.moved = true;
    else if (strcmp(word, "astray") == 0)
        hub.astray = true;
}

int main(int argc, char **argv)
{
    char byte;
    for (int i = 3; i < argc; i++)
        take_word(argv[i]);
    hub.log = argc > 2 ? fopen(argv[2], "a") : NULL;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, NULL,
                         MHD_OPTION_NOTIFY_COMPLETED, done, NULL, MHD_OPTION_END);
    if (!hub.log || !daemon)
        return 1;
    snprintf(hub.port, sizeof hub.port, "%u",
             (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    if (pl_replace_file(argv[1], hub.port, strlen(hub.port)) != PL_OK)
        return 1;
    while (read(0, &byte, 1) > 0)
        continue;
    MHD_stop_daemon(daemon);
    return 0;
}
