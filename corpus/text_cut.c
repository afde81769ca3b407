/* Chooses where a long text is cut into documents (text_cut.h). In the second half of
 * the piece, the functions look for the last end of a paragraph; if there is none, for
 * the last end of a line; then for the last end of a word. If the second half has none
 * of these, the cut is between two characters. */
#include "corpus/text_cut.h"

/* Returns whether a piece may end directly before text[at]; at > 0. */
typedef bool (*border_fn)(const char *text, size_t at);

static bool ends_line(const char *text, size_t at)
{
    return text[at - 1] == '\n';
}

/* Returns whether the line that ends here is blank and another line comes before it. */
static bool ends_paragraph(const char *text, size_t at)
{
    size_t begin = at - 1;
    if (!ends_line(text, at))
        return false;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t' ||
                         text[begin - 1] == '\r'))
        begin--;
    return begin > 0 && ends_line(text, begin);
}

static bool ends_word(const char *text, size_t at)
{
    return text[at - 1] == ' ' || text[at - 1] == '\t';
}

size_t text_cut_len(const char *text, size_t most)
{
    static const border_fn kinds[] = {ends_paragraph, ends_line, ends_word};
    size_t least = most / 2 > 0 ? most / 2 : 1;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t at = most; at >= least; at--)
            if (kinds[k](text, at))
                return at;
    /* A character has at most three continuation bytes, so the search ends after
     * three. */
    size_t at = most;
    while (at > 1 && most - at < 3 && ((uint8_t)text[at] & 0xc0) == 0x80)
        at--;
    return ((uint8_t)text[at] & 0xc0) == 0x80 ? most : at;
}
