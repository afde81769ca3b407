/* Products of groups of four warps (wgmma). An operand in shared memory has a
 * descriptor with a swizzle of 128 bytes, as in the PTX ISA. It contains the operand's
 * start and two distances in bytes: from one panel of 64 columns to the next, and from
 * one group of eight rows to the next. */
#include "tests/gpu/emulation/machine.h"
#include <string.h>

namespace
{
enum { ROW_BYTES = 128 };

/* Reads `bytes` bytes at row `row` of the operand, from column `column` on. If `check`
 * is set, checks the access: of the lanes that read the same bytes, only one does. */
void read_operand(void *to, uint64_t operand, int row, int column, size_t bytes,
                  bool check)
{
    const uint64_t start = (operand & 0x3fff) << 4,
                   panel = (operand >> 16 & 0x3fff) << 4,
                   eight = (operand >> 32 & 0x3fff) << 4;
    uint64_t at = start + (uint64_t)row / 8 * eight + (uint64_t)row % 8 * ROW_BYTES +
                  (uint64_t)column / 64 * panel + (uint64_t)column % 64 * 2;
    if (operand >> 62 != 1)
        machine_find(true, "an operand of a product is not swizzled by 128 bytes");
    at ^= (at >> 7 & 7) << 4;
    const uint8_t *from = memory_dynamic_shared() + at;
    if (check)
        memory_check(from, bytes, MEMORY_READ);
    memcpy(to, from, bytes);
}

void read_row(float to[16], uint64_t operand, int row, bool check)
{
    uint16_t bits[16];
    read_operand(bits, operand, row, 0, 16, check);
    read_operand(bits + 8, operand, row, 8, 16, check);
    for (int k = 0; k < 16; k++)
        to[k] = pl_bf16_to_float(bits[k]);
}

/* Reads columns `column` and column + 1 of B. */
void read_columns(float to[2][16], const pending_product *x, int column, bool check)
{
    if (!x->transposed) {
        read_row(to[0], x->b_tile, column, check);
        read_row(to[1], x->b_tile, column + 1, check);
        return;
    }
    for (int k = 0; k < 16; k++) {
        uint16_t pair[2];
        read_operand(pair, x->b_tile, k, column, sizeof pair, check);
        to[0][k] = pl_bf16_to_float(pair[0]);
        to[1][k] = pl_bf16_to_float(pair[1]);
    }
}
} // namespace

void machine_multiply(pending_product *x, int warp, int lane)
{
    for (int half = 0; half < 2 && !x->has_a; half++)
        read_row(x->a[half], x->a_tile, warp * 16 + lane / 4 + half * 8, lane % 4 == 0);
    for (int i = 0; i < x->n; i++) {
        float b[2][16];
        read_columns(b, x, i * 8 + lane % 4 * 2, lane < 4);
        for (int j = 0; j < 4; j++) {
            float sum = 0.0f;
            for (int k = 0; k < 16; k++)
                sum += x->a[j / 2][k] * b[j % 2][k];
            x->c[i][j] = x->add ? x->c[i][j] + sum : sum;
        }
    }
}
