/* Moves names between homes. A name is that of a module, a path or an object. This file
 * is the client's side; home/home_moving.c and home/home_places.c are the homes' side.
 * docs/PROTOCOL.md 2.14 describes the messages.
 *
 * Purpose. When homes are added or drained, or get different weights, names must move
 * to other homes while workers continue to send updates. The process that moves names
 * (the mover) and the homes may be killed at any moment.
 *
 * One name goes from home A to home B (pl_move_name). The stamp of a name counts its
 * moves:
 *
 *   A owns the name, stamp s                       B has nothing, or an old copy
 *     |
 *     | HOLD for 0 ms: A answers with the stamp
 *     |  pass: LIST both; copy each row that         copies of rows and blobs, with the
 *     |  differs, with its blobs; drop what A        note "home A, stamp s"
 *     |  no longer has; up to 4 times
 *     |
 *   A holds the name: messages that would change it wait
 *     |  PUT_ROWS, possibly empty, then pass         the same rows as A
 *     |  until both lists are equal
 *     |  HAND_OVER with the mark (hash) of all rows
 *     v
 *   A compares the mark with its own rows, and in one commit drops the rows and notes
 *   "home B, stamp s + 1". The commit of A decides. If the mark differs, nothing
 *   happens.
 *     |
 *     |  ADOPT with stamp s + 1                      "here, stamp s + 1": B owns it
 *
 * If the hold ends too early, or the rows changed, finish_move() tries again with a
 * longer hold, at most 6 times and 10 s each.
 *
 * If the mover is killed
 *   - before the commit of A: A still owns the name. The next mover compares the rows
 *     again and copies only the rest;
 *   - after the commit of A: B has every row but does not know that it owns the name.
 *     The hub compares the notes of all homes once per second and sends ADOPT;
 *     pl_client_settle_places does the same.
 *
 * A whole placement (pl_move_to) is changed in this order:
 *   1. every home gets the new table as `next`, which determines the homes of new
 *      names;
 *   2. names that are not in the home that the table says are moved, home after home,
 *      until a pass over all homes moves no name;
 *   3. every home gets the table for clients, home 1 last. So when home 1 has the
 *      table, all homes have it, and the old table in home 1 shows that a change was
 *      interrupted.
 *
 * Invariants
 *   - At every moment exactly one home owns a name. If there are several notes, the one
 *     with the highest stamp is valid, and only a commit of the owner raises the stamp.
 *   - B adopts a name only if it got rows with exactly this stamp. Rows from an earlier
 *     move are not enough. This is why PUT_ROWS is sent even if no row differs.
 *   - Both lists come in the same order (family, key), so one pass over both finds all
 *     differences.
 *
 * Ownership. A struct mover belongs to one call. It borrows the client and the name,
 * and owns the buffer of rows that were not sent yet. Definitions of arms ("arm/...")
 * are stored in every home and never move. */
#include "net/move.h"
#include "outer/outer.h"
#include "net/client_internal.h"

enum {
    ROWS_BYTES = 512 << 10, /* approximate size of one PUT_ROWS in bytes */
    ROW_ROOM = 1024,        /* most bytes that a record needs in addition to its row */
    /* limit for the bytes of blobs that are uploaded before rows that name them are
     * sent */
    BLOBS_BYTES = 64 << 20,
    FREE_PASSES = 4, /* number of passes during which updates may arrive */
    HELD_TRIES = 6,  /* number of tries during which updates wait */
    HOLD_MS = 500,
    HOLD_MAX_MS = 10000
};

typedef struct mover {
    pl_client *c;
    const char *name;
    int from, to;
    uint64_t stamp; /* stamp of the current owner */
    pl_move_report *report;
    pl_buf rows; /* rows for the next PUT_ROWS */
    uint64_t staged_bytes;
} mover;

/* ---- questions to one home ---- */
static pl_status ask(mover *m, int home, pl_message *q, pl_message *a)
{
    return client_ask(m->c, m->c->sockets[home], q, a);
}

static pl_status read_row_list(pl_client *c, int home, const char *name, pl_buf *out)
{
    pl_status status = PL_OK;
    pl_message q, a;
    uint64_t total = 1;
    pl_buf_clear(out);
    pl_message_init(&q, 0);
    pl_message_init(&a, 0);
    while (out->len < total) {
        pl_msg_piece is;
        pl_buf_clear(&q.body);
        PL_SAY(&q, LIST, list, .name = name, .offset = out->len);
        PL_TRY(client_ask(c, c->sockets[home], &q, &a));
        PL_TRY(PL_HEAR(&a, piece, &is));
        total = is.total;
        if (a.data.len == 0 && total > out->len)
            PL_TRY(pl_fail(PL_ERR_PROTO,
                           "home %d sent an empty piece before the end of its list",
                           home + 1));
        pl_buf_append(out, a.data.data, a.data.len);
    }
done:
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* ---- lists of rows ---- */
typedef struct row_list {
    pl_buf bytes;
    pl_reader reader;
    size_t n, at;
} row_list;

static pl_status open_list(mover *m, int home, row_list *out)
{
    PL_CHECK(read_row_list(m->c, home, m->name, &out->bytes));
    pl_reader_open(&out->reader, "a list of rows", out->bytes.data, out->bytes.len);
    out->n = pl_field_count(&out->reader, PL_TAG_RECORD);
    out->at = 0;
    return pl_reader_status(&out->reader);
}

/* Reads the next row without moving past it. *there is false after the last row. */
static pl_status peek_row(row_list *l, pl_msg_listed_row *out, bool *there)
{
    pl_reader r;
    *there = l->at < l->n;
    if (!*there)
        return PL_OK;
    pl_reader_enter(&r, "a listed row", &l->reader, PL_TAG_RECORD, l->at);
    pl_get_fields(&r, pl_fields_of_listed_row(), out);
    return pl_reader_status(&r);
}

static int compare_rows(const pl_msg_listed_row *a, const pl_msg_listed_row *b)
{
    size_t a_len = a->row_key.len, b_len = b->row_key.len;
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    int order = memcmp(a->row_key.at, b->row_key.at, a_len < b_len ? a_len : b_len);
    if (order != 0)
        return order;
    return (a_len > b_len) - (a_len < b_len);
}

/* Computes the mark of all rows (a hash). The home computes the mark of its rows in the
 * same way. */
static pl_status mark_rows(row_list *l, pl_hash *out)
{
    pl_buf digests = {0};
    pl_msg_listed_row row;
    bool there = true;
    pl_status status = PL_OK;
    for (l->at = 0; status == PL_OK && there; l->at++) {
        status = peek_row(l, &row, &there);
        if (status == PL_OK && there)
            pl_buf_append(&digests, row.blob.bytes, sizeof row.blob.bytes);
    }
    pl_hash_of("mark", digests.data, digests.len, out);
    pl_buf_destroy(&digests);
    return status;
}

/* ---- copying rows ---- */
/* Sends the gathered rows. The message is sent even without rows, because from it the
 * new home learns which home owns the name, and with which stamp. */
static pl_status put_rows(mover *m)
{
    pl_message q = {0};
    PL_SAY(&q, PUT_ROWS, put_rows, .name = m->name, .home = m->from, .stamp = m->stamp);
    pl_buf_append(&q.data, m->rows.data, m->rows.len);
    pl_buf_clear(&m->rows);
    m->staged_bytes = 0;
    return client_query(m->c, m->to, NULL, &q, NULL, NULL);
}

static pl_status flush(mover *m)
{
    return m->rows.len > 0 ? put_rows(m) : PL_OK;
}

static pl_status carry_blob(mover *m, const pl_hash *blob)
{
    pl_buf bytes = {0};
    pl_status status = client_get_blob(m->c, m->from, m->name, blob, &bytes);
    if (status == PL_OK)
        status = client_put_known_blob(m->c, m->to, bytes.data, bytes.len, blob, false);
    if (status == PL_OK) {
        m->staged_bytes += bytes.len;
        m->report->bytes += bytes.len;
        m->report->n_blobs++;
    }
    pl_buf_destroy(&bytes);
    return status;
}

static void put_record(mover *m, const pl_msg_listed_row *row, const pl_buf *value)
{
    PL_SAY_RECORD(&m->rows, row, .family = row->family, .row_key = row->row_key,
                  .row = {value ? value->data : NULL, value ? value->len : 0});
    m->report->n_rows++;
}

/* Copies a row to the new home. A version whose parameters garbage collection removed
 * is sent in one message with a later version, because after each message the newest
 * version at the home must have its parameters. */
static pl_status carry_row(mover *m, const pl_msg_listed_row *row)
{
    pl_status status = PL_OK;
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, 0);
    pl_message_init(&a, 0);
    PL_SAY(&q, GET_ROW, get_row, .name = m->name, .family = row->family,
           .row_key = row->row_key);
    PL_TRY(ask(m, m->from, &q, &a));
    if (m->rows.len + a.data.len > PL_WIRE_DATA_MAX - ROW_ROOM)
        PL_TRY(flush(m));
    pl_reader_open(&r, "ROW_IS", a.body.data, a.body.len);
    size_t n = pl_field_count(&r, PL_TAG_BLOB);
    for (size_t i = 0; i < n; i++) {
        pl_hash blob = pl_get_hash(&r, PL_TAG_BLOB, i);
        PL_TRY(carry_blob(m, &blob));
    }
    PL_TRY(pl_reader_status(&r));
    put_record(m, row, &a.data);
    if (n > 0 && (m->rows.len > ROWS_BYTES || m->staged_bytes > BLOBS_BYTES))
        PL_TRY(flush(m));
done:
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* Copies the rows in which two lists differ; both lists are in the same order. */
static pl_status carry_differences(mover *m, row_list *ours, row_list *theirs,
                                   bool *same)
{
    pl_msg_listed_row a, b;
    bool has_a = true, has_b = true;
    *same = true;
    for (;;) {
        PL_CHECK(peek_row(ours, &a, &has_a));
        PL_CHECK(peek_row(theirs, &b, &has_b));
        if (!has_a && !has_b)
            return flush(m);
        int order = !has_a ? 1 : !has_b ? -1 : compare_rows(&a, &b);
        bool equal = order == 0 && pl_hash_equal(&a.blob, &b.blob);
        ours->at += order <= 0;
        theirs->at += order >= 0;
        *same = *same && equal;
        if (order > 0)
            put_record(m, &b, NULL);
        else if (!equal)
            PL_CHECK(carry_row(m, &a));
    }
}

/* Compares the rows of both homes once and copies the differences. If a row is deleted
 * meanwhile (because its update was merged), the pass ends early, and the next pass
 * finds the difference. */
static pl_status carry_pass(mover *m, bool *same, pl_hash *mark)
{
    row_list ours = {0}, theirs = {0};
    pl_status status = PL_OK;
    PL_TRY(open_list(m, m->from, &ours));
    PL_TRY(open_list(m, m->to, &theirs));
    status = carry_differences(m, &ours, &theirs, same);
    if (status == PL_ERR_NOT_FOUND) {
        pl_buf_clear(&m->rows);
        *same = false;
        status = PL_OK;
    }
    if (status == PL_OK)
        status = mark_rows(&ours, mark);
done:
    pl_buf_destroy(&ours.bytes);
    pl_buf_destroy(&theirs.bytes);
    return status;
}

/* ---- the change of the owner ---- */
static pl_status adopt(mover *m, uint64_t stamp)
{
    pl_message q = {0};
    PL_SAY(&q, ADOPT, adopt, .name = m->name, .stamp = stamp);
    return client_query(m->c, m->to, NULL, &q, NULL, NULL);
}

/* Sends HOLD or HAND_OVER and reads the owner's answer: the stamp of the name, or that
 * the name has moved. In the second case *gone is set, and it is an error if the name
 * moved to a different home than `to`. Frees the question. */
static pl_status ask_owner(mover *m, pl_message *q, bool *gone)
{
    pl_message a;
    pl_msg_moved moved = {.home = m->to};
    pl_msg_ok_stamp ok = {0};
    pl_message_init(&a, 0);
    pl_status status = ask(m, m->from, q, &a);
    *gone = a.type == PL_MSG_MOVED;
    if (status == PL_OK)
        status = *gone ? PL_HEAR(&a, moved, &moved) : PL_HEAR(&a, ok_stamp, &ok);
    m->stamp = *gone ? moved.stamp : ok.stamp;
    if (status == PL_OK && moved.home != m->to)
        status = pl_fail(PL_ERR_STALE,
                         "%s is no longer in home %d: it was moved to home %lld",
                         m->name, m->from + 1, (long long)moved.home + 1);
    pl_message_destroy(q);
    pl_message_destroy(&a);
    return status;
}

static pl_status hold(mover *m, int64_t ms, bool *gone)
{
    pl_message q = {0};
    PL_SAY(&q, HOLD, hold, .name = m->name, .ttl_ms = (uint64_t)ms);
    return ask_owner(m, &q, gone);
}

/* Hands the name over. If the answer is lost and the question is repeated, the home
 * answers that the name has moved. */
static pl_status hand_over(mover *m, const pl_hash *mark)
{
    pl_message q = {0};
    bool gone = false;
    PL_SAY(&q, HAND_OVER, hand_over, .name = m->name, .blob = *mark, .home = m->to);
    return ask_owner(m, &q, &gone);
}

/* Finishes a move while the name is held. Each further try holds the name longer: twice
 * as long as the last hold, or 4 times as long as the last try took if that is more,
 * but at most HOLD_MAX_MS. The new home adopts the name only if its note has exactly
 * this stamp; rows from an earlier move have a different stamp. */
static pl_status finish_move(mover *m)
{
    int64_t wait_ms = HOLD_MS;
    bool gone = false, same = false;
    pl_hash mark;
    for (int i = 0; i < HELD_TRIES; i++) {
        int64_t begun = pl_now_ms();
        PL_CHECK(hold(m, wait_ms, &gone));
        pl_status status = gone ? PL_OK : PL_ERR_STALE;
        if (!gone)
            PL_CHECK(put_rows(m));
        for (int k = 0; k < 2 && !gone && !same; k++)
            PL_CHECK(carry_pass(m, &same, &mark));
        if (!gone && same)
            status = hand_over(m, &mark);
        int64_t took = pl_now_ms() - begun;
        if (took > m->report->longest_hold_ms)
            m->report->longest_hold_ms = took;
        if (status != PL_ERR_STALE)
            return status == PL_OK ? adopt(m, m->stamp) : status;
        same = false;
        wait_ms = 4 * took > 2 * wait_ms ? 4 * took : 2 * wait_ms;
        if (wait_ms > HOLD_MAX_MS)
            wait_ms = HOLD_MAX_MS;
    }
    return pl_fail(PL_ERR_BUSY,
                   "%s changed faster than it could be copied from home %d to home %d "
                   "(%d tries); try again, or move it while the job is stopped",
                   m->name, m->from + 1, m->to + 1, HELD_TRIES);
}

static pl_status check_homes(const pl_client *c, int from, int to)
{
    for (int i = 0; i < 2; i++) {
        int home = i == 0 ? from : to;
        if (home < 0 || home >= c->n_homes || !c->sockets[home])
            return pl_fail(PL_ERR_ARG, "there is no home %d; the job has %d", home + 1,
                           c->n_homes);
    }
    return PL_OK;
}

pl_status pl_move_name(pl_client *c, const char *name, int from, int to,
                       pl_move_report *report)
{
    pl_status status = PL_OK;
    bool same = false, gone = false;
    pl_hash mark;
    mover m = {.c = c, .name = name, .from = from, .to = to, .report = report};
    PL_CHECK(check_homes(c, from, to));
    if (from == to)
        return PL_OK;
    PL_TRY(hold(&m, 0, &gone)); /* a hold of 0 ms returns the stamp */
    if (gone) {
        PL_TRY(adopt(&m, m.stamp));
        goto done;
    }
    for (int i = 0; i < FREE_PASSES && !same; i++)
        PL_TRY(carry_pass(&m, &same, &mark));
    PL_TRY(finish_move(&m));
    report->n_names++;
done:
    pl_buf_destroy(&m.rows);
    return status;
}

/* ---- names and tables ---- */
pl_status pl_client_each_name(pl_client *c, int home, pl_name_fn fn, void *context)
{
    pl_status status = PL_OK;
    pl_buf list = {0};
    pl_reader all;
    PL_CHECK(check_homes(c, home, home));
    PL_TRY(read_row_list(c, home, NULL, &list));
    pl_reader_open(&all, "a list of names", list.data, list.len);
    size_t n = pl_field_count(&all, PL_TAG_RECORD);
    for (size_t i = 0; i < n; i++) {
        char name[PL_MODULE_NAME_MAX];
        pl_reader r;
        pl_reader_enter(&r, "a name", &all, PL_TAG_RECORD, i);
        if (pl_field_count(&r, PL_TAG_NAME) == 0 || pl_field_count(&r, PL_TAG_HOME) > 0)
            continue; /* a table, or a note about a name; neither can be moved */
        pl_get_text(&r, PL_TAG_NAME, 0, name, sizeof name);
        PL_TRY(pl_reader_status(&r));
        PL_TRY(fn(context, name));
    }
    PL_TRY(pl_reader_status(&all));
done:
    pl_buf_destroy(&list);
    return status;
}

static pl_status read_table(pl_reader *r, size_t i, pl_places *out)
{
    char text[PL_PLACES_TEXT];
    *out = (pl_places){0};
    pl_get_text(r, PL_TAG_TEXT, i, text, sizeof text);
    PL_CHECK(pl_reader_status(r));
    return text[0] ? pl_places_parse(text, out) : PL_OK;
}

pl_status pl_client_get_places(pl_client *c, pl_places *table, pl_places *next)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, PL_MSG_GET_PLACES);
    pl_message_init(&a, 0);
    pl_status status = client_ask(c, c->sockets[0], &q, &a);
    pl_reader_open(&r, "PLACES_ARE", a.body.data, a.body.len);
    if (status == PL_OK)
        status = read_table(&r, 0, table);
    if (status == PL_OK)
        status = read_table(&r, 1, next);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status pl_client_learn_places(pl_client *c)
{
    pl_places table, next;
    PL_CHECK(pl_client_get_places(c, &table, &next));
    if (table.n > 0 && table.n <= c->n_homes)
        c->places = table;
    return PL_OK;
}

/* Adds a home. The new home gets no names until a table gives it a weight. */
pl_status pl_client_add_home(pl_client *c, const char *address)
{
    if (c->n_homes == PL_HOMES_MAX)
        return pl_fail(PL_ERR_ARG, "a job has at most %d homes", PL_HOMES_MAX);
    if (!c->sockets[c->n_homes])
        PL_CHECK(pl_wire_connect_as(address, c->keys, &c->sockets[c->n_homes]));
    c->n_homes++;
    return PL_OK;
}

static pl_status put_table(pl_client *c, int home, const pl_places *places, bool next)
{
    pl_message q = {0};
    char text[PL_PLACES_TEXT];
    pl_places_format(places, text);
    PL_SAY(&q, PUT_PLACES, put_places, .table = text, .home = home, .next = next);
    return client_query(c, home, NULL, &q, NULL, NULL);
}

/* ---- names whose move was interrupted ---- */
typedef struct known_place {
    char name[PL_MODULE_NAME_MAX];
    int home;
    uint64_t stamp;
} known_place;

typedef struct knowledge {
    pl_name_table *index;
    known_place *best;
    size_t n;
} knowledge;

/* Remembers a note about a name. If there are two notes about a name, the one with the
 * higher stamp is valid. */
static void note_place(knowledge *k, const known_place *place)
{
    int at = pl_name_table_get(k->index, place->name);
    if (at < 0) {
        at = (int)k->n++;
        k->best = pl_grow(k->best, k->n * sizeof *k->best);
        pl_name_table_put(k->index, place->name, at);
    } else if (place->stamp <= k->best[at].stamp) {
        return;
    }
    k->best[at] = *place;
}

/* Reads a home's notes about names that moved. Without `tell`, collects in `k` the
 * newest note about each name. With `tell`, sends ADOPT to this home for each name that
 * the home owns according to a note in `k` that is newer than its own. */
static pl_status read_places(pl_client *c, int home, knowledge *k, bool tell)
{
    pl_status status = PL_OK;
    pl_buf list = {0};
    pl_reader all;
    PL_TRY(read_row_list(c, home, NULL, &list));
    pl_reader_open(&all, "a list of names", list.data, list.len);
    size_t n = pl_field_count(&all, PL_TAG_RECORD);
    for (size_t i = 0; i < n; i++) {
        pl_reader r;
        known_place place;
        pl_reader_enter(&r, "a place", &all, PL_TAG_RECORD, i);
        if (pl_field_count(&r, PL_TAG_HOME) == 0)
            continue;
        pl_get_text(&r, PL_TAG_NAME, 0, place.name, sizeof place.name);
        place.home = (int)(int64_t)pl_get_u64(&r, PL_TAG_HOME, 0);
        place.stamp = pl_get_u64(&r, PL_TAG_STAMP, 0);
        PL_TRY(pl_reader_status(&r));
        if (place.home < 0)
            place.home = home;
        if (tell) {
            int at = pl_name_table_get(k->index, place.name);
            if (at >= 0 && k->best[at].home == home &&
                k->best[at].stamp > place.stamp) {
                mover m = {.c = c, .name = place.name, .to = home};
                PL_TRY(adopt(&m, k->best[at].stamp));
            }
        } else
            note_place(k, &place);
    }
    PL_TRY(pl_reader_status(&all));
done:
    pl_buf_destroy(&list);
    return status;
}

pl_status pl_client_settle_places(pl_client *c)
{
    pl_status status = PL_OK;
    knowledge k = {.index = pl_name_table_create()};
    for (int i = 0; status == PL_OK && i < 2 * c->n_homes; i++)
        status = read_places(c, i % c->n_homes, &k, i >= c->n_homes);
    pl_name_table_destroy(&k.index);
    pl_free(k.best);
    return status;
}

/* ---- a new placement ---- */
typedef struct resettling {
    pl_client *c;
    const pl_places *fresh;
    int from;
    char (*names)[PL_MODULE_NAME_MAX]; /* the names that move away from home `from` */
    int *to;
    size_t n;
} resettling;

/* Collects a name if it must be moved. Objects with the state before an audited task
 * are left out: they stay in the home that has the row of the audit, and that row does
 * not move. */
static pl_status gather_name(void *context, const char *name)
{
    resettling *s = context;
    int to = pl_places_home(s->fresh, name);
    if (to == s->from || pl_starts_with(name, "arm/") ||
        pl_starts_with(name, PL_AUDIT_REFS))
        return PL_OK;
    s->names = pl_grow(s->names, (s->n + 1) * sizeof *s->names);
    s->to = pl_grow(s->to, (s->n + 1) * sizeof *s->to);
    pl_copy_text(s->names[s->n], sizeof *s->names, name);
    s->to[s->n++] = to;
    return PL_OK;
}

/* Gives the definition of an arm to every home; home 1 always has it. */
static pl_status bring_arm(void *context, const char *name)
{
    mover m = {.c = context, .name = name};
    pl_buf bytes = {0};
    pl_message q = {0};
    pl_msg_object_is is;
    pl_status status = PL_OK;
    if (!pl_starts_with(name, "arm/"))
        return PL_OK;
    PL_SAY(&q, GET_OBJECT, get_object, .name = name);
    PL_TRY(client_query(m.c, 0, NULL, &q, pl_fields_of_object_is(), &is));
    PL_TRY(client_get_blob(m.c, m.from, name, &is.blob, &bytes));
    PL_TRY(pl_client_put_object(m.c, name, bytes.data, bytes.len, &is.blob));
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status empty_out(resettling *s, int home, pl_moved_fn said, void *context,
                           pl_move_report *report)
{
    pl_status status = PL_OK;
    s->from = home;
    s->n = 0;
    PL_CHECK(pl_client_each_name(s->c, home, gather_name, s));
    for (size_t i = 0; status == PL_OK && i < s->n; i++) {
        status = pl_move_name(s->c, s->names[i], home, s->to[i], report);
        if (status == PL_OK && said)
            said(context, s->names[i], home, s->to[i]);
    }
    return status;
}

/* Writes a table to all homes. The table for clients is written to home 1 last. So when
 * home 1 has the table, all homes have it, and the old table in home 1 shows that a
 * change was interrupted. */
static pl_status put_everywhere(pl_client *c, const pl_places *places, bool next)
{
    for (int i = 0; i < places->n; i++)
        PL_CHECK(put_table(c, next ? i : places->n - 1 - i, places, next));
    return PL_OK;
}

int pl_client_n_homes(const pl_client *c)
{
    return c->n_homes;
}

/* Reads a table from a ref. The text of the ref is "SELF TABLE": the number of the
 * home, then the table. */
pl_status pl_places_of_store(pl_store *first, bool next, pl_places *out)
{
    pl_buf text = {0};
    *out = (pl_places){0};
    pl_status status =
        pl_store_get_ref(first, next ? PLACES_NEXT_REF : PLACES_REF, &text);
    const char *blank = status == PL_OK ? strchr(pl_buf_text(&text), ' ') : NULL;
    if (status == PL_OK)
        status = pl_places_parse(blank ? blank + 1 : "", out);
    pl_buf_destroy(&text);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_status pl_client_begin_places(pl_client *c, int n)
{
    pl_places table, next;
    PL_CHECK(pl_client_get_places(c, &table, &next));
    if (table.n > 0)
        return PL_OK;
    pl_places_equal(&table, n);
    table.epoch = 1;
    PL_CHECK(put_everywhere(c, &table, true));
    PL_CHECK(put_everywhere(c, &table, false));
    c->places = table;
    return PL_OK;
}

pl_status pl_move_to(pl_client *c, pl_places *fresh, pl_moved_fn said, void *context,
                     pl_move_report *report)
{
    pl_places table, next;
    pl_status status = PL_OK;
    resettling s = {.c = c, .fresh = fresh};
    if (fresh->n != c->n_homes)
        return pl_fail(PL_ERR_ARG,
                       "the table has %d weights, but the job has %d homes; give one "
                       "weight per home",
                       fresh->n, c->n_homes);
    PL_TRY(pl_client_settle_places(c));
    PL_TRY(pl_client_get_places(c, &table, &next));
    fresh->epoch = (next.epoch > table.epoch ? next.epoch : table.epoch) + 1;
    PL_TRY(pl_client_each_name(c, 0, bring_arm, c));
    PL_TRY(put_everywhere(c, fresh, true));
    /* Repeats until a pass over all homes finds no misplaced name. All homes use the
     * new table for new names already, so the number of misplaced names can only
     * fall. */
    uint64_t before;
    do {
        before = report->n_names;
        for (int home = 0; home < s.fresh->n; home++)
            PL_TRY(empty_out(&s, home, said, context, report));
    } while (report->n_names > before);
    PL_TRY(put_everywhere(c, fresh, false));
    c->places = *fresh;
done:
    pl_free(s.names);
    pl_free(s.to);
    return status;
}
