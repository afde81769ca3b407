/* Scans a JSON line (json_line.h). The structure of the object itself is checked
 * strictly (RFC 8259); of the values that are skipped, only strings and brackets. */
#include "corpus/json_line.h"
#include <stdarg.h>
#include <string.h>

enum { KEYS_SHOWN = 8, KEY_SHOWN = 40, DEPTH_MAX = 4096, NAME_MAX_BYTES = 256 };

typedef struct span {
    const char *at; /* the first byte after the quote; NULL: there is no such string */
    size_t len;
} span;

/* ---- decoding ---- */
/* Reads the four digits after \u. Returns -1 if they are not hexadecimal digits. */
static int32_t read_unit(const char *at, const char *end)
{
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = at[i], lower = (char)(c | 0x20);
        const int digit = c >= '0' && c <= '9'           ? c - '0'
                          : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                         : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_character(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(leads[tails] | code >> 6 * tails);
    for (int i = tails - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> 6 * i & 0x3f));
    return to;
}

/* Decodes the escape whose backslash is at `at`. Every escape is at least as long as
 * the character that it stands for. Returns the place after the escape; NULL if there
 * is no such escape. */
static const char *decode_escape(const char *at, const char *end, char **to)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *name = at + 1 < end && at[1] ? strchr(names, at[1]) : NULL;
    if (name) {
        *(*to)++ = bytes[name - names];
        return at + 2;
    }
    const int32_t unit = at + 1 < end && at[1] == 'u' ? read_unit(at + 2, end) : -1;
    if (unit < 0)
        return NULL;
    at += 6;
    if (unit < 0xd800 || unit > 0xdfff) {
        *to = put_character(*to, (uint32_t)unit);
        return at;
    }
    const int32_t low = unit < 0xdc00 && end - at >= 2 && at[0] == '\\' && at[1] == 'u'
                            ? read_unit(at + 2, end)
                            : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        *(*to)++ = (char)0xff; /* half of a pair */
        return at;
    }
    *to = put_character(*to,
                        0x10000 + (uint32_t)((unit - 0xd800) << 10 | (low - 0xdc00)));
    return at + 6;
}

/* Whether every backslash of the string begins an escape. */
static bool has_good_escapes(span string)
{
    const char *at = string.at, *end = string.at + string.len;
    char unused[8];
    while (at && (at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        char *to = unused;
        at = decode_escape(at, end, &to);
        if (!at)
            return false;
    }
    return true;
}

/* Decodes a string with checked escapes at `at` in the line; returns its length. */
static size_t decode_string(char *at, size_t len)
{
    const char *from = at, *end = at + len;
    char *to = at;
    while (from < end) {
        const char *escape = memchr(from, '\\', (size_t)(end - from));
        const size_t plain = (size_t)((escape ? escape : end) - from);
        memmove(to, from, plain);
        to += plain;
        from = escape ? decode_escape(escape, end, &to) : end;
    }
    return (size_t)(to - at);
}

/* ---- scanning ---- */
typedef struct scanner {
    const char *line, *at, *end;
    const char *text_key;
    span text, domain;
    pl_buf *why; /* may be NULL */
    pl_buf keys; /* names of the first keys, for the message */
    int n_keys;
    const char *talk; /* the key of a conversation, if the line has one */
    char wrong; /* first byte of a value of the text's key that is not a string, or 0 */
} scanner;

static bool wrong_line(scanner *s, const char *format, ...) PL_PRINTF(2, 3);
static bool wrong_line(scanner *s, const char *format, ...)
{
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->why)
        pl_buf_printf(s->why, "%s", text);
    return false;
}

static bool wrong_json(scanner *s, const char *wanted)
{
    const int column = (int)(s->at - s->line) + 1;
    return wrong_line(s, "the JSON text is wrong at column %d: %s is missing there",
                      column, wanted);
}

static void skip_blanks(scanner *s)
{
    while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at)
        s->at++;
}

static bool take_byte(scanner *s, char byte)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != byte)
        return false;
    s->at++;
    return true;
}

/* Skips a string. `out` gets what is between the quotes. */
static bool skip_string(scanner *s, span *out)
{
    if (!take_byte(s, '"'))
        return wrong_json(s, "a string in double quotes");
    out->at = s->at;
    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    out->len = (size_t)(s->at - out->at);
    return take_byte(s, '"') || wrong_json(s, "the quote that ends a string");
}

/* Skips a value. For each open bracket the stack has the bracket that closes it. */
static bool skip_value(scanner *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789+-.";
    char stack[DEPTH_MAX];
    int depth = 0;
    span unused;
    do {
        skip_blanks(s);
        const char byte = s->at < s->end ? *s->at : '\0';
        if (byte == '"') {
            if (!skip_string(s, &unused))
                return false;
        } else if (byte == '{' || byte == '[') {
            if (depth == DEPTH_MAX)
                return wrong_line(s, "a value is nested deeper than %d", DEPTH_MAX);
            stack[depth++] = byte == '{' ? '}' : ']';
            s->at++;
        } else if (depth > 0 && byte == stack[depth - 1]) {
            depth--;
            s->at++;
        } else if (depth > 0 && (byte == ',' || byte == ':')) {
            s->at++;
        } else {
            /* a number or a word, such as 1e999, NaN or null */
            const char *begin = s->at;
            while (s->at < s->end && *s->at && strchr(letters, *s->at))
                s->at++;
            if (s->at == begin)
                return wrong_json(s, "a value");
        }
    } while (depth > 0);
    return true;
}

/* Programs may write a name that is not ASCII with escapes. */
static bool is_key(span key, const char *name)
{
    char copy[NAME_MAX_BYTES];
    if (key.len > sizeof copy || !has_good_escapes(key))
        return false;
    memcpy(copy, key.at, key.len);
    const size_t len = decode_string(copy, key.len);
    return len == strlen(name) && memcmp(copy, name, len) == 0;
}

static bool scan_object(scanner *s)
{
    static const char *const talks[] = {"messages", "conversations"};
    if (!take_byte(s, '{'))
        return wrong_json(s, "{");
    if (take_byte(s, '}'))
        return true;
    do {
        span key;
        if (!skip_string(s, &key))
            return false;
        if (!take_byte(s, ':'))
            return wrong_json(s, ":");
        const bool is_text = is_key(key, s->text_key),
                   is_domain = is_key(key, "domain");
        for (size_t i = 0; i < 2; i++)
            s->talk = is_key(key, talks[i]) ? talks[i] : s->talk;
        skip_blanks(s);
        const char first = s->at < s->end ? *s->at : '\0';
        if (s->n_keys++ < KEYS_SHOWN)
            pl_buf_printf(&s->keys, "%s%.*s", s->keys.len ? ", " : "",
                          (int)(key.len < KEY_SHOWN ? key.len : KEY_SHOWN), key.at);
        if ((!is_text && !is_domain) || first != '"') {
            s->wrong = is_text ? first : s->wrong;
            if (!skip_value(s))
                return false;
            continue;
        }
        span *to = is_text ? &s->text : &s->domain;
        if (to->at)
            return wrong_line(s, "the line has the key \"%s\" twice",
                              is_text ? s->text_key : "domain");
        if (!skip_string(s, to))
            return false;
    } while (take_byte(s, ','));
    return take_byte(s, '}') || wrong_json(s, ", or }");
}

bool json_line_read(char *line, size_t len, const char *text_key, json_line *out)
{
    scanner s = {.line = line,
                 .at = line,
                 .end = line + len,
                 .text_key = text_key,
                 .why = out->why};
    bool good = scan_object(&s);
    skip_blanks(&s);
    if (good && s.at < s.end)
        good = wrong_json(&s, "the end of the line");
    if (good && !s.text.at) {
        /* says why: the key is absent, or its value is not a string */
        good = false;
        if (s.n_keys == 0)
            wrong_line(&s, "the line has no \"%s\": it is an empty object", text_key);
        else if (s.wrong)
            wrong_line(&s, "the line has no \"%s\" whose value is a string, but %s",
                       text_key,
                       s.wrong == '['   ? "a list"
                       : s.wrong == '{' ? "an object"
                                        : "another value");
        else if (s.talk)
            wrong_line(&s,
                       "the line has no \"%s\" but a conversation (\"%s\"): "
                       "write each conversation as one text",
                       text_key, s.talk);
        else
            wrong_line(&s,
                       "the line has no \"%s\", but the keys %s%s: name the key of the "
                       "text by data.text_key",
                       text_key, pl_buf_text(&s.keys),
                       s.n_keys > KEYS_SHOWN ? ", ..." : "");
    }
    if (good && !(has_good_escapes(s.text) && has_good_escapes(s.domain)))
        good = wrong_line(&s, "a string has a backslash without a valid escape");
    pl_buf_destroy(&s.keys);
    if (!good)
        return false;
    out->text = line + (s.text.at - line);
    out->len = decode_string(out->text, s.text.len);
    out->domain = s.domain.at ? line + (s.domain.at - line) : NULL;
    out->domain_len = out->domain ? decode_string(out->domain, s.domain.len) : 0;
    return true;
}

bool json_line_begins(const char *text, size_t len, const char *text_key)
{
    scanner s = {.line = text, .at = text, .end = text + len, .text_key = text_key};
    const bool good = scan_object(&s) && s.text.at;
    pl_buf_destroy(&s.keys);
    return good;
}
