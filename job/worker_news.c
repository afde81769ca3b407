/* Compares each status of the hub with the one before, and prints which workers have
 * come or gone (worker_news.h). */
#include "job/worker_news.h"

#include <time.h>

/* A hub that has just started does not know yet which workers are connected. */
enum { ALONE_MS = 10000, ALONE_STEP_MAX_MS = 600000, HUB_SETTLED_S = 15 };

typedef struct known_worker {
    char name[PL_TEXT_MAX];
    bool here, barred;
    bool listed; /* whether the newest status names it */
} known_worker;

/* Something that the job needs and that is missing: any worker, the hub, or a home. */
typedef struct lack {
    int64_t since_ms; /* time since which it is missing; 0: it is there */
    int64_t next_ms;  /* time of the next line about it */
    char since[16];   /* the first of these as a time of day */
    bool told;
} lack;

struct worker_news {
    known_worker *known;
    int n;
    bool begun;
    lack workers, hub, judges, homes[PL_HOMES_MAX];
};

/* Notes whether the thing is there. Returns whether a line about it is due: after it
 * has been missing for 10 s, 20 s, 40 s and so on, and when it is back. */
static bool note_lack(lack *l, bool there)
{
    const int64_t now = pl_now_ms();
    struct tm local;
    if (there) {
        const bool told = l->told;
        *l = (lack){.since_ms = 0};
        return told;
    }
    if (l->since_ms == 0) {
        time_t at = (time_t)(pl_wall_ms() / 1000);
        *l = (lack){.since_ms = now, .next_ms = now + ALONE_MS};
        if (localtime_r(&at, &local))
            strftime(l->since, sizeof l->since, "%H:%M:%S", &local);
    }
    if (now < l->next_ms)
        return false;
    const int64_t missing = now - l->since_ms;
    l->next_ms = now + (missing < ALONE_STEP_MAX_MS ? missing : ALONE_STEP_MAX_MS);
    l->told = true;
    return true;
}

worker_news *worker_news_create(void)
{
    return pl_alloc(sizeof(worker_news));
}

void worker_news_destroy(worker_news **news)
{
    if (*news)
        pl_free((*news)->known);
    pl_free(*news);
    *news = NULL;
}

static bool has_state(const pl_json *worker, const char *state)
{
    return strcmp(pl_json_get_text(worker, "state"), state) == 0;
}

bool worker_news_is_here(const pl_json *worker)
{
    return !has_state(worker, "away") && !has_state(worker, "fenced") &&
           !pl_json_get_text(worker, "gone")[0];
}

static bool tell_change(worker_news *n, const pl_json *w)
{
    const char *name = pl_json_get_text(w, "worker");
    const bool here = worker_news_is_here(w), barred = has_state(w, "barred");
    known_worker *k = n->known, *end = n->known + n->n;
    while (k != end && strcmp(k->name, name) != 0)
        k++;
    const bool is_new = k == end;
    if (is_new) {
        n->known = pl_grow(n->known, (size_t)(n->n + 1) * sizeof *n->known);
        k = &n->known[n->n++];
        *k = (known_worker){.here = false};
        pl_copy_text(k->name, sizeof k->name, name);
    }
    const known_worker was = *k;
    *k = (known_worker){.here = here, .barred = barred, .listed = true};
    memcpy(k->name, was.name, sizeof k->name);
    /* `train` has printed already that it starts its own workers */
    const bool is_own = is_new && pl_key_name_is_jobs(name);
    if (!n->begun || (is_own && here && !barred))
        return false;
    if (here && !was.here)
        say("worker   %s %s, on %s", name, is_new ? "has joined" : "is back",
            pl_json_get_text(w, "device"));
    else if (!here && was.here) {
        const char *how = pl_json_get_text(w, "gone");
        if (has_state(w, "fenced"))
            say("worker   %s is shut out: an audit found a false result (`pathloom "
                "audit`)",
                name);
        else if (strcmp(how, "revoked") == 0)
            say("worker   %s is gone: its key was revoked or has expired", name);
        else if (strcmp(how, "left") == 0)
            say("worker   %s has left", name);
        else
            say("worker   %s is away: the hub has heard nothing from it for %.0f s",
                name, pl_json_get_real(w, "seen_seconds_ago"));
    }
    if (barred && !was.barred)
        say("worker   %s gets no task for %.0f s: %s", name,
            pl_json_get_real(w, "barred_seconds"), pl_json_get_text(w, "failure"));
    return here != was.here || (barred && !was.barred);
}

bool worker_news_of_hub(worker_news *n, bool answers)
{
    if (!note_lack(&n->hub, answers))
        return false;
    if (answers)
        say("hub      the hub is back");
    else
        say("hub      the hub does not answer since %s; the job waits for it",
            n->hub.since);
    return true;
}

bool worker_news_tell(worker_news *n, const pl_json *status)
{
    const pl_json *workers = pl_json_get(status, "workers"),
                  *homes = pl_json_get(status, "homes");
    bool told = false;
    int n_here = 0;
    for (int i = 0; i < n->n; i++)
        n->known[i].listed = false;
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        n_here += worker_news_is_here(w);
        told = tell_change(n, w) || told;
    }
    /* The hub does not list workers that have gone and never had a task. If its list
     * has no room for all others, then a worker that is not in the list may still be
     * there. */
    const bool is_whole = pl_json_get_real(status, "uptime_seconds") >= HUB_SETTLED_S &&
                          !pl_json_get_bool(status, "workers_cut");
    for (int i = 0; is_whole && i < n->n; i++) {
        known_worker *k = &n->known[i];
        if (k->listed || !k->here)
            continue;
        k->here = false;
        say("worker   %s has left", k->name);
        told = true;
    }
    n->begun = true;
    for (size_t i = 0; i < pl_json_count(homes) && i < PL_HOMES_MAX; i++) {
        const bool up = pl_json_get_bool(pl_json_at(homes, i), "up");
        if (!note_lack(&n->homes[i], up))
            continue;
        if (up)
            say("home     home %zu is back", i + 1);
        else
            say("home     home %zu does not answer the hub since %s; no task is leased "
                "meanwhile",
                i + 1, n->homes[i].since);
        told = true;
    }
    const pl_json *waiting = pl_json_get(status, "audits_waiting");
    const size_t n_waiting = pl_json_count(waiting);
    if (note_lack(&n->judges, n_waiting == 0) && n_waiting > 0) {
        char text[PROGRESS_WAITING_MAX];
        say("audit    since %s: %s (%zu such tasks, `pathloom status`)",
            n->judges.since, progress_waiting(pl_json_at(waiting, 0), text), n_waiting);
        told = true;
    }
    /* the worker that ended the lack has a line of its own */
    if (note_lack(&n->workers, n_here > 0) && n_here == 0) {
        int n_gone = 0;
        for (int i = 0; i < n->n; i++)
            n_gone += !n->known[i].here;
        say("worker   no worker is connected since %s (%d have gone); the job waits "
            "until one\n"
            "         is back or another joins (`pathloom key invite`)",
            n->workers.since, n_gone);
        told = true;
    }
    return told;
}
