/* Products of groups of four warps (wgmma). An operand in shared memory has a
 * descriptor with a swizzle of 128 bytes, as in the PTX ISA. It contains the operand's
 * start and two distances in bytes: from one panel of 64 columns to the next, and from
 * one group of eight rows to the next. */
#include "tests/gpu/emulation/machine.h"
#include <string.h>

namespace
{
enum { ROW_BYTES = 128 };
typedef float four __attribute__((vector_size(16)));

/* An operand in shared memory. */
struct operand {
    const uint8_t *shared;
    uint64_t start, panel, eight;
};

operand operand_of(uint64_t descriptor)
{
    if (descriptor >> 62 != 1)
        machine_find(true, "an operand of a product is not swizzled by 128 bytes");
    return {memory_dynamic_shared(), (descriptor & 0x3fff) << 4,
            (descriptor >> 16 & 0x3fff) << 4, (descriptor >> 32 & 0x3fff) << 4};
}

/* Reads `bytes` bytes at row `row` of the operand, from column `column` on. If `check`
 * is set, checks the access: of the lanes that read the same bytes, only one does. */
inline void read_operand(void *to, const operand *x, int row, int column, size_t bytes,
                         bool check)
{
    const unsigned r = (unsigned)row, c = (unsigned)column;
    uint64_t at = x->start + r / 8 * x->eight + r % 8 * ROW_BYTES + c / 64 * x->panel +
                  c % 64 * 2;
    at ^= (at >> 7 & 7) << 4;
    if (check)
        memory_check(x->shared + at, bytes, MEMORY_READ);
    memcpy(to, x->shared + at, bytes);
}

void read_row(float to[16], const operand *x, int row, bool check)
{
    uint16_t bits[16];
    read_operand(bits, x, row, 0, 16, check);
    read_operand(bits + 8, x, row, 8, 16, check);
    for (int k = 0; k < 16; k++)
        to[k] = pl_bf16_to_float(bits[k]);
}

/* Reads columns `column` and column + 1 of B. If `transposed` is set, these are columns
 * of the operand, otherwise its rows. */
void read_columns(float to[2][16], const operand *b, int column, bool transposed,
                  bool check)
{
    if (!transposed) {
        read_row(to[0], b, column, check);
        read_row(to[1], b, column + 1, check);
        return;
    }
    for (int k = 0; k < 16; k++) {
        uint16_t pair[2];
        read_operand(pair, b, k, column, sizeof pair, check);
        to[0][k] = pl_bf16_to_float(pair[0]);
        to[1][k] = pl_bf16_to_float(pair[1]);
    }
}
} // namespace

void machine_multiply(pending_product *x, int warp, int lane)
{
    if (!x->has_a) {
        const operand a = operand_of(x->a_tile);
        for (int half = 0; half < 2; half++)
            read_row(x->a[half], &a, warp * 16 + lane / 4 + half * 8, lane % 4 == 0);
    }
    const operand tile = operand_of(x->b_tile);
    for (int i = 0; i < x->n; i++) {
        float b[2][16];
        four sum = {};
        read_columns(b, &tile, i * 8 + lane % 4 * 2, x->transposed, lane < 4);
        for (int k = 0; k < 16; k++) {
            const float *a0 = &x->a[0][k], *a1 = &x->a[1][k];
            sum += four{*a0, *a0, *a1, *a1} * four{b[0][k], b[1][k], b[0][k], b[1][k]};
        }
        for (int j = 0; j < 4; j++)
            x->c[i][j] = x->add ? x->c[i][j] + sum[j] : sum[j];
    }
}
