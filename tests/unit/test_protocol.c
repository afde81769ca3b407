/* folder: net; label: unit */
/* Compares docs/PROTOCOL.md with the table of messages (net/messages.def): the fields
 * and their types, the fields of each message, who may send a message, and its cost.
 * Words in parentheses in docs/PROTOCOL.md are ignored. */
#include "net/net.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/suite.h"

enum { LINES_MAX = 2000, FIELDS_TEXT = 400 };

static char *lines[LINES_MAX];
static int n_lines;

/* Removes all texts in parentheses, and the blank before each of them. */
static void strip(char *line)
{
    int depth = 0;
    char *out = line;
    for (const char *c = line; *c; c++) {
        depth += *c == '(';
        if (*c == '(' && depth == 1 && out > line && out[-1] == ' ')
            out--;
        if (depth == 0)
            *out++ = *c;
        depth -= *c == ')' && depth > 0;
    }
    *out = '\0';
}

static int read_page(void **state)
{
    OWNED(pl_buf_destroy) pl_buf page = {0};
    (void)state;
    assert_ok(pl_read_file("docs/PROTOCOL.md", &page));
    char *save = NULL, *text = pl_strdup(pl_buf_text(&page));
    for (char *l = strtok_r(text, "\n", &save); l && n_lines < LINES_MAX;
         l = strtok_r(NULL, "\n", &save)) {
        lines[n_lines] = pl_strdup(l);
        strip(lines[n_lines++]);
    }
    assert_in_range(n_lines, 500, LINES_MAX - 1);
    pl_free(text);
    return 0;
}

static int free_page(void **state)
{
    (void)state;
    while (n_lines > 0)
        pl_free(lines[--n_lines]);
    return 0;
}

/* Returns whether the line contains `words` as a complete list of fields: no other
 * field may stand directly before or after it. */
static bool has_words(const char *line, const char *words)
{
    for (const char *at = line; (at = strstr(at, words)); at++) {
        char before = at > line ? at[-1] : ' ', after = at[strlen(words)];
        bool begins = before == ' ' && !(at - line >= 2 && at[-2] == ',');
        if (begins && !strchr("?*_,", after ? after : ' ') &&
            !(after >= 'A' && after <= 'Z'))
            return true;
    }
    return false;
}

/* Returns whether one line of docs/PROTOCOL.md contains both texts, `words` and
 * `within`. */
static bool page_says(const char *within, const char *words)
{
    for (int i = 0; i < n_lines; i++)
        if (strstr(lines[i], within) && has_words(lines[i], words))
            return true;
    return false;
}

/* ---- bodies ---- */
typedef struct body {
    const char *message, *name;
    int type; /* 0 for a second body of the same message, or for a record */
    char fields[FIELDS_TEXT];
} body;

static void add_field(body *b, const char *member, const char *mark)
{
    static const char *const names[][2] = {
#define FIELD(tag, NAME, member, type, limit) {#member, #NAME},
#define OTHER(NAME, member, type, limit)      {#member, #NAME},
#include "net/messages.def"
    };
    size_t used = strlen(b->fields);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], member) == 0)
            snprintf(b->fields + used, sizeof b->fields - used, "%s%s%s",
                     used ? ", " : "", names[i][1], mark);
}

static void check_body(body *b)
{
    char tabled[80], said[80];
    bool there = b->type == 0 && page_says("", b->fields);
    snprintf(tabled, sizeof tabled, "| %d | %s |", b->type, b->message);
    snprintf(said, sizeof said, "%d %s: ", b->type, b->message);
    if (b->type != 0)
        there = page_says(tabled, b->fields) || page_says(said, b->fields);
    if (!there)
        fail_msg("docs/PROTOCOL.md does not say that %s (%s) has the fields %s",
                 b->type ? b->message : b->name, b->type ? tabled : "a body or record",
                 b->fields);
    b->type = 0;
}

PL_TEST(every_message_has_the_fields_that_the_page_says)
{
    body b = {.message = ""};
    int n = 0;
#define QUESTION(number, NAME, roles, cost) b.message = #NAME, b.type = (number);
#define ANSWER(number, NAME)                b.message = #NAME, b.type = (number);
#define BODY(body_name)                     b.name = #body_name, b.fields[0] = '\0', n++;
#define RECORD(record_name)                                                            \
    b.type = 0;                                                                        \
    BODY(record_name)
#define HAS(member)        add_field(&b, #member, "");
#define MAY(member)        add_field(&b, #member, "?");
#define WITH(member, gate) add_field(&b, #member, "?");
#define FLAG(member)
#define LIST(member)       add_field(&b, #member, "*");
#define NEST(member, body) add_field(&b, #member, "*");
#define WORK
#define WORKED(member)   add_field(&b, #member, "");
#define MEASURED(member) add_field(&b, #member, "?");
#define END              check_body(&b);
#include "net/messages.def"
    assert_true(n > 50);
}

PL_TEST(the_page_has_no_message_of_its_own)
{
    static const struct {
        int type;
        const char *name;
    } known[] = {
#define QUESTION(number, NAME, roles, cost) {(number), #NAME},
#define ANSWER(number, NAME)                {(number), #NAME},
#include "net/messages.def"
    };
    int n = 0, type, i = 0;
    char name[32];
    while (i < n_lines && strncmp(lines[i], "### 2.2", 7) != 0)
        i++;
    for (; i < n_lines && strncmp(lines[i], "### 2.4", 7) != 0; i++) {
        bool is_known = sscanf(lines[i], "| %d | %31[A-Z_] |", &type, name) != 2;
        n += !is_known;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            is_known =
                is_known || (known[k].type == type && strcmp(known[k].name, name) == 0);
        if (!is_known)
            fail_msg("net/messages.def has no message %d, %s", type, name);
    }
    assert_true(n > 30);
}

/* ---- fields ---- */
/* Copies word i of a comma-separated list to `out`. Returns the number of words in the
 * list. */
static int word_at(const char *cell, int i, char out[32])
{
    int n = 0;
    out[0] = '\0';
    for (const char *c = cell; *c; n++) {
        while (*c == ' ')
            c++;
        size_t len = strcspn(c, ",");
        if (n == i)
            snprintf(out, 32, "%.*s", (int)len, c);
        c += len + (c[len] == ',');
    }
    return n;
}

static void check_field(int tag, const char *name, char type)
{
    char number[16], tags[64], names[64], word[32], types[16];
    snprintf(number, sizeof number, "%d", tag);
    char expected = type == 'S' ? 'U' : type == 'K' ? 'B' : type;
    for (int i = 0; i < n_lines; i++) {
        if (sscanf(lines[i], "| %63[0-9, ]| %63[A-Z_, ]| %15[A-Z*]", tags, names,
                   types) != 3)
            continue;
        for (int k = 0, n = word_at(tags, 0, word); k < n; k++) {
            (void)word_at(tags, k, word);
            if (atoi(word) != tag)
                continue;
            (void)word_at(names, k, word);
            word[strcspn(word, " ")] = '\0';
            if (strcmp(word, name) == 0 && types[0] == expected)
                return;
        }
    }
    fail_msg("docs/PROTOCOL.md 2.1 does not have field %d, %s, of type %c", tag, name,
             expected);
}

PL_TEST(every_field_has_the_tag_and_type_that_the_page_says)
{
#define FIELD(tag, NAME, member, type, limit) check_field(tag, #NAME, #type[0]);
#include "net/messages.def"
}

/* ---- roles ---- */
static void check_roles(int type, const char *name)
{
    static const pl_key_role columns[] = {PL_AS_ADMIN,  PL_AS_HUB,       PL_AS_RELAY,
                                          PL_AS_WORKER, PL_AS_INSPECTOR, PL_AS_INVITE};
    char words[80];
    snprintf(words, sizeof words, "%d %s", type, name);
    for (int i = 0; i < n_lines; i++) {
        const char *at =
            strncmp(lines[i], "| ", 2) == 0 ? strstr(lines[i], words) : NULL;
        char next = at ? at[strlen(words)] : '\0';
        if ((next != ',' && next != ' ') || !strchr(lines[i], 'x'))
            continue;
        const char *cell = strchr(lines[i] + 1, '|');
        for (int c = 0; c < 6 && cell; c++, cell = strchr(cell + 1, '|'))
            if ((strncmp(cell, "| x", 3) == 0) !=
                pl_role_allows(columns[c], (uint16_t)type))
                fail_msg("%s: column %d of docs/PROTOCOL.md 1.6 differs from "
                         "net/messages.def",
                         name, c + 1);
        return;
    }
    fail_msg("docs/PROTOCOL.md 1.6 has no row of %s", words);
}

PL_TEST(everybody_may_send_what_the_page_says)
{
#define QUESTION(type, NAME, roles, cost) check_roles(type, #NAME);
#include "net/messages.def"
}

static void check_cost(uint16_t type, const char *name)
{
    unsigned cost = pl_message_cost(type);
    const char *sentence = NULL;
    char priced[80], plain[80];
    for (int i = 0; i < n_lines && !sentence; i++)
        sentence = strstr(lines[i], "message costs 1 token");
    assert_non_null(sentence);
    const char *end = strstr(sentence, " 4.");
    assert_non_null(end);
    snprintf(priced, sizeof priced, " %s %u", name, cost);
    snprintf(plain, sizeof plain, " %s", name);
    const char *at = strstr(sentence, cost > 4 ? priced : plain);
    while (at && at[strlen(plain)] == '_') /* finds SUBMIT, not SUBMIT_PATH */
        at = strstr(at + 1, plain);
    if ((at && at <= end) != (cost > 1))
        fail_msg("the code says that %s costs %u, docs/PROTOCOL.md 1.6 does not", name,
                 cost);
}

PL_TEST(every_message_costs_what_the_page_says)
{
#define QUESTION(type, NAME, roles, cost) check_cost(type, #NAME);
#include "net/messages.def"
}

PL_SUITE(read_page, free_page)
