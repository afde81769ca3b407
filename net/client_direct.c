/* Moves blobs directly between this process and the service that keeps a home's chunks,
 * so that their bytes do not pass through the home.
 *
 * It goes in rounds. A question about a blob says how much of it was moved; a home with
 * such a service answers with signed URLs for the next chunks. Of an upload it first
 * reads what was written. Several threads make the requests of a round; meanwhile the
 * client's thread calls `idle`. What fails, or is refused, goes through the home: of a
 * download only what is missing. Then all blobs go through the home for a while, so
 * that a service that hangs costs one wait, and not one per blob. */
#include "net/client_internal.h"

enum {
    THREADS = 8,
    TRIES = 3,
    SILENT_S = 25,
    REQUEST_S = 120,
    ROUND_S = 8,    /* how long a round may take by the measured rate */
    ROUND_MAX = 64, /* chunks of a round, at most; the first round has one */
    URLS_MAX = 256 << 10,
    ANSWER_MAX = 64 << 10, /* size of an answer that is not a chunk */
    PAUSE_MS = 60 * 1000,  /* after a failure, and ten times what it took */
    HTTP_EXISTS = 412
};

typedef struct chunk_move {
    client_direct *blob;
    char *url;
    uint8_t *at;
    size_t len;
    bool done;
} chunk_move;

typedef struct moving {
    pl_client *client;
    int home;
    bool up, stops;
    uint64_t n_moved; /* bytes so far, those of repeated requests included */
    chunk_move *all;
    size_t n, most; /* most: chunks of this round */
    pl_queue *over; /* gets an item at the end */
    pl_status status;
    char reason[256];
} moving;

bool client_may_direct(const pl_client *c, int home)
{
    return c->direct != PL_DIRECT_NONE && c->lines[home].engine != ENGINE_NONE &&
           pl_now_ms() >= c->lines[home].direct_after_ms;
}

/* ---- the requests ---- */
static pl_status move_chunk(void *context, size_t i, int thread)
{
    moving *m = context;
    chunk_move *one = &m->all[i];
    pl_buf answer = {0};
    pl_status status = PL_ERR_NET;
    (void)thread;
    for (int try = 0; try < TRIES && status != PL_OK && status != PL_ERR_TIMEOUT &&
                      !__atomic_load_n(&m->stops, __ATOMIC_RELAXED);
         try++) {
        pl_web_request r = {.method = m->up ? "PUT" : "GET",
                            .url = one->url,
                            .headers = {m->up ? "If-None-Match: *" : NULL},
                            .data = one->at,
                            .len = m->up ? one->len : 0,
                            .answer_max = one->len > ANSWER_MAX ? one->len : ANSWER_MAX,
                            .silent_s = SILENT_S,
                            .most_s = REQUEST_S,
                            .stops = &m->stops,
                            .moved = &m->n_moved,
                            .answer = &answer};
        if (try > 0)
            pl_sleep_ms(200 * try);
        status = pl_web_ask(m->client->web, &r);
        /* a chunk that exists was written by an earlier request without answer */
        const bool is_done = r.code / 100 == 2 || (m->up && r.code == HTTP_EXISTS);
        if (status == PL_OK && (!is_done || (!m->up && answer.len != one->len)))
            status = pl_fail(PL_ERR_NET, "the service answered %d with %zu bytes",
                             r.code, answer.len);
    }
    if (status == PL_OK && !m->up)
        memcpy(one->at, answer.data, one->len);
    one->done = status == PL_OK;
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

/* Makes the requests of a round. Their failures are in m->status. */
static pl_status make_moves(moving *m)
{
    client_line *line = &m->client->lines[m->home];
    uint64_t *total = m->up ? &line->link.up_bytes : &line->link.down_bytes;
    uint64_t counted = 0;
    const double start = pl_now();
    pl_thread *thread = NULL;
    pl_status idle = PL_OK;
    m->n_moved = 0;
    PL_CHECK(pl_queue_create(&m->over));
    const pl_status begun = pl_thread_start("direct", run_moves, m, &thread);
    if (begun != PL_OK) {
        m->status = begun;
        pl_copy_text(m->reason, sizeof m->reason, pl_last_error());
    }
    for (bool is_over = begun != PL_OK; !is_over;) {
        is_over = pl_queue_pop(m->over, SLICE_MS) != NULL;
        const uint64_t now = __atomic_load_n(&m->n_moved, __ATOMIC_RELAXED);
        *total += now - counted;
        counted = now;
        if (idle == PL_OK)
            idle = client_idle(m->client);
        __atomic_store_n(&m->stops, idle != PL_OK, __ATOMIC_RELAXED);
    }
    pl_thread_join(&thread);
    pl_queue_destroy(&m->over);
    const double seconds = pl_now() - start;
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++) {
        const chunk_move *one = &m->all[i];
        client_direct *b = one->blob;
        bytes += one->done ? one->len : 0;
        if (one->done || b->refused)
            continue;
        b->refused = true; /* from the first chunk on that did not come */
        if (b->out) {
            const size_t kept = (size_t)(one->at - b->out->data);
            b->at -= b->out->len - kept;
            b->out->len = kept;
        }
    }
    line->link.repeated_bytes += m->n_moved > bytes ? m->n_moved - bytes : 0;
    double *rate = &line->direct_rate[m->up], now = (double)bytes / (seconds + 1e-6);
    *rate += (now - *rate) / (*rate > 0 ? 4 : 1);
    if (m->status != PL_OK && !m->stops) {
        line->direct_after_ms = pl_now_ms() + PAUSE_MS + (int64_t)(1e4 * seconds);
        pl_log(PL_LOG_WARN, "worker.direct", "error=\"%s\"", m->reason);
    } else if (m->status == PL_OK && !m->client->has_moved) {
        m->client->has_moved = true; /* each of a worker's two clients says so once */
        pl_log(PL_LOG_INFO, "worker.direct", "service=%.*s up=%d",
               (int)strcspn(m->all[0].url + strlen("https://"), "/?") + 8,
               m->all[0].url, m->up);
    }
    return idle;
}

/* ---- what to move ---- */
/* Adds chunks of a blob from byte b->at on, for which the answer has URLs. Returns
 * false, and adds none, if there is none, or if one may not be used. */
static bool add_moves(moving *m, client_direct *b, const pl_buf *answer)
{
    char *list[PL_SIGNED_CHUNKS], *url;
    size_t n = 0;
    const uint64_t left = b->bytes - b->at;
    const size_t most = (size_t)((left + PL_CHUNK_BYTES - 1) / PL_CHUNK_BYTES);
    pl_buf urls = {0}; /* the message may lie in memory that must not be written */
    bool good = answer->len <= URLS_MAX;
    if (good)
        pl_buf_append(&urls, answer->data, answer->len);
    pl_buf_append(&urls, "", 1);
    char *rest = (char *)urls.data;
    while (good && (url = strsep(&rest, "\n")) && *url) {
        good = n < PL_SIGNED_CHUNKS && n < most &&
               (pl_starts_with(url, "https://") ||
                (m->client->direct == PL_DIRECT_OWN && pl_url_is_local(url)));
        if (good)
            list[n++] = url;
    }
    good = good && n > 0 && (m->client->web || pl_web_open(&m->client->web) == PL_OK);
    n = !good ? 0 : n < m->most - m->n ? n : m->most - m->n;
    const uint64_t whole = n * (uint64_t)PL_CHUNK_BYTES;
    const size_t bytes = (size_t)(left < whole ? left : whole);
    if (b->out && bytes > 0)
        pl_buf_reserve(b->out, bytes);
    uint8_t *to = b->out ? b->out->data + b->out->len
                         : (uint8_t *)(uintptr_t)b->data + (size_t)b->at;
    m->all = pl_grow(m->all, (m->n + n + 1) * sizeof *m->all);
    for (size_t i = 0, at = 0; i < n; i++, at += PL_CHUNK_BYTES)
        m->all[m->n++] = (chunk_move){
            .blob = b,
            .url = pl_strdup(list[i]),
            .at = to + at,
            .len = bytes - at < PL_CHUNK_BYTES ? bytes - at : PL_CHUNK_BYTES};
    if (b->out)
        b->out->len += bytes;
    b->at += bytes;
    pl_buf_destroy(&urls);
    return good;
}

/* Reads an answer: adds its URLs to what must be moved, or notes that the blob is
 * there, or cannot be moved. */
static void take_answer(moving *m, client_direct *b, pl_message *a)
{
    client_line *line = &m->client->lines[m->home];
    pl_msg_put_state state = {0};
    pl_msg_blob blob = {0};
    b->refused = true;
    if (client_as_status(a) != PL_OK ||
        (m->up ? PL_HEAR(a, put_state, &state) : PL_HEAR(a, blob, &blob)) != PL_OK)
        return;
    const uint64_t direct = m->up ? state.direct : blob.direct;
    if (m->up) {
        b->moved = state.offset == b->bytes;
        if (!b->moved && state.offset < b->at)
            /* the home could not read what was written */
            line->direct_after_ms = pl_now_ms() + PAUSE_MS;
        if (!b->moved && state.offset != b->at)
            return;
    } else if (b->at == 0) {
        b->bytes = blob.total;
        b->moved = direct != 1 && a->data.len == blob.total;
        if (b->moved && a->data.len > 0)
            pl_buf_append(b->out, a->data.data, a->data.len);
    } else if (blob.total != b->bytes) {
        return;
    }
    if (direct > 0 || !b->moved)
        line->engine = direct > 0 ? ENGINE_THERE : ENGINE_NONE;
    if (b->moved || direct != 1 || !client_may_direct(m->client, m->home))
        return;
    b->refused = !add_moves(m, b, &a->data);
    if (b->refused)
        line->engine = ENGINE_NONE; /* its URLs are of no use here */
}

/* Asks about blobs that are not moved: first about one, to learn whether the home has
 * an engine; then, since a home keeps room for the whole of an upload, only until a
 * round has enough bytes. Sets *n_asked. */
static pl_status ask_round(moving *m, client_direct *all, int n, int *n_asked)
{
    const client_line *line = &m->client->lines[m->home];
    client_asked *asked = pl_alloc((size_t)n * sizeof *asked);
    const double chunks = line->direct_rate[m->up] * ROUND_S / PL_CHUNK_BYTES;
    m->most = chunks < 1 ? 1 : chunks < ROUND_MAX ? (size_t)chunks : ROUND_MAX;
    uint64_t sum = 0;
    *n_asked = 0;
    for (int i = 0; i < n && sum < m->most * (uint64_t)PL_CHUNK_BYTES; i++) {
        client_direct *b = &all[i];
        if (!m->up && !b->refused && b->at > 0 && b->at == b->bytes)
            b->moved = true;
        if (b->moved || b->refused)
            continue;
        pl_message *say = client_ask(m->client, &asked[i], 0, "");
        asked[i].home = m->home;
        /* a small blob comes with the answer, if this home has an engine */
        const bool small = b->bytes == 0 && line->engine == ENGINE_THERE;
        if (m->up)
            PL_SAY(say, PUT_BLOB, put_blob, .blob = b->hash, .total = b->bytes,
                   .offset = b->at, .lease = client_present_lease(m->client),
                   .head = {b->data, PL_PUT_HEAD}, .direct = 1);
        else
            PL_SAY(say, GET_BLOB, get_blob, .blob = b->hash,
                   .total = small ? PL_DIRECT_MIN : 1, .offset = b->at, .direct = 1);
        sum += b->bytes > 0 ? b->bytes - b->at : PL_CHUNK_BYTES;
        ++*n_asked;
        if (line->engine == ENGINE_UNKNOWN)
            break;
    }
    const pl_status status = client_ask_all(m->client, asked, n);
    for (int i = 0; status == PL_OK && i < n; i++)
        if (asked[i].name)
            take_answer(m, &all[i], &asked[i].answer);
    client_asked_destroy(asked, n);
    return status;
}

pl_status client_move_direct(pl_client *c, int home, bool up, client_direct *all, int n)
{
    pl_status status = PL_OK;
    moving m = {.client = c, .home = home, .up = up};
    int n_asked = n;
    for (bool last = false; n_asked > 0 && !last;) {
        /* after a failure one more round tells the home what was written before */
        last = !client_may_direct(c, home);
        bool is_worth = !last;
        for (int i = 0; !is_worth && up && i < n; i++)
            is_worth = all[i].at > 0 && !all[i].moved && !all[i].refused;
        if (!is_worth)
            break;
        PL_TRY(ask_round(&m, all, n, &n_asked));
        if (m.n > 0)
            PL_TRY(make_moves(&m));
        if (m.n > 0 && up)
            PL_TRY(pl_failpoint("worker.direct.after"));
        while (m.n > 0)
            pl_free(m.all[--m.n].url);
    }
done:
    while (m.n > 0)
        pl_free(m.all[--m.n].url);
    pl_free(m.all);
    return status;
}
