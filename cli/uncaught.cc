/* Handles exceptions that were not caught. RocksDB starts threads and allocates memory
 * in threads of its own, and C++ ends the process when the system refuses. Here such an
 * end becomes an error sentence and an exit code like any other. */
#include "cli/cli.h"
#include <exception>
#include <new>
#include <unistd.h>

static int (*tell_end)(pl_status status);

[[noreturn]] static void end_process()
{
    pl_status status = PL_ERR_OS;
    const char *cause = "unknown cause";
    std::exception_ptr caught = std::current_exception();
    try {
        if (caught)
            std::rethrow_exception(caught);
    } catch (const std::bad_alloc &) {
        status = PL_ERR_NOMEM;
        cause = "no memory";
    } catch (const std::exception &error) {
        cause = error.what();
    } catch (...) {
    }
    _exit(tell_end(pl_fail(status,
                           "the system refused memory or a thread (%s); free memory, "
                           "or raise the limits (ulimit -v, ulimit -u)",
                           cause)));
}

void cli_catch_uncaught(int (*tell)(pl_status status))
{
    tell_end = tell;
    std::set_terminate(end_process);
}
