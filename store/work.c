/* Sums of the numbers of phases, and the table of measurements (store/work.h). */
#include "store/work.h"

#include <string.h>

#define IS_COUNT(type) _Generic((type){0}, uint64_t : true, default : false)
#define ROW(type, member, rule, ...)                                                   \
    {offsetof(pl_work, member), IS_COUNT(type), __VA_ARGS__},
const pl_work_measure pl_work_measures[] = {PL_WORK_MEASURES(ROW)};

double pl_work_value(const pl_work *work, const pl_work_measure *measure)
{
    uint64_t count;
    double real;
    memcpy(&count, (const char *)work + measure->offset, sizeof count);
    memcpy(&real, &count, sizeof real);
    return measure->is_count ? (double)count : real;
}

void pl_work_add(pl_work *all, const pl_work *phase)
{
    const pl_work before = *all;
    *all = *phase;
    all->first_sample = 0;
    all->n_samples += phase->first_sample;
    all->n_tokens += before.n_tokens;
    all->seconds += before.seconds;
}

void pl_work_join(pl_work *into, int n, const pl_work *later, int n_later)
{
    if (n == 0)
        *into = *later;
    if (n == 0 || n_later == 0)
        return;
    const double a = (double)into->n_tokens, b = (double)later->n_tokens;
    into->loss = a + b > 0 ? (into->loss * a + later->loss * b) / (a + b) : later->loss;
    into->n_samples += later->n_samples;
    into->n_tokens += later->n_tokens;
    into->seconds += later->seconds;
#define MEAN(a, b)                    (((a)*n + (b)*n_later) / (n + n_later))
#define FIRST(a, b)                   ((a) > 0 ? (a) : (b))
#define MOST(a, b)                    ((a) > (b) ? (a) : (b))
#define JOIN(type, member, rule, ...) into->member = rule(into->member, later->member);
    PL_WORK_MEASURES(JOIN)
}
