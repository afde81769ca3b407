/* Reads the machine's own text: files of a Debian installation, grouped by domain.
 *
 * With these files a first run can train on real text of several domains without a
 * download. First all files are listed, in the order of names. Then files are read
 * until there is enough text. The next file always comes from the domain with the
 * fewest bytes so far. Within a domain the order is shuffled, always the same. Only
 * files below /usr that every user may read are read, and links are not followed. */
#include "corpus/text_stream.h"
#include "corpus/tokenizer.h"
#include "corpus/utf8.h"
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    DOCUMENT_BYTES = 32 << 10, /* only the first bytes of a longer file are used */
    SHORTEST_BYTES = 256,      /* shorter files are skipped */
    LEAST_DOMAINS = 3,
    LEAST_BYTES = 2000000
};

/* Folders with files of a domain. In the table `places`, rows of one domain are
 * adjacent, because a row with a new name begins a new domain. */
typedef struct text_place {
    const char *domain, *root;   /* root: a glob pattern of folders */
    const char *prefix, *suffix; /* start and end of the files' names */
    int depth; /* greatest depth of a file below the root; 1: directly in it */
} text_place;
static const text_place places[] = {
    {"c-headers", "/usr/include", "", ".h", 16},
    {"changelogs", "/usr/share/doc", "changelog", "", 2},
    {"man-pages", "/usr/share/man", "", ".gz", 2},
    {"licences", "/usr/share/doc", "copyright", "", 2},
    {"licences", "/usr/share/common-licenses", "", "", 1},
    {"cmake", "/usr/share/cmake-*", "", ".cmake", 16},
    {"cmake", "/usr/share/cmake-*", "", ".rst", 16},
    {"perl", "/usr/share/perl*", "", ".pm", 16},
    {"perl", "/usr/lib/*/perl*", "", ".pm", 16},
    {"python", "/usr/lib/python3*", "", ".py", 16},
};
enum { N_PLACES = sizeof places / sizeof *places };

typedef struct domain_files {
    const char *name;
    char **paths;
    size_t n_paths;
    size_t next; /* number of files that were tried so far */
    uint64_t n_documents, n_bytes;
} domain_files;

typedef struct system_text {
    domain_files domains[N_PLACES];
    size_t n_domains;
    uint64_t n_bytes;
    pl_buf raw;
} system_text;

/* ---- finding files ---- */
static int by_file_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Lists the files of a place. A folder that cannot be read gives no files;
 * pl_system_text_read reports it if too little text is left. */
static void walk_place(domain_files *files, const text_place *place, char **roots)
{
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_file_name);
    if (!walk)
        return;
    for (FTSENT *entry = fts_read(walk); entry; entry = fts_read(walk)) {
        /* Only folders that every user may enter are used, even if this user may enter
         * private ones. The folders `unicore` have Perl's tables of numbers. */
        if (entry->fts_info == FTS_D &&
            !(entry->fts_level < place->depth &&
              (entry->fts_statp->st_mode & S_IROTH) &&
              (entry->fts_statp->st_mode & S_IXOTH) && entry->fts_name[0] != '.' &&
              strcmp(entry->fts_name, "unicore") != 0))
            fts_set(walk, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_F && (entry->fts_statp->st_mode & S_IROTH) &&
                 entry->fts_statp->st_size > 0 &&
                 pl_starts_with(entry->fts_name, place->prefix) &&
                 pl_ends_with(entry->fts_name, place->suffix)) {
            files->paths = pl_grow_items(files->paths, files->n_paths,
                                         files->n_paths + 1, sizeof *files->paths);
            files->paths[files->n_paths++] = pl_strdup(entry->fts_path);
        }
    }
    fts_close(walk);
}

/* ---- reading ---- */
/* Tries the domain's next file, and delivers its beginning, cut at the end of a line.
 * No user named the file, so it is skipped if it cannot be read or is not UTF-8. The
 * order of files is shuffled, but always the same. So the files that are used represent
 * all files of the domain. */
static pl_status read_next(system_text *text, domain_files *files, pl_document_fn fn,
                           void *context)
{
    const uint64_t shuffle =
        pl_stream("system text", (uint64_t)(files - text->domains), 0);
    const char *path =
        files->paths[pl_permute(0, shuffle, files->n_paths, files->next++)];
    pl_buf *raw = &text->raw;
    text_stream *stream;
    bool end = false;
    pl_buf_clear(raw);
    if (text_stream_open(path, &stream) != PL_OK)
        return PL_OK;
    while (!end && raw->len <= DOCUMENT_BYTES)
        if (text_stream_read(stream, DOCUMENT_BYTES, raw, &end) != PL_OK)
            break;
    text_stream_close(&stream);
    const char *begin = (const char *)raw->data;
    if (raw->len < SHORTEST_BYTES)
        return PL_OK;
    const size_t len = tokenizer_block_len(begin, raw->len, DOCUMENT_BYTES);
    if (utf8_valid_len(begin, len) != len)
        return PL_OK;
    files->n_documents++;
    files->n_bytes += len;
    text->n_bytes += len;
    const pl_document document = {
        .text = begin, .len = len, .domain = files->name, .source = path};
    return fn(context, &document);
}

pl_status pl_system_text_read(uint64_t max_bytes, pl_document_fn fn, void *context,
                              pl_buf *describe)
{
    system_text *text = pl_alloc(sizeof *text);
    pl_status status = PL_OK;
    for (size_t i = 0; i < N_PLACES; i++) {
        glob_t found = {0};
        if (i == 0 || strcmp(places[i].domain, places[i - 1].domain) != 0)
            text->domains[text->n_domains++].name = places[i].domain;
        if (glob(places[i].root, GLOB_NOSORT, NULL, &found) == 0)
            walk_place(&text->domains[text->n_domains - 1], &places[i], found.gl_pathv);
        globfree(&found);
    }
    while (text->n_bytes < max_bytes) {
        /* Takes the domain with files left that has the fewest bytes so far. So if a
         * small domain runs out of files, the other domains share its part equally. */
        domain_files *next = NULL;
        for (size_t d = 0; d < text->n_domains; d++) {
            domain_files *files = &text->domains[d];
            bool left = files->next < files->n_paths;
            if (left && (!next || files->n_bytes < next->n_bytes))
                next = files;
        }
        if (!next)
            break;
        PL_TRY(read_next(text, next, fn, context));
    }
    size_t n_filled = 0;
    for (size_t d = 0; d < text->n_domains; d++) {
        const domain_files *files = &text->domains[d];
        if (files->n_documents == 0)
            continue;
        if (describe)
            pl_buf_printf(describe, "%s%s %llu%s", n_filled > 0 ? ", " : "",
                          files->name, (unsigned long long)files->n_documents,
                          n_filled > 0 ? "" : " documents");
        n_filled++;
    }
    /* a router needs several domains, and a tokenizer enough text */
    uint64_t least = max_bytes < LEAST_BYTES ? max_bytes : LEAST_BYTES;
    if (n_filled < LEAST_DOMAINS || text->n_bytes < least)
        PL_TRY(pl_fail(
            PL_ERR_NOT_FOUND,
            "this machine has too little text of its own: %.1f MB in %zu domains, but "
            "%.1f MB in %d domains are needed; name a corpus, or 'apt install "
            "libc6-dev manpages manpages-dev cmake-data perl-modules python3'",
            (double)text->n_bytes / 1e6, n_filled, (double)least / 1e6, LEAST_DOMAINS));
done:
    for (size_t d = 0; d < text->n_domains; d++) {
        for (size_t i = 0; i < text->domains[d].n_paths; i++)
            pl_free(text->domains[d].paths[i]);
        pl_free(text->domains[d].paths);
    }
    pl_buf_destroy(&text->raw);
    pl_free(text);
    return status;
}
