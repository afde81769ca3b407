/* Counts what the inputs of the fuzz targets of hub and home reach. Inputs that reach
 * only refusals test nothing. The targets are linked with --wrap for the function that
 * sends a home's answers: they are counted here and not sent. */
#pragma once
#include "net/net.h"

void reach_begin_input(void);
/* Notes that this input has reached `what`, a text that stays valid. */
void reach(const char *what);
/* Gives a question the number by which reach_answer finds it. Numbers rise. */
void reach_ask(pl_message *question);
/* Notes the answer and, unless it is an error, that its question was accepted. */
void reach_answer(const pl_message *answer);
/* Prints the share of the inputs that have reached each thing. Ends the program with an
 * error if `enough` inputs ran and none has reached one of `must`, which ends with
 * NULL.
 */
void reach_report(const char *const *must, uint64_t enough);
