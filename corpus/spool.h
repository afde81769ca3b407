/* Keeps documents until they are encoded: their texts in a scratch file, and an index
 * in memory. Before the first document can be encoded, the tokenizer needs text from
 * the whole corpus. But the corpus may be larger than memory, and may come from a pipe,
 * which can be read only once. */
#pragma once
#include "corpus/corpus.h"

enum { SPOOL_DOMAINS_MAX = 1024 };

typedef struct spool_doc {
    /* at: position of the text in the scratch file, in bytes; hash: the first 8 bytes
     * of the document's identity hash; len: length of the text in bytes */
    uint64_t at, hash;
    uint32_t len;
    uint16_t domain;
    bool held_out;
} spool_doc;

typedef struct document_spool {
    char path[PL_PATH_MAX];
    FILE *file;
    uint64_t n_bytes;
    spool_doc *docs;
    size_t n_docs, docs_cap;
    uint64_t *seen; /* hash table with open addressing; 0 marks an empty place */
    size_t seen_size;
    char *domains[SPOOL_DOMAINS_MAX];
    size_t n_domains;
    pl_mapping text;
} document_spool;

/* Makes a scratch file in `folder`, which spool_destroy deletes. ERR_IO. */
pl_status spool_create(const char *folder, document_spool **out);
void spool_destroy(document_spool **spool); /* accepts NULL */

/* Returns the first 8 bytes of a document's identity hash as a number. */
uint64_t spool_identity(const pl_hash *identity);
bool spool_has(const document_spool *spool, uint64_t hash);

/* Adds a document. All domains after the first SPOOL_DOMAINS_MAX - 1 are called
 * "other"; a document without a domain gets "unknown". */
pl_status spool_add(document_spool *spool, const pl_document *document, uint64_t hash,
                    bool held_out);

/* Call this after the last document; only then can the texts be read. */
pl_status spool_seal(document_spool *spool);

static inline const char *spool_text(const document_spool *spool, size_t i)
{
    return (const char *)spool->text.data + spool->docs[i].at;
}
