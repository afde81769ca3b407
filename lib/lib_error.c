/* Turns the library's own statuses into the errors of the public interface
 * (pathloom.h). */
#include "lib/lib_internal.h"

#define SAME(name) _Static_assert((int)PATHLOOM_##name == (int)PL_##name, #name)
SAME(OK);
SAME(ERR_ARG);
SAME(ERR_USAGE);
SAME(ERR_CONFIG);
SAME(ERR_DATA);
SAME(ERR_DAMAGED);
SAME(ERR_NOT_FOUND);
SAME(ERR_EXISTS);
SAME(ERR_BUSY);
SAME(ERR_IO);
SAME(ERR_NOSPACE);
SAME(ERR_NOMEM);
SAME(ERR_OS);
SAME(ERR_NOPERM);
SAME(ERR_DEVICE);
SAME(ERR_NUMERIC);
SAME(ERR_CANCELLED);
SAME(ERR_UNSUPPORTED);
SAME(ERR_INTERNAL);

const char *pathloom_version(void)
{
    return PL_VERSION;
}

const char *pathloom_status_name(int status)
{
    return status >= 0 && status < PL_STATUS_COUNT ? pl_status_name((pl_status)status)
                                                   : "ERR_INTERNAL";
}

static void quieten_log(void)
{
    pl_log_open("libpathloom", PL_LOG_ERROR, false);
}

pl_status lib_begin(void)
{
    static bool done;
    pl_once(&done, quieten_log);
    return pl_isa_check();
}

pl_status lib_given(const void *argument, const char *name)
{
    return argument ? PL_OK
                    : pl_fail(PL_ERR_ARG, "the argument `%s` must not be NULL", name);
}

pl_status lib_heard(int stop)
{
    return stop ? pl_fail(PL_ERR_CANCELLED, "the callback asked to stop") : PL_OK;
}

int lib_end(pl_status status, pathloom_error *error)
{
    if (error) {
        error->status = (int)status;
        pl_copy_text(error->message, sizeof error->message,
                     status == PL_OK ? "" : pl_last_error());
    }
    return (int)status;
}
