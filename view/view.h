/* The door of view: what people see of a run. It reads runs, and changes nothing.
 *
 * page (what a browser shows of a run, and its report as one file), history (a row per
 * finished phase), observe (the merged logs of all processes), store_picture (SVG
 * files). Behind them: page_log reads event logs, page_heat compares versions, html
 * draws without scripts. */
#ifndef PL_VIEW_VIEW_H
#define PL_VIEW_VIEW_H
#include "view/history.h"
#include "view/observe.h"
#include "view/page.h"
#include "view/store_picture.h"
#endif
