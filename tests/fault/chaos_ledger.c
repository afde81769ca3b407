/* folder: store; label: tool
 *
 * Prints what a store contains, one fact per line, so that `diff` can compare two runs:
 *
 *   chaos_ledger STORE         versions, contributions, pending updates, paths, objects
 *   chaos_ledger --log STORE   every commit: "commit SEQUENCE LOG-HASH"
 *   chaos_ledger --mark STORE  the newest acknowledged commit, in the form of --log;
 *                              for a store whose writer was killed just before
 *   chaos_ledger --held STORE  the last score of each path's held-out text
 *
 * Names of workers, times, seconds and numbers of tokens are left out, because they may
 * differ between two correct runs. */
#include "store/store_internal.h"
#include <stdio.h>
#include <string.h>

static const char *text_of(const pl_hash *hash)
{
    static char text[PL_HASH_TEXT];
    pl_hash_format(hash, text);
    return text;
}

static void print_contribution(const char *what, const char *module, uint64_t number,
                               const pl_contribution *c)
{
    printf("%s %s %llu path %lld.%lld phase %lld samples %llu+%llu\n", what, module,
           (unsigned long long)number, (long long)c->path, (long long)c->replica,
           (long long)c->phase, (unsigned long long)c->work.first_sample,
           (unsigned long long)c->work.n_samples);
}

static pl_status on_version(void *context, const pl_version *v)
{
    (void)context;
    printf("version %s %llu %s\n", v->module, (unsigned long long)v->number,
           text_of(&v->params));
    for (int i = 0; i < v->n_contributions; i++)
        print_contribution("contribution", v->module, v->number, &v->contributions[i]);
    return PL_OK;
}

static pl_status on_head(void *context, const pl_version *head)
{
    return pl_store_each_version(context, head->module, on_version, NULL);
}

static pl_status on_pending(void *context, const char *module, const pl_contribution *c)
{
    (void)context;
    print_contribution("pending", module, (uint64_t)c->phase, c);
    return PL_OK;
}

static pl_status on_path(void *context, const pl_path_state *path)
{
    (void)context;
    printf("path %s phase %lld samples %llu state %s\n", path->name,
           (long long)path->phase, (unsigned long long)path->work.n_samples,
           text_of(&path->moments));
    return PL_OK;
}

static pl_status on_held(void *context, const pl_path_state *path)
{
    (void)context;
    printf("held %s phase %lld nats %.17g\n", path->name, (long long)path->held_phase,
           path->work.held);
    return PL_OK;
}

static pl_status on_object(void *context, const pl_object *object)
{
    (void)context;
    printf("object %s %s\n", object->name, text_of(&object->blob));
    return PL_OK;
}

static pl_status print_facts(pl_store *store)
{
    PL_CHECK(pl_store_each_head(store, "", on_head, store));
    PL_CHECK(pl_store_each_pending(store, "", on_pending, NULL));
    PL_CHECK(pl_store_each_path(store, "", on_path, NULL));
    return pl_store_each_object(store, "", on_object, NULL);
}

static pl_status print_log(pl_store *store)
{
    pl_hash hash;
    kv_cursor *cursor = kv_cursor_open(store->db, NULL, KV_LOG, (kv_slice){"", 0});
    for (unsigned long long n = 1; kv_cursor_next(cursor); n++) {
        pl_hash_of("log", cursor->value.data, cursor->value.len, &hash);
        printf("commit %llu %s\n", n, text_of(&hash));
    }
    const pl_status status = cursor->status;
    kv_cursor_close(&cursor);
    return status;
}

static pl_status print_mark(const char *folder)
{
    watermark mark;
    bool found = false;
    PL_CHECK(watermark_load(folder, &mark, &found));
    if (found && mark.sequence > 0)
        printf("commit %llu %s\n", (unsigned long long)mark.sequence,
               text_of(&mark.log));
    return PL_OK;
}

static pl_status print(const char *what, const char *folder)
{
    pl_store *store = NULL;
    if (strcmp(what, "--mark") == 0)
        return print_mark(folder);
    PL_CHECK(pl_store_open(folder, PL_STORE_READ, &store));
    pl_status status = strcmp(what, "--log") == 0 ? print_log(store)
                       : strcmp(what, "--held") == 0
                           ? pl_store_each_path(store, "", on_held, NULL)
                           : print_facts(store);
    pl_store_close(&store);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 64;
    pl_status status = print(argc > 2 ? argv[1] : "", argv[argc - 1]);
    if (status != PL_OK)
        fprintf(stderr, "chaos_ledger: %s\n", pl_last_error());
    return pl_status_exit_code(status);
}
