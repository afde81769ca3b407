/* Private to view: how the tensors of a module changed over its versions. */
#ifndef PL_VIEW_PAGE_HEAT_H
#define PL_VIEW_PAGE_HEAT_H
#include "store/store.h"

/* Makes {"module", "from", "to", "tensors": [names, the last is the whole module],
 * "columns": [[version, next version, [relative change of each tensor]]]} for at most
 * 48 pairs of versions between `from` and `to`; UINT64_MAX: the newest. A list of
 * changes is empty if the versions are equal. ERR_UNSUPPORTED: the module has more
 * values than a page compares while its reader waits; with `large` one pair is
 * compared. */
PL_MUST_CHECK pl_status page_heat_json(pl_store *store, const char *module,
                                       uint64_t from, uint64_t to, bool large,
                                       pl_json **out);
/* A number with n significant figures; null if it is not finite. */
pl_json *page_figures(double value, int n);

#endif
