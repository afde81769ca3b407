/* Defines the functions of kill_states.h. */
#include "tests/support/kill_states.h"
#include <dirent.h>

static const char *state_path(const char *states, int n, char out[PL_PATH_MAX])
{
    char name[16];
    snprintf(name, sizeof name, "%d", n);
    return pl_join(out, states, name);
}

/* Returns the number of names in the folder, or -1 if there is no such folder. */
static int count_names(const char *folder)
{
    int n = 0;
    DIR *entries = opendir(folder);
    if (!entries)
        return -1;
    while (readdir(entries))
        n++;
    closedir(entries);
    return n;
}

static bool same_folder(const char *a, const char *b)
{
    int n = count_names(a);
    bool same = count_names(b) == n;
    DIR *entries = same && n >= 0 ? opendir(a) : NULL;
    for (struct dirent *e; same && entries && (e = readdir(entries));) {
        char in_a[PL_PATH_MAX], in_b[PL_PATH_MAX];
        pl_join(in_a, a, e->d_name);
        pl_join(in_b, b, e->d_name);
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        same =
            pl_path_is_folder(in_a) ? same_folder(in_a, in_b) : same_file(in_a, in_b);
    }
    if (entries)
        closedir(entries);
    return same;
}

int make_kill_states(const char *const *points, const char *program, const char *folder,
                     const char *more, const char *changed, const char *states)
{
    char last[PL_PATH_MAX], next[PL_PATH_MAX];
    OWNED(pl_buf_destroy) pl_buf spec = {0}; /* stops it at every passage */
    int how = 0, n = 0;
    assert_ok(pl_remove_tree(states));
    assert_ok(pl_make_folders(states));
    for (int i = 0; points[i]; i++)
        pl_buf_printf(&spec, "%s%s:stop:0", i ? "," : "", points[i]);
    const pid_t child = start_self(pl_buf_text(&spec), program, folder, more);
    for (;;) {
        assert_int_equal(waitpid(child, &how, WUNTRACED), child);
        if (!WIFSTOPPED(how))
            break;
        if (n == 0 || !same_folder(changed, state_path(states, n, last))) {
            state_path(states, n + 1, next);
            if (pl_path_exists(changed))
                copy_folder(changed, next, n > 0 ? last : NULL);
            n++;
        }
        kill(child, SIGCONT);
    }
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    return n;
}

void take_kill_state(const char *states, int n, const char *changed)
{
    char state[PL_PATH_MAX];
    assert_ok(pl_remove_tree(changed));
    if (pl_path_exists(state_path(states, n, state)))
        assert_int_equal(rename(state, changed), 0);
}
