/* pathloom bench outer|codec --device cuda: the same on a GPU, vectors in its memory.
 *
 * A step ends when its report is here. A codec's times include what it does on the CPU
 * (header, checksums, zstd) and the way of the sections between the two; values stay
 * where they are. "worker" and "home" are what those two see, whose vectors lie in the
 * host's memory and cross over (outer/arith.h): encoding with the residual, and the
 * merge of a round of one message with its outer step. Best of a few rounds. */
#include "cli/bench.h"
#include "cli/bench_update.h"
#include "outer/outer.h"

#include <math.h>

enum { N = 1 << 26, UPDATES = 8, ROUNDS = 6 };

/* ---- memory of the device ---- */

typedef struct board {
    pl_accel *accel;
    float *x, *m, *carry;
    uint16_t *updates; /* bf16 [UPDATES][n] */
} board;

static pl_status board_vector(board *b, size_t bytes, void **out)
{
    const size_t piece = 1 << 20;
    void *zeros = pl_alloc(piece);
    pl_status status = pl_accel_alloc(b->accel, bytes, "a vector", out);
    for (size_t at = 0; status == PL_OK && at < bytes; at += piece)
        status = pl_accel_upload(b->accel, (uint8_t *)*out + at, zeros,
                                 bytes - at < piece ? bytes - at : piece);
    pl_free(zeros);
    return status;
}

static void board_close(board *b)
{
    if (!b->accel)
        return;
    pl_accel_free(b->accel, b->x);
    pl_accel_free(b->accel, b->m);
    pl_accel_free(b->accel, b->carry);
    pl_accel_free(b->accel, b->updates);
    pl_accel_close(&b->accel);
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* ---- steps ---- */

typedef struct step_row {
    const char *name;
    pl_method method;
    int n_updates, bytes; /* bytes that a parameter moves */
} step_row;

static const step_row step_rows[] = {
    {"diloco", PL_METHOD_DILOCO, 1, 18},
    {"diloco", PL_METHOD_DILOCO, 8, 32},
    {"fedavg", PL_METHOD_FEDAVG, 1, 10},
    {"heavy-ball", PL_METHOD_HEAVY_BALL, 1, 18},
    {"co2", PL_METHOD_CO2, 1, 20},
    {"co2", PL_METHOD_CO2, 8, 48},
    {"streaming", PL_METHOD_STREAMING, 1, 18},
    {"eager", PL_METHOD_EAGER, 1, 26},
    {"delayed-nesterov", PL_METHOD_DELAYED_NESTEROV, 1, 26},
    {"noloco, one vector", PL_METHOD_NOLOCO, 1, 24},
    {"noloco, two vectors", PL_METHOD_NOLOCO, 2, 28},
};
enum { N_STEP_ROWS = sizeof step_rows / sizeof *step_rows };

/* In a meeting the updates' memory stands in for what a mate sends. */
static pl_status meet_once(board *b, const step_row *r)
{
    pl_gossip_step step = {0.5, 1e-3, r->n_updates == 1 ? 1e-3 : 2e-3,
                           PL_RULE_HEAVY_BALL};
    const float *second = (const float *)(const void *)b->updates;
    if (r->n_updates == 1)
        PL_RETURN_IF(
            pl_accel_meet_one(b->accel, &step, b->x, b->m, b->carry, second, N));
    else
        PL_RETURN_IF(pl_accel_meet_two(b->accel, &step, b->x, b->m, b->carry, second,
                                       second + N, N));
    return pl_accel_sync(b->accel);
}

static pl_status step_once(board *b, const step_row *r)
{
    pl_method_settings settings = pl_method_defaults(r->method);
    pl_outer_state state = {.params = b->x, .momentum = b->m, .carry = b->carry};
    pl_update_view views[UPDATES];
    pl_update_list list = {views, r->n_updates};
    pl_outer_report report;
    if (r->method == PL_METHOD_NOLOCO)
        return meet_once(b, r);
    pl_outer_step step = pl_method_step(&settings, 1e-3, false, UPDATES);
    for (int u = 0; u < r->n_updates; u++)
        views[u] =
            (pl_update_view){b->updates + (size_t)u * N, true, 1.0f / (float)UPDATES};
    return pl_accel_merge(b->accel, &step, &state, N, &list, &report);
}

static pl_status measure_steps(board *b, double seconds[N_STEP_ROWS])
{
    for (int i = 0; i < ROUNDS * N_STEP_ROWS; i++) {
        double *best = &seconds[i % N_STEP_ROWS], start = pl_now();
        PL_RETURN_IF(step_once(b, &step_rows[i % N_STEP_ROWS]));
        *best = lesser(i < N_STEP_ROWS ? INFINITY : *best, pl_now() - start);
    }
    return PL_OK;
}

static void print_steps(const board *b, const double *seconds)
{
    say("outer step on %s, %d parameters", pl_accel_name(b->accel), (int)N);
    say("  %-20s %8s %10s %8s %8s", "method", "updates", "Gparam/s", "B/param", "GB/s");
    for (int i = 0; i < N_STEP_ROWS; i++) {
        double rate = N / seconds[i] * 1e-9;
        say("  %-20s %8d %10.1f %8d %8.0f", step_rows[i].name, step_rows[i].n_updates,
            rate, step_rows[i].bytes, rate * step_rows[i].bytes);
    }
}

static void print_steps_json(const board *b, const double *seconds)
{
    pl_json *o = pl_json_object(), *list = pl_json_array();
    pl_json_set_text(o, "device", pl_accel_name(b->accel));
    pl_json_set_int(o, "params", N);
    for (int i = 0; i < N_STEP_ROWS; i++) {
        pl_json *entry = pl_json_object();
        pl_json_set_text(entry, "method", step_rows[i].name);
        pl_json_set_int(entry, "updates", step_rows[i].n_updates);
        pl_json_set_real(entry, "params_per_s", N / seconds[i]);
        pl_json_set_real(entry, "bytes_per_param", step_rows[i].bytes);
        pl_json_push(list, entry);
    }
    pl_json_set(o, "methods", list);
    say_json(o);
}

pl_status bench_outer_cuda(bool json)
{
    pl_status status = PL_OK;
    board b = {0};
    double seconds[N_STEP_ROWS];
    const size_t bytes = N * sizeof(float);
    PL_TRY(pl_accel_open(0, NULL, &b.accel));
    PL_TRY(board_vector(&b, bytes, (void **)&b.x));
    PL_TRY(board_vector(&b, bytes, (void **)&b.m));
    PL_TRY(board_vector(&b, bytes, (void **)&b.carry));
    PL_TRY(board_vector(&b, UPDATES * bytes / 2, (void **)&b.updates));
    PL_TRY(measure_steps(&b, seconds));
    if (json)
        print_steps_json(&b, seconds);
    else
        print_steps(&b, seconds);
done:
    board_close(&b);
    return status;
}

/* ---- codecs ---- */

typedef struct codec_row {
    const char *label, *codec;
    int value_bits;
    double encode_s, add_s, worker_s, home_s, bytes;
} codec_row;

typedef struct codec_bench {
    pl_accel *accel;
    bench_update update;
    float *values, *residual, *sum; /* on the device */
    pl_arith *arith;
    float *kept, *params, *momentum; /* of a worker and a home */
    double norm;
    pl_buf message;
} codec_bench;

/* What a worker and a home do with the same module. */
static pl_status pass_host(codec_bench *c, const pl_codec_options *o,
                           const bench_module *of, codec_row *pass)
{
    pl_method_settings settings = pl_method_defaults(PL_METHOD_DILOCO);
    const pl_outer_step step = pl_method_step(&settings, 0.7, false, 1);
    const size_t n = of->slot->n_params, first = of->slot->offset;
    const float weight = 1.0f;
    pl_outer_report report;
    pl_outer_state state = {.params = c->params + first,
                            .momentum = c->momentum + first};
    const pl_arith_encode encode = {.options = o,
                                    .parts = of->parts,
                                    .n_parts = of->n_parts,
                                    .round = &of->round,
                                    .update = c->update.values + first,
                                    .n = n,
                                    .residual =
                                        pl_codec_is_lossy(o) ? c->kept + first : NULL};
    pl_buf_clear(&c->message);
    double start = pl_now();
    PL_RETURN_IF(c->arith->encode(c->arith, &encode, &c->message));
    double middle = pl_now();
    const pl_codec_message message = {c->message.data, c->message.len};
    pl_codec_list list = {&message, &weight, 1, 0};
    const pl_arith_merge merge = {.step = &step,
                                  .state = &state,
                                  .n = n,
                                  .messages = pl_codec_source_of(&list),
                                  .homomorphic = pl_codec_is_homomorphic(o),
                                  .factor = 1.0f};
    PL_RETURN_IF(c->arith->merge(c->arith, &merge, &report));
    pass->worker_s += middle - start;
    pass->home_s += pl_now() - middle;
    return PL_OK;
}

static pl_status pass_module(codec_bench *c, const pl_codec_options *o, int slot,
                             codec_row *pass)
{
    bench_module of;
    double norm = 0;
    PL_RETURN_IF(bench_update_module(&c->update, c->norm, slot, &of));
    const pl_slot *s = of.slot;
    float *residual = pl_codec_is_lossy(o) ? c->residual + s->offset : NULL;
    pl_buf_clear(&c->message);
    double start = pl_now();
    PL_RETURN_IF(pl_accel_encode_module(c->accel, o, of.parts, of.n_parts, &of.round,
                                        c->values + s->offset, residual, &c->message));
    double middle = pl_now();
    PL_RETURN_IF(pl_accel_add(c->accel, c->message.data, c->message.len, s->n_params,
                              1.0f, c->sum + s->offset, &norm));
    PL_RETURN_IF(pl_accel_sync(c->accel));
    pass->encode_s += middle - start;
    pass->add_s += pl_now() - middle;
    pass->bytes += (double)c->message.len;
    return pass_host(c, o, &of, pass);
}

static pl_status measure_codec(codec_bench *c, codec_row *r)
{
    pl_codec_options o;
    PL_RETURN_IF(pl_codec_options_default(r->codec, &o));
    o.entropy = false;
    o.value_bits = (uint8_t)r->value_bits;
    r->encode_s = r->add_s = r->worker_s = r->home_s = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        codec_row pass = {0};
        for (int slot = 0; slot < pl_topology_n_slots(c->update.topology); slot++)
            PL_RETURN_IF(pass_module(c, &o, slot, &pass));
        r->encode_s = lesser(r->encode_s, pass.encode_s);
        r->add_s = lesser(r->add_s, pass.add_s);
        r->worker_s = lesser(r->worker_s, pass.worker_s);
        r->home_s = lesser(r->home_s, pass.home_s);
        r->bytes = pass.bytes;
    }
    return PL_OK;
}

static void print_codecs(const codec_bench *c, const codec_row *rows, int n_rows)
{
    double bytes = 4e-9 * (double)c->update.n;
    say("update    %s", c->update.source);
    say("          %zu parameters on %s", c->update.n, pl_accel_name(c->accel));
    say("  %-16s %12s %10s %12s %10s %10s", "codec", "encode GB/s", "add GB/s",
        "worker GB/s", "home GB/s", "B/param");
    for (int i = 0; i < n_rows; i++)
        say("  %-16s %12.2f %10.2f %12.2f %10.2f %10.4f", rows[i].label,
            bytes / rows[i].encode_s, bytes / rows[i].add_s, bytes / rows[i].worker_s,
            bytes / rows[i].home_s, rows[i].bytes / (double)c->update.n);
}

static void print_codecs_json(const codec_bench *c, const codec_row *rows, int n_rows)
{
    pl_json *o = pl_json_object(), *list = pl_json_array();
    double bytes = 4e-9 * (double)c->update.n;
    pl_json_set_text(o, "device", pl_accel_name(c->accel));
    pl_json_set_text(o, "update", c->update.source);
    pl_json_set_int(o, "params", (int64_t)c->update.n);
    for (int i = 0; i < n_rows; i++) {
        pl_json *entry = pl_json_object();
        pl_json_set_text(entry, "codec", rows[i].label);
        pl_json_set_real(entry, "encode_gb_per_s", bytes / rows[i].encode_s);
        pl_json_set_real(entry, "add_gb_per_s", bytes / rows[i].add_s);
        pl_json_set_real(entry, "worker_gb_per_s", bytes / rows[i].worker_s);
        pl_json_set_real(entry, "home_gb_per_s", bytes / rows[i].home_s);
        pl_json_set_real(entry, "bytes_per_param", rows[i].bytes / (double)c->update.n);
        pl_json_push(list, entry);
    }
    pl_json_set(o, "codecs", list);
    say_json(o);
}

static pl_status prepare_codecs(codec_bench *c)
{
    board b = {.accel = c->accel};
    const size_t bytes = c->update.n * sizeof(float);
    const pl_accel_options options = {.device = 0};
    c->norm = pl_l2_norm(c->update.values, c->update.n);
    PL_RETURN_IF(pl_accel_arith_open(&options, &c->arith));
    PL_RETURN_IF(pl_try_alloc(bytes, "a residual", (void **)&c->kept));
    PL_RETURN_IF(pl_try_alloc(bytes, "parameters", (void **)&c->params));
    PL_RETURN_IF(pl_try_alloc(bytes, "a momentum", (void **)&c->momentum));
    PL_RETURN_IF(pl_accel_alloc(c->accel, bytes, "an update", (void **)&c->values));
    PL_RETURN_IF(board_vector(&b, bytes, (void **)&c->residual));
    PL_RETURN_IF(board_vector(&b, bytes, (void **)&c->sum));
    return pl_accel_upload(c->accel, c->values, c->update.values, bytes);
}

static void free_codecs(codec_bench *c)
{
    bench_update_free(&c->update);
    pl_buf_destroy(&c->message);
    pl_accel_arith_close(&c->arith);
    pl_free_aligned(c->kept);
    pl_free_aligned(c->params);
    pl_free_aligned(c->momentum);
    if (!c->accel)
        return;
    pl_accel_free(c->accel, c->values);
    pl_accel_free(c->accel, c->residual);
    pl_accel_free(c->accel, c->sum);
    pl_accel_close(&c->accel);
}

pl_status bench_codec_cuda(bool json, const char *folder)
{
    static codec_row rows[] = {
        {.label = "f32", .codec = "f32", .value_bits = 8},
        {.label = "bf16", .codec = "bf16", .value_bits = 8},
        {.label = "i8", .codec = "i8", .value_bits = 8},
        {.label = "i4", .codec = "i4", .value_bits = 8},
        {.label = "e3m0", .codec = "e3m0", .value_bits = 8},
        {.label = "topk 8 bits", .codec = "topk", .value_bits = 8},
        {.label = "topk 2 bits", .codec = "topk", .value_bits = 2},
        {.label = "sketch16", .codec = "sketch16", .value_bits = 8},
        {.label = "i8-shared", .codec = "i8-shared", .value_bits = 8},
        {.label = "tagc", .codec = "tagc", .value_bits = 8}};
    enum { N_ROWS = sizeof rows / sizeof *rows };
    pl_status status = PL_OK;
    codec_bench c;
    memset(&c, 0, sizeof c);
    PL_TRY(pl_accel_open(0, NULL, &c.accel));
    PL_TRY(folder ? bench_update_read(folder, &c.update)
                  : bench_update_train(&c.update));
    PL_TRY(prepare_codecs(&c));
    for (int i = 0; i < N_ROWS; i++)
        PL_TRY(measure_codec(&c, &rows[i]));
    if (json)
        print_codecs_json(&c, rows, N_ROWS);
    else
        print_codecs(&c, rows, N_ROWS);
done:
    free_codecs(&c);
    return status;
}
