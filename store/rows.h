/* The keys of rows, and the envelope around every record: a version byte and a checksum
 * (PROTOCOL 4.4, 4.5).
 *
 * The functions return ERR_DAMAGED if a row is damaged (the text has the row's family
 * and key), and ERR_UNSUPPORTED if a newer release wrote the row. */
#pragma once
#include "store/kv.h"
#include "store/store.h"

enum { ROW_KEY_MAX = PL_MODULE_NAME_MAX + 32 };
typedef struct row_key {
    uint8_t bytes[ROW_KEY_MAX];
    size_t len;
} row_key;

row_key key_of_name(const char *name);
row_key key_of_hash(const pl_hash *hash);
row_key key_of_number(uint64_t number); /* log family */
/* version family; and the beginning of a phase's keys in the pending family */
row_key key_of_version(const char *module, uint64_t number);
row_key key_of_versions(const char *module);
row_key key_of_pack(uint64_t pack, uint32_t number); /* pack family */
row_key key_of_pending(const char *module, const pl_contribution *c);
kv_slice key_slice(const row_key *key);

/* ERR_ARG unless `name` has 1 to 95 bytes of printable ASCII without blanks. The text
 * of the error contains `what`, the kind of the name, such as "module". */
pl_status check_name(const char *what, const char *name);

/* Where rows are looked up: in the database, or, if there is a batch, in the database
 * as it would be after the batch. */
struct remote_work;
typedef struct row_source {
    kv *db;
    kv_batch *batch;       /* or NULL */
    const pl_store *store; /* has the bytes of chunks; NULL if only records are read */
    /* with a batch: the objects that its transaction will write to the engine */
    const struct remote_work *work;
} row_source;

/* A row that is decoded. `fields` are valid from row_read or row_open to row_end. */
typedef struct row_view {
    pl_reader fields;
    kv_pin pin;
    kv_family family;
    row_key key;
    bool found;
} row_view;

pl_status row_read(row_source from, kv_family family, const row_key *key,
                   row_view *out);
/* Opens a row whose key and value the caller already has from a cursor. */
pl_status row_open(kv_family family, kv_slice key, kv_slice value, row_view *out);
/* Releases the row. ERR_DAMAGED if a field of the row was missing or wrong. */
pl_status row_end(row_view *row);
pl_status row_damaged(const row_view *row, const char *how);

/* Adds the envelope to the fields, puts the row into the batch and clears `fields`. */
void row_write(kv_batch *batch, kv_family family, const row_key *key, pl_buf *fields);
/* row_seal writes the fields with their envelope to `out`, without a batch. row_seal_as
 * also sets the version byte, for tests. */
void row_seal(kv_family family, kv_slice key, const pl_buf *fields, pl_buf *out);
void row_seal_as(uint8_t version, kv_family family, kv_slice key, const pl_buf *fields,
                 pl_buf *out);
