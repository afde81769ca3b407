/* The teardown of a suite whose tests have used sockets. */
#pragma once
#include "base/base.h"

static inline int end_wire(__attribute__((unused)) void **state)
{
    pl_wire_shutdown();
    return 0;
}
