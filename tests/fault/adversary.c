/* folder: workers
 *
 * Attacks a job for a given time (tests/fault/adversary.h):
 *
 *   adversary TOKEN SPARE [--seed N] [--seconds S] [--pause-ms P] [--label TEXT]
 *             [--device KIND] [--relay TOKEN] [--lies] [--only A,B] [--without A,B]
 *             [--names N1,N2] | --list
 *
 * The workers of this program enrol with the invitation TOKEN. The invitation SPARE is
 * only misused, and with --relay the program has the key of a relay. With --lies they
 * also deliver tasks that they never trained, and the program prints `lied task ...`
 * for each of these tasks. The program ends when it gets SIGTERM, when the time is
 * over, or when no server answers any more. Then it prints how often each act was done,
 * and how often the servers gave each kind of answer. */
#include "tests/fault/adversary.h"
#include "workers/workers.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct act_row {
    const char *name;
    void (*run)(adversary *a);
    int weight;
    bool lies;
} act_row;

static const act_row acts[] = {
#define AS_ROW(run, name, weight, lies) {name, run, weight, lies},
    ACTS_OF(AS_ROW)};
enum { ACTS = sizeof acts / sizeof *acts };
_Static_assert((int)ACTS <= (int)ACTS_MAX, "counts have a place for each act");

typedef struct plan_of_acts {
    bool chosen[ACTS];
    /* First each act once; after that acts are drawn by their weights. */
    int order[ACTS], n, next;
    int64_t seconds, pause_ms, seed;
    bool backward;
} plan_of_acts;

static volatile sig_atomic_t stopped;

const char *act_name(int act)
{
    return acts[act].name;
}

static void on_term(int number)
{
    (void)number;
    stopped = 1;
}

/* ---- the choice of acts ---- */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

static void choose_acts(plan_of_acts *p, bool lies, const char *only,
                        const char *without)
{
    for (int i = 0; i < ACTS; i++) {
        p->chosen[i] = (!acts[i].lies || lies) &&
                       !(only && !is_listed(only, acts[i].name)) &&
                       !(without && is_listed(without, acts[i].name));
        if (p->chosen[i])
            p->order[p->n++] = i;
    }
    for (int i = p->n; i > 1; i--) {
        int at = (int)(pl_random_u32((uint64_t)p->seed, 1, (uint64_t)i) % (uint32_t)i);
        int other = p->order[at];
        p->order[at] = p->order[i - 1];
        p->order[i - 1] = other;
    }
}

static int draw_act(adversary *a, plan_of_acts *p)
{
    int sum = 0, at = 0;
    if (p->next < p->n) {
        int next = p->next++;
        return p->order[p->backward ? p->n - 1 - next : next];
    }
    for (int i = 0; i < ACTS; i++)
        sum += p->chosen[i] ? acts[i].weight : 0;
    int left = (int)dice_roll(&a->dice, (uint32_t)sum);
    for (; at < ACTS - 1; at++) {
        left -= p->chosen[at] ? acts[at].weight : 0;
        if (left < 0)
            break;
    }
    return at;
}

/* ---- the output ---- */
static const char *answer_name(int kind)
{
    static const char *const names[] = {
        "task",   "no-work",  "lease-lost", "ACCEPTED", "duplicate", "unknown-blob",
        "fenced", "rejected", "dropped",    "other",    "sent"};
    return kind == ANSWER_OK        ? "ok"
           : kind < PL_STATUS_COUNT ? pl_status_name((pl_status)kind)
                                    : names[kind - PL_STATUS_COUNT];
}

static void print_counts(const adversary *a, const plan_of_acts *p)
{
    struct rusage used;
    uint64_t all = 0;
    for (int i = 0; i < ACTS; i++) {
        if (!p->chosen[i])
            continue;
        printf("act %-16s %6llu:", acts[i].name, (unsigned long long)a->n_acts[i]);
        for (int kind = 0; kind < ANSWER_COUNT; kind++)
            if (a->answers[i][kind] > 0)
                printf(" %s %llu", answer_name(kind),
                       (unsigned long long)a->answers[i][kind]);
        printf("\n");
        all += a->n_acts[i];
    }
    getrusage(RUSAGE_SELF, &used);
    printf("acts %llu, workers enrolled %d, processor %.1f s\n",
           (unsigned long long)all, a->n_enrolled,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
}

static void attack(adversary *a, plan_of_acts *p)
{
    int64_t end = pl_now_ms() + 1000 * p->seconds;
    while (!stopped && p->n > 0 && pl_now_ms() < end) {
        a->act = draw_act(a, p);
        a->n_acts[a->act]++;
        acts[a->act].run(a);
        for (int64_t until = pl_now_ms() + p->pause_ms; !stopped && pl_now_ms() < until;
             pl_sleep_ms(20))
            keep_sitting(a);
        keep_sitting(a);
        fflush(stdout);
    }
}

/* ---- the command ---- */
static void read_names(adversary *a, char *list)
{
    for (char *name = strtok(list, ","); name && a->n_names < NAMES_MAX;
         name = strtok(NULL, ","))
        pl_copy_text(a->names[a->n_names++], PL_KEY_NAME_MAX, name);
}

static bool read_options(int argc, char **argv, adversary *a, plan_of_acts *p)
{
    static const struct option longs[] = {{"seed", required_argument, NULL, 's'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"pause-ms", required_argument, NULL, 'p'},
                                          {"label", required_argument, NULL, 'l'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"names", required_argument, NULL, 'n'},
                                          {"relay", required_argument, NULL, 'r'},
                                          {"lies", no_argument, NULL, 'L'},
                                          {"backward", no_argument, NULL, 'b'},
                                          {"list", no_argument, NULL, 'i'},
                                          {NULL, 0, NULL, 0}};
    const char *only = NULL, *without = NULL;
    bool lies = false, numbers = true;
    int option;
    *p = (plan_of_acts){.seconds = 3600, .pause_ms = 40, .seed = 1};
    pl_copy_text(a->label, sizeof a->label, "a");
    pl_copy_text(a->device, sizeof a->device, "cpu of an adversary");
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        int64_t *number = option == 's'   ? &p->seed
                          : option == 't' ? &p->seconds
                          : option == 'p' ? &p->pause_ms
                                          : NULL;
        if (number)
            numbers = pl_parse_int(optarg, number) == PL_OK && numbers;
        else if (option == 'l')
            pl_copy_text(a->label, sizeof a->label, optarg);
        else if (option == 'd')
            pl_copy_text(a->device, sizeof a->device, optarg);
        else if (option == 'n')
            read_names(a, optarg);
        else if (option == 'r')
            a->has_relay = pl_token_parse(optarg, a->hub, &a->relays) == PL_OK;
        else if (option == 'o')
            only = optarg;
        else if (option == 'w')
            without = optarg;
        else if (option == 'L')
            lies = true;
        else if (option == 'b')
            p->backward = true;
        else if (option == 'i') {
            for (int i = 0; i < ACTS; i++)
                printf("%s%s\n", acts[i].name, acts[i].lies ? " lies" : "");
            exit(0);
        } else
            return false;
    }
    a->dice.seed = pl_stream(a->label, (uint64_t)p->seed, 0);
    choose_acts(p, lies, only, without);
    return numbers && argc - optind == 2;
}

int main(int argc, char **argv)
{
    plan_of_acts p;
    adversary *a = pl_alloc(sizeof *a);
    if (!read_options(argc, argv, a, &p)) {
        fprintf(stderr, "usage: see the head of tests/fault/adversary.c\n");
        return 64;
    }
    if (pl_token_parse(argv[optind], a->hub, &a->invite) != PL_OK ||
        pl_token_parse(argv[optind + 1], a->hub, &a->spare) != PL_OK) {
        fprintf(stderr, "adversary: %s\n", pl_last_error());
        return 64;
    }
    signal(SIGTERM, on_term);
    signal(SIGINT, on_term);
    printf("seed %lld\n", (long long)p.seed);
    line_open(a);
    attack(a, &p);
    print_counts(a, &p);
    raw_close();
    line_close(a);
    pl_wire_shutdown();
    pl_free(a);
    return 0;
}
