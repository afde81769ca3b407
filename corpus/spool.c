/* Keeps documents until they are encoded (spool.h).
 *
 * The texts are written to a scratch file, which is mapped into memory after the last
 * text. So the page cache holds the texts that fit into memory, and the disk holds all
 * of them. The spool itself needs memory for 24 bytes per document, and for a set of
 * hashes with which duplicates are found. With 64 bits of a cryptographic hash, the
 * probability that two of n different documents have the same hash is n^2 / 2^65: one
 * in four thousand for a hundred million documents. */
#include "corpus/spool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pl_status spool_create(const char *folder, document_spool **out)
{
    document_spool *made = pl_alloc(sizeof *made);
    pl_status status = PL_OK;
    *out = NULL;
    if (pl_join(made->path, folder, "documents.tmp")[0] == '\0')
        PL_TRY(pl_fail(PL_ERR_ARG, "the path '%s' is too long", folder));
    made->file = fopen(made->path, "wb");
    if (!made->file)
        PL_TRY(pl_file_failed("write", made->path));
    *out = made;
    made = NULL;
done:
    spool_destroy(&made);
    return status;
}

void spool_destroy(document_spool **spool)
{
    if (!*spool)
        return;
    pl_unmap_file(&(*spool)->text);
    if ((*spool)->file)
        fclose((*spool)->file);
    if ((*spool)->path[0])
        remove((*spool)->path);
    for (size_t i = 0; i < (*spool)->n_domains; i++)
        pl_free((*spool)->domains[i]);
    free((*spool)->docs);
    free((*spool)->seen);
    pl_free(*spool);
    *spool = NULL;
}

uint64_t spool_identity(const pl_hash *identity)
{
    uint64_t hash;
    memcpy(&hash, identity->bytes, sizeof hash);
    return hash;
}

uint64_t pl_document_hash(const pl_document *document)
{
    pl_hash identity;
    pl_hash_of("document", document->text, document->len, &identity);
    return spool_identity(&identity);
}

/* ---- the set of hashes ---- */

/* 0 marks an empty place, so hash 0 (one in 2^64) is replaced. */
static uint64_t never_zero(uint64_t hash)
{
    return hash ? hash : 1;
}

/* Returns the place of the hash, or the empty place where it can be added. */
static size_t seen_place(const uint64_t *seen, size_t size, uint64_t hash)
{
    size_t place = (size_t)hash & (size - 1);
    while (seen[place] != 0 && seen[place] != hash)
        place = (place + 1) & (size - 1);
    return place;
}

bool spool_has(const document_spool *spool, uint64_t hash)
{
    hash = never_zero(hash);
    return spool->seen_size > 0 &&
           spool->seen[seen_place(spool->seen, spool->seen_size, hash)] == hash;
}

/* ---- adding ---- */

pl_status spool_add(document_spool *spool, const pl_document *document, uint64_t hash,
                    bool held_out)
{
    if (document->len > UINT32_MAX)
        return pl_fail(PL_ERR_DATA,
                       "'%s' has a document of %zu bytes, but a document can have at "
                       "most %u bytes; divide the document",
                       document->source, document->len, UINT32_MAX);
    if (spool->n_docs == spool->docs_cap) {
        /* At least half of the places in the table of hashes stay empty. */
        size_t cap = spool->docs_cap ? spool->docs_cap * 2 : 1024, size = cap * 2;
        spool_doc *docs = realloc(spool->docs, cap * sizeof *docs);
        if (docs)
            spool->docs = docs;
        uint64_t *seen = calloc(size, sizeof *seen);
        if (!docs || !seen) {
            free(seen);
            return pl_fail(PL_ERR_NOMEM, "no memory for an index of %zu documents",
                           cap);
        }
        for (size_t i = 0; i < spool->n_docs; i++) {
            uint64_t known = never_zero(spool->docs[i].hash);
            seen[seen_place(seen, size, known)] = known;
        }
        free(spool->seen);
        spool->seen = seen;
        spool->seen_size = size;
        spool->docs_cap = cap;
    }
    PL_CHECK(pl_failpoint("spool.write.before"));
    if (fwrite(document->text, 1, document->len, spool->file) != document->len)
        return pl_file_failed("write", spool->path);
    /* A linear search is enough for at most SPOOL_DOMAINS_MAX domains. */
    const char *name = document->domain[0] ? document->domain : "unknown";
    size_t domain = 0;
    while (domain < spool->n_domains && strcmp(spool->domains[domain], name) != 0)
        domain++;
    if (domain == SPOOL_DOMAINS_MAX)
        domain--;
    else if (domain == spool->n_domains)
        spool->domains[spool->n_domains++] =
            pl_strdup(domain == SPOOL_DOMAINS_MAX - 1 ? "other" : name);
    spool->docs[spool->n_docs++] = (spool_doc){.at = spool->n_bytes,
                                               .hash = hash,
                                               .len = (uint32_t)document->len,
                                               .domain = (uint16_t)domain,
                                               .held_out = held_out};
    hash = never_zero(hash);
    spool->seen[seen_place(spool->seen, spool->seen_size, hash)] = hash;
    spool->n_bytes += document->len;
    return PL_OK;
}

pl_status spool_seal(document_spool *spool)
{
    int closed = fclose(spool->file);
    spool->file = NULL;
    if (closed != 0)
        return pl_file_failed("write", spool->path);
    /* an empty file cannot be mapped */
    return spool->n_bytes > 0 ? pl_map_file(spool->path, &spool->text) : PL_OK;
}
