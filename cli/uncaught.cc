/* Handles exceptions that were not caught. RocksDB has its own threads, which start
 * threads and allocate memory. If the system refuses this, an exception in such a
 * thread makes C++ end the process. The code here prints an error sentence and sets an
 * exit code in this case, as for any other error. */
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
                           "an exception was not caught (%s); often the reason is that "
                           "the system refused memory or a thread: free memory, "
                           "or raise the limits (ulimit -v, ulimit -u)",
                           cause)));
}

void cli_catch_uncaught(int (*tell)(pl_status status))
{
    tell_end = tell;
    std::set_terminate(end_process);
}
