/* The operations of a backend in double precision. They are written from their
 * equations, not copied from modules/ref. Tests compare the reference backend with
 * these functions, and its gradients with central differences of these functions.
 *
 * Sizes: N rows; C values of a row, the width; B sequences of T tokens; H heads and G
 * key-value heads of D values; O outputs and I inputs of a matrix; F values of the
 * feed-forward layer; V tokens of the vocabulary. */
#pragma once
#include "modules/modules.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double *naive_zeros(size_t n);

/* Returns n normally distributed numbers as doubles. fp32 can hold each of them
 * exactly. */
double *naive_randoms(size_t n, uint64_t stream, double scale);

float *naive_floats(const double *x, size_t n);

void naive_rmsnorm(double *out, const double *x, const double *w, int N, int C,
                   double eps);

/* Normalises each head of q and k in qkv [N,(H+2G)*D], in place. w [2,D]: the weights
 * for q, then those for k. */
void naive_head_norm(double *qkv, const double *w, int N, int H, int G, int D,
                     double eps);

void naive_matmul(double *out, const double *x, const double *w, int N, int O, int I);

/* RoPE as in Llama: x cos + rotate_half(x) sin, with the same angles for both
 * halves. */
void naive_rope(double *qkv, int B, int T, int H, int G, int D, double theta,
                int start);

/* Attention with a softmax over whole rows of scores. Each position ignores later
 * positions. */
void naive_attention(double *out, const double *qkv, int B, int T, int H, int G, int D);

void naive_swiglu(double *out, const double *gu, int N, int F);

void naive_losses(double *loss, const double *x, const double *w,
                  const int32_t *targets, int N, int V, int C);

/* naive_slope returns the derivative of f with respect to *x, as a central difference.
 * Afterwards *x has its old value. */
typedef double (*naive_scalar)(void *context);
double naive_slope(naive_scalar f, void *context, double *x);

/* Returns the sum of squared differences, divided by the sum of squares of `want`. If
 * this divisor is 0, the sum is not divided. */
double naive_error(const float *got, const double *want, size_t n);
