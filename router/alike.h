/* Documents that no router can part; private to router. */
#ifndef PL_ROUTER_ALIKE_H
#define PL_ROUTER_ALIKE_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Writes order [n]: rows of equal bytes stand beside each other, the lower first. */
void router_group_alike(const void *rows, size_t n, size_t row_bytes, size_t *order);
/* One past the last of the group that begins at order[i]. */
size_t router_group_end(const void *rows, size_t n, size_t row_bytes,
                        const size_t *order, size_t i);

#ifdef __cplusplus
}
#endif
#endif
