/* folder: modules; label: unit */
/* Compares the emulated kernels of RMSNorm with the reference backend. */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/ref/ref.h"
#include "tests/gpu/emulation/emulation.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <vector>
#include "tests/support/suite.h"

typedef std::vector<uint16_t> halves;
typedef std::vector<float> floats;

template <class V> static void *upload(const V &host)
{
    void *device = NULL;
    const size_t bytes = host.size() * sizeof host[0];
    assert_int_equal(cudaMalloc(&device, bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice),
                     cudaSuccess);
    return device;
}

template <class V> static void download(V &host, void *device)
{
    assert_int_equal(cudaMemcpy(host.data(), device, host.size() * sizeof host[0],
                                cudaMemcpyDeviceToHost),
                     cudaSuccess);
    cudaFree(device);
}

/* Makes normally distributed numbers that are rounded to bf16, both as bf16 and as
 * fp32. */
static halves random_halves(size_t n, uint64_t stream, floats *wide)
{
    halves x(n);
    wide->resize(n);
    for (size_t i = 0; i < n; i++) {
        x[i] = pl_bf16_from_float(pl_random_normal(5, stream, i));
        (*wide)[i] = pl_bf16_to_float(x[i]);
    }
    return x;
}

static double error_of(const halves &got, const floats &want)
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < got.size(); i++) {
        const double d = (double)pl_bf16_to_float(got[i]) - (double)want[i];
        wrong += d * d;
        all += (double)want[i] * (double)want[i];
    }
    return wrong / all;
}

/* Runs the kernel for one shape, in the order of threads that was set. Then x is the
 * sum of x and the residual. */
static void norm_emulated(halves *out, floats *rstd, halves *x, const halves *residual,
                          const floats &w, int N, int C)
{
    cuda_state state = {};
    state.backend.self = &state;
    void *d_out = NULL, *d_x = upload(*x), *d_w = upload(w), *d_rstd = NULL;
    void *d_residual = residual ? upload(*residual) : NULL;
    cudaMalloc(&d_out, out->size() * sizeof(uint16_t));
    cudaMalloc(&d_rstd, rstd->size() * sizeof(float));
    cuda_rmsnorm_forward(&state.backend, (pl_act *)d_out, (float *)d_rstd,
                         (pl_act *)d_x, (pl_act *)d_residual, (float *)d_w, N, C,
                         1e-5f);
    if (device_sync(NULL, "norm") != PL_OK)
        fail_msg("%s", pl_last_error());
    download(*out, d_out);
    download(*rstd, d_rstd);
    download(*x, d_x);
    cudaFree(d_w);
    cudaFree(d_residual);
}

static void check_shape(int N, int C, bool with_residual)
{
    const size_t n = (size_t)N * (size_t)C;
    floats x_wide, r_wide, w((size_t)C), want(n), want_rstd((size_t)N);
    const halves x = random_halves(n, 1, &x_wide), r = random_halves(n, 2, &r_wide);
    for (size_t c = 0; c < w.size(); c++)
        w[c] = pl_random_normal(5, 3, c);
    ref_rmsnorm_forward(
        NULL, (pl_act *)want.data(), want_rstd.data(), (pl_act *)x_wide.data(),
        with_residual ? (pl_act *)r_wide.data() : NULL, w.data(), N, C, 1e-5f);
    halves first;
    for (int order = 0; order < EMULATION_ORDERS; order++) {
        halves out(n), sum = x;
        floats rstd((size_t)N);
        emulation_set_order((emulation_order)order, 11);
        norm_emulated(&out, &rstd, &sum, with_residual ? &r : NULL, w, N, C);
        assert_true(error_of(out, want) < 1e-4);
        assert_true(error_of(sum, x_wide) < 1e-4);
        for (size_t i = 0; i < rstd.size(); i++)
            assert_true(fabsf(rstd[i] / want_rstd[i] - 1.0f) < 1e-2f);
        if (order == 0)
            first = out;
        assert_memory_equal(first.data(), out.data(), n * sizeof out[0]);
    }
}

PL_TEST(rmsnorm_agrees_with_ref_in_every_order)
{
    static const int shapes[][2] = {{1, 8}, {3, 7}, {37, 128}, {6, 896}, {5, 1003}};
    for (const int *s : shapes) {
        check_shape(s[0], s[1], true);
        check_shape(s[0], s[1], false);
    }
    size_t bytes;
    assert_int_equal(emulation_n_allocations(&bytes), 0);
}

/* Computes dx and dw of one shape in one order of threads. dx begins as dout. */
static void backward_emulated(halves *dx, floats *dw, const halves &x, const floats &w,
                              const floats &rstd, int N, int C)
{
    cuda_state state = {};
    state.backend.self = &state;
    void *d_dx = upload(*dx), *d_dout = upload(*dx), *d_dw = upload(*dw);
    void *d_x = upload(x), *d_w = upload(w), *d_rstd = upload(rstd);
    cuda_rmsnorm_backward(&state.backend, (pl_act *)d_dx, (float *)d_dw,
                          (pl_act *)d_dout, (pl_act *)d_x, (float *)d_w,
                          (float *)d_rstd, N, C, true);
    if (device_sync(NULL, "norm") != PL_OK)
        fail_msg("%s", pl_last_error());
    download(*dx, d_dx);
    download(*dw, d_dw);
    for (void *memory : {d_dout, d_x, d_w, d_rstd, state.scratch})
        cudaFree(memory);
}

/* The numbers of rows and columns are not multiples of what a block or a thread handles
 * at a time. The last shape has more columns than a block keeps in registers.
 * test_ops_cpu.c compares the results with the reference. */
PL_TEST(rmsnorm_gradients_have_the_same_bytes_in_every_order)
{
    static const int shapes[][2] = {{1, 7}, {37, 264}, {21, 259}, {3, 8456}};
    for (const int *s : shapes) {
        floats wide, w((size_t)s[1], 0.7f), rstd((size_t)s[0], 0.9f), first_dw;
        const size_t n = (size_t)s[0] * (size_t)s[1];
        const halves x = random_halves(n, 1, &wide), dout = random_halves(n, 2, &wide);
        halves first;
        for (int order = 0; order < EMULATION_ORDERS; order++) {
            halves dx = dout;
            floats dw((size_t)s[1], 0.5f);
            emulation_set_order((emulation_order)order, 11);
            backward_emulated(&dx, &dw, x, w, rstd, s[0], s[1]);
            if (order == 0)
                first = dx, first_dw = dw;
            assert_memory_equal(first.data(), dx.data(), n * sizeof dx[0]);
            assert_memory_equal(first_dw.data(), dw.data(), dw.size() * sizeof dw[0]);
        }
    }
    size_t bytes;
    assert_int_equal(emulation_n_allocations(&bytes), 0);
}
