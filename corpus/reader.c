/* Reads documents from the user's files, JSON lines, folders, or standard input.
 *
 *   path -> if it is a folder, walk it in the order of names -> file
 *   file -> stream (decompressed) -> one text, its pieces, or lines -> JSON -> text
 *   text -> replace invalid bytes -> if it is blank, count it; else deliver it
 *
 * A file that the user named must be readable, or it is refused with the reason. In a
 * folder, files that are binary or in UTF-16 are skipped and counted; hidden files and
 * pipes are skipped without being counted. One document at a time is in memory. */
#include "corpus/json_line.h"
#include "corpus/text_stream.h"
#include "corpus/utf8.h"
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum { CHUNK_BYTES = 1 << 18, DOCUMENT_MAX = 64 << 20, NAME_SHOWN = 200 };

typedef struct document_reader {
    pl_document_fn fn;
    void *context;
    pl_read_stats *stats;
    pl_reading how;
    pl_hasher whole; /* hash over all pieces of the file */
    pl_buf raw;      /* bytes that were read but not delivered yet */
    pl_buf clean;    /* a copy of a text in which invalid bytes were replaced */
    pl_buf domain;   /* a domain without control characters */
    pl_buf why;      /* why a JSON line cannot be used */
} document_reader;

typedef struct text_source {
    const char *path;
    const char
        *domain; /* name of the topmost subfolder that contains the file, or "" */
    bool in_folder;
    text_stream *stream;
    uint64_t line; /* JSON lines: number of the line that is being read */
} text_source;

/* Returns whether a text has only white space. Such a document is not delivered,
 * because it has nothing to predict. Blank lines between JSON lines are allowed. */
static bool is_blank_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!memchr(" \t\r\n\f\v", text[i], 6))
            return false;
    return true;
}

/* Replaces each invalid byte by U+FFFD in a copy of the text. Valid text is not
 * copied. An invalid sequence gives one U+FFFD per byte, so the number of replaced
 * bytes is also the number of U+FFFD. */
static void clean_text(document_reader *reader, const char **text, size_t *len)
{
    size_t at = utf8_valid_len(*text, *len);
    if (at == *len)
        return;
    pl_buf_clear(&reader->clean);
    pl_buf_append(&reader->clean, *text, at);
    while (at < *len) {
        pl_buf_append(&reader->clean, REPLACEMENT, sizeof REPLACEMENT - 1);
        reader->stats->n_replaced_bytes++;
        at++;
        const size_t valid = utf8_valid_len(*text + at, *len - at);
        pl_buf_append(&reader->clean, *text + at, valid);
        at += valid;
    }
    *text = (const char *)reader->clean.data;
    *len = reader->clean.len;
}

/* Delivers a document. `text` must be valid UTF-8. A domain becomes a part of tables
 * and log lines, so it must not contain line breaks. */
static pl_status deliver(document_reader *reader, const text_source *source,
                         const char *text, size_t len, const char *domain,
                         size_t domain_len)
{
    if (is_blank_text(text, len)) {
        reader->stats->n_empty++;
        return PL_OK;
    }
    reader->stats->n_documents++;
    reader->stats->n_bytes += len;
    pl_buf_clear(&reader->domain);
    pl_buf_printable(&reader->domain, domain, domain_len, false);
    pl_document document = {.text = text,
                            .len = len,
                            .domain = pl_buf_text(&reader->domain),
                            .source = source->path};
    return reader->fn(reader->context, &document);
}

/* Files whose text must be taken out first; a PDF file may have no NUL bytes. In a
 * folder, those without a remedy are left out. */
static const struct packed {
    const char *begins, *kind, *remedy;
    size_t at;
} packed_kinds[] = {
    {"PAR1", "a Parquet file",
     "convert it with duckdb -c \"COPY (SELECT text FROM 'FILE') TO 'corpus.jsonl' "
     "(FORMAT json)\" and give corpus.jsonl",
     0},
    {"PK\x03\x04", "a zip archive (such as .docx, .xlsx or .epub)", NULL, 0},
    {"%PDF-", "a PDF document", NULL, 0},
    {"{\\rtf", "an RTF document", NULL, 0},
    {"ustar", "a tar archive", NULL, 257}};

static pl_status too_long(const text_source *source)
{
    return pl_fail(PL_ERR_DATA,
                   "'%s' has a document of more than %d MiB: divide the document into "
                   "several files or JSON lines",
                   source->path, DOCUMENT_MAX >> 20);
}

/* ---- a file that is one document ---- */
/* Returns how many bytes of U+FEFF to skip, which Windows programs write first. */
static size_t byte_order_mark(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static pl_status not_text(const text_source *source)
{
    return pl_fail(PL_ERR_DATA,
                   "'%s' is not text: it contains NUL bytes; give UTF-8 text, JSON "
                   "lines or a folder of them",
                   source->path);
}

/* A file that contains a NUL byte is not text. */
static pl_status read_whole(document_reader *reader, text_source *source)
{
    bool end = false, binary = false;
    size_t checked = 0;
    while (!end) {
        size_t fresh = reader->raw.len - checked;
        binary = fresh > 0 && memchr(reader->raw.data + checked, 0, fresh) != NULL;
        if (binary)
            break;
        if (reader->raw.len > DOCUMENT_MAX)
            return too_long(source);
        checked = reader->raw.len;
        PL_CHECK(text_stream_read(source->stream, CHUNK_BYTES, &reader->raw, &end));
    }
    if (binary && source->in_folder) {
        reader->stats->n_skipped_files++;
        return PL_OK;
    }
    if (binary)
        return not_text(source);
    reader->stats->n_files++;
    if (reader->raw.len == 0) {
        reader->stats->n_empty++;
        return PL_OK;
    }
    const char *text = (const char *)reader->raw.data;
    size_t len = reader->raw.len, mark = byte_order_mark(text, len);
    text += mark;
    len -= mark;
    clean_text(reader, &text, &len);
    return deliver(reader, source, text, len, source->domain, strlen(source->domain));
}

/* ---- a file that is cut ---- */
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

/* Returns the length of the first piece of a longer text, 1 to `most` bytes. In the
 * second half of the piece it looks for the last end of a paragraph; if there is none,
 * for the last end of a line; then for the last end of a word. If the second half has
 * none of these, the cut is between two characters. */
static size_t text_cut_len(const char *text, size_t most)
{
    static const border_fn kinds[] = {ends_paragraph, ends_line, ends_word};
    size_t least = most / 2 > 0 ? most / 2 : 1;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t at = most; at >= least; at--)
            if (kinds[k](text, at))
                return at;
    /* a character has at most three continuation bytes */
    size_t at = most;
    while (at > 1 && most - at < 3 && ((uint8_t)text[at] & 0xc0) == 0x80)
        at--;
    return ((uint8_t)text[at] & 0xc0) == 0x80 ? most : at;
}

static pl_status deliver_piece(document_reader *reader, const text_source *source,
                               size_t begin, size_t len)
{
    const char *text = (const char *)reader->raw.data + begin;
    clean_text(reader, &text, &len);
    pl_hasher_add(&reader->whole, text, len);
    return deliver(reader, source, text, len, source->domain, strlen(source->domain));
}

/* Delivers a text file in pieces. A byte order mark is removed before the first cut. */
static pl_status read_pieces(document_reader *reader, const text_source *source)
{
    bool end = false, begun = false;
    size_t checked = 0, len;
    pl_hasher_init(&reader->whole, "document");
    while (!end) {
        if (reader->raw.len > checked &&
            memchr(reader->raw.data + checked, 0, reader->raw.len - checked))
            return not_text(source);
        if (reader->raw.len > reader->how.cut_bytes) {
            const char *text = (const char *)reader->raw.data;
            size_t begin = begun ? 0 : byte_order_mark(text, reader->raw.len);
            begun = true;
            for (; reader->raw.len - begin > reader->how.cut_bytes; begin += len) {
                len = text_cut_len(text + begin, reader->how.cut_bytes);
                PL_CHECK(deliver_piece(reader, source, begin, len));
                reader->stats->n_cuts++;
            }
            reader->raw.len -= begin;
            memmove(reader->raw.data, text + begin, reader->raw.len);
        }
        checked = reader->raw.len;
        PL_CHECK(text_stream_read(source->stream, CHUNK_BYTES, &reader->raw, &end));
    }
    reader->stats->n_files++;
    if (reader->raw.len == 0) {
        reader->stats->n_empty++;
        return PL_OK;
    }
    size_t mark = begun ? 0 : byte_order_mark((const char *)reader->raw.data, checked);
    PL_CHECK(deliver_piece(reader, source, mark, reader->raw.len - mark));
    pl_hasher_end(&reader->whole, &reader->stats->whole);
    return PL_OK;
}

/* ---- JSON lines ---- */
/* Delivers the text of a JSON line; a line without a domain has the folder's domain.
 * Replaces invalid bytes, so that a single one in a long text does not make the whole
 * corpus unusable. */
static pl_status read_json_line(document_reader *reader, text_source *source,
                                char *text, size_t len)
{
    json_line found = {.why = &reader->why};
    source->line++;
    /* `cat` of several files may put a mark before any line */
    const size_t mark = byte_order_mark(text, len);
    text += mark;
    len -= mark;
    if (is_blank_text(text, len))
        return PL_OK;
    pl_buf_clear(&reader->why);
    if (json_line_read(text, len, reader->how.text_key, &found)) {
        const char *doc = found.text, *domain = found.domain;
        const bool own = domain && found.domain_len > 0;
        clean_text(reader, &doc, &found.len);
        return deliver(reader, source, doc, found.len, own ? domain : source->domain,
                       own ? found.domain_len : strlen(source->domain));
    }
    pl_status status =
        pl_fail(PL_ERR_DATA, "'%.300s' line %llu: %s", source->path,
                (unsigned long long)source->line, pl_buf_text(&reader->why));
    if (!reader->how.skip_bad)
        return pl_fail(status, "%s; correct the line, or set data.bad_lines=skip",
                       pl_last_error());
    if (reader->stats->n_bad_lines++ == 0)
        pl_copy_text(reader->stats->first_bad_line,
                     sizeof reader->stats->first_bad_line, pl_last_error());
    return PL_OK;
}

/* Reads lines of any length; the buffer grows to the longest one. */
static pl_status read_lines(document_reader *reader, text_source *source)
{
    bool end = false;
    /* the file's first bytes are in the buffer, not yet searched for a newline */
    size_t scanned = 0;
    reader->stats->n_files++;
    while (!end) {
        size_t begin = 0;
        while (scanned < reader->raw.len) {
            const uint8_t *newline =
                memchr(reader->raw.data + scanned, '\n', reader->raw.len - scanned);
            if (!newline)
                break;
            size_t line_end = (size_t)(newline - reader->raw.data);
            PL_CHECK(read_json_line(reader, source, (char *)reader->raw.data + begin,
                                    line_end - begin));
            begin = scanned = line_end + 1;
        }
        if (begin > 0) {
            reader->raw.len -= begin;
            memmove(reader->raw.data, reader->raw.data + begin, reader->raw.len);
        }
        if (reader->raw.len > DOCUMENT_MAX)
            return too_long(source);
        scanned = reader->raw.len;
        PL_CHECK(text_stream_read(source->stream, CHUNK_BYTES, &reader->raw, &end));
    }
    if (reader->raw.len == 0)
        return PL_OK;
    return read_json_line(reader, source, (char *)reader->raw.data, reader->raw.len);
}

/* ---- files ---- */
/* Returns where the text begins, after blanks and a byte order mark. */
static size_t text_begin(const pl_buf *raw)
{
    size_t at = byte_order_mark((const char *)raw->data, raw->len);
    while (at < raw->len && memchr(" \t\r\n", raw->data[at], 4))
        at++;
    return at;
}

/* Finds out whether a file has JSON lines although its name does not say so: its first
 * line is an object that has a text, and the next line, if there is one, begins with a
 * brace. (A text file may begin with a brace, too.) Reads on to the next line if the
 * first one begins like an object. */
static pl_status find_lines(document_reader *reader, text_source *source, bool *lines)
{
    const size_t begin = text_begin(&reader->raw);
    bool end = false;
    *lines = begin < reader->raw.len && reader->raw.data[begin] == '{';
    while (*lines) {
        const char *line = (const char *)reader->raw.data + begin;
        const size_t left = reader->raw.len - begin;
        const char *newline = memchr(line, '\n', left);
        const size_t len = newline ? (size_t)(newline - line) : left;
        size_t next = len;
        while (next < left && memchr(" \t\r\n", line[next], 4))
            next++;
        if (next < left || end || left > DOCUMENT_MAX) {
            *lines = (next == left || line[next] == '{') &&
                     json_line_begins(line, len, reader->how.text_key);
            return PL_OK;
        }
        PL_CHECK(text_stream_read(source->stream, CHUNK_BYTES, &reader->raw, &end));
    }
    return PL_OK;
}

/* Returns the name of the encoding if the text is in UTF-16 or UTF-32, otherwise NULL.
 * Without a byte order mark it is UTF-16 if most characters have a byte that is NUL and
 * all these bytes are at even, or all at odd places. */
static const char *wide_encoding(const pl_buf *raw)
{
    const uint8_t *at = raw->data;
    size_t n = raw->len < 1024 ? raw->len & ~(size_t)1 : 1024, nuls[2] = {0, 0};
    if (raw->len >= 4 && memcmp(at, "\xff\xfe\0\0", 4) == 0)
        return "UTF-32";
    if (raw->len >= 4 && memcmp(at, "\0\0\xfe\xff", 4) == 0)
        return "UTF-32";
    if (n >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0))
        return "UTF-16";
    for (size_t i = 0; i < n; i++)
        nuls[i % 2] += at[i] == 0;
    return n >= 4 && nuls[0] == 0 && nuls[1] > n / 4   ? "UTF-16LE"
           : n >= 4 && nuls[1] == 0 && nuls[0] > n / 4 ? "UTF-16BE"
                                                       : NULL;
}

pl_status pl_refuse_pointer(const char *path, const void *bytes, size_t len)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    if (len < sizeof begin - 1 || memcmp(bytes, begin, sizeof begin - 1) != 0)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "'%.300s' is a Git LFS pointer and not the file itself: run git lfs "
                   "pull, or download the file",
                   path);
}

/* Returns whether the text is an array whose first object has a text. Reads on while
 * this object is not complete; doubles what is read, since it looks at all again. */
static pl_status find_array(document_reader *reader, text_source *source, bool *array)
{
    pl_buf *raw = &reader->raw;
    bool end = false;
    *array = false;
    for (;;) {
        const size_t begin = text_begin(raw), left = raw->len - begin;
        const char *text = (const char *)raw->data + begin;
        size_t at = 1;
        while (at < left && memchr(" \t\r\n", text[at], 4))
            at++;
        if (left == 0 || text[0] != '[' || (at < left && text[at] != '{'))
            return PL_OK;
        *array = json_line_begins(text + 1, left - 1, reader->how.text_key);
        if (*array || end || left > DOCUMENT_MAX)
            return PL_OK;
        const size_t wanted = 2 * raw->len;
        while (!end && raw->len < wanted)
            PL_CHECK(text_stream_read(source->stream, wanted - raw->len, raw, &end));
    }
}

/* The first bytes tell what a file is. */
static pl_status read_file(document_reader *reader, text_source *source)
{
    static const char *const suffixes[] = {".jsonl", ".ndjson"};
    const size_t stem = text_stream_stem(source->path);
    bool end = false, lines = false, array = false;
    pl_status status = PL_OK;
    for (size_t i = 0; i < 2; i++) {
        const size_t len = strlen(suffixes[i]);
        lines = lines || (stem > len &&
                          memcmp(source->path + stem - len, suffixes[i], len) == 0);
    }
    pl_buf_clear(&reader->raw);
    PL_CHECK(text_stream_open(source->path, &source->stream));
    PL_TRY(text_stream_read(source->stream, CHUNK_BYTES, &reader->raw, &end));
    const struct packed *packed = NULL;
    for (size_t i = 0; i < sizeof packed_kinds / sizeof *packed_kinds && !packed; i++) {
        const struct packed *kind = &packed_kinds[i];
        const size_t len = strlen(kind->begins);
        if (reader->raw.len >= kind->at + len &&
            memcmp(reader->raw.data + kind->at, kind->begins, len) == 0)
            packed = kind;
    }
    const char *wide = wide_encoding(&reader->raw);
    if (source->in_folder && (wide || (packed && !packed->remedy))) {
        reader->stats->n_skipped_files++;
        goto done;
    }
    /* a file is refused that would be read as something different from what it is */
    if (packed)
        PL_TRY(pl_fail(
            PL_ERR_UNSUPPORTED, "'%.*s' is %s, which this program cannot read: %s",
            NAME_SHOWN, source->path, packed->kind,
            packed->remedy ? packed->remedy : "give its text, or a folder of texts"));
    PL_TRY(pl_refuse_pointer(source->path, reader->raw.data, reader->raw.len));
    if (wide)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "'%.*s' is in %s, but text must be in UTF-8: convert it with "
                       "iconv -f %s -t UTF-8 '%.*s' > NEW",
                       NAME_SHOWN, source->path, wide, wide, NAME_SHOWN, source->path));
    if (!source->in_folder)
        PL_TRY(find_array(reader, source, &array));
    if (array)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "'%.*s' is a JSON array of texts, not JSON lines: convert it "
                       "with jq -c '.[]' '%.*s' > corpus.jsonl",
                       NAME_SHOWN, source->path, NAME_SHOWN, source->path));
    const bool braced = reader->raw.len > 0 && reader->raw.data[0] == '{';
    if (!lines && strcmp(source->path, "-") == 0 && braced)
        lines = true;
    if (!lines)
        PL_TRY(find_lines(reader, source, &lines));
    if (lines)
        PL_TRY(read_lines(reader, source));
    else if (reader->how.cut_bytes > 0 && !source->in_folder)
        PL_TRY(read_pieces(reader, source));
    else
        PL_TRY(read_whole(reader, source));
done:
    text_stream_close(&source->stream);
    return status;
}

/* ---- folders ---- */
/* Orders names by their bytes, so the order is the same in every locale. */
static int by_entry_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Reads the files of a folder and those below. Links to folders may form circles. */
static pl_status read_folder(document_reader *reader, const char *path)
{
    char root[PL_PATH_MAX];
    pl_status status = PL_OK;
    if (!pl_copy_text(root, sizeof root, path))
        return pl_fail(PL_ERR_ARG, "the path '%s' is too long", path);
    char *roots[] = {root, NULL};
    FTS *walk =
        fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_entry_name);
    if (!walk)
        return pl_fail(PL_ERR_IO, "reading the folder '%s' failed: %s", path,
                       strerror(errno));
    for (FTSENT *entry = fts_read(walk); entry; entry = fts_read(walk)) {
        if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
            fts_set(walk, entry, FTS_SKIP);
            continue;
        }
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
            entry->fts_info == FTS_NS)
            PL_TRY(pl_fail(entry->fts_errno == EACCES ? PL_ERR_NOPERM : PL_ERR_IO,
                           "reading '%s' failed: %s", entry->fts_path,
                           strerror(entry->fts_errno)));
        /* reading a pipe or socket would block */
        struct stat info;
        const bool links = entry->fts_info == FTS_SL &&
                           stat(entry->fts_path, &info) == 0 && S_ISREG(info.st_mode);
        if (entry->fts_info != FTS_F && !links)
            continue;
        /* The domain is the name of the folder directly below the root that contains
         * the entry, or "" if the entry is in the root itself. */
        char domain[256];
        const char *below = entry->fts_path + strlen(root);
        below += strspn(below, "/");
        const size_t len = strcspn(below, "/");
        const bool nested = below[len] == '/' && len < sizeof domain;
        memcpy(domain, below, nested ? len : 0);
        domain[nested ? len : 0] = '\0';
        text_source source = {
            .path = entry->fts_path, .domain = domain, .in_folder = true};
        PL_TRY(read_file(reader, &source));
    }
    if (reader->stats->n_files == 0)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "the folder '%s' holds no text files (it has %llu binary or UTF-16 files; "
            "hidden files are not counted): give UTF-8 text, JSON lines, or a folder "
            "of them",
            path, (unsigned long long)reader->stats->n_skipped_files));
done:
    fts_close(walk);
    return status;
}

pl_status pl_documents_cut(const char *path, const pl_reading *reading,
                           pl_document_fn fn, void *context, pl_read_stats *stats)
{
    pl_read_stats unused;
    document_reader reader = {.fn = fn,
                              .context = context,
                              .stats = stats ? stats : &unused,
                              .how = reading ? *reading : (pl_reading){0}};
    if (!reader.how.text_key)
        reader.how.text_key = "text";
    *reader.stats = (pl_read_stats){0};
    pl_status status;
    if (pl_path_is_folder(path)) {
        status = read_folder(&reader, path);
    } else {
        text_source source = {.path = path, .domain = ""};
        status = read_file(&reader, &source);
    }
    pl_buf_destroy(&reader.raw);
    pl_buf_destroy(&reader.clean);
    pl_buf_destroy(&reader.domain);
    pl_buf_destroy(&reader.why);
    return status;
}
