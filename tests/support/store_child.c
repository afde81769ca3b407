/* Defines the functions of store_child.h. */
#include "tests/support/store_child.h"

store_child start_store_child(const char *folder)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    store_child child = {fork(), ends[0]};
    if (child.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "store-child", folder, (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    return child;
}

void await_store_child(const store_child *child)
{
    struct pollfd first = {.fd = child->fd, .events = POLLIN};
    poll(&first, 1, 60000);
}

void kill_store_child(const store_child *child)
{
    int status;
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    if (WIFEXITED(status))
        fail_msg("the child ended by itself, with exit code %d", WEXITSTATUS(status));
}

bool read_number(const store_child *child, uint64_t *number)
{
    return read(child->fd, number, sizeof *number) == sizeof *number;
}

int die_at(const char *point, int passage, const char *program, const char *folder,
           const char *more)
{
    char spec[96];
    snprintf(spec, sizeof spec, "%s:kill:%d", point, passage);
    const int code = run_self(spec, program, folder, more);
    assert_true(code == 0 || code > 128);
    return code == 0 ? 0 : code - 128;
}
