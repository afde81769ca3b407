/* The data that `pathloom page` shows of a run. These functions open the store as a
 * reader, ask the hub of a running job for its status, read logs and report.json, and
 * change nothing.
 *
 * The owner of a page calls page_tick every second, and page_answer for every question
 * (serve/page_front.h), both on one thread. Questions:
 *
 *   /state.json           the run at this moment
 *   /history?since=N      the training of every path in every phase (a cell), the rare
 *                         events and the leases; if the argument `epoch` is the epoch
 *                         of the history (history/phase_history.h), only cells
 *                         after serial N, events after serial `events` and leases
 *                         after serial `leases`
 *   /modules.json?arm=A   the versions of an arm's modules over time; with `module`
 *                         only one version of this module: `version`, or the newest;
 *                         with `module` and `heat` how the module's tensors changed
 *   /router.json          a picture that shows how documents were dealt to paths
 *   /route.json?text=T    the path that would answer the text T, and the scores of all
 *                         paths; ERR_BUSY if texts follow each other too fast */
#pragma once
#include "serve/serve.h"

typedef struct page page;
/* ERR_NOT_FOUND if the folder is not a run. */
/* `hub` and `key`: address of the hub of a job on another machine, and file with the
 * key for the connection; `dir` is then not used, and the page has what the hub knows:
 * its status and its log. Otherwise they are NULL. */
pl_status page_open(const char *dir, const char *hub, const char *key, page **out);
void page_close(page **out); /* accepts NULL */
/* Reads what is new in the run. If `watched` (a browser is connected), also asks the
 * hub. Returns true if there is more to read: call page_tick again at once. */
bool page_tick(page *p, bool watched);
uint64_t page_number(const page *p); /* number of the newest state */
/* Appends a report of the run in the folder `dir`: one HTML file without scripts. */
pl_status page_report(const char *dir, pl_buf *out);
pl_status page_answer(page *p, const pl_page_question *q, pl_buf *out);
