/* Identity and checksums.
 *
 * Data is identified by its BLAKE2b-256 hash (libsodium). The hash depends on the use,
 * so a chunk and a manifest with the same bytes have different hashes. XXH3-64 is a
 * checksum that finds accidental damage. It is not used to identify data, because an
 * attacker can make data with a given checksum. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

enum { PL_HASH_BYTES = 32, PL_HASH_TEXT = 65 };
typedef struct pl_hash {
    uint8_t bytes[PL_HASH_BYTES];
} pl_hash; /* all zero means "no hash" */

/* Hashes data. `use` is a word of at most 16 bytes ("chunk", "blob", "config",
 * "document", ...): the same data has different hashes for different uses. */
void pl_hash_of(const char *use, const void *data, size_t len, pl_hash *out);
/* A message authentication code: the hash under a key of PL_HASH_BYTES bytes. */
void pl_hash_keyed(const char *use, const uint8_t *key, const void *data, size_t len,
                   pl_hash *out);
/* HMAC-SHA256 (RFC 2104), with which requests to S3 are signed; and SHA-256 as 64 hex
 * digits. */
void pl_hmac_sha256(const void *key, size_t key_len, const char *text,
                    uint8_t out[PL_HASH_BYTES]);
void pl_sha256_hex(const char *text, char out[PL_HASH_TEXT]);
/* Compares in constant time, so that the time does not tell where the bytes differ. */
bool pl_hash_is_mac(const pl_hash *mac, const uint8_t claimed[PL_HASH_BYTES]);

/* Computes the hash of pl_hash_of for data that comes in pieces. A hasher is bound to
 * its address: do not copy it. */
typedef struct pl_hasher {
    uint64_t state[56]; /* the state has 384 bytes and begins at a multiple of 64 */
} pl_hasher;
void pl_hasher_init(pl_hasher *hasher, const char *use);
void pl_hasher_add(pl_hasher *hasher, const void *data, size_t len);
void pl_hasher_end(pl_hasher *hasher, pl_hash *out);

bool pl_hash_equal(const pl_hash *a, const pl_hash *b);
bool pl_hash_none(const pl_hash *hash);
char *pl_hash_format(const pl_hash *hash, char text[PL_HASH_TEXT]); /* 64 hex digits */
/* ERR_DATA: the text is not 64 hex digits in lower case. */
pl_status pl_hash_parse(const char *text, pl_hash *out);

uint64_t pl_checksum(const void *data, size_t len); /* XXH3-64, seed 0 */

/* Computes the checksum of pieces as if they were contiguous. */
typedef struct pl_piece {
    const void *data;
    size_t len;
} pl_piece;
uint64_t pl_checksum_pieces(const pl_piece *pieces, size_t n_pieces);

/* out[i] = pl_hash_of(use, piece i). On a machine with AVX2 several pieces are hashed
 * at the same time, which is two to three times as fast. */
void pl_hash_many(const char *use, const pl_piece *pieces, size_t n, pl_hash *out);

PL_C_END
