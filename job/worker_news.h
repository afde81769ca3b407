/* Tells the user of `train` which workers come, go, die, or are refused. */
#pragma once
#include "job/run.h"

typedef struct worker_news worker_news;

worker_news *worker_news_create(void);
void worker_news_destroy(worker_news **news);
/* Prints one line for each change since the last call: `status` is the hub's status. If
 * no worker is connected, or a home does not answer, for 10 s, says so, again after 20
 * s and so on. Returns whether it printed anything. */
bool worker_news_tell(worker_news *n, const pl_json *status);
/* Call this after each question to the hub. Prints a line if the hub has not answered
 * for 10 s, 20 s and so on, and when it is back. Returns whether it printed one. */
bool worker_news_of_hub(worker_news *n, bool answers);
/* Whether the worker, as the hub's status describes it, is connected and may work. */
bool worker_news_is_here(const pl_json *worker);
