/* The protocol of a hub of models. The requests, in this order:
 *
 *   POST /api/repos/create                409: the repository exists
 *   POST /api/models/NAME/paths-info/main asks for the hashes of the hub's files
 *   POST /api/models/NAME/preupload/main  asks which files are large (LFS); the others
 *                                         go into the commit itself
 *   POST /NAME.git/info/lfs/objects/batch asks which large files the hub lacks
 *   PUT  each of these files; then POST to the address `verify` of the answer
 *   POST /api/models/NAME/commit/main     NDJSON: a head, then one line per file
 *   POST /api/models/NAME/paths-info/main asks again, to compare the hashes
 *
 * The hub identifies a large file by its SHA-256, and a small file by the name that git
 * gives its blob. Files that the hub already has are never sent, so a repeated call
 * continues where the last call stopped. */
#include "serve/publish.h"
#include "serve/publish_ask.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 256, SAMPLE_BYTES = 512 };
/* Object stores accept at most this many bytes in one PUT. */
static const uint64_t FILE_BYTES_MAX = (uint64_t)5 << 30;
#define LFS "application/vnd.git-lfs+json"

typedef struct file {
    char name[256];
    pl_mapping bytes;
    char sha[PL_HASH_TEXT], git[41]; /* SHA-256, and git's name of the blob */
    bool same;    /* the hub has a file with this name and these bytes */
    bool large;   /* the file is sent as LFS, not inside the commit */
    bool ignored; /* the hub asks not to send this file */
} file;

typedef struct publication {
    asker hub;
    const char *name;
    file *files;
    size_t n;
    pl_publish_report *report;
} publication;

/* ---- the folder ---- */
static int compare_names(const void *a, const void *b)
{
    return strcmp(((const file *)a)->name, ((const file *)b)->name);
}

static pl_status add_file(publication *p, const char *folder, const char *name)
{
    char path[PL_PATH_MAX];
    pl_hash sha;
    if (!pl_join(path, folder, name)[0] || p->n == FILES_MAX)
        return pl_fail(PL_ERR_DATA,
                       "the path of a file in %s is too long, or the folder has more "
                       "than %d files",
                       folder, FILES_MAX);
    if (name[0] == '.' || pl_path_is_folder(path))
        return PL_OK;
    PL_CHECK(pl_refuse_special(path));
    file *f = &p->files[p->n++];
    *f = (file){.same = false};
    pl_copy_text(f->name, sizeof f->name, name);
    PL_CHECK(pl_map_file(path, &f->bytes));
    if (f->bytes.len > FILE_BYTES_MAX)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s has %llu bytes, and --push sends files of at most 5 GiB; "
                       "export with --type bf16, or send the file with the model hub's "
                       "command-line program",
                       path, (unsigned long long)f->bytes.len);
    pl_sha256(f->bytes.data, f->bytes.len, &sha);
    pl_hash_format(&sha, f->sha);
    pl_git_blob_name(f->bytes.data, f->bytes.len, f->git);
    pl_rest_file(&f->bytes);
    return PL_OK;
}

static pl_status read_publication(publication *p, const char *folder)
{
    pl_status status = PL_OK;
    DIR *d = opendir(folder);
    if (!d)
        return pl_fail(PL_ERR_NOT_FOUND, "the folder %s cannot be read", folder);
    p->files = pl_alloc(FILES_MAX * sizeof *p->files);
    for (const struct dirent *entry; status == PL_OK && (entry = readdir(d));)
        status = add_file(p, folder, entry->d_name);
    closedir(d);
    qsort(p->files, p->n, sizeof *p->files, compare_names);
    if (status == PL_OK && p->n == 0)
        return pl_fail(PL_ERR_DATA, "the folder %s has no files to publish", folder);
    return status;
}

static file *find_file(publication *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->files[i].name, name) == 0)
            return &p->files[i];
    return NULL;
}

/* ---- what the hub has ---- */
/* Returns the member of `o` if it is an object; otherwise NULL. Some hubs send null for
 * a missing member. */
static const pl_json *find_part(const pl_json *o, const char *key)
{
    const pl_json *part = pl_json_get(o, key);
    return pl_json_is_object(part) ? part : NULL;
}

static pl_status post(publication *p, const char *what, const char *path, pl_json *body,
                      pl_json **answer)
{
    char url[256];
    pl_buf text = {0};
    snprintf(url, sizeof url, "/api/models/%s/%s/main", p->name, path);
    pl_json_write(body, 0, &text);
    pl_json_destroy(&body);
    pl_status status =
        asker_post(&p->hub, what, url, "application/json", &text, answer);
    pl_buf_destroy(&text);
    return status;
}

static pl_status compare_files(publication *p, const char *what)
{
    pl_json *body = pl_json_object(), *paths = pl_json_array(), *answer = NULL;
    for (size_t i = 0; i < p->n; i++) {
        pl_json_push(paths, pl_json_make_text(p->files[i].name));
        p->files[i].same = false;
    }
    pl_json_set(body, "paths", paths);
    pl_json_set_bool(body, "expand", false);
    pl_status status = post(p, what, "paths-info", body, &answer);
    for (size_t i = 0; status == PL_OK && i < pl_json_count(answer); i++) {
        const pl_json *o = pl_json_at(answer, i), *lfs = find_part(o, "lfs");
        file *f = find_file(p, pl_json_get_text(o, "path"));
        if (f)
            f->same = lfs ? strcmp(pl_json_get_text(lfs, "oid"), f->sha) == 0
                          : strcmp(pl_json_get_text(o, "oid"), f->git) == 0;
    }
    pl_json_destroy(&answer);
    return status;
}

static bool is_changed(const file *f)
{
    return !f->same && !f->ignored;
}

static size_t count_changed(const publication *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += is_changed(&p->files[i]);
    return n;
}

/* Creates a private repository, so that its owner can decide later who may see it. */
static pl_status make_repository(publication *p)
{
    const char *slash = strchr(p->name, '/');
    pl_buf body = {0};
    pl_json *answer = NULL;
    pl_buf_printf(&body,
                  "{\"name\":\"%s\",\"organization\":\"%.*s\",\"type\":\"model\","
                  "\"private\":true}",
                  slash + 1, (int)(slash - p->name), p->name);
    pl_status status = asker_post(&p->hub, "make the repository", "/api/repos/create",
                                  "application/json", &body, &answer);
    p->report->made = status == PL_OK;
    if (p->hub.code == 409) /* the repository exists */
        status = PL_OK;
    pl_json_destroy(&answer);
    pl_buf_destroy(&body);
    return status;
}

/* ---- large files ---- */
static pl_status find_large(publication *p)
{
    pl_json *body = pl_json_object(), *files = pl_json_array(), *answer = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const file *f = &p->files[i];
        pl_json *o = pl_json_object();
        pl_buf sample = {0};
        pl_buf_base64(&sample, f->bytes.data,
                      f->bytes.len < SAMPLE_BYTES ? f->bytes.len : SAMPLE_BYTES);
        pl_json_set_text(o, "path", f->name);
        pl_json_set_text(o, "sample", pl_buf_text(&sample));
        pl_json_set_int(o, "size", (int64_t)f->bytes.len);
        pl_json_set_text(o, "sha", f->sha);
        pl_json_push(files, o);
        pl_buf_destroy(&sample);
    }
    pl_json_set(body, "files", files);
    pl_status status = post(p, "ask how to send files", "preupload", body, &answer);
    const pl_json *list = pl_json_get(answer, "files");
    for (size_t i = 0; status == PL_OK && i < pl_json_count(list); i++) {
        const pl_json *o = pl_json_at(list, i);
        file *f = find_file(p, pl_json_get_text(o, "path"));
        if (!f)
            continue;
        /* an empty file cannot be stored as a large one */
        f->large =
            strcmp(pl_json_get_text(o, "uploadMode"), "lfs") == 0 && f->bytes.len > 0;
        f->ignored = pl_json_get_bool(o, "shouldIgnore");
    }
    pl_json_destroy(&answer);
    return status;
}

static pl_status send_large(publication *p, const file *f, const pl_json *actions)
{
    enum { LINES_MAX = 8 };
    char lines[LINES_MAX][1024];
    const char *headers[LINES_MAX + 1] = {NULL};
    const pl_json *upload = find_part(actions, "upload"),
                  *verify = find_part(actions, "verify"),
                  *header = find_part(upload, "header");
    pl_buf body = {0};
    int n = 0;
    if (!upload) /* the hub has these bytes */
        return PL_OK;
    for (const char *key = NULL; (key = pl_json_next_key(header, key)); n++) {
        const char *value = pl_json_get_text(header, key);
        if (strpbrk(key, "\r\n:") || strpbrk(value, "\r\n") || n == LINES_MAX ||
            snprintf(lines[n], sizeof lines[n], "%s: %s", key, value) >=
                (int)sizeof lines[n])
            return pl_fail(PL_ERR_PROTO,
                           "%s cannot be sent: the model hub asks for more than %d "
                           "headers, or for one that is not valid or too long",
                           f->name, (int)LINES_MAX);
        headers[n] = lines[n];
    }
    p->report->n_sent++;
    p->report->sent_bytes += f->bytes.len;
    PL_CHECK(asker_do(&p->hub, &(ask){.what = "send a file",
                                      .method = "PUT",
                                      .url = pl_json_get_text(upload, "href"),
                                      .headers = headers,
                                      .data = f->bytes.data,
                                      .len = f->bytes.len}));
    if (!verify)
        return PL_OK;
    pl_buf_printf(&body, "{\"oid\":\"%s\",\"size\":%zu}", f->sha, f->bytes.len);
    pl_status status = asker_post(&p->hub, "check a file that was sent",
                                  pl_json_get_text(verify, "href"), LFS, &body, NULL);
    pl_buf_destroy(&body);
    return status;
}

/* Sends the large files that the hub lacks, as its answer to `batch` says. */
static pl_status send_missing(publication *p, const pl_json *answer)
{
    const pl_json *objects = pl_json_get(answer, "objects");
    for (size_t i = 0; i < pl_json_count(objects); i++) {
        const pl_json *o = pl_json_at(objects, i), *error = find_part(o, "error");
        const char *sha = pl_json_get_text(o, "oid");
        const file *f = NULL;
        for (size_t k = 0; !f && k < p->n; k++)
            if (p->files[k].large && strcmp(p->files[k].sha, sha) == 0)
                f = &p->files[k];
        if (!f)
            return pl_fail(
                PL_ERR_PROTO,
                "the model hub asks for a file with the hash %.16s, but no file of the "
                "folder has this hash",
                sha);
        if (error)
            return pl_fail(PL_ERR_PROTO, "the model hub refuses %s: %.200s", f->name,
                           pl_json_get_text(error, "message"));
        PL_CHECK(send_large(p, f, find_part(o, "actions")));
    }
    return PL_OK;
}

static pl_status send_all_large(publication *p)
{
    char url[256];
    pl_buf body = {0};
    pl_json *answer = NULL;
    pl_status status = PL_OK;
    int n = 0;
    pl_buf_printf(&body, "{\"operation\":\"upload\",\"transfers\":[\"basic\"],"
                         "\"hash_algo\":\"sha256\",\"objects\":[");
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].large && is_changed(&p->files[i]))
            pl_buf_printf(&body, "%s{\"oid\":\"%s\",\"size\":%zu}", n++ ? "," : "",
                          p->files[i].sha, p->files[i].bytes.len);
    pl_buf_printf(&body, "]}");
    snprintf(url, sizeof url, "/%s.git/info/lfs/objects/batch", p->name);
    if (n > 0)
        status = asker_post(&p->hub, "ask which large files are there", url, LFS, &body,
                            &answer);
    if (status == PL_OK && n > 0)
        status = send_missing(p, answer);
    pl_buf_destroy(&body);
    pl_json_destroy(&answer);
    return status;
}

/* ---- the commit ---- */
static void put_commit_line(publication *p, const file *f, pl_buf *out)
{
    pl_buf_printf(
        out, "{\"key\":\"%s\",\"value\":{\"path\":", f->large ? "lfsFile" : "file");
    pl_buf_json_text(out, f->name, strlen(f->name));
    if (f->large) {
        pl_buf_printf(out, ",\"algo\":\"sha256\",\"oid\":\"%s\",\"size\":%zu}}\n",
                      f->sha, f->bytes.len);
        return;
    }
    pl_buf_printf(out, ",\"encoding\":\"base64\",\"content\":\"");
    pl_buf_base64(out, f->bytes.data, f->bytes.len);
    pl_buf_printf(out, "\"}}\n");
    p->report->n_sent++;
    p->report->sent_bytes += f->bytes.len;
}

static pl_status commit(publication *p)
{
    char url[256];
    pl_buf body = {0};
    pl_json *answer = NULL;
    pl_buf_printf(&body,
                  "{\"key\":\"header\",\"value\":{\"summary\":\"Pathloom %s: %zu "
                  "files\",\"description\":\"\"}}\n",
                  PL_VERSION, count_changed(p));
    for (size_t i = 0; i < p->n; i++)
        if (is_changed(&p->files[i]))
            put_commit_line(p, &p->files[i], &body);
    snprintf(url, sizeof url, "/api/models/%s/commit/main", p->name);
    pl_status status = asker_post(&p->hub, "commit the files", url,
                                  "application/x-ndjson", &body, &answer);
    pl_copy_text(p->report->commit, sizeof p->report->commit,
                 pl_json_get_text(answer, "commitOid"));
    pl_buf_destroy(&body);
    pl_json_destroy(&answer);
    return status;
}

static pl_status check_published(publication *p)
{
    PL_CHECK(compare_files(p, "compare the files"));
    for (size_t i = 0; i < p->n; i++)
        if (is_changed(&p->files[i]))
            return pl_fail(PL_ERR_DAMAGED,
                           "%s/%s now has a file %s with different bytes than were "
                           "sent (with sha256 %.16s...); repeat the command",
                           p->hub.endpoint, p->name, p->files[i].name, p->files[i].sha);
    return PL_OK;
}

/* Checks that the name has the form "USER/NAME" and only characters that hubs allow. */
static pl_status check_repository_name(const char *name)
{
    const char *slash = strchr(name, '/');
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    if (slash && slash != name && slash[1] && slash[1] != '.' && name[0] != '.' &&
        !strchr(slash + 1, '/') && strlen(name) <= 96 &&
        strspn(name, allowed) == strlen(name))
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "`%.100s` names no repository; give USER/NAME, at most 96 "
                   "characters: letters, digits, - _ and . (a part must not begin "
                   "with .)",
                   name);
}

pl_status pl_publish(const char *folder, const char *name, pl_publish_report *out)
{
    publication p = {.name = name, .report = out};
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    PL_CHECK(check_repository_name(name));
    PL_TRY(asker_open(&p.hub));
    PL_TRY(read_publication(&p, folder));
    snprintf(out->url, sizeof out->url, "%s/%s", p.hub.endpoint, name);
    PL_TRY(make_repository(&p));
    PL_TRY(compare_files(&p, "ask which files are there"));
    PL_TRY(count_changed(&p) > 0 ? find_large(&p) : PL_OK);
    out->n_files = (int)p.n;
    if (count_changed(&p) == 0)
        goto done;
    PL_TRY(send_all_large(&p));
    PL_TRY(commit(&p));
    PL_TRY(check_published(&p));
done:
    for (size_t i = 0; i < p.n; i++)
        pl_unmap_file(&p.files[i].bytes);
    pl_free(p.files);
    asker_close(&p.hub);
    return status;
}
