/* The sum of rows: a hash of the set of all rows of a store, which changes with each
 * row that is put, replaced or deleted, without reading the others. Each commit writes
 * the sum to meta/rows and its hash to the log row (PROTOCOL 4.6). So a row that was
 * changed by anything but a commit is found by summing all rows again.
 *
 * A row is hashed to 64 numbers of 64 bits; the sum adds them up modulo 2^64. It has
 * 4096 bits, because rows with a given sum of n bits can be found with about
 * 2^(2 sqrt(n)) hashes (Wagner 2002): 2^32 for the 256 bits of one hash, now 2^128.
 *
 * Rows of log are not summed, because they are chained; rows of pack, because chunk
 * rows have their hashes; rows of meta, because openings and copies change them. */
#pragma once
#include "store/kv.h"

enum { ROW_SUM_NUMBERS = 64 };
typedef struct row_sum {
    uint64_t numbers[ROW_SUM_NUMBERS];
    /* of the families from version to chunk: the number of rows, and the sum of the
     * first number of each row */
    struct {
        uint64_t n_rows, sum;
    } families[KV_PACK - KV_VERSION];
} row_sum;

bool row_sum_covers(kv_family family);
/* Adds a row to the sum, or removes it. Ignores rows that are not summed. */
void row_sum_change(row_sum *sum, kv_family family, kv_slice key, kv_slice value,
                    bool adds);
pl_status row_sum_all(kv *db, row_sum *out);
pl_hash row_sum_hash(const row_sum *sum);
