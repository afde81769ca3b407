/* Private to view: computes how the tensors of a module changed over its versions. */
#pragma once
#include "store/store.h"

/* Makes {"module", "from", "to", "tensors": [names, the last is the whole module],
 * "columns": [[version, next version, [relative change of each tensor]]]} for at most
 * 48 pairs of versions between `from` and `to`; UINT64_MAX means the newest version. A
 * list of changes is empty if its two versions are equal. ERR_UNSUPPORTED if the module
 * has so many values that comparing even one pair would take long. */
pl_status page_heat_json(pl_store *store, const char *module, uint64_t from,
                         uint64_t to, pl_json **out);
/* Makes a JSON number with n significant figures; null if the value is not finite. */
pl_json *page_figures(double value, int n);
