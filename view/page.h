/* The data that `pathloom page` shows of a run. It opens the store as a reader, asks
 * the hub of a running job for its status, reads logs and report.json, and changes
 * nothing.
 *
 * The owner calls page_tick every second and page_answer for every question
 * (serve/page_front.h), both on one thread. Questions:
 *
 *   /state.json           the run at this moment
 *   /history?since=N      the training of every path in every phase, and the rare
 *                         events; with `epoch`, only cells after serial N (and events
 *                         after serial `events`)
 *   /modules.json?arm=A   the versions of an arm's modules over time; for one module
 *                         (`module`): one `version`, or with `heat` how its tensors
 *                         changed
 *   /router.json          a picture of how documents were dealt to paths
 *   /route.json?text=T    the path that would answer the text T, and the scores of all
 *                         paths; ERR_BUSY if texts follow each other too fast */
#ifndef PL_VIEW_PAGE_H
#define PL_VIEW_PAGE_H
#include "serve/serve.h"

typedef struct page page;
/* ERR_NOT_FOUND if the folder is not a run. */
PL_MUST_CHECK pl_status page_open(const char *dir, page **out);
void page_close(page **out); /* accepts NULL */
/* Reads what is new in the run. `watched`: a browser is connected, so the page also
 * asks the hub. Returns true if there is more to read, so that page_tick should be
 * called again at once. */
bool page_tick(page *p, bool watched);
uint64_t page_number(const page *p); /* number of the newest state */
/* Appends a report of the run: one HTML file without scripts. */
PL_MUST_CHECK pl_status page_report(const char *dir, pl_buf *out);
/* Appends the answer, a JSON text. */
PL_MUST_CHECK pl_status page_answer(page *p, const pl_page_question *q, pl_buf *out);

#endif
