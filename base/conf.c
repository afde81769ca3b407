/* Configuration tables: these functions read values from text and YAML into the
 * caller's struct, and write them. A value is passed as text; its row of the table says
 * how to read it.
 *
 * In order: finding rows, setting, getting, the YAML reader, the three writers. */
#include "base/conf.h"
#include "base/fs.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { KEY_NAME_MAX = 256, NESTING_MAX = 8 };

static const pl_key *find_key(const pl_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_keys; i++)
        if (table->keys[i].type != PL_KEY_SECTION &&
            strcmp(table->keys[i].name, name) == 0)
            return &table->keys[i];
    return NULL;
}

static bool is_section(const pl_table *table, const char *name)
{
    const size_t len = strlen(name);
    bool found = false;
    for (size_t i = 0; i < table->n_keys && !found; i++) {
        const pl_key *row = &table->keys[i];
        found =
            pl_starts_with(row->name, name) &&
            (row->name[len] == '.' || (!row->name[len] && row->type == PL_KEY_SECTION));
    }
    return found;
}

/* For "phases" the result is train.phases, even if the spelling of another key is more
 * similar: users forget the section more often than they misspell. */
const char *pl_conf_nearest(const pl_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_keys; i++) {
        const char *key = table->keys[i].name, *dot = strrchr(key, '.');
        if (table->keys[i].type != PL_KEY_SECTION && dot && strcmp(dot + 1, name) == 0)
            return key;
    }
    const char **names = pl_alloc(table->n_keys * sizeof *names);
    size_t n_names = 0;
    for (size_t i = 0; i < table->n_keys; i++)
        if (table->keys[i].type != PL_KEY_SECTION)
            names[n_names++] = table->keys[i].name;
    const char *nearest = pl_nearest(name, names, n_names);
    pl_free(names);
    return nearest;
}

static pl_status unknown_key(const pl_table *table, const char *name, const char *where)
{
    if (is_section(table, name))
        return pl_fail(PL_ERR_CONFIG,
                       "`%s` (%s) is a section and takes no value; set one of its keys",
                       name, where);
    const char *nearest = pl_conf_nearest(table, name);
    if (!nearest)
        return pl_fail(PL_ERR_CONFIG,
                       "unknown key `%.128s` (%s); `pathloom explain WORD` finds keys",
                       name, where);
    return pl_fail(PL_ERR_CONFIG,
                   "unknown key `%.128s` (%s); the most similar key is `%s`", name,
                   where, nearest);
}

/* Whether a row has bounds. Rows without bounds leave min and max at zero. */
static bool is_bounded(const pl_key *key)
{
    return (key->type == PL_KEY_INT || key->type == PL_KEY_REAL) && key->min < key->max;
}

void pl_conf_wanted(const pl_key *key, pl_buf *out)
{
    static const char *const kinds[] = {
        [PL_KEY_INT] = "a whole number", [PL_KEY_REAL] = "a number",
        [PL_KEY_BOOL] = "true or false", [PL_KEY_TEXT] = "text",
        [PL_KEY_CHOICE] = "one of ",     [PL_KEY_SECTION] = "text"};
    pl_buf_printf(out, "%s%s", kinds[key->type],
                  key->type == PL_KEY_CHOICE ? key->choices : "");
    if (is_bounded(key)) { /* a bound of 1e15 or more is not shown */
        char min[32], max[32];
        const bool low = key->min > -1e15, high = key->max < 1e15;
        pl_format_real(key->min, min);
        pl_format_real(key->max, max);
        if (low && high)
            pl_buf_printf(out, ", %s..%s", min, max);
        else
            pl_buf_printf(out, ", at %s %s", low ? "least" : "most", low ? min : max);
    }
    if (key->unit && *key->unit)
        pl_buf_printf(out, " %s", key->unit);
}

static bool fits_key_range(const pl_key *key, double value)
{
    return !is_bounded(key) || (value >= key->min && value <= key->max);
}

static bool set_text(char *field, const char *value)
{
    const size_t len = strlen(value);
    if (len >= PL_KEY_TEXT_MAX)
        return false;
    for (size_t at = 0, n; at < len; at += n)
        if (!(n = pl_utf8_length(value + at, len - at)))
            return false;
    /* first clears the field, so that equal values have equal bytes */
    memset(field, 0, PL_KEY_TEXT_MAX);
    memcpy(field, value, len);
    return true;
}

/* Writes the field, or returns false and leaves it unchanged. */
static bool set_field(const pl_key *key, void *target, const char *value)
{
    void *field = (char *)target + key->offset;
    int64_t whole;
    double real;
    bool flag;
    switch (key->type) {
    case PL_KEY_INT:
        if (pl_parse_int(value, &whole) != PL_OK || !fits_key_range(key, (double)whole))
            return false;
        *(int64_t *)field = whole;
        return true;
    case PL_KEY_REAL:
        if (pl_parse_real(value, &real) != PL_OK || !fits_key_range(key, real))
            return false;
        *(double *)field = real;
        return true;
    case PL_KEY_BOOL:
        if (pl_parse_bool(value, &flag) != PL_OK)
            return false;
        *(bool *)field = flag;
        return true;
    case PL_KEY_CHOICE:
        return pl_lists_word(key->choices, '|', value) && set_text(field, value);
    case PL_KEY_TEXT:
        return set_text(field, value);
    case PL_KEY_SECTION:
        break;
    }
    return false;
}

/* Aborts if a row's default is not one of the values that the row allows: that is a
 * mistake in the program, which the user cannot repair. */
void pl_conf_defaults(const pl_table *table, void *target)
{
    for (size_t i = 0; i < table->n_keys; i++) {
        const pl_key *key = &table->keys[i];
        if (key->type != PL_KEY_SECTION && !set_field(key, target, key->initial)) {
            fprintf(stderr, "pathloom: the default of %s is unusable: %s\n", key->name,
                    key->initial);
            abort();
        }
    }
}

pl_status pl_conf_set(const pl_table *table, void *target, const char *key,
                      const char *value, const char *where)
{
    const pl_key *row = find_key(table, key);
    if (!row)
        return unknown_key(table, key, where);
    if (set_field(row, target, value))
        return PL_OK;
    pl_buf wanted = {0};
    pl_conf_wanted(row, &wanted);
    if (row->type == PL_KEY_TEXT)
        pl_buf_printf(&wanted, " (UTF-8, at most %d bytes)", PL_KEY_TEXT_MAX - 1);
    const pl_status status =
        pl_fail(PL_ERR_CONFIG, "`%s` is `%.64s` (%s) and must be %s", row->name, value,
                where, pl_buf_text(&wanted));
    pl_buf_destroy(&wanted);
    return status;
}

pl_status pl_conf_set_pair(const pl_table *table, void *target,
                           const char *key_equals_value, const char *where)
{
    char key[KEY_NAME_MAX];
    size_t len = strcspn(key_equals_value, "=");
    if (!key_equals_value[len] || len == 0 || len >= sizeof key)
        return pl_fail(PL_ERR_CONFIG, "`%.64s` (%s) does not have the form key=value",
                       key_equals_value, where);
    memcpy(key, key_equals_value, len);
    key[len] = 0;
    return pl_conf_set(table, target, key, key_equals_value + len + 1, where);
}

static void put_value(const pl_key *key, const void *target, pl_buf *out)
{
    const void *field = (const char *)target + key->offset;
    char text[32];
    switch (key->type) {
    case PL_KEY_INT:
        pl_buf_printf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case PL_KEY_REAL:
        pl_buf_printf(out, "%s", pl_format_real(*(const double *)field, text));
        break;
    case PL_KEY_BOOL:
        pl_buf_printf(out, "%s", *(const bool *)field ? "true" : "false");
        break;
    case PL_KEY_TEXT:
    case PL_KEY_CHOICE:
        pl_buf_printf(out, "%s", (const char *)field);
        break;
    case PL_KEY_SECTION:
        break;
    }
}

bool pl_conf_get(const pl_table *table, const void *target, const char *key,
                 pl_buf *out)
{
    const pl_key *row = find_key(table, key);
    if (row)
        put_value(row, target, out);
    return row != NULL;
}

/* Compares values as texts, because the canonical text is made of the same texts. */
const char *pl_conf_difference(const pl_table *table, const void *a, const void *b)
{
    pl_buf left = {0}, right = {0};
    const char *name = NULL;
    for (size_t i = 0; i < table->n_keys && !name; i++) {
        const pl_key *key = &table->keys[i];
        if (key->local)
            continue;
        pl_buf_clear(&left);
        pl_buf_clear(&right);
        put_value(key, a, &left);
        put_value(key, b, &right);
        if (strcmp(pl_buf_text(&left), pl_buf_text(&right)) != 0)
            name = key->name;
    }
    pl_buf_destroy(&left);
    pl_buf_destroy(&right);
    return name;
}

/* The YAML reader: one walk over libyaml's events, which calls pl_conf_set. */
typedef struct yaml_reader {
    const pl_table *table;
    void *target;
    const char *path;
    pl_buf text;
    bool *seen;             /* for each row of the table, whether the file has set it */
    bool saved;             /* whether the file may have deleted keys and values */
    const pl_gone *differs; /* see pl_conf_load_saved */
    yaml_parser_t parser;
    char where[KEY_NAME_MAX];
} yaml_reader;

static const char *locate(yaml_reader *reader, size_t line)
{
    snprintf(reader->where, sizeof reader->where, "%.200s line %zu", reader->path,
             line + 1);
    return reader->where;
}

static pl_status refuse_event(yaml_reader *reader, const yaml_event_t *event,
                              const char *why)
{
    return pl_fail(PL_ERR_CONFIG, "%s: %s", locate(reader, event->start_mark.line),
                   why);
}

/* The caller deletes the event, also after a failure. */
static pl_status next_event(yaml_reader *reader, yaml_event_t *event)
{
    const yaml_parser_t *parser = &reader->parser;
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(&reader->parser, event))
        return PL_OK;
    size_t line = 0;
    if (parser->error != YAML_READER_ERROR)
        line = parser->problem_mark.line;
    else /* libyaml gives the offset of a bad byte but not its line */
        for (size_t i = 0; i < parser->problem_offset && i < reader->text.len; i++)
            line += reader->text.data[i] == '\n';
    return pl_fail(PL_ERR_CONFIG, "%s is not YAML: %s", locate(reader, line),
                   parser->problem ? parser->problem : "it is not UTF-8 text");
}

static const char *scalar(const yaml_event_t *event)
{
    return (const char *)event->data.scalar.value;
}

static bool has_nul(const yaml_event_t *event)
{
    return strlen(scalar(event)) != event->data.scalar.length;
}

/* Sets a key and refuses a second value. YAML itself would silently let the last of two
 * equal keys win. A saved file may have deleted keys, and deleted values of keys. */
static pl_status set_once(yaml_reader *reader, const char *name, const char *value,
                          size_t line)
{
    const char *where = locate(reader, line);
    const pl_key *row = find_key(reader->table, name);
    bool is_gone = false;
    for (size_t i = 0; reader->saved && i < reader->table->n_gone && !is_gone; i++) {
        const pl_gone *gone = &reader->table->gone[i];
        const bool is_value = strcmp(gone->value, value) == 0;
        is_gone = strcmp(gone->name, name) == 0 && (!row || is_value);
        if (is_gone && !reader->differs && (row || !is_value))
            reader->differs = gone;
    }
    if (!row)
        return is_gone ? PL_OK : unknown_key(reader->table, name, where);
    bool *seen = &reader->seen[row - reader->table->keys];
    if (*seen)
        return pl_fail(PL_ERR_CONFIG,
                       "`%s` is set a second time (%s); delete one of the two lines",
                       name, where);
    *seen = true;
    return is_gone ? PL_OK
                   : pl_conf_set(reader->table, reader->target, name, value, where);
}

/* A YAML list becomes the text "a,b,c": the table has no list type, and the code that
 * uses such a key splits the text at the commas. */
static pl_status read_yaml_list(yaml_reader *reader, const char *name, size_t line)
{
    pl_buf list = {0};
    pl_status status = PL_OK;
    for (bool ended = false; status == PL_OK && !ended;) {
        yaml_event_t event;
        status = next_event(reader, &event);
        ended = event.type == YAML_SEQUENCE_END_EVENT;
        if (status == PL_OK && !ended) {
            if (event.type != YAML_SCALAR_EVENT || has_nul(&event) ||
                strchr(scalar(&event), ','))
                status = refuse_event(reader, &event,
                                      "a list takes plain values without commas");
            else
                pl_buf_printf(&list, "%s%s", list.len ? "," : "", scalar(&event));
        }
        yaml_event_delete(&event);
    }
    if (status == PL_OK)
        status = set_once(reader, name, pl_buf_text(&list), line);
    pl_buf_destroy(&list);
    return status;
}

static pl_status read_mapping(yaml_reader *reader, const char *prefix, int depth);

/* Reads one `key: value`. `key` is the event of the key, which the caller has read. */
static pl_status read_pair(yaml_reader *reader, const char *prefix,
                           const yaml_event_t *key, int depth)
{
    if (key->type != YAML_SCALAR_EVENT || has_nul(key))
        return refuse_event(reader, key, "a key must be a plain name");
    char name[KEY_NAME_MAX];
    int len =
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", scalar(key));
    if (len < 0 || len >= (int)sizeof name)
        return refuse_event(reader, key, "a key is too long");
    yaml_event_t event;
    pl_status status = next_event(reader, &event);
    if (status != PL_OK)
        goto done;
    /* a section whose keys are all commented out looks like an empty value */
    const bool is_empty_section =
        event.type == YAML_SCALAR_EVENT && event.data.scalar.length == 0 &&
        event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        !find_key(reader->table, name) && is_section(reader->table, name);
    if (event.type == YAML_SCALAR_EVENT && has_nul(&event))
        status = refuse_event(reader, &event, "a NUL character is not allowed");
    else if (is_empty_section)
        status = PL_OK;
    else if (event.type == YAML_SCALAR_EVENT)
        status = set_once(reader, name, scalar(&event), event.start_mark.line);
    else if (event.type == YAML_SEQUENCE_START_EVENT)
        status = read_yaml_list(reader, name, event.start_mark.line);
    else if (event.type == YAML_MAPPING_START_EVENT && depth < NESTING_MAX)
        status = read_mapping(reader, name, depth + 1);
    else if (event.type == YAML_MAPPING_START_EVENT)
        status = refuse_event(reader, &event,
                              "sections are nested too deeply; check the indentation");
    else
        status = refuse_event(reader, &event, "aliases (*name) are not supported");
done:
    yaml_event_delete(&event);
    return status;
}

/* Reads a mapping after its start event, including its end event. */
static pl_status read_mapping(yaml_reader *reader, const char *prefix, int depth)
{
    pl_status status = PL_OK;
    for (bool ended = false; status == PL_OK && !ended;) {
        yaml_event_t event;
        status = next_event(reader, &event);
        ended = event.type == YAML_MAPPING_END_EVENT;
        if (status == PL_OK && !ended)
            status = read_pair(reader, prefix, &event, depth);
        yaml_event_delete(&event);
    }
    return status;
}

static pl_status load_file(yaml_reader *reader)
{
    pl_status status = PL_OK;
    PL_TRY(pl_read_file(reader->path, &reader->text));
    if (!yaml_parser_initialize(&reader->parser))
        pl_memory_exhausted(sizeof reader->parser);
    reader->seen = pl_alloc(reader->table->n_keys);
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(
        &reader->parser, (const uint8_t *)pl_buf_text(&reader->text), reader->text.len);
    /* the top level is one mapping, or nothing at all */
    int n_documents = 0;
    for (bool ended = false; status == PL_OK && !ended;) {
        yaml_event_t event;
        status = next_event(reader, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT && ++n_documents > 1)
            status =
                refuse_event(reader, &event,
                             "a second document starts here; a file may have only one");
        else if (event.type == YAML_MAPPING_START_EVENT)
            status = read_mapping(reader, "", 0);
        else if (event.type == YAML_SEQUENCE_START_EVENT ||
                 (event.type == YAML_SCALAR_EVENT && event.data.scalar.length))
            status = refuse_event(reader, &event, "expected `key: value` lines");
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&reader->parser);
    pl_free(reader->seen);
done:
    pl_buf_destroy(&reader->text);
    return status;
}

pl_status pl_conf_load(const pl_table *table, void *target, const char *path)
{
    yaml_reader reader = {.table = table, .target = target, .path = path};
    return load_file(&reader);
}

pl_status pl_conf_load_saved(const pl_table *table, void *target, const char *path,
                             const pl_gone **differs)
{
    yaml_reader reader = {
        .table = table, .target = target, .path = path, .saved = true};
    const pl_status status = load_file(&reader);
    *differs = reader.differs;
    return status;
}

static void put_yaml_value(const pl_key *key, const void *target, pl_buf *out)
{
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_./+-";
    pl_buf value = {0};
    put_value(key, target, &value);
    const char *text = pl_buf_text(&value);
    const bool is_text = key->type == PL_KEY_TEXT || key->type == PL_KEY_CHOICE;
    const bool is_read_back_without_quotes =
        *text && !strchr("-+.", *text) && strspn(text, inside) == value.len;
    if (!is_text || is_read_back_without_quotes) {
        pl_buf_append(out, value.data, value.len);
        pl_buf_destroy(&value);
        return;
    }
    pl_buf_printf(out, "\"");
    for (size_t left = value.len, n; left; text += n, left -= n) {
        n = pl_utf8_length(text, left);
        n = n ? n : 1;
        const uint32_t point = pl_utf8_code_point(text, n);
        /* the YAML reader refuses these characters, such as control characters and line
         * breaks, unless they are escaped */
        const bool is_refused = point < 0x20 || (point >= 0x7f && point < 0xa0) ||
                                point == 0x2028 || point == 0x2029 || point == 0xfeff ||
                                point == 0xfffe || point == 0xffff;
        if (point == '"' || point == '\\')
            pl_buf_printf(out, "\\%c", (int)point);
        else if (is_refused)
            pl_buf_printf(out, "\\u%04x", (unsigned)point);
        else
            pl_buf_append(out, text, n);
    }
    pl_buf_printf(out, "\"");
    pl_buf_destroy(&value);
}

static int depth_of_name(const char *name, size_t len)
{
    int depth = 0;
    for (size_t i = 0; i < len; i++)
        depth += name[i] == '.';
    return depth;
}

static const char *help_of(const pl_key *key)
{
    return key->help ? key->help : "";
}

/* Writes YAML that pl_conf_load reads back into an equal struct. */
void pl_conf_write_yaml(const pl_table *table, const void *target, pl_buf *out)
{
    char open[KEY_NAME_MAX] = ""; /* the section whose heading was written last */
    for (size_t i = 0; i < table->n_keys; i++) {
        const pl_key *key = &table->keys[i];
        const char *name = key->name;
        if (key->type == PL_KEY_SECTION) {
            pl_buf_printf(out, "%s%*s# %s\n", out->len ? "\n" : "",
                          2 * depth_of_name(name, strlen(name)), "", help_of(key));
            continue;
        }
        /* the section part of a dotted name: 5 letters of "train.tau", 0 of "seed" */
        const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
        const size_t section = dot ? (size_t)(dot - name) : 0;
        for (size_t start = 0, end; start < section; start = end + 1) {
            end = start + strcspn(name + start, ".");
            if (strncmp(open, name, end) != 0 || (open[end] && open[end] != '.'))
                pl_buf_printf(out, "%*s%.*s:\n", 2 * depth_of_name(name, start), "",
                              (int)(end - start), name + start);
        }
        snprintf(open, sizeof open, "%.*s", (int)section, name);
        const int indent = section ? 2 * (depth_of_name(name, section) + 1) : 0;
        pl_buf_printf(out, "%*s# %s (", indent, "", help_of(key));
        pl_conf_wanted(key, out);
        pl_buf_printf(out,
                      "; default %s)\n%*s%s: ", *key->initial ? key->initial : "\"\"",
                      indent, "", last);
        put_yaml_value(key, target, out);
        pl_buf_printf(out, "\n");
    }
}

/* Escapes text for a cell of a Markdown table, where a bar would end the cell. */
static void put_cell(const char *text, pl_buf *out)
{
    for (; *text; text++)
        pl_buf_printf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

void pl_conf_write_reference(const pl_table *table, pl_buf *out)
{
    static const char head[] =
        "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (size_t i = 0; i < table->n_keys; i++) {
        const pl_key *key = &table->keys[i];
        const bool is_section_head = key->type == PL_KEY_SECTION;
        if (is_section_head)
            pl_buf_printf(out, "%s## %s\n%s\n\n", out->len ? "\n" : "", key->name,
                          help_of(key));
        if (is_section_head || i == 0)
            pl_buf_printf(out, "%s", head);
        if (is_section_head)
            continue;
        pl_buf wanted = {0};
        pl_conf_wanted(key, &wanted);
        pl_buf_printf(out, "| `%s` | ", key->name);
        put_cell(pl_buf_text(&wanted), out);
        pl_buf_printf(out, " | `%s` | ", *key->initial ? key->initial : "\"\"");
        put_cell(help_of(key), out);
        pl_buf_printf(out, "%s |\n", key->local ? "; does not change training" : "");
        pl_buf_destroy(&wanted);
    }
}

/* Values are quoted as in YAML, so that no value looks like the line of another key. */
void pl_conf_canonical(const pl_table *table, const void *target, pl_buf *out)
{
    for (size_t i = 0; i < table->n_keys; i++) {
        const pl_key *key = &table->keys[i];
        if (key->type == PL_KEY_SECTION || key->local)
            continue;
        pl_buf_printf(out, "%s: ", key->name);
        put_yaml_value(key, target, out);
        pl_buf_printf(out, "\n");
    }
}
