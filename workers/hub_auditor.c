/* Which worker does an audit, its lease, and which workers get tasks that audits can
 * check.
 *
 * Only the job's own workers audit, each for results of its own kind of device: an
 * outsider could read the result from the homes instead of training, or accuse honest
 * workers with a second key. An own worker audits its own result, and repeats its own
 * repetition, only if no other own worker of that kind is connected. */
#include "workers/hub_internal.h"

enum { LOOK_MS = 200, NO_RANK = 1000 };

static bool is_judge(const hub_worker *w, const char *device)
{
    return w->own_key && !w->fenced[0] && strcmp(w->device, device) == 0;
}

static bool is_ready(const hub *h, const hub_worker *w, const char *device,
                     int64_t now_ms)
{
    return is_judge(w, device) && !w->drains && !hub_is_away(h, w, now_ms) &&
           !hub_is_barred(w, now_ms);
}

bool hub_has_judge(const hub *h, const char *device)
{
    for (int i = 0; i < h->n_workers; i++)
        if (is_judge(&h->workers[i], device) && !h->workers[i].left)
            return true;
    return false;
}

/* fleet.devices is a list of DEVICE texts, with commas between them. */
bool hub_lists_device(const hub *h, const char *device)
{
    const char *at = h->options->devices ? h->options->devices : "";
    const size_t len = strlen(device);
    while (*at && len > 0) {
        at += strspn(at, " ,");
        const size_t item = strcspn(at, ",");
        if (item >= len && memcmp(at, device, len) == 0 &&
            strspn(at + len, " ") == item - len)
            return true;
        at += item;
    }
    return false;
}

/* Under audits a worker that joined gets tasks only if a worker of the job has had the
 * same kind of device, and, if one was once waited for in vain, one is ready now; or
 * fleet.devices lists the kind. */
bool hub_admits_device(const hub *h, const hub_worker *w, int64_t now_ms)
{
    bool admits = !h->tasks.audits || w->own_key || hub_lists_device(h, w->device);
    for (int i = 0; i < h->n_workers && !admits; i++)
        admits =
            is_judge(&h->workers[i], w->device) &&
            (!h->workers[i].given_up || is_ready(h, &h->workers[i], w->device, now_ms));
    return admits;
}

/* Returns how far the worker is from an independent judge of this audit; 0: it is one.
 */
static int rank_of(const hub_audit *a, const hub_worker *w)
{
    int rank = 0;
    for (int i = 0; i < a->n_parts; i++)
        if (strcmp(a->parts[i].from.worker, w->name) == 0)
            rank = 1;
    for (int i = 1; i < a->row.n; i++)
        if (strcmp(a->row.results[i].worker, w->name) == 0)
            rank += 2;
    return rank;
}

/* Finds the best connected judge. The list of workers is searched only every LOOK_MS,
 * because thousands of workers may ask for tasks. */
static void look_for_judges(const hub *h, hub_audit *a, int64_t now_ms)
{
    if (a->looked_ms > 0 && now_ms - a->looked_ms < LOOK_MS)
        return;
    a->looked_ms = now_ms;
    a->rank = NO_RANK;
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if (is_ready(h, w, a->wants, now_ms) && rank_of(a, w) < a->rank)
            a->rank = rank_of(a, w);
    }
}

hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms)
{
    const hub_worker *w = &h->workers[worker];
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (!a->wants[0] || a->lease.active || !is_judge(w, a->wants))
            continue;
        look_for_judges(h, a, now_ms);
        if (rank_of(a, w) <= a->rank)
            return a;
    }
    return NULL;
}

/* The results are then dropped, so that another kind of device does the task again, and
 * this kind gets no task until one of its judges is back. Without this the path would
 * wait for ever. If fleet.devices lists the kind, the results count as unchecked,
 * unless a repetition differs from them. */
void hub_await_judge(hub *h, hub_audit *a, int64_t now_ms)
{
    char reason[PL_AUDIT_REASON_MAX];
    if (a->wants[0])
        look_for_judges(h, a, now_ms);
    if (!a->wants[0] || a->rank < NO_RANK) {
        a->lacks_ms = 0;
        return;
    }
    if (a->lacks_ms == 0) {
        a->lacks_ms = now_ms;
        pl_log(PL_LOG_WARN, "audit.waits", "task=%s phase=%lld device=\"%s\"",
               a->row.path, (long long)a->row.phase, a->wants);
    }
    const double waited_s = 1e-3 * (double)(now_ms - a->lacks_ms);
    if (waited_s <= hub_overdue_s(h, hub_usual_s(&h->tasks.arms[a->task.arm])))
        return;
    for (int i = 0; i < h->n_workers; i++)
        if (is_judge(&h->workers[i], a->wants))
            h->workers[i].given_up = true;
    snprintf(reason, sizeof reason,
             "no worker of the job with the device %.100s came for %.0f s", a->wants,
             waited_s);
    hub_close_audit(h, a,
                    hub_lists_device(h, a->wants) && !hub_audit_differs(a)
                        ? PL_VERDICT_UNCHECKED
                        : PL_VERDICT_UNDECIDED,
                    reason);
}

void hub_grant_audit(hub *h, hub_audit *a, int worker, int64_t now_ms)
{
    plan *p = &h->tasks;
    const int usual_ms = hub_ttl_ms(h, &p->arms[a->task.arm], 0),
              ttl_ms = usual_ms > PLAN_FIRST_MS ? usual_ms : PLAN_FIRST_MS;
    a->lease = (plan_lease){.active = true,
                            .token = plan_next_token(p, NULL),
                            .phase = a->row.phase,
                            .deadline_ms = now_ms + ttl_ms,
                            .granted_ms = now_ms,
                            .worker = worker,
                            .repeats = a->row.repeats};
    a->lacks_ms = 0;
    p->n_granted++;
}
