/* Writes training curves as TensorBoard event files (curves.h).
 *
 * This code only reads the store, so the job does not depend on it. A point is
 * written when all paths of an arm have done the point's phase or a later phase, or
 * when the job has ended. A path without an update of the phase (after a rollback, or
 * if a quorum did not wait for the path) is left out of the point. A phase without any
 * update has no point. Points are in the order of phases, and the file shows which
 * points it has. After a kill the torn end of the file is cut off, and the next point
 * is appended. So no point is written twice. If the history has joined phases
 * (phase_history.h), a point stands for several phases. */
#include "job/curves.h"
#include "job/tfevents.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { LOOK_MS = 5000, READ_AT_ONCE = 2000, PATHS_SHOWN = 1024, WORKERS_POINTS = 64 };
static const char event_file[] = "events.out.tfevents.0000000000.pathloom";

typedef enum kind { TRAIN, HELD_OUT, KINDS } kind;
static const char *const kind_names[KINDS] = {"train", "held-out"};
enum { STEP_UNKNOWN = -2 }; /* the file was not read yet */

struct curves {
    const pl_run *r;
    char store_folder[PL_PATH_MAX], folder[PL_PATH_MAX];
    pl_store *store;
    phase_history history;
    int64_t next_ms;
    /* step of the last point in the file, or -1 */
    int64_t last_step[PHASE_ARMS_MAX][KINDS];
    bool failed, ended; /* ended: all arms have done their last phase */
};

curves *curves_open(const pl_run *r)
{
    if (!r->cfg.tensorboard)
        return NULL;
    curves *c = pl_alloc(sizeof *c);
    c->r = r;
    run_file(r, "store", c->store_folder);
    run_file(r, "tensorboard", c->folder);
    phase_history_begin(&c->history);
    for (int a = 0; a < PHASE_ARMS_MAX; a++)
        c->last_step[a][TRAIN] = c->last_step[a][HELD_OUT] = STEP_UNKNOWN;
    return c;
}

void curves_close(curves **c)
{
    if (!*c)
        return;
    pl_store_close(&(*c)->store);
    phase_history_clear(&(*c)->history);
    pl_free(*c);
    *c = NULL;
}

/* Makes the folder for one kind of points of an arm, and computes the name of the file
 * in it. */
static pl_status point_file(const char *folder, const char *arm, const char *what,
                            char out[PL_PATH_MAX])
{
    char arm_folder[PL_PATH_MAX], own[PL_PATH_MAX];
    pl_join(own, pl_join(arm_folder, folder, arm), what);
    PL_CHECK(pl_make_folders(own));
    pl_join(out, own, event_file);
    return PL_OK;
}

/* ---- the scalars of a point ---- */
typedef struct points {
    tfevents_scalar *scalars;
    size_t n;
} points;

/* Adds a scalar with the tag WHAT/OF. `of` may be the name of a worker, which other
 * people choose, so all characters except printable ASCII are replaced by "_". A value
 * of 0 means that nothing was measured, and is not added. */
static void put_scalar_named(points *p, const char *what, const char *of, double value)
{
    if (!(value > 0))
        return;
    p->scalars = pl_grow(p->scalars, (p->n + 1) * sizeof *p->scalars);
    tfevents_scalar *scalar = &p->scalars[p->n++];
    *scalar = (tfevents_scalar){.value = value};
    snprintf(scalar->tag, sizeof scalar->tag, "%s/%s", what, of);
    for (char *c = scalar->tag; *c; c++)
        if (!isgraph((unsigned char)*c) || (unsigned char)*c > 126)
            *c = '_';
}

/* Sums of numbers for one phase of an arm: over all paths, or over the paths that one
 * worker trained. */
typedef struct sums {
    int worker, n;
    double rates;
    pl_work work;
} sums;

static void add_cell(sums *s, const phase_cell *cell)
{
    if (cell->n == 0)
        return;
    pl_work_join(&s->work, s->n++, &cell->work, 1);
    if (cell->work.seconds > 0)
        s->rates += (double)cell->work.n_tokens / cell->work.seconds;
}

static void put_sum(points *p, const char *prefix, const char *of, const char *name,
                    double value)
{
    char what[64];
    snprintf(what, sizeof what, "%s%s%s", prefix, of ? "_" : "", of ? name : "");
    put_scalar_named(p, what, of ? of : name, value);
}

static void put_sums(points *p, const char *prefix, const char *of, const sums *s)
{
    const pl_work_views least =
        strcmp(prefix, "path") == 0 ? PL_WORK_OF_PATHS : PL_WORK_OF_WORKERS;
    put_sum(p, prefix, of, "loss", s->work.loss);
    put_sum(p, prefix, of, "tokens_per_second", s->rates / (s->n > 0 ? s->n : 1));
    for (int i = 0; i < PL_WORK_N_MEASURES; i++)
        if (pl_work_measures[i].views >= least)
            put_sum(p, prefix, of, pl_work_measures[i].name,
                    pl_work_value(&s->work, &pl_work_measures[i]));
}

static void put_train(points *p, const phase_history *h, const phase_arm *a,
                      size_t slot)
{
    sums all = {0};
    for (int i = 0; i < a->n_series; i++)
        add_cell(&all, phase_series_at(&a->series[i], slot));
    put_sums(p, "train", NULL, &all);
    put_scalar_named(p, "train", "tokens", (double)all.work.n_tokens);
    for (int i = 0; i < a->n_series && a->n_series > 1 && i < PATHS_SHOWN; i++) {
        sums one = {0};
        add_cell(&one, phase_series_at(&a->series[i], slot));
        put_sums(p, "path", a->series[i].name, &one);
    }
    sums workers[WORKERS_POINTS];
    int n = 0;
    for (int i = 0; i < a->n_series; i++) {
        const phase_cell *cell = phase_series_at(&a->series[i], slot);
        int k = 0;
        while (k < n && workers[k].worker != cell->worker)
            k++;
        if (cell->n == 0 || cell->worker < 0 || k == WORKERS_POINTS)
            continue;
        if (k == n)
            workers[n++] = (sums){.worker = cell->worker};
        add_cell(&workers[k], cell);
    }
    for (int k = 0; k < n; k++)
        put_sums(p, "worker", h->workers[workers[k].worker], &workers[k]);
}

static pl_status write_points(curves *c, int arm, kind k)
{
    const phase_history *h = &c->history;
    const phase_arm *a = &h->arms[arm];
    int64_t *last_step = &c->last_step[arm][k];
    char path[PL_PATH_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    PL_TRY(point_file(c->folder, a->arm.name, kind_names[k], path));
    if (*last_step == STEP_UNKNOWN) {
        /* Cuts off a torn end of the file, and finds the step of its last point. */
        if (pl_path_exists(path))
            PL_TRY(pl_read_file(path, &bytes));
        const size_t whole = tfevents_whole(bytes.data, bytes.len, last_step);
        if (whole == 0) {
            pl_buf_clear(&bytes);
            tfevents_begin(&bytes, (double)pl_wall_ms() / 1e3);
            PL_TRY(pl_replace_file(path, bytes.data, bytes.len));
        } else if (whole < bytes.len && truncate(path, (off_t)whole) != 0) {
            PL_TRY(pl_fail(PL_ERR_IO, "the damaged end of %s cannot be cut off: %s",
                           path, strerror(errno)));
        }
        pl_buf_destroy(&bytes);
    }
    const int64_t steps = h->stride * a->arm.inner.tau;
    size_t slot = *last_step > 0 ? (size_t)(*last_step / steps) : 0;
    int64_t newest = *last_step;
    for (; phase_history_is_final(h, a, slot, c->ended); slot++) {
        /* A point of held-out text belongs to the step at which its phase began. A
         * point of training belongs to the step at which its phase ended. */
        const int64_t step = (int64_t)(slot + (k == TRAIN)) * steps;
        double at_ms = 0;
        points p = {0};
        if (step <= newest)
            continue;
        if (k == TRAIN) {
            put_train(&p, h, a, slot);
        } else {
            const pl_held_sum all = phase_history_held(a, slot);
            const int n_paths = a->n_series / a->n_replicas;
            for (int i = 0; n_paths > 1 && i < n_paths && i < PATHS_SHOWN; i++) {
                const phase_series *s = &a->series[i * a->n_replicas];
                pl_held_sum one = {0};
                pl_held_add(&one, &a->arm, i, phase_series_at(s, slot)->work.held);
                put_scalar_named(&p, "path_bits_per_byte", s->name, pl_held_bits(&one));
            }
            put_scalar_named(&p, "held-out", "bits_per_byte", pl_held_bits(&all));
        }
        for (int i = 0; i < a->n_series; i++)
            at_ms = fmax(at_ms, (double)phase_series_at(&a->series[i], slot)->at_ms);
        if (p.n > 0) {
            tfevents_add(&bytes, at_ms / 1e3, step, p.scalars, p.n);
            newest = step;
        }
        pl_free(p.scalars);
    }
    if (bytes.len > 0) {
        /* The file is read again only if appending fails. */
        *last_step = STEP_UNKNOWN;
        /* It is appended to and not replaced, because TensorBoard may have it open. */
        const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (file < 0 || write(file, bytes.data, bytes.len) != (ssize_t)bytes.len)
            status =
                pl_fail(PL_ERR_IO, "%s cannot be written: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        PL_TRY(status);
        *last_step = newest;
    }
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status read_curves(curves *c)
{
    bool more = true;
    if (!pl_path_exists(c->store_folder))
        return PL_OK;
    PL_CHECK(run_see_all_parts(c->store_folder, &c->store));
    PL_CHECK(pl_store_refresh(c->store));
    PL_CHECK(phase_history_look(&c->history, c->store));
    while (more)
        PL_CHECK(phase_history_read(&c->history, c->store, READ_AT_ONCE, &more));
    for (int i = 0; i < c->history.n_arms; i++) {
        const phase_arm *a = &c->history.arms[i];
        if (pl_arm_scores(&a->arm) || a->n_series == 0)
            continue;
        PL_CHECK(write_points(c, i, TRAIN));
        if (a->arm.held_every > 0)
            PL_CHECK(write_points(c, i, HELD_OUT));
    }
    return PL_OK;
}

void curves_tick(curves *c, bool all)
{
    if (!c || (!all && pl_now_ms() < c->next_ms))
        return;
    if (all) /* the job has ended; an open reader may miss its last commits */
        pl_store_close(&c->store);
    c->ended = all;
    if (read_curves(c) != PL_OK && !c->failed) {
        c->failed = true;
        say("         the curves for TensorBoard are not up to date: %s",
            pl_last_error());
    }
    c->next_ms = pl_now_ms() + LOOK_MS;
}

void curves_evaluation(const pl_run *r, const evaluation *e)
{
    for (int row = 0; r->cfg.tensorboard && row < ROW_COUNT; row++) {
        const evaluation_row *w = &e->rows[row];
        pl_arm arm;
        char folder[PL_PATH_MAX], path[PL_PATH_MAX];
        const double wall_s = (double)pl_wall_ms() / 1e3;
        const bool mixture = pl_arm_chapter(w->arm) >= 0;
        if (!w->present || (mixture && (row_kind)row != e->answer))
            continue;
        const char *name = mixture ? e->chapter : w->arm;
        points p = {0};
        pl_buf bytes = {0};
        pl_status status = run_arm(r, name, &arm);
        if (status == PL_OK)
            status = point_file(run_file(r, "tensorboard", folder), name, "evaluation",
                                path);
        put_scalar_named(&p, "evaluation", "bits_per_byte", w->bits);
        put_scalar_named(&p, "evaluation", "perplexity", w->ppl);
        tfevents_begin(&bytes, wall_s);
        tfevents_add(&bytes, wall_s, (int64_t)arm.inner.phases * arm.inner.tau,
                     p.scalars, p.n);
        if (status == PL_OK)
            status = pl_replace_file(path, bytes.data, bytes.len);
        pl_free(p.scalars);
        pl_buf_destroy(&bytes);
        pl_arm_clear(&arm);
        if (status != PL_OK)
            say("         the evaluation was not written for TensorBoard: %s",
                pl_last_error());
    }
}
