/* Computes the sum of a store's rows (row_sum.h). */
#include "store/row_sum.h"
#include <string.h>

bool row_sum_covers(kv_family family)
{
    return family >= KV_VERSION && family < KV_PACK;
}

void row_sum_change(row_sum *sum, kv_family family, kv_slice key, kv_slice value,
                    bool adds)
{
    enum { HASHES = ROW_SUM_NUMBERS * 8 / PL_HASH_BYTES };
    const uint64_t sign = adds ? 1 : UINT64_MAX; /* -1 modulo 2^64 */
    uint8_t head[5] = {kv_family_id(family)}, seeds[HASHES][PL_HASH_BYTES + 1];
    uint64_t numbers[ROW_SUM_NUMBERS];
    pl_piece pieces[HASHES];
    pl_hash row, hashes[HASHES];
    pl_hasher hasher;
    if (!row_sum_covers(family))
        return;
    pl_le_put(head + 1, key.len, 4);
    pl_hasher_init(&hasher, "row");
    pl_hasher_add(&hasher, head, sizeof head);
    pl_hasher_add(&hasher, key.data, key.len);
    pl_hasher_add(&hasher, value.data, value.len);
    pl_hasher_end(&hasher, &row);
    for (int i = 0; i < HASHES; i++) {
        memcpy(seeds[i], row.bytes, sizeof row.bytes);
        seeds[i][PL_HASH_BYTES] = (uint8_t)i;
        pieces[i] = (pl_piece){seeds[i], sizeof seeds[i]};
    }
    pl_hash_many("row numbers", pieces, HASHES, hashes);
    memcpy(numbers, hashes, sizeof numbers);
    for (int i = 0; i < ROW_SUM_NUMBERS; i++)
        sum->numbers[i] += sign * numbers[i];
    sum->families[family - KV_VERSION].n_rows += sign;
    sum->families[family - KV_VERSION].sum += sign * numbers[0];
}

pl_status row_sum_all(kv *db, row_sum *out)
{
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    for (int f = KV_VERSION; f < KV_PACK && status == PL_OK; f++) {
        kv_cursor *walk = kv_cursor_open(db, NULL, (kv_family)f, (kv_slice){"", 0});
        while (kv_cursor_next(walk))
            row_sum_change(out, (kv_family)f, walk->key, walk->value, true);
        status = walk->status;
        kv_cursor_close(&walk);
    }
    return status;
}

pl_hash row_sum_hash(const row_sum *sum)
{
    pl_hash hash;
    pl_hash_of("rows", sum, sizeof *sum, &hash);
    return hash;
}
