/* folder: net
 *
 * Counts what inputs reach (reach.h). */
#include "tests/fuzz/reach.h"
#include "tests/fault/hostile.h"

#include <stdio.h>

enum { REACHED_MAX = 96 };

static struct {
    const char *what;
    uint64_t n, input; /* the number of inputs, and the newest of them */
} reached[REACHED_MAX];
static int n_reached;
static uint64_t n_inputs, n_questions;

static const char *message_name(unsigned type)
{
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
#define QUESTION(type, NAME, roles, cost) {(type), #NAME},
#define ANSWER(type, NAME)                {(type), #NAME},
#include "net/messages.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type)
            return names[i].name;
    return "unknown";
}

void reach_begin_input(void)
{
    n_inputs++;
}

void reach(const char *what)
{
    int i = 0;
    while (i < n_reached && strcmp(reached[i].what, what) != 0)
        i++;
    fuzz_demand(i < REACHED_MAX, "the inputs reach too many things");
    if (i == n_reached)
        reached[n_reached++].what = what;
    reached[i].n += reached[i].input != n_inputs;
    reached[i].input = n_inputs;
}

void reach_ask(pl_message *question)
{
    question->request = ++n_questions << 16 | question->type;
}

void reach_answer(const pl_message *answer)
{
    reach(message_name(answer->type));
    if (answer->type != PL_MSG_ERR && answer->request != 0)
        reach(message_name((unsigned)(answer->request & 0xffff)));
}

/* ---- a home's answers; the target of the hub has a function of its own ---- */
__attribute__((weak)) pl_status
__wrap_pl_wire_give_to(pl_socket *socket, const pl_peer *to, pl_message *m);
pl_status __wrap_pl_wire_give_to(pl_socket *socket, const pl_peer *to, pl_message *m)
{
    static const char *const results[] = {
        [PL_SUBMIT_ACCEPTED] = "a result is accepted",
        [PL_SUBMIT_DUPLICATE] = "a result is a duplicate",
        [PL_SUBMIT_UNKNOWN_BLOB] = "a result lacks its blob",
        [PL_SUBMIT_FENCED] = "a result has an ended lease",
        [PL_SUBMIT_REJECTED] = "a result is rejected",
        [PL_SUBMIT_DROPPED] = "a result is late",
        [PL_SUBMIT_OTHER] = "a result differs from the first one"};
    pl_reader r;
    (void)socket, (void)to;
    reach_answer(m);
    pl_reader_open(&r, "SUBMITTED", m->body.data, m->body.len);
    if (m->type == PL_MSG_SUBMITTED)
        reach(results[pl_get_u64(&r, PL_TAG_RESULT, 0)]);
    return PL_OK;
}

void reach_report(const char *const *must, uint64_t enough)
{
    for (int i = 0; i < n_reached; i++)
        printf("%5.1f %% of the inputs: %s\n",
               100.0 * (double)reached[i].n / (double)n_inputs, reached[i].what);
    fflush(stdout);
    for (; *must && n_inputs >= enough; must++) {
        int i = 0;
        while (i < n_reached && strcmp(reached[i].what, *must) != 0)
            i++;
        fuzz_demand(i < n_reached, *must);
    }
}
