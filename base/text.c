/* Implements small functions for text (text.h). Numbers are read and written in the C
 * locale, which is the only one that this program ever sets. */
#include "base/text.h"
#include "base/mem.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets the factor that the suffix of an integer (k, M, Ki, ...) stands for; returns
 * false if the suffix is unknown. */
static bool suffix_factor(const char *suffix, int64_t *factor)
{
    static const struct {
        const char *suffix;
        int64_t factor;
    } rows[] = {{"", 1},         {"k", 1000},     {"M", 1000000}, {"G", 1000000000},
                {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(suffix, rows[i].suffix) == 0) {
            *factor = rows[i].factor;
            return true;
        }
    return false;
}

/* Programs that use the library may have set a locale whose numbers have a comma.
 * uselocale of the result goes back. */
static locale_t enter_c_locale(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static double read_real(const char *text, char **end)
{
    const locale_t before = enter_c_locale();
    const double value = strtod(text, end);
    uselocale(before);
    return value;
}

/* refuses by the first characters what strtod accepts: blanks, 0x, "inf" and "nan" */
static bool starts_like_number(const char *text)
{
    if (*text == '+' || *text == '-')
        text++;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return false;
    return (*text >= '0' && *text <= '9') ||
           (*text == '.' && text[1] >= '0' && text[1] <= '9');
}

static pl_status not_a_number(const char *text, const char *kind)
{
    return pl_fail(PL_ERR_DATA, "`%.64s` is not %s", text, kind);
}

/* A decimal integer is read exactly; other numbers are read as doubles. */
pl_status pl_parse_int(const char *text, int64_t *out)
{
    const char *kind = "a whole number in range";
    *out = 0;
    if (!starts_like_number(text))
        return not_a_number(text, kind);
    char *end;
    int64_t factor;
    errno = 0;
    int64_t whole = strtoll(text, &end, 10);
    if (suffix_factor(end, &factor)) {
        if (errno || __builtin_mul_overflow(whole, factor, out))
            return not_a_number(text, kind);
        return PL_OK;
    }
    double real = read_real(text, &end);
    if (!suffix_factor(end, &factor))
        return not_a_number(text, kind);
    real *= (double)factor;
    if (!(fabs(real) < 0x1p63) || real != floor(real))
        return not_a_number(text, kind);
    *out = (int64_t)real;
    return PL_OK;
}

/* a value too small for a double becomes the nearest; one too large is refused */
pl_status pl_parse_real(const char *text, double *out)
{
    *out = 0;
    char *end;
    if (!starts_like_number(text))
        return not_a_number(text, "a number");
    double value = read_real(text, &end);
    if (*end || !isfinite(value))
        return not_a_number(text, "a number");
    *out = value;
    return PL_OK;
}

pl_status pl_parse_bool(const char *text, bool *out)
{
    *out = pl_lists_word("true yes on", ' ', text);
    if (*out || pl_lists_word("false no off", ' ', text))
        return PL_OK;
    return pl_fail(PL_ERR_DATA, "`%.64s` is neither true nor false", text);
}

/* Keeps one row of the table of Wagner and Fischer (1974): row[j] is the
 * distance between the first i letters of a and the first j of b. */
int pl_edit_distance(const char *a, const char *b)
{
    size_t width = strlen(b) + 1;
    int *row = pl_alloc(width * sizeof *row);
    for (size_t j = 0; j < width; j++)
        row[j] = (int)j;
    for (size_t i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 1; j < width; j++) {
            int least = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < least)
                least = row[j] + 1;
            if (row[j - 1] + 1 < least)
                least = row[j - 1] + 1;
            row[j] = least;
        }
    }
    int distance = row[width - 1];
    pl_free(row);
    return distance;
}

const char *pl_nearest(const char *word, const char *const *names, size_t n_names)
{
    const char *best = NULL;
    const size_t len = strlen(word);
    int best_distance = 0;
    for (size_t i = 0; i < n_names; i++) {
        const size_t name_len = strlen(names[i]);
        const size_t gap = len > name_len ? len - name_len : name_len - len;
        if (gap * 2 > name_len)
            /* the distance is at least the difference of the lengths */
            continue;
        int distance = pl_edit_distance(word, names[i]);
        if ((size_t)distance * 2 > name_len ||
            ((size_t)distance - gap) * 5 > name_len * 2)
            continue;
        if (!best || distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

/* Chooses the largest unit in which the value is at least 1. A value in the smallest
 * unit is written as a whole number. */
static char *human(double value, double step, const char *const units[5], char out[16])
{
    int unit = 0;
    while (unit < 4 && fabs(value) >= step) {
        value /= step;
        unit++;
    }
    snprintf(out, 16, "%.*f%s", unit ? 1 : 0, value, units[unit]);
    return out;
}

char *pl_human_bytes(double bytes, char out[16])
{
    static const char *const units[5] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return human(bytes, 1024.0, units, out);
}

char *pl_human_count(double count, char out[16])
{
    static const char *const units[5] = {"", "k", "M", "G", "T"};
    return human(count, 1000.0, units, out);
}

char *pl_human_seconds(double seconds, char out[16])
{
    if (seconds < 10.0) {
        snprintf(out, 16, "%.2fs", seconds);
        return out;
    }
    unsigned whole = (unsigned)(seconds < 4e9 ? seconds + 0.5 : 4e9);
    if (whole < 60)
        snprintf(out, 16, "%us", whole);
    else if (whole < 3600)
        snprintf(out, 16, "%um%02us", whole / 60, whole % 60);
    else
        snprintf(out, 16, "%uh%02um", whole / 3600, whole % 3600 / 60);
    return out;
}

/* Writes 15 digits, or 16 or 17 if fewer digits do not read back as the same double. */
char *pl_format_real(double value, char out[32])
{
    const locale_t before = enter_c_locale();
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    uselocale(before);
    return out;
}

bool pl_copy_text(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    bool fits = len < size;
    if (!fits)
        len = size ? size - 1 : 0;
    if (size) {
        memcpy(out, text, len);
        out[len] = 0;
    }
    return fits;
}

bool pl_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool pl_ends_with(const char *text, const char *suffix)
{
    size_t text_len = strlen(text), suffix_len = strlen(suffix);
    return text_len >= suffix_len && strcmp(text + text_len - suffix_len, suffix) == 0;
}

bool pl_lists_word(const char *list, char separator, const char *word)
{
    const size_t len = strlen(word);
    while (list) {
        const char *end = strchr(list, separator);
        const size_t n = end ? (size_t)(end - list) : strlen(list);
        if (n == len && memcmp(list, word, len) == 0)
            return true;
        list = end ? end + 1 : NULL;
    }
    return false;
}

uint32_t pl_utf8_code_point(const void *text, size_t n)
{
    static const uint8_t first_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *s = text;
    uint32_t point = s[0] & first_bits[n];
    for (size_t i = 1; i < n; i++)
        point = point << 6 | (s[i] & 0x3f);
    return point;
}

bool pl_utf8_steers(const void *text, size_t n)
{
    const uint8_t *s = text;
    if (n == 1)
        return s[0] < 0x20 || s[0] == 0x7f;
    if (n == 2)
        return s[0] == 0xc2 && s[1] < 0xa0;
    if (n != 3 || s[0] != 0xe2)
        return false;
    return (s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) ||
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* Table 3-7 of the Unicode standard: the second byte's range depends on the first
 * to exclude overlong forms, surrogates and code points beyond U+10FFFF. */
size_t pl_utf8_length(const void *text, size_t len)
{
    const uint8_t *s = text;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len < n)
        return 0;
    uint8_t low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return n;
}
