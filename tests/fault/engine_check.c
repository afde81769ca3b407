/* folder: store
 * Tests with a real service that an engine does what store/engine/engine.h promises.
 *
 *   engine_check URL [lossy]    tests all promises. If one is broken, prints a line and
 *                               ends with code 1. lossy: answers may be lost
 *   engine_check URL put NAME WHO     puts the object NAME, as one of racing writers
 *   engine_check URL swap NAME TIMES  raises the counter NAME, TIMES times, by swaps
 *
 * Each of the racing writers is a process. Names of objects begin with the process id,
 * so that objects of earlier calls do not disturb a test. */
#include "store/engine/engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RACERS = 4, ROUNDS = 8, SWAPS = 25, MANY = 300 };

static const char *url;

static void must(bool good, const char *what)
{
    if (good)
        return;
    printf("engine_check: this check failed: %s: %s\n", what, pl_last_error());
    exit(1);
}

static engine *connect_to(void)
{
    engine *e = NULL;
    must(engine_open(url, true, &e) == PL_OK, "opening");
    return e;
}

static const char *own_name(const char *what, int i, char out[ENGINE_NAME_MAX])
{
    snprintf(out, ENGINE_NAME_MAX, "check/%d.%s.%d", (int)getpid(), what, i);
    return out;
}

static bool holds(engine *e, const char *name, const void *data, size_t len)
{
    pl_buf got = {0};
    bool same = engine_get(e, name, &got) == PL_OK && got.len == len &&
                memcmp(got.data, data, len) == 0;
    pl_buf_destroy(&got);
    return same;
}

/* ---- objects ---- */
static void objects_come_back_and_are_written_once(engine *e)
{
    static const size_t sizes[] = {1, 4096, 1 << 20, (1 << 20) + 4096, 5000000};
    char name[ENGINE_NAME_MAX];
    pl_buf none = {0};
    uint8_t *bytes = pl_alloc(5000000);
    for (size_t i = 0; i < 5000000; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < 5; i++) {
        own_name("object", i, name);
        must(engine_get(e, name, &none) == PL_ERR_NOT_FOUND, "a missing object");
        must(engine_put(e, name, bytes, sizes[i]) == PL_OK, "a put");
        must(holds(e, name, bytes, sizes[i]), "the bytes that were put come back");
        must(engine_put(e, name, bytes, sizes[i]) == PL_OK, "the same put again");
        must(engine_put(e, name, "other", 5) == PL_ERR_EXISTS,
             "a put of different bytes");
        must(holds(e, name, bytes, sizes[i]),
             "a put of different bytes changed nothing");
        must(engine_drop(e, name) == PL_OK, "a drop");
        must(engine_drop(e, name) == PL_OK, "the same drop again");
        must(engine_get(e, name, &none) == PL_ERR_NOT_FOUND,
             "an object that was dropped");
    }
    pl_buf_destroy(&none);
    pl_free(bytes);
}

static pl_status count_entry(void *context, const engine_entry *entry)
{
    uint64_t *sum = context;
    sum[0]++;
    sum[1] += entry->bytes;
    return PL_OK;
}

/* Makes many objects, so that a list has several pages, with all requests at the same
 * time. */
static void many_objects_are_listed_by_prefix(engine *e)
{
    char prefix[64];
    uint64_t sum[2] = {0}, after[2] = {0};
    engine_object *objects = pl_alloc(MANY * sizeof *objects);
    for (int i = 0; i < MANY; i++) {
        own_name("many", i, objects[i].name);
        objects[i].data = "0123456789";
        objects[i].len = 10;
    }
    snprintf(prefix, sizeof prefix, "check/%d.many.", (int)getpid());
    must(engine_put_all(e, objects, MANY) == PL_OK, "many puts");
    must(engine_list(e, prefix, count_entry, sum) == PL_OK, "a list");
    must(sum[0] == MANY && sum[1] == 10 * MANY, "a list names each object once");
    must(engine_drop_all(e, objects, MANY) == PL_OK, "many drops");
    must(engine_list(e, prefix, count_entry, after) == PL_OK && after[0] == 0,
         "nothing is listed after the drops");
    pl_free(objects);
}

static void a_swap_needs_what_is_there(engine *e)
{
    char name[ENGINE_NAME_MAX];
    pl_buf none = {0}, one = {0}, two = {0}, three = {0};
    own_name("head", 0, name);
    pl_buf_append(&one, "one", 3);
    pl_buf_append(&two, "one and more", 12);
    pl_buf_append(&three, "three", 5);
    must(engine_swap(e, name, &one, &two) == PL_ERR_STALE,
         "a swap of an object that does not exist");
    must(engine_swap(e, name, &none, &one) == PL_OK, "the first swap");
    must(engine_swap(e, name, &none, &three) == PL_ERR_STALE,
         "a swap that expects no object");
    must(engine_swap(e, name, &one, &two) == PL_OK, "a swap");
    must(engine_swap(e, name, &one, &two) == PL_OK, "the same swap again");
    must(engine_swap(e, name, &one, &three) == PL_ERR_STALE, "a stale swap");
    must(holds(e, name, two.data, two.len), "a stale swap changed nothing");
    must(engine_drop(e, name) == PL_OK, "a drop of the head");
    pl_buf_destroy(&one);
    pl_buf_destroy(&two);
    pl_buf_destroy(&three);
}

/* ---- races ---- */
static int race_put(const char *name, const char *who)
{
    engine *e = connect_to();
    pl_status status = engine_put(e, name, who, strlen(who));
    must(status == PL_OK || status == PL_ERR_EXISTS, "a racing put");
    engine_close(&e);
    return status == PL_OK ? 0 : 7;
}

static int race_swap(const char *name, int times)
{
    engine *e = connect_to();
    pl_buf now = {0}, next = {0};
    for (int done = 0; done < times;) {
        pl_buf_clear(&next);
        must(engine_get(e, name, &now) == PL_OK, "reading the counter");
        pl_buf_printf(&next, "%d by %d.%d", atoi(pl_buf_text(&now)) + 1, (int)getpid(),
                      done);
        pl_status status = engine_swap(e, name, &now, &next);
        must(status == PL_OK || status == PL_ERR_STALE, "a racing swap");
        done += status == PL_OK;
    }
    pl_buf_destroy(&now);
    pl_buf_destroy(&next);
    engine_close(&e);
    return 0;
}

static pid_t start(const char *how, const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    execl("/proc/self/exe", "engine_check", url, how, name, text, (char *)NULL);
    _exit(127);
}

/* The parent must not have opened an engine yet, because libraries with threads do not
 * survive a fork. */
static void of_racing_puts_one_wins(void)
{
    char names[ROUNDS][ENGINE_NAME_MAX];
    int n_won = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int won = 0, code;
        own_name("race", round, names[round]);
        for (int i = 0; i < RACERS; i++)
            must(start("put", names[round], i) > 0, "fork");
        for (int i = 0; i < RACERS; i++) {
            wait(&code);
            must(WIFEXITED(code) && WEXITSTATUS(code) % 7 == 0,
                 "the end of a racing writer");
            won += WEXITSTATUS(code) == 0;
        }
        must(won == 1, "exactly one of the racing puts wins");
        n_won += won;
    }
    engine *e = connect_to();
    for (int round = 0; round < ROUNDS; round++)
        must(engine_drop(e, names[round]) == PL_OK, "a drop");
    engine_close(&e);
    printf("engine_check: %d races of %d puts, %d winners\n", ROUNDS, RACERS, n_won);
}

/* Each swap must count once. If answers are lost (`lossy`), a swap may have happened
 * although its writer got no answer. If another writer then replaces the value, the
 * first one cannot see its swap and repeats it. So the counter may be too high then,
 * but never too low. */
static void no_swap_is_lost(bool lossy)
{
    char name[ENGINE_NAME_MAX];
    pl_buf none = {0}, now = {0};
    int code;
    own_name("counter", 0, name);
    engine *e = connect_to();
    pl_buf_append(&now, "0", 1);
    must(engine_swap(e, name, &none, &now) == PL_OK, "the counter");
    engine_close(&e);
    for (int i = 0; i < RACERS; i++)
        must(start("swap", name, SWAPS) > 0, "fork");
    for (int i = 0; i < RACERS; i++) {
        wait(&code);
        must(WIFEXITED(code) && WEXITSTATUS(code) == 0,
             "the end of a counting process");
    }
    e = connect_to();
    must(engine_get(e, name, &now) == PL_OK, "reading the counter at the end");
    int end = atoi(pl_buf_text(&now));
    must(end == RACERS * SWAPS || (lossy && end > RACERS * SWAPS),
         "every swap counts once");
    must(engine_drop(e, name) == PL_OK, "a drop");
    pl_buf_destroy(&now);
    engine_close(&e);
    printf("engine_check: %d racing swaps, the counter ends at %d\n", RACERS * SWAPS,
           end);
}

int main(int argc, char **argv)
{
    bool lossy = argc == 3 && strcmp(argv[2], "lossy") == 0;
    if (argc != 2 && argc != 5 && !lossy) {
        printf("usage: engine_check URL [lossy]\n");
        return 64;
    }
    url = argv[1];
    if (argc == 5 && strcmp(argv[2], "put") == 0)
        return race_put(argv[3], argv[4]);
    if (argc == 5)
        return race_swap(argv[3], atoi(argv[4]));
    of_racing_puts_one_wins();
    no_swap_is_lost(lossy);
    engine *e = connect_to();
    objects_come_back_and_are_written_once(e);
    many_objects_are_listed_by_prefix(e);
    a_swap_needs_what_is_there(e);
    engine_close(&e);
    printf("engine_check: all as promised\n");
    return 0;
}
