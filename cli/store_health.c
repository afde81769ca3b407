/* pathloom store log --health: prints how well the outer steps of a module work
 * (history/module_health.h). */
#include "cli/store_call.h"
#include "cli/row.h"

#include <math.h>

static void print_health_number(row *r, const char *key, const char *title,
                                double value)
{
    if (isfinite(value))
        row_say(r, "  %s %8.4f", title, value);
    else
        row_say(r, "  %s %8s", title, "-");
    row_real(r, key, value, NULL);
}

static void print_health(bool json, const char *module, uint64_t number,
                         const pl_health *h)
{
    row r = row_begin(json);
    row_text(&r, "module", module, "%s");
    row_count(&r, "version", number, "@%-5s");
    print_health_number(&r, "lag_correlation", "lag", h->lag);
    print_health_number(&r, "gain", "gain", h->gain);
    print_health_number(&r, "relative_step", "step", h->relative);
    print_health_number(&r, "transverse", "transverse", h->transverse);
    row_finish(&r);
}

pl_status store_log_health(store_call *call, const char *module, uint64_t last)
{
    pl_health *all = NULL;
    pl_status status = pl_module_health(call->store, module, last, &all);
    for (uint64_t number = last; status == PL_OK && number > 0; number--)
        print_health(call->json, module, number, &all[number]);
    pl_free(all);
    return status;
}
