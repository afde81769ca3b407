/* The home's side of moving a name to another home, row by row, while the name is in
 * use (docs/PROTOCOL.md 2.14). The other side is the mover, net/move.c, which has a
 * diagram of the steps.
 *
 * The mover compares the rows of the owner with those of the next home, and copies the
 * rows that differ. It does this first while updates arrive, then once more while the
 * owner holds back messages that would change the rows. The message HAND_OVER carries
 * the mark: a digest of the rows that the next home has. The owner compares this mark
 * with the mark of its own rows. If the marks are equal, one commit drops the owner's
 * rows and notes the next owner; otherwise nothing happens. So before the commit that
 * changes the owner, the next home has all rows. The rows include the keys of all
 * updates that were ever acknowledged. */
#include "home/home_internal.h"

enum { WAITING_MAX = 512, HOLD_MAX_MS = 10000, HOLDS_MAX = 64 };

typedef struct home_waiting {
    pl_peer peer;
    pl_message message;
    char name[PL_MODULE_NAME_MAX];
} home_waiting;

static void refs_of(const char *name, char out[2 * PL_MODULE_NAME_MAX])
{
    snprintf(out, 2 * PL_MODULE_NAME_MAX, MEET_REFS "%s/", name);
}

/* ---- listing names and rows ---- */
static pl_status list_row(void *context, const pl_row *row)
{
    PL_SAY_RECORD((pl_buf *)context, listed_row, .blob = row->digest,
                  .family = (uint64_t)row->family, .row_key = {row->key, row->key_len});
    return PL_OK;
}

/* Appends the digest of a row to the data whose hash is the mark. Rows come in a fixed
 * order, so homes with the same rows have the same mark. */
static pl_status mark_row(void *context, const pl_row *row)
{
    pl_buf_append(context, row->digest.bytes, sizeof row->digest.bytes);
    return PL_OK;
}

static pl_status list_name(void *context, const char *name)
{
    home *h = context;
    int whose = 0;
    if (!home_is_elsewhere(h, name, &whose))
        PL_SAY_RECORD(&h->moving.listing, listed_name, .name = name);
    return PL_OK;
}

static pl_status make_listing(home *h, const char *name)
{
    char refs[2 * PL_MODULE_NAME_MAX];
    pl_buf_clear(&h->moving.listing);
    refs_of(name, refs);
    if (name[0])
        return pl_store_each_row(h->store, name, refs, list_row, &h->moving.listing);
    home_tell_places(h, &h->moving.listing);
    return pl_store_each_name(h->store, list_name, h);
}

/* If the message has a name, lists the rows of this name. Otherwise lists this home's
 * notes about moved names, and the names that this home owns. The client reads the list
 * in pieces, like the hub reads the state (GET_STATE). */
pl_status home_list(home *h, pl_message *m, pl_message *a)
{
    pl_msg_list q;
    PL_CHECK(PL_HEAR(m, list, &q));
    if (q.offset == 0)
        PL_CHECK(make_listing(h, q.name ? q.name : ""));
    a->type = PL_MSG_LIST_IS;
    return home_put_piece(&h->moving.listing, "list", q.offset, a);
}

/* ---- answering with one row ---- */
typedef struct row_search {
    pl_msg_get_row question;
    pl_message *answer;
    bool found;
} row_search;

static pl_status put_blob_name(void *context, const pl_hash *blob)
{
    pl_put_hash(context, PL_TAG_BLOB, blob);
    return PL_OK;
}

static pl_status match_row(void *context, const pl_row *row)
{
    row_search *s = context;
    const pl_bytes key = s->question.row_key;
    if ((uint64_t)row->family != s->question.family || row->key_len != key.len ||
        memcmp(row->key, key.at, key.len) != 0)
        return PL_OK;
    if (row->value_len > PL_WIRE_DATA_MAX / 2)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "a record of %zu bytes is too long to be moved (at most %d bytes)",
            row->value_len, PL_WIRE_DATA_MAX / 2);
    s->found = true;
    pl_buf_append(&s->answer->data, row->value, row->value_len);
    return pl_row_each_blob(row, put_blob_name, &s->answer->body);
}

/* Answers with a row and with the hashes of the blobs that the row names. */
pl_status home_get_row(home *h, pl_message *m, pl_message *a)
{
    char refs[2 * PL_MODULE_NAME_MAX];
    row_search s = {.answer = a};
    PL_CHECK(PL_HEAR(m, get_row, &s.question));
    const char *name = s.question.name;
    refs_of(name, refs);
    PL_CHECK(pl_store_each_row(h->store, name, refs, match_row, &s));
    a->type = PL_MSG_ROW_IS;
    return s.found ? PL_OK
                   : pl_fail(PL_ERR_NOT_FOUND,
                             "the requested row of %s no longer exists", name);
}

/* ---- rows that arrive at the next home ---- */
static pl_status adopt_blob(void *context, const pl_hash *blob)
{
    home *h = context;
    return staging_find(&h->uploads, blob) ? home_adopt_blob(h, blob) : PL_OK;
}

static pl_status put_moved_row(home *h, const char *name, const uint8_t *record,
                               size_t len)
{
    pl_reader r;
    char refs[2 * PL_MODULE_NAME_MAX];
    pl_msg_row said;
    refs_of(name, refs);
    pl_reader_open(&r, "a row", record, len);
    pl_get_fields(&r, pl_fields_of_row(), &said);
    PL_CHECK(pl_reader_status(&r));
    pl_row row = {.family = (int)said.family,
                  .key = said.row_key.at,
                  .key_len = said.row_key.len,
                  .value = said.row.at,
                  .value_len = said.row.len};
    if (!row.value)
        return pl_txn_drop_row(h->txn, name, refs, &row);
    PL_CHECK(pl_row_each_blob(&row, adopt_blob, h));
    return pl_txn_put_row(h->txn, name, refs, &row);
}

/* Refuses rows of a name that this home owns, because no other process may replace
 * them. Also refuses rows that were sent before the name's last move. */
static pl_status check_arriving(home *h, const char *name, int64_t owner,
                                uint64_t stamp)
{
    const home_place *place = home_find_place(h, name);
    if (owner < 0 || owner >= PL_HOMES_MAX)
        return pl_fail(
            PL_ERR_PROTO,
            "a message names home number %lld, but no home can have this number",
            (long long)owner);
    if (place && place->home != HOME_HERE && place->stamp <= stamp)
        return PL_OK;
    if (!place && !pl_store_has_name(h->store, name))
        return PL_OK;
    return pl_fail(PL_ERR_STALE,
                   "%s already belongs to this home, or has moved again (its stamp "
                   "here is %llu), so rows with stamp %llu are refused",
                   name, (unsigned long long)(place ? place->stamp : 0),
                   (unsigned long long)stamp);
}

/* Writes rows that the mover sends to the next home. Also notes that the name still
 * belongs to its old owner. */
pl_status home_put_rows(home *h, pl_message *m, pl_message *a)
{
    pl_msg_put_rows q;
    pl_reader rows;
    pl_status status = PL_OK;
    PL_CHECK(PL_HEAR(m, put_rows, &q));
    PL_CHECK(check_arriving(h, q.name, q.home, q.stamp));
    /* if a row is refused, the transaction is aborted; so the changes of the group's
     * other messages are committed first */
    PL_CHECK(home_end_group(h));
    PL_TRY(home_note_place(h, q.name, (int)q.home, q.stamp));
    pl_reader_open(&rows, "rows", m->data.data, m->data.len);
    size_t n = pl_field_count(&rows, PL_TAG_RECORD);
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const uint8_t *record = pl_get_bytes(&rows, PL_TAG_RECORD, i, &len);
        PL_TRY(put_moved_row(h, q.name, record, len));
    }
    PL_TRY(pl_reader_status(&rows));
    PL_CHECK(home_end_group(h));
    a->type = PL_MSG_OK;
done:
    pl_txn_abort(&h->txn);
    return status;
}

/* ---- holding a name, and making the home still ---- */
static home_hold *find_hold(home_moving *m, const char *name)
{
    for (int i = 0; i < m->n_holds; i++)
        if (strcmp(m->holds[i].name, name) == 0)
            return &m->holds[i];
    return NULL;
}

static bool is_held(home_moving *m, const char *name)
{
    const home_hold *hold = find_hold(m, name);
    return hold && pl_now_ms() < hold->until_ms;
}

static bool changes(uint16_t type)
{
    return type == PL_MSG_SUBMIT || type == PL_MSG_SUBMIT_PATH || type == PL_MSG_MEET ||
           type == PL_MSG_PUT_OBJECT || type == PL_MSG_CREATE_MODULE;
}

bool home_is_still(const home *h)
{
    return h->moving.still_until_ms != 0 && pl_now_ms() < h->moving.still_until_ms;
}

static bool must_wait(home *h, uint16_t type, const char *name)
{
    if (home_is_still(h)) {
        /* messages of these types write to the store */
        return changes(type) || type == PL_MSG_HELLO || type == PL_MSG_PUT_REF ||
               type == PL_MSG_PUT_AUDIT || type == PL_MSG_FENCE_WORKER ||
               type == PL_MSG_PUT_ROWS || type == PL_MSG_HAND_OVER ||
               type == PL_MSG_ADOPT || type == PL_MSG_PUT_PLACES;
    }
    return name && h->moving.n_holds > 0 && changes(type) && is_held(&h->moving, name);
}

/* If too many messages wait already, drops the message; its sender repeats it. */
bool home_waits(home *h, const pl_peer *peer, const pl_message *m, const char *name)
{
    home_moving *moving = &h->moving;
    if (!must_wait(h, m->type, name))
        return false;
    if (moving->n_waiting == WAITING_MAX)
        return true;
    moving->waiting = pl_grow(moving->waiting, (size_t)(moving->n_waiting + 1) *
                                                   sizeof *moving->waiting);
    home_waiting *w = &moving->waiting[moving->n_waiting++];
    w->peer = *peer;
    pl_copy_text(w->name, sizeof w->name, name ? name : "");
    pl_message_init(&w->message, m->type);
    w->message.request = m->request;
    w->message.token = m->token;
    pl_buf_append(&w->message.body, m->body.data, m->body.len);
    pl_buf_append(&w->message.data, m->data.data, m->data.len);
    return true;
}

bool home_next_waiting(home *h, pl_peer *peer, pl_message *out)
{
    home_moving *m = &h->moving;
    for (int i = 0; i < m->n_waiting && !home_is_still(h); i++) {
        if (is_held(m, m->waiting[i].name))
            continue;
        *peer = m->waiting[i].peer;
        *out = m->waiting[i].message;
        m->n_waiting--;
        memmove(&m->waiting[i], &m->waiting[i + 1],
                (size_t)(m->n_waiting - i) * sizeof *m->waiting);
        return true;
    }
    return false;
}

/* Begins a hold of a name, and answers with the name's stamp. When the answer is sent,
 * all changes to the name that were accepted before the hold are on disk. */
pl_status home_hold_name(home *h, pl_message *message, pl_message *a)
{
    pl_msg_hold q;
    int whose = 0;
    home_moving *m = &h->moving;
    PL_CHECK(PL_HEAR(message, hold, &q));
    if (!q.name) {
        /* A hold without a name makes the home still for q.ttl_ms: it writes nothing.
         * The answer has the number of the home's newest commit. So a client can make
         * all homes still and read the whole job as it was at one moment. */
        uint64_t ms = q.ttl_ms;
        PL_CHECK(home_end_group(h));
        h->moving.still_until_ms =
            ms > 0 ? pl_now_ms() + (int64_t)(ms < HOLD_MAX_MS ? ms : HOLD_MAX_MS) : 0;
        PL_SAY(a, OK, ok_sequence, .sequence = pl_store_sequence(h->store));
        return PL_OK;
    }
    if (home_is_elsewhere(h, q.name, &whose)) {
        home_moved_answer(h, q.name, whose, a);
        return PL_OK;
    }
    int n = 0;
    for (int i = 0; i < m->n_holds; i++)
        if (pl_now_ms() < m->holds[i].until_ms)
            m->holds[n++] = m->holds[i];
    m->n_holds = n;
    home_hold *hold = find_hold(m, q.name);
    if (!hold && m->n_holds == HOLDS_MAX)
        return pl_fail(PL_ERR_BUSY,
                       "too many names are being moved at once: %d are held already; "
                       "try again later",
                       HOLDS_MAX);
    if (!hold) {
        m->holds = pl_grow(m->holds, (size_t)(m->n_holds + 1) * sizeof *m->holds);
        hold = &m->holds[m->n_holds++];
        pl_copy_text(hold->name, sizeof hold->name, q.name);
    }
    hold->until_ms =
        pl_now_ms() + (int64_t)(q.ttl_ms < HOLD_MAX_MS ? q.ttl_ms : HOLD_MAX_MS);
    const home_place *place = home_find_place(h, q.name);
    PL_SAY(a, OK, ok_stamp, .stamp = place ? place->stamp : 0);
    return PL_OK;
}

/* ---- the change of owners ---- */
static pl_status reload(home *h, const char *name)
{
    home_arm *arm = NULL;
    int index = 0;
    if (home_find_module(h, name, &arm, &index) == PL_OK)
        return home_reload_module(h, arm, index);
    if (home_find_path(h, name, &arm, &index) == PL_OK)
        return home_reload_path(h, arm, index);
    /* the name is that of an object; memory has no data about objects */
    return PL_OK;
}

static pl_status give_away(home *h, const char *name, int to, uint64_t stamp)
{
    char refs[2 * PL_MODULE_NAME_MAX];
    refs_of(name, refs);
    PL_CHECK(pl_failpoint("home.handover.before"));
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_drop_name(h->txn, name, refs));
    PL_CHECK(home_note_place(h, name, to, stamp));
    PL_CHECK(home_end_group(h));
    PL_CHECK(pl_failpoint("home.handover.after"));
    home_moving *m = &h->moving;
    home_hold *hold = find_hold(m, name);
    if (hold)
        *hold = m->holds[--m->n_holds];
    return reload(h, name);
}

/* Gives a name to another home. Only this function changes the owner of a name: after
 * the function's commit the name belongs to the next home. If the commit fails, the
 * home ends. Its next process reads from the store which home owns the name. */
pl_status home_hand_over(home *h, pl_message *m, pl_message *a)
{
    pl_msg_hand_over q;
    pl_hash mark;
    int whose = 0;
    PL_CHECK(PL_HEAR(m, hand_over, &q));
    const char *name = q.name;
    const home_place *place = home_find_place(h, name);
    uint64_t stamp = place ? place->stamp : 0;
    if (q.home < 0 || q.home >= PL_HOMES_MAX)
        return pl_fail(
            PL_ERR_PROTO,
            "a message names home number %lld, but no home can have this number",
            (long long)q.home);
    if (home_is_elsewhere(h, name, &whose)) {
        home_moved_answer(h, name, whose, a);
        return PL_OK;
    }
    /* the changes that this group has made so far are committed first */
    PL_CHECK(home_end_group(h));
    pl_buf digests = {0};
    char refs[2 * PL_MODULE_NAME_MAX];
    refs_of(name, refs);
    pl_status status = pl_store_each_row(h->store, name, refs, mark_row, &digests);
    pl_hash_of("mark", digests.data, digests.len, &mark);
    pl_buf_destroy(&digests);
    PL_CHECK(status);
    if (!pl_hash_equal(&mark, &q.blob))
        return pl_fail(PL_ERR_STALE,
                       "%s cannot change its owner now, because its rows changed after "
                       "they were copied; copy them again",
                       name);
    PL_CHECK(give_away(h, name, (int)q.home, stamp + 1));
    pl_log(PL_LOG_INFO, "name.given", "name=%s home=%lld stamp=%llu", name,
           (long long)q.home + 1, (unsigned long long)stamp + 1);
    PL_SAY(a, OK, ok_stamp, .stamp = stamp + 1);
    return PL_OK;
}

/* Makes this home the owner of a name. The sender is a mover or a hub that has read the
 * last owner's note; the note says that this home is the next owner. The message may
 * arrive several times. */
pl_status home_adopt_name(home *h, pl_message *m, pl_message *a)
{
    pl_msg_adopt q;
    PL_CHECK(PL_HEAR(m, adopt, &q));
    const home_place *place = home_find_place(h, q.name);
    a->type = PL_MSG_OK;
    if (place && place->stamp >= q.stamp)
        return PL_OK;
    if (!place || place->stamp + 1 != q.stamp)
        return pl_fail(PL_ERR_STALE,
                       "this home cannot become the owner of %s: no mover has sent it "
                       "rows of this name with stamp %llu",
                       q.name, (unsigned long long)q.stamp - 1);
    PL_CHECK(home_note_place(h, q.name, HOME_HERE, q.stamp));
    PL_CHECK(home_end_group(h));
    pl_log(PL_LOG_INFO, "name.taken", "name=%s stamp=%llu", q.name,
           (unsigned long long)q.stamp);
    return reload(h, q.name);
}

void home_free_moving(home *h)
{
    home_moving *m = &h->moving;
    for (int i = 0; i < m->n_waiting; i++)
        pl_message_destroy(&m->waiting[i].message);
    pl_free(m->waiting);
    pl_free(m->holds);
    pl_buf_destroy(&m->listing);
    home_unload_places(h);
}
