/* Draws the store's contents as SVG files: `store diff --svg`, `store blame --svg`. */
#pragma once
#include "home/home.h"

/* Writes a heat map to `file`: the relative change of each tensor of a module, from
 * version `from` to version `to` in at most 48 steps. ERR_NOT_FOUND: there is nothing
 * to draw, because fewer than two of these versions still have their parameters, no two
 * of them differ, or all values of the module were zero. */
pl_status store_picture_changes(pl_store *store, const char *module, uint64_t from,
                                uint64_t to, const char *file);
/* Writes a bar chart to `file`: the share of each contributor of a version. */
pl_status store_picture_blame(const pl_blame *blame, const char *module,
                              uint64_t number, const char *file);
