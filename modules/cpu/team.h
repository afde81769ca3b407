/* How many threads compute the next operation: all of the backend's, or only the
 * caller while other programs use the processors.
 *
 * The threads of an operation wait for each other. If a program needs the processor of
 * one of them, the others wait until that thread runs again, some milliseconds for an
 * operation of some microseconds. So the caller compares its processor time with the
 * time that passes. If it mostly waits, it computes alone for a while, and then tries
 * all threads again.
 *
 * Only the number of threads changes, never the shares into which an operation is
 * divided. So results do not depend on these decisions. */
#pragma once

/* Returns n_threads or 1. Operations call it directly before they use their threads. */
int cpu_threads(int n_threads);

/* Ends a sequence of operations: the time until the next one is not counted. */
void cpu_threads_rest(void);
