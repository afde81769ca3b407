/* Reads PATHLOOM_FAILPOINT and acts at the points that it names (failpoint.h). The
 * variable is parsed again each time a point is reached. This costs time only in tests:
 * without the variable a point is one relaxed load. */
#include "base/failpoint.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/text.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POINTS_MAX = 128, NAME_MAX_BYTES = 64, EXIT_CODE = 71 };

/* Whether the variable is set. The environment is read only once. */
enum { NOT_ASKED, OFF, ARMED };
static _Atomic int state;

/* how many times each point was reached, by the point's position in the variable */
static _Atomic int passages[POINTS_MAX];

typedef enum action { KILL, EXIT, STOP, ERROR, SLEEP } action;
static const char *const actions[] = {"kill", "exit", "stop", "error", "sleep"};

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* One "NAME[@ROLE]:ACTION[:NTH]" of the variable. */
typedef struct point {
    /* name with the role; also the name of the file in FOLDER */
    char name[NAME_MAX_BYTES];
    action what;
    int nth;
} point;

static bool read_point(const char *text, size_t len, point *out)
{
    const char *end = text + len, *colon = memchr(text, ':', len);
    if (!colon || colon == text || colon - text >= NAME_MAX_BYTES)
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(colon - text), text);
    const char *word = colon + 1;
    const char *second = memchr(word, ':', (size_t)(end - word));
    size_t word_len = (size_t)((second ? second : end) - word);
    out->nth = second ? atoi(second + 1) : 1;
    for (size_t a = 0; a < sizeof actions / sizeof *actions; a++)
        if (is_word(word, word_len, actions[a])) {
            out->what = (action)a;
            return out->nth > 0 || ((out->what == STOP || out->what == ERROR) &&
                                    second && second[1] == '0');
        }
    return false;
}

/* Whether the point has this name, and its role, if it has one, is the verb with which
 * this process was started ("home"). */
static bool is_meant(const point *p, const char *name)
{
    const size_t len = strcspn(p->name, "@");
    const bool has_name = is_word(p->name, len, name);
    if (!has_name || !p->name[len])
        return has_name;
    char words[256] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    /* leaves room for two zeros, which end the list of words */
    ssize_t n = read(fd, words, sizeof words - 2);
    close(fd);
    return n > 0 && strcmp(words + strlen(words) + 1, p->name + len + 1) == 0;
}

pl_status pl_failpoint(const char *name)
{
    if (atomic_load_explicit(&state, memory_order_relaxed) == OFF)
        return PL_OK;
    const char *spec = getenv("PATHLOOM_FAILPOINT");
    atomic_store_explicit(&state, spec ? ARMED : OFF, memory_order_relaxed);
    for (int i = 0; spec && *spec && i < POINTS_MAX; i++) {
        size_t len = strcspn(spec, ",");
        point p;
        if (!read_point(spec, len, &p))
            return pl_fail(PL_ERR_USAGE,
                           "PATHLOOM_FAILPOINT: `%.*s` is not NAME:ACTION[:NTH]; "
                           "ACTION is kill, exit, stop, error or sleep",
                           (int)len, spec);
        spec += len + (spec[len] == ',');
        if (!is_meant(&p, name))
            continue;
        if (p.what == SLEEP) {
            pl_sleep_ms(p.nth);
            continue;
        }
        if (atomic_fetch_add(&passages[i], 1) + 1 != p.nth && p.nth != 0)
            continue;
        /* if this is set, only the first process that reaches the point acts */
        const char *folder = getenv("PATHLOOM_FAILPOINT_ONCE");
        if (folder) {
            char path[PL_PATH_MAX];
            const int fd = open(pl_join(path, folder, p.name),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (fd < 0)
                continue;
            close(fd);
        }
        if (p.what == EXIT)
            _exit(EXIT_CODE);
        if (p.what == ERROR)
            return pl_fail(PL_ERR_IO, "the fail point %s of a test made this call fail",
                           name);
        raise(p.what == KILL ? SIGKILL : SIGSTOP);
        return PL_OK;
    }
    return PL_OK;
}
