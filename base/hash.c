/* Computes BLAKE2b-256 (with libsodium) and XXH3-64 (with xxHash).
 *
 * The use goes into BLAKE2b's personalisation field instead of in front of the data. So
 * the use costs no time, and no choice of bytes can make hashes of two uses collide. */
#include "base/hash.h"
#include "base/mem.h"
#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef PL_XXHASH_CHOOSES
/* like xxhash.h, but chooses the vector instructions when the program runs */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

_Static_assert(PL_HASH_BYTES == crypto_generichash_blake2b_BYTES, "BLAKE2b-256");
_Static_assert(sizeof(pl_hasher) >= sizeof(crypto_generichash_blake2b_state) + 63,
               "a hasher must hold an aligned state wherever it lies");

/* Makes libsodium select its vector code. Several threads may call the function. */
static void init_hash_library(void)
{
    if (sodium_init() < 0)
        abort();
}

static void begin_hash(const char *use, unsigned char personal[16])
{
    size_t len = strlen(use);
    assert(len <= crypto_generichash_blake2b_PERSONALBYTES);
    memset(personal, 0, crypto_generichash_blake2b_PERSONALBYTES);
    memcpy(personal, use, len);
    init_hash_library();
}

void pl_hash_keyed(const char *use, const uint8_t *key, const void *data, size_t len,
                   pl_hash *out)
{
    unsigned char personal[crypto_generichash_blake2b_PERSONALBYTES];
    begin_hash(use, personal);
    crypto_generichash_blake2b_salt_personal(out->bytes, PL_HASH_BYTES, data, len, key,
                                             key ? PL_HASH_BYTES : 0, NULL, personal);
}

void pl_hash_of(const char *use, const void *data, size_t len, pl_hash *out)
{
    pl_hash_keyed(use, NULL, data, len, out);
}

void pl_hmac_sha256(const void *key, size_t key_len, const char *text,
                    uint8_t out[PL_HASH_BYTES])
{
    crypto_auth_hmacsha256_state state;
    init_hash_library();
    crypto_auth_hmacsha256_init(&state, key, key_len);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&state, out);
}

void pl_sha256_hex(const char *text, char out[PL_HASH_TEXT])
{
    pl_hash digest;
    init_hash_library();
    crypto_hash_sha256(digest.bytes, (const unsigned char *)text, strlen(text));
    pl_hash_format(&digest, out);
}

bool pl_hash_is_mac(const pl_hash *mac, const uint8_t claimed[PL_HASH_BYTES])
{
    return sodium_memcmp(mac->bytes, claimed, PL_HASH_BYTES) == 0;
}

/* Returns the state at the first aligned address in the hasher: libsodium needs 64-byte
 * alignment, which the caller's struct may not have. A copy of a hasher may have its
 * state at a different offset, so a hasher must not be copied while in use. */
static crypto_generichash_blake2b_state *state_of(pl_hasher *hasher)
{
    uintptr_t at = ((uintptr_t)hasher->state + 63) & ~(uintptr_t)63;
    return (crypto_generichash_blake2b_state *)at;
}

void pl_hasher_init(pl_hasher *hasher, const char *use)
{
    unsigned char personal[crypto_generichash_blake2b_PERSONALBYTES];
    begin_hash(use, personal);
    crypto_generichash_blake2b_init_salt_personal(state_of(hasher), NULL, 0,
                                                  PL_HASH_BYTES, NULL, personal);
}

void pl_hasher_add(pl_hasher *hasher, const void *data, size_t len)
{
    crypto_generichash_blake2b_update(state_of(hasher), data, len);
}

void pl_hasher_end(pl_hasher *hasher, pl_hash *out)
{
    crypto_generichash_blake2b_final(state_of(hasher), out->bytes, PL_HASH_BYTES);
}

bool pl_hash_equal(const pl_hash *a, const pl_hash *b)
{
    return memcmp(a->bytes, b->bytes, PL_HASH_BYTES) == 0;
}

bool pl_hash_none(const pl_hash *hash)
{
    static const pl_hash none;
    return pl_hash_equal(hash, &none);
}

char *pl_hash_format(const pl_hash *hash, char text[PL_HASH_TEXT])
{
    for (size_t i = 0; i < PL_HASH_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", hash->bytes[i]);
    return text;
}

/* Reads a hex digit, only in lower case, so that a hash has only one spelling. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

pl_status pl_hash_parse(const char *text, pl_hash *out)
{
    *out = (pl_hash){{0}};
    pl_hash hash;
    bool good = strlen(text) == PL_HASH_TEXT - 1;
    for (size_t i = 0; good && i < PL_HASH_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        hash.bytes[i] = (uint8_t)(good ? high << 4 | low : 0);
    }
    if (!good)
        return pl_fail(PL_ERR_DATA, "`%.64s` is not a hash of 64 lower-case hex digits",
                       text);
    *out = hash;
    return PL_OK;
}

uint64_t pl_checksum(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

/* The state is allocated on the heap, because the library does not publish its size. */
uint64_t pl_checksum_pieces(const pl_piece *pieces, size_t n_pieces)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        pl_memory_exhausted(1);
    XXH3_64bits_reset(state);
    for (size_t i = 0; i < n_pieces; i++)
        XXH3_64bits_update(state, pieces[i].data, pieces[i].len);
    uint64_t sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}
