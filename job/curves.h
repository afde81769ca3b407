/* Private to job: the curves of every arm, path and worker as TensorBoard event files
 * (eval.tensorboard):
 *
 *   RUN/tensorboard/ARM/train/       loss, tokens, tokens per second, norm of the
 *                                    gradient, memory: of the arm, of paths and of
 *                                    workers
 *   RUN/tensorboard/ARM/held-out/    bits per byte of the held-out text (eval.curves)
 *   RUN/tensorboard/ARM/evaluation/  bits per byte and perplexity of the final report
 *
 * Each kind of curve has its own folder, because TensorBoard follows one file per
 * folder. The step of a point is the number of inner steps of a path, so arms are
 * comparable. */
#pragma once
#include "job/evaluate.h"

typedef struct curves curves;
/* Returns NULL if eval.tensorboard is off. */
curves *curves_open(const pl_run *r);
void curves_close(curves **c); /* accepts NULL */
/* Appends points for the phases that were completed since the last call. `c` may be
 * NULL. The function may be called often: it reads the store only every few seconds.
 * `all`: the training has ended, so the function reads the store at once and appends
 * all remaining points. A failure is printed once, and does not end the job. */
void curves_tick(curves *c, bool all);
/* Writes how the final report evaluated each arm, as a point at the arm's last step. */
void curves_evaluation(const pl_run *r, const evaluation *e);
