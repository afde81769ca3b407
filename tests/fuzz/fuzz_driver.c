/* Runs a fuzz target without libFuzzer. It makes inputs by changing the seeds at
 * random.
 *
 *   fuzz_X [--runs N] [--seed S]    runs N inputs (default 20,000)
 *   fuzz_X --write FOLDER           writes the seeds as files, for libFuzzer
 *   fuzz_X FILE ...                 runs the inputs in these files, for example those
 *                                   with which libFuzzer found a crash
 *
 * An input lies in a block of exactly its size, so that a sanitizer finds every read
 * outside the input. Runs with the same S change the seeds in the same way, so a crash
 * can be repeated. */
#include "base/base.h"
#include "tests/fuzz/fuzz.h"
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

enum { SEEDS_MAX = 256, INPUT_MAX = 1 << 16, CHANGES_MAX = 6 };

__attribute__((weak)) void fuzz_end(void);

static pl_buf seeds[SEEDS_MAX];
static size_t n_seeds;
static const char *folder;

static void keep_seed(const void *data, size_t len)
{
    if (n_seeds < SEEDS_MAX)
        pl_buf_append(&seeds[n_seeds++], data, len);
}

static void write_seed(const void *data, size_t len)
{
    char path[PL_PATH_MAX], name[32];
    snprintf(name, sizeof name, "seed-%03zu", n_seeds++);
    if (pl_replace_file(pl_join(path, folder, name), data, len) != PL_OK)
        fprintf(stderr, "%s\n", pl_last_error());
}

/* A sequence of random numbers. Each number depends on the seed, on the number of the
 * input, and on the counter n. */
typedef struct dice {
    uint64_t seed, input, n;
} dice;

static uint32_t roll(dice *d, uint32_t below)
{
    return below ? pl_random_u32(d->seed, d->input, d->n++) % below : 0;
}

/* Returns a value near the limits of counts and lengths. */
static uint64_t edge(dice *d)
{
    static const uint64_t edges[] = {0,          1,          2,         0x7f,
                                     0x80,       0xff,       0x7fff,    0x8000,
                                     0xffff,     0x7fffffff, 1u << 31,  UINT32_MAX,
                                     1ull << 32, INT64_MAX,  UINT64_MAX};
    uint64_t value = edges[roll(d, sizeof edges / sizeof *edges)];
    return roll(d, 4) == 0 ? value - 1 + roll(d, 3) : value;
}

static void set_word(dice *d, pl_buf *input)
{
    uint64_t value = edge(d);
    size_t width = (size_t)1 << roll(d, 4);
    if (input->len >= width)
        memcpy(input->data + roll(d, (uint32_t)(input->len - width + 1)), &value,
               width);
}

/* Removes a part of the input, repeats a part, or overwrites a part with a part of
 * another seed. */
static void move_stretch(dice *d, pl_buf *input)
{
    const pl_buf *other = &seeds[roll(d, (uint32_t)n_seeds)];
    size_t at = roll(d, (uint32_t)input->len + 1);
    size_t left = input->len - at, n = roll(d, 33) % (left + 1);
    uint8_t part[32];
    switch (roll(d, 3)) {
    case 0: /* removes it */
        memmove(input->data + at, input->data + at + n, left - n);
        input->len -= n;
        break;
    case 1: /* repeats it */
        memcpy(part, input->data + at, n);
        pl_buf_append(input, part, n);
        memmove(input->data + at + n, input->data + at, left);
        break;
    default:
        n = roll(d, 33) % (other->len + 1);
        memcpy(part, other->data + roll(d, (uint32_t)(other->len - n + 1)), n);
        memcpy(input->data + at, part, n < left ? n : left);
    }
}

static void change(dice *d, pl_buf *input)
{
    size_t at = roll(d, (uint32_t)input->len);
    if (input->len == 0 || input->len > INPUT_MAX)
        return;
    switch (roll(d, 6)) {
    case 0:
        input->data[at] ^= (uint8_t)(1u << roll(d, 8));
        break;
    case 1:
        input->data[at] = (uint8_t)roll(d, 256);
        break;
    case 2:
    case 3:
        set_word(d, input);
        break;
    case 4:
        move_stretch(d, input);
        break;
    default:
        if (roll(d, 4) == 0)
            input->len = at;
    }
}

static void run_one(const uint8_t *data, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);
    if (!exact)
        abort();
    memcpy(exact, data, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static void run_changed(uint64_t runs, uint64_t seed)
{
    pl_buf input = {0};
    for (uint64_t i = 0; i < runs; i++) {
        dice d = {seed, i, 0};
        const pl_buf *start = &seeds[i < n_seeds ? i : roll(&d, (uint32_t)n_seeds)];
        pl_buf_clear(&input);
        pl_buf_append(&input, start->data, start->len);
        for (uint32_t c = i < n_seeds ? 0 : 1 + roll(&d, CHANGES_MAX); c > 0; c--)
            change(&d, &input);
        run_one(input.data, input.len);
    }
    pl_buf_destroy(&input);
}

static int run_files(int n, char **files)
{
    pl_buf input = {0};
    for (int i = 0; i < n; i++) {
        if (pl_read_file(files[i], &input) != PL_OK) {
            fprintf(stderr, "%s\n", pl_last_error());
            return 66;
        }
        run_one(input.data, input.len);
    }
    pl_buf_destroy(&input);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"runs", required_argument, NULL, 'r'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"write", required_argument, NULL, 'w'},
                                          {NULL, 0, NULL, 0}};
    int64_t runs = 20000, seed = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (option == 'w')
            folder = optarg;
        else if ((option != 'r' && option != 's') ||
                 pl_parse_int(optarg, option == 'r' ? &runs : &seed) != PL_OK)
            return 64;
    }
    if (optind < argc)
        return run_files(argc - optind, argv + optind);
    fuzz_seeds(folder ? write_seed : keep_seed);
    if (!folder)
        run_changed((uint64_t)runs, (uint64_t)seed);
    if (!folder && fuzz_end)
        fuzz_end();
    printf("%zu seeds, %lld inputs\n", n_seeds, folder ? 0LL : (long long)runs);
    for (size_t i = 0; i < n_seeds && !folder; i++)
        pl_buf_destroy(&seeds[i]);
    return n_seeds > 0 ? 0 : 1;
}
