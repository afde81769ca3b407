/* Decides which names belong to this home. Names can move between homes
 * (docs/PROTOCOL.md 2.14).
 *
 * Every home that took part in moving a name has a row (the ref "at/NAME") about the
 * name. The row "J STAMP" says that home J has owned the name since the name's STAMP-th
 * move. The row "here STAMP" says that this home is the owner. The stamp rises only in
 * the commit by which the owner gives the name away. So if homes have different rows
 * about a name, the row with the highest stamp is right. Clients ask the home that the
 * table names. If that home does not own the name, it answers with the number of the
 * owner. */
#include "home/home_internal.h"

static const char HERE[] = "here";

const home_place *home_find_place(const home *h, const char *name)
{
    int at = h->moving.index ? pl_name_table_get(h->moving.index, name) : -1;
    return at < 0 ? NULL : &h->moving.places[at];
}

static void remember(home_moving *m, const home_place *place)
{
    int at = pl_name_table_get(m->index, place->name);
    if (at < 0) {
        if (m->n_places == m->cap_places) {
            m->cap_places = m->cap_places ? 2 * m->cap_places : 16;
            m->places = pl_grow(m->places, (size_t)m->cap_places * sizeof *m->places);
        }
        at = m->n_places++;
        pl_name_table_put(m->index, place->name, at);
    }
    m->places[at] = *place;
}

pl_status home_note_place(home *h, const char *name, int number, uint64_t stamp)
{
    char ref[PL_MODULE_NAME_MAX + 8], target[48];
    home_place place = {.home = number, .stamp = stamp};
    pl_copy_text(place.name, sizeof place.name, name);
    snprintf(ref, sizeof ref, PLACE_REFS "%s", name);
    if (number == HOME_HERE)
        snprintf(target, sizeof target, "%s %llu", HERE, (unsigned long long)stamp);
    else
        snprintf(target, sizeof target, "%d %llu", number, (unsigned long long)stamp);
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_put_ref(h->txn, ref, target));
    remember(&h->moving, &place);
    return PL_OK;
}

/* ---- reading rows and tables from the store ---- */
static pl_status load_place(void *context, const char *name, const char *target)
{
    home *h = context;
    char copy[48];
    int64_t number = HOME_HERE, stamp = 0;
    home_place place;
    pl_copy_text(copy, sizeof copy, target);
    pl_copy_text(place.name, sizeof place.name, name + strlen(PLACE_REFS));
    char *blank = strchr(copy, ' ');
    if (blank)
        *blank = '\0';
    bool here = strcmp(copy, HERE) == 0;
    if (!blank || pl_parse_int(blank + 1, &stamp) != PL_OK || stamp < 0 ||
        (!here && (pl_parse_int(copy, &number) != PL_OK || number < 0 ||
                   number >= PL_HOMES_MAX)))
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: `%s` must be the number of a home (or "
                       "`here`) and a stamp",
                       name, target);
    place.home = here ? HOME_HERE : (int)number;
    place.stamp = (uint64_t)stamp;
    remember(&h->moving, &place);
    return PL_OK;
}

/* The target is "SELF TABLE": this home's number and the table as text. */
static pl_status load_table(void *context, const char *name, const char *target)
{
    home *h = context;
    char number[16];
    int64_t self = 0;
    size_t len = strcspn(target, " ");
    bool next = strcmp(name, PLACES_NEXT_REF) == 0;
    if (!next && strcmp(name, PLACES_REF) != 0)
        return PL_OK;
    snprintf(number, sizeof number, "%.*s", len < sizeof number ? (int)len : 0, target);
    if (!target[len] || pl_parse_int(number, &self) != PL_OK || self < 0)
        return pl_fail(
            PL_ERR_DAMAGED,
            "ref %s is damaged: `%s` is not the number of a home and a table of homes",
            name, target);
    h->moving.self = (int)self;
    return pl_places_parse(target + len + 1, next ? &h->moving.next : &h->moving.table);
}

pl_status home_load_places(home *h)
{
    h->moving.index = pl_name_table_create();
    PL_CHECK(pl_store_each_ref(h->store, PLACE_REFS, load_place, h));
    return pl_store_each_ref(h->store, PLACES_REF, load_table, h);
}

void home_unload_places(home *h)
{
    pl_name_table_destroy(&h->moving.index);
    pl_free(h->moving.places);
    h->moving.places = NULL;
    h->moving.n_places = 0;
}

/* ---- owners of names ---- */
/* Returns true for definitions of arms, which every home has, and for refs below sys/,
 * of which each home has its own. */
static bool is_everywhere(const char *name)
{
    return pl_starts_with(name, "arm/") || pl_starts_with(name, "sys/");
}

/* If there is a row about the name, it says which home owns the name. Otherwise this
 * home owns the name if its store has it, and the table `next` chooses the owner of a
 * name that this store does not have. */
bool home_is_elsewhere(home *h, const char *name, int *whose)
{
    const home_place *place = home_find_place(h, name);
    *whose = h->moving.self;
    if (place) {
        *whose = place->home;
        return place->home != HOME_HERE;
    }
    if (h->moving.next.n == 0 || is_everywhere(name))
        return false;
    *whose = pl_places_home(&h->moving.next, name);
    return *whose != h->moving.self && !pl_store_has_name(h->store, name);
}

bool home_name_of(const pl_message *m, char out[PL_MODULE_NAME_MAX])
{
    static const uint16_t named[] = {
        PL_MSG_SUBMIT_PATH,   PL_MSG_PUT_OBJECT,  PL_MSG_GET_OBJECT,
        PL_MSG_CREATE_MODULE, PL_MSG_GET_VERSION, PL_MSG_GET_PATH,
        PL_MSG_GET_UPDATE,    PL_MSG_MEET,        PL_MSG_PUT_REF};
    uint16_t tag = m->type == PL_MSG_SUBMIT ? PL_TAG_MODULE : 0;
    pl_reader r;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (m->type == named[i])
            tag = PL_TAG_NAME;
    if (tag == 0)
        return false;
    pl_reader_open(&r, "a name", m->body.data, m->body.len);
    if (pl_field_count(&r, tag) == 0)
        return false;
    pl_get_text(&r, tag, 0, out, PL_MODULE_NAME_MAX);
    /* if the message is malformed, its handler reports that */
    return pl_reader_status(&r) == PL_OK;
}

void home_moved_answer(home *h, const char *name, int whose, pl_message *answer)
{
    const home_place *place = home_find_place(h, name);
    const char *address = h->moving.addresses[whose];
    pl_buf_clear(&answer->body);
    pl_buf_clear(&answer->data);
    PL_SAY(answer, MOVED, moved, .name = name, .address = address[0] ? address : NULL,
           .home = whose, .stamp = place ? place->stamp : 0);
}

/* ---- the tables of homes ---- */
pl_status home_put_places(home *h, pl_message *m, pl_message *answer)
{
    char target[PL_PLACES_TEXT + 24];
    pl_msg_put_places q;
    pl_places fresh;
    PL_CHECK(PL_HEAR(m, put_places, &q));
    pl_places *table = q.next ? &h->moving.next : &h->moving.table;
    PL_CHECK(pl_places_parse(q.table, &fresh));
    int64_t self = q.home;
    if (self < 0 || self >= fresh.n)
        return pl_fail(PL_ERR_DATA,
                       "a message gives this home the number %lld, but its table has "
                       "the numbers 0 to %d",
                       (long long)self, fresh.n - 1);
    if (h->moving.next.n > 0 && self != h->moving.self)
        return pl_fail(PL_ERR_DATA,
                       "this is home %d, but the table calls it home %lld; list the "
                       "homes in their order",
                       h->moving.self + 1, (long long)self + 1);
    if (fresh.epoch < table->epoch)
        return pl_fail(PL_ERR_STALE,
                       "a table of homes with number %llu is refused: this home has a "
                       "newer one, number %llu",
                       (unsigned long long)fresh.epoch,
                       (unsigned long long)table->epoch);
    snprintf(target, sizeof target, "%lld %s", (long long)q.home, q.table);
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_put_ref(h->txn, q.next ? PLACES_NEXT_REF : PLACES_REF, target));
    *table = fresh;
    h->moving.self = (int)q.home;
    answer->type = PL_MSG_OK;
    return PL_OK;
}

static void format_table(const pl_places *table, char out[PL_PLACES_TEXT])
{
    out[0] = '\0';
    if (table->n > 0)
        pl_places_format(table, out);
}

/* Answers with two tables as text: the one that clients use, and the one for new
 * names. */
pl_status home_get_places(home *h, pl_message *answer)
{
    char tables[2][PL_PLACES_TEXT];
    format_table(&h->moving.table, tables[0]);
    format_table(&h->moving.next, tables[1]);
    PL_SAY(answer, PLACES_ARE, places_are, .table = PL_ITEMS(tables, 2));
    return PL_OK;
}

pl_status home_note_addresses(home *h, const pl_message *get_state)
{
    pl_reader r;
    pl_reader_open(&r, "get_state", get_state->body.data, get_state->body.len);
    size_t n = pl_field_count(&r, PL_TAG_ADDRESS);
    for (size_t i = 0; i < n && i < PL_HOMES_MAX; i++)
        pl_get_text(&r, PL_TAG_ADDRESS, i, h->moving.addresses[i], PL_ADDRESS_MAX);
    return pl_reader_status(&r);
}

/* ---- reports to the hub ---- */
void home_tell_places(home *h, pl_buf *state)
{
    char text[PL_PLACES_TEXT];
    format_table(&h->moving.table, text);
    if (h->moving.table.n > 0)
        PL_SAY_RECORD(state, table_record, .table = text);
    for (int i = 0; i < h->moving.n_places; i++) {
        const home_place *p = &h->moving.places[i];
        PL_SAY_RECORD(state, place_record, .name = p->name, .home = p->home,
                      .stamp = p->stamp);
    }
}
