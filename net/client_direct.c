/* Moves blobs directly between this process and the service that keeps a home's chunks,
 * so that their bytes do not pass through the home.
 *
 * A home with such a service answers the question with signed URLs instead of bytes,
 * one URL per chunk. Several threads make the requests; meanwhile the client's thread
 * calls `idle`. After an upload the home is told, and reads the bytes from the service.
 * Whatever fails, the blob goes through the home, and for some minutes all others do.
 */
#include "net/client_internal.h"
#include <string.h>

enum {
    THREADS = 8,
    TRIES = 3,
    SILENT_S = 10,
    REFUSED_MAX = 4,       /* then this home is not asked again */
    PAUSE_MS = 600 * 1000, /* after a failure */
    HTTP_EXISTS = 412
};

typedef struct chunk_move {
    char *url;
    uint8_t *at;
    size_t len;
} chunk_move;

typedef struct moving {
    pl_web *web;
    bool up, stops;
    uint64_t n_moved; /* bytes so far */
    chunk_move *all;
    size_t n;
    pl_queue *over; /* gets an item at the end */
    pl_status status;
    char reason[256];
} moving;

bool client_may_direct(const pl_client *c, int home)
{
    return c->direct != PL_DIRECT_NONE && c->lines[home].n_refused < REFUSED_MAX &&
           pl_now_ms() >= c->direct_after_ms;
}

/* ---- the requests ---- */
static pl_status move_chunk(void *context, size_t i, int thread)
{
    moving *m = context;
    const chunk_move *one = &m->all[i];
    pl_buf answer = {0};
    pl_status status = PL_ERR_NET;
    (void)thread;
    for (int try = 0; try < TRIES && status != PL_OK &&
                      !__atomic_load_n(&m->stops, __ATOMIC_RELAXED);
         try++) {
        pl_web_request r = {.method = m->up ? "PUT" : "GET",
                            .url = one->url,
                            .headers = {m->up ? "If-None-Match: *" : NULL},
                            .data = one->at,
                            .len = m->up ? one->len : 0,
                            .answer_max = m->up ? 1 << 16 : one->len,
                            .silent_s = SILENT_S,
                            .stops = &m->stops,
                            .moved = &m->n_moved,
                            .answer = &answer};
        if (try > 0)
            pl_sleep_ms(200 * try);
        status = pl_web_ask(m->web, &r);
        /* a chunk that exists was written by an earlier request without answer */
        const bool is_done = r.code / 100 == 2 || (m->up && r.code == HTTP_EXISTS);
        if (status == PL_OK && (!is_done || (!m->up && answer.len != one->len)))
            status = pl_fail(PL_ERR_NET, "the service answered %d with %zu bytes",
                             r.code, answer.len);
    }
    if (status == PL_OK && !m->up)
        memcpy(one->at, answer.data, one->len);
    pl_buf_destroy(&answer);
    return status;
}

static void run_moves(void *context)
{
    moving *m = context;
    m->status = pl_parallel(THREADS, m->n, move_chunk, m);
    if (m->status != PL_OK)
        pl_copy_text(m->reason, sizeof m->reason, pl_last_error());
    pl_queue_push(m->over, m);
}

/* Makes all requests. Only an error of `idle` is returned; see m->status. */
static pl_status make_moves(pl_client *c, int home, moving *m)
{
    client_line *line = &c->lines[home];
    uint64_t *total = m->up ? &line->link.up_bytes : &line->link.down_bytes;
    uint64_t counted = 0;
    const double start = pl_now();
    pl_thread *thread = NULL;
    pl_status idle = PL_OK;
    PL_CHECK(pl_queue_create(&m->over));
    m->status = pl_thread_start("direct", run_moves, m, &thread);
    bool is_over = m->status != PL_OK;
    while (!is_over) {
        is_over = pl_queue_pop(m->over, SLICE_MS) != NULL;
        const uint64_t now = __atomic_load_n(&m->n_moved, __ATOMIC_RELAXED);
        *total += now - counted;
        counted = now;
        if (idle == PL_OK)
            idle = client_idle(c);
        __atomic_store_n(&m->stops, idle != PL_OK, __ATOMIC_RELAXED);
    }
    pl_thread_join(&thread);
    pl_queue_destroy(&m->over);
    client_line_note(line, m->up, counted, pl_now() - start);
    return idle;
}

/* ---- what to move ---- */
static bool is_allowed(const pl_client *c, const char *url)
{
    return pl_starts_with(url, "https://") ||
           (c->direct == PL_DIRECT_OWN && pl_url_is_local(url));
}

/* Adds the chunks of a blob from byte b->at on, for which the answer has URLs. Returns
 * whether there is one. */
static bool add_moves(const pl_client *c, moving *m, client_direct *b, pl_buf *urls)
{
    size_t n = 0;
    pl_buf_append(urls, "", 1);
    for (const char *at = (const char *)urls->data; (at = strchr(at, '\n')); at++)
        n++;
    const uint64_t left = b->bytes - b->at;
    if (n > (left + PL_CHUNK_BYTES - 1) / PL_CHUNK_BYTES)
        n = (size_t)((left + PL_CHUNK_BYTES - 1) / PL_CHUNK_BYTES);
    const size_t bytes =
        left < (uint64_t)n * PL_CHUNK_BYTES ? (size_t)left : n * PL_CHUNK_BYTES;
    if (b->out)
        pl_buf_reserve(b->out, bytes);
    uint8_t *to = b->out ? b->out->data + b->out->len
                         : (uint8_t *)(uintptr_t)b->data + (size_t)b->at;
    m->all = pl_grow(m->all, (m->n + n + 1) * sizeof *m->all);
    char *rest = (char *)urls->data;
    for (size_t i = 0; i < n; i++) {
        const char *url = strsep(&rest, "\n");
        const size_t begin = i * PL_CHUNK_BYTES;
        const size_t len =
            bytes - begin < PL_CHUNK_BYTES ? bytes - begin : PL_CHUNK_BYTES;
        if (!is_allowed(c, url))
            return false;
        m->all[m->n++] = (chunk_move){pl_strdup(url), to + begin, len};
    }
    if (b->out)
        b->out->len += bytes;
    b->at += bytes;
    return n > 0;
}

static void ask_about(const pl_client *c, client_asked *q, int home, bool up,
                      const client_direct *b, uint64_t direct)
{
    pl_message *m = client_ask(c, q, 0, "");
    q->home = home;
    if (up)
        PL_SAY(m, PUT_BLOB, put_blob, .blob = b->hash, .total = b->bytes,
               .offset = direct == 2 ? 0 : b->at,
               .lease = {c->lease.len > 0 ? c->lease.bytes : NULL, c->lease.len},
               .head = {b->data, PL_PUT_HEAD}, .direct = direct);
    else /* a small blob comes with the answer */
        PL_SAY(m, GET_BLOB, get_blob, .blob = b->hash,
               .total = c->lines[home].has_engine ? CLIENT_DIRECT_MIN : 1,
               .offset = b->at, .direct = direct);
}

/* Reads an answer: adds its URLs to what must be moved, or notes that the blob is
 * already there. */
static void take_answer(pl_client *c, int home, moving *m, client_direct *b,
                        pl_message *a)
{
    client_line *line = &c->lines[home];
    pl_msg_put_state state = {0};
    pl_msg_blob blob = {0};
    if (client_as_status(a) != PL_OK ||
        (m->up ? PL_HEAR(a, put_state, &state) : PL_HEAR(a, blob, &blob)) != PL_OK)
        return;
    const uint64_t direct = m->up ? state.direct : blob.direct;
    line->has_engine = line->has_engine || direct > 0;
    if (m->up) {
        b->moved = state.offset == b->bytes;
    } else if (b->at == 0) {
        b->bytes = blob.total;
        b->moved = direct != 1 && a->data.len == blob.total && blob.total > 1;
        if (b->moved)
            pl_buf_append(b->out, a->data.data, a->data.len);
    }
    if (b->moved || direct == 2)
        return;
    /* a relay may keep an upload, so one refusal says nothing about the home */
    if (direct == 1 && b->at < b->bytes && add_moves(c, m, b, &a->data))
        line->n_refused = 0;
    else
        line->n_refused += m->up ? 1 : REFUSED_MAX;
}

/* Asks about all blobs that are not moved: for URLs, or, with direct = 2, whether the
 * home has what was uploaded. */
static pl_status ask_all(pl_client *c, int home, client_direct *all, int n,
                         uint64_t direct, moving *m)
{
    client_asked *asked = pl_alloc((size_t)n * sizeof *asked);
    for (int i = 0; i < n; i++) {
        const client_direct *b = &all[i];
        const bool is_over = b->bytes > 0 && b->at == b->bytes;
        if (!b->moved && is_over == (direct == 2))
            ask_about(c, &asked[i], home, m->up, b, direct);
    }
    const pl_status status = client_ask_all(c, asked, n);
    for (int i = 0; status == PL_OK && i < n; i++)
        if (asked[i].name)
            take_answer(c, home, m, &all[i], &asked[i].answer);
    client_asked_destroy(asked, n);
    return status;
}

pl_status client_move_direct(pl_client *c, int home, bool up, client_direct *all, int n)
{
    pl_status status = PL_OK;
    moving m = {.up = up};
    if (!c->web && pl_web_open(&c->web) != PL_OK)
        c->direct = PL_DIRECT_NONE; /* this machine has no libcurl */
    m.web = c->web;
    for (bool more = m.web != NULL && n > 0; more;) {
        PL_TRY(ask_all(c, home, all, n, 1, &m));
        more = m.n > 0;
        if (more)
            PL_TRY(make_moves(c, home, &m));
        if (more && m.status == PL_OK && !c->has_moved) {
            c->has_moved = true; /* each of a worker's two clients says so once */
            pl_log(PL_LOG_INFO, "worker.direct", "service=%.*s up=%d",
                   (int)strcspn(m.all[0].url + strlen("https://"), "/?") + 8,
                   m.all[0].url, up);
        }
        while (m.n > 0)
            pl_free(m.all[--m.n].url);
        if (m.status != PL_OK) {
            c->direct_after_ms = pl_now_ms() + PAUSE_MS;
            pl_log(PL_LOG_WARN, "worker.direct", "error=\"%s\"", m.reason);
            goto done;
        }
    }
    PL_TRY(pl_failpoint("worker.direct.after"));
    if (up && m.web && n > 0)
        PL_TRY(ask_all(c, home, all, n, 2, &m));
    for (int i = 0; !up && i < n; i++)
        all[i].moved = all[i].moved || (all[i].at > 0 && all[i].at == all[i].bytes);
done:
    while (m.n > 0)
        pl_free(m.all[--m.n].url);
    pl_free(m.all);
    return status;
}
