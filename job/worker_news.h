/* Tells the user of `train` which workers come, go, die, or are refused. */
#ifndef PL_JOB_WORKER_NEWS_H
#define PL_JOB_WORKER_NEWS_H
#include "job/run.h"

typedef struct worker_news worker_news;

worker_news *worker_news_create(void);
void worker_news_destroy(worker_news **news);
/* Prints one line for each change since the last call: `status` is the hub's status. If
 * no worker is connected for 10 s, says so, again after 20 s and so on. Returns whether
 * it printed anything. */
bool worker_news_tell(worker_news *n, const pl_json *status);
/* Whether the worker, as the hub's status describes it, is connected and may work. */
bool worker_news_is_here(const pl_json *worker);

#endif
