/* folder: home; label: integration */
#include "home/home_internal.h"
#include "tests/support/relay_fixture.h"
#include "tests/support/store_fixture.h"

/* Tests what a home does with tasks that are drawn for an audit: nothing of them counts
 * before the verdict, also if the home is killed meanwhile; and a result that an audit
 * finds to be wrong leaves nothing behind. The test plays the hub. */

enum { TOKEN = 100 };
static char rows[PATHS][PL_AUDIT_TEXT_MAX]; /* the paths' rows in the newest state */
static int n_paths;                         /* the paths in it */

static void tell_home(fixture *f, pl_message *q, uint16_t answer, pl_message *kept)
{
    pl_message a;
    assert_ok(ask_home(f->home.address, q, UINT64_MAX, &a));
    assert_int_equal(a.type, answer);
    if (kept)
        *kept = a;
    else
        pl_message_destroy(&a);
}

/* Reads the home's state as the hub. Returns the number of open audits; *in_audit
 * becomes the number of paths whose last phase waits for its audit. */
static int count_rows(fixture *f, int *in_audit)
{
    pl_message q = {0}, a;
    pl_reader all, r;
    int n = 0;
    PL_SAY(&q, GET_STATE, get_state, .offset = 0);
    tell_home(f, &q, PL_MSG_STATE_IS, &a);
    pl_reader_open(&all, "a state", a.data.data, a.data.len);
    *in_audit = n_paths = 0;
    for (size_t i = 0; i < pl_field_count(&all, PL_TAG_RECORD); i++) {
        size_t len = 0;
        char text[PL_AUDIT_TEXT_MAX], name[PL_MODULE_NAME_MAX];
        pl_audit row;
        const uint8_t *at = pl_get_bytes(&all, PL_TAG_RECORD, i, &len);
        pl_reader_open(&r, "a record", at, len);
        *in_audit += pl_field_count(&r, PL_TAG_IN_AUDIT) > 0;
        n_paths += pl_field_count(&r, PL_TAG_NAME) > 0;
        if (pl_field_count(&r, PL_TAG_AUDIT) == 0)
            continue;
        n++;
        pl_get_text(&r, PL_TAG_TEXT, 0, text, sizeof text);
        assert_ok(pl_audit_read(text, &row));
        for (int path = 0; path < PATHS; path++) {
            pl_arm_path_name(&f->arm, f->topology, path, 0, name);
            if (strcmp(row.path, name) == 0)
                pl_copy_text(rows[path], sizeof *rows, text);
        }
    }
    pl_message_destroy(&a);
    return n;
}

static pl_submit_result submit_update(fixture *f, int path, int slot, uint64_t token)
{
    pl_submit_result result;
    const pl_status status = submit_slot(f, path, slot, token, &result);
    assert_true(status == PL_OK || status == PL_ERR_STALE);
    return status == PL_ERR_STALE ? PL_SUBMIT_FENCED : result;
}

static void submit_updates(fixture *f, int path, uint64_t token)
{
    for (int slot = 0; slot < pl_topology_n_slots(f->topology); slot++)
        assert_int_equal(submit_update(f, path, slot, token), PL_SUBMIT_ACCEPTED);
}

static pl_submit_result end_task(fixture *f, int path, float v, uint64_t token)
{
    pl_submit_result result;
    assert_ok(submit_state(f, path, 0, v, token, &result));
    return result;
}

static void tell_verdict(fixture *f, const char *row_text, pl_verdict verdict)
{
    pl_audit row;
    pl_message q = {0};
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_ok(pl_audit_read(row_text, &row));
    row.verdict = verdict;
    pl_audit_write(&row, &text);
    PL_SAY(&q, PUT_AUDIT, put_audit, .row_text = pl_buf_text(&text));
    tell_home(f, &q, PL_MSG_OK, NULL);
}

static void drop_task(fixture *f, const char *path, uint64_t token)
{
    pl_message q = {.token = token};
    PL_SAY(&q, FENCE, fence, .name = path, .phase = 0, .audit = 1);
    tell_home(f, &q, PL_MSG_OK, NULL);
}

static void confirm_path(fixture *f, int path)
{
    pl_message q = {0};
    char name[PL_MODULE_NAME_MAX];
    pl_arm_path_name(&f->arm, f->topology, path, 0, name);
    PL_SAY(&q, FENCE, fence, .name = name, .confirmed = 1);
    tell_home(f, &q, PL_MSG_OK, NULL);
}

static int64_t version_of(fixture *f)
{
    pl_version_facts facts;
    pl_client_act_under(f->client, NULL);
    assert_ok(pl_client_get_version(f->client, embed, PL_NEWEST, &facts));
    return (int64_t)facts.number;
}

static int64_t phase_of(fixture *f, int path, pl_path_state *out)
{
    char name[PL_MODULE_NAME_MAX];
    pl_arm_path_name(&f->arm, f->topology, path, 0, name);
    assert_ok(pl_client_get_path(f->client, name, out));
    return out->phase;
}

PL_TEST(nothing_counts_before_the_verdict)
{
    OWNED(close_job) fixture f;
    pl_path_state now;
    int in_audit = 0;
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++) {
        submit_updates(&f, path, TOKEN);
        assert_int_equal(end_task(&f, path, 1e-6f, TOKEN), PL_SUBMIT_ACCEPTED);
    }
    for (int i = 0; i < 2; i++) { /* also after a restart */
        assert_int_equal(count_rows(&f, &in_audit), PATHS);
        assert_int_equal(in_audit, PATHS);
        assert_int_equal(version_of(&f), 0);
        assert_int_equal(phase_of(&f, 0, &now), 0);
        restart_child(&f.home);
    }
    /* the answers do not tell that the task was drawn */
    assert_int_equal(end_task(&f, 0, 1e-6f, TOKEN), PL_SUBMIT_DUPLICATE);
    assert_int_equal(end_task(&f, 0, 2e-6f, TOKEN), PL_SUBMIT_OTHER);
    for (int path = 0; path < PATHS; path++) {
        char name[PL_MODULE_NAME_MAX];
        pl_audit row;
        count_rows(&f, &in_audit);
        assert_int_equal(in_audit, PATHS - path);
        assert_int_equal(version_of(&f), 0); /* it waits for the last one */
        pl_arm_path_name(&f.arm, f.topology, path, 0, name);
        assert_ok(pl_audit_read(rows[path], &row));
        assert_string_equal(row.path, name);
        tell_verdict(&f, rows[path], PL_VERDICT_AGREED);
        assert_int_equal(phase_of(&f, path, &now), 1);
        assert_false(pl_hash_none(&now.moments));
        assert_string_equal(now.worker, "w");
    }
    (void)wait_version(&f, embed);
    assert_int_equal(count_rows(&f, &in_audit), 0);
    assert_int_equal(in_audit, 0);
}

PL_TEST(odd_result_leaves_nothing)
{
    OWNED(close_job) fixture f;
    pl_path_state now;
    int in_audit = 0;
    char first[PL_AUDIT_TEXT_MAX];
    open_job(&f, "f32");
    submit_updates(&f, 0, TOKEN);
    assert_int_equal(end_task(&f, 0, 2e-6f, TOKEN), PL_SUBMIT_ACCEPTED);
    assert_int_equal(count_rows(&f, &in_audit), 1);
    pl_copy_text(first, sizeof first, rows[0]);
    drop_task(&f, "mix/p00.r0", TOKEN + 1);
    tell_verdict(&f, first, PL_VERDICT_ODD);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count_rows(&f, &in_audit), 0);
        assert_int_equal(n_paths, PATHS); /* the hub may not have heard the event */
        assert_int_equal(phase_of(&f, 0, &now), 0);
        assert_true(pl_hash_none(&now.moments));
        assert_int_equal(submit_update(&f, 0, 1, TOKEN), PL_SUBMIT_FENCED);
        restart_child(&f.home);
    }
    /* the task is done again, and drawn again; the first verdict does not fit it */
    submit_updates(&f, 0, TOKEN + 2);
    assert_int_equal(end_task(&f, 0, 1e-6f, TOKEN + 2), PL_SUBMIT_ACCEPTED);
    assert_int_equal(count_rows(&f, &in_audit), 1);
    assert_non_null(strstr(rows[0], "\"tries\":2"));
    tell_verdict(&f, first, PL_VERDICT_AGREED);
    assert_int_equal(phase_of(&f, 0, &now), 0);
    tell_verdict(&f, rows[0], PL_VERDICT_AGREED);
    assert_int_equal(phase_of(&f, 0, &now), 1);
}

/* The user continues the job with fleet.audit=0, while audits are open. */
PL_TEST(open_audits_are_waited_for_when_audits_are_turned_off)
{
    OWNED(close_job) fixture f;
    int in_audit = 0;
    open_job(&f, "f32");
    for (int path = 0; path < 2; path++) {
        submit_updates(&f, path, TOKEN);
        assert_int_equal(end_task(&f, path, 1e-6f, TOKEN), PL_SUBMIT_ACCEPTED);
    }
    setenv("PL_TEST_NO_AUDIT", "1", 1);
    restart_child(&f.home);
    unsetenv("PL_TEST_NO_AUDIT");
    for (int path = 2; path < PATHS; path++) {
        submit_updates(&f, path, TOKEN);
        assert_int_equal(end_task(&f, path, 1e-6f, TOKEN), PL_SUBMIT_ACCEPTED);
    }
    assert_int_equal(count_rows(&f, &in_audit), 2);
    pl_sleep_ms(1500); /* more than two of its turns */
    assert_int_equal(version_of(&f), 0);
    tell_verdict(&f, rows[0], PL_VERDICT_AGREED);
    tell_verdict(&f, rows[1], PL_VERDICT_AGREED);
    (void)wait_version(&f, embed);
}

/* Sends the first path's update of `embed` in the second phase. */
static pl_submit_result submit_second(fixture *f, uint64_t token)
{
    enum { EMBED = 0 };
    worker w = {.job = f};
    char name[96], text[256];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    pl_version_facts base;
    pl_submit_result result;
    fill(&w, f->client, EMBED, name, &bytes, &s);
    pl_client_act_under(f->client, NULL);
    assert_ok(pl_client_get_version(f->client, name, 1, &base));
    s.base = base.params;
    s.base_version = 1;
    s.contribution.phase = 1;
    s.contribution.token = token;
    lease_for(f->client, &f->arm, &s.contribution, 1);
    assert_ok(pl_client_submit(f->client, &s, &result, text));
    return result;
}

/* The path's first state is dropped, because own workers failed with it. A repetition
 * would begin without it. */
PL_TEST(what_was_trained_from_a_dropped_state_is_dropped)
{
    OWNED(close_job) fixture f;
    pl_path_state now;
    pl_message q = {.token = TOKEN + 2};
    int in_audit = 0;
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++) {
        submit_updates(&f, path, TOKEN);
        assert_int_equal(end_task(&f, path, 1e-6f, TOKEN), PL_SUBMIT_ACCEPTED);
    }
    assert_int_equal(count_rows(&f, &in_audit), PATHS);
    for (int path = 0; path < PATHS; path++)
        tell_verdict(&f, rows[path], PL_VERDICT_AGREED);
    (void)wait_version(&f, embed);
    assert_int_equal(submit_second(&f, TOKEN + 1), PL_SUBMIT_ACCEPTED);
    PL_SAY(&q, FENCE, fence, .name = "mix/p00.r0", .phase = 1);
    tell_home(&f, &q, PL_MSG_OK, NULL);
    assert_int_equal(phase_of(&f, 0, &now), 1);
    assert_true(pl_hash_none(&now.moments));
    assert_int_equal(submit_second(&f, TOKEN + 3), PL_SUBMIT_ACCEPTED);
}

/* The home of a module may not be the home of the paths that go through it. */
PL_TEST(round_waits_until_the_hub_confirms_the_paths)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++)
        submit_updates(&f, path, TOKEN);
    for (int path = 0; path < PATHS; path++) {
        assert_int_equal(version_of(&f), 0);
        confirm_path(&f, path);
    }
    (void)wait_version(&f, embed);
}

PL_TEST(results_that_count_are_not_dropped)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++)
        submit_updates(&f, path, TOKEN + 2);
    restart_child(&f.home);
    /* an order that was under way for long, also one that a hub gave in error */
    drop_task(&f, "mix/p00.r0", TOKEN + 1);
    confirm_path(&f, 0);
    drop_task(&f, "mix/p00.r0", TOKEN + 3);
    for (int path = 1; path < PATHS; path++)
        confirm_path(&f, path);
    (void)wait_version(&f, embed);
}

/* Puts an older copy in place of the home's store, as a restore does: what audits have
 * dropped since is noted in it. */
static void go_back_to(fixture *f, const char *copy, const char *ref)
{
    OWNED(pl_store_close) pl_store *store = open_store(f->home.target, PL_STORE_READ);
    pl_mirror_report report;
    OWNED(pl_buf_destroy) pl_buf dropped = {0};
    assert_ok(pl_store_get_ref(store, ref, &dropped));
    pl_store_close(&store);
    store = open_store(copy, PL_STORE_READ);
    assert_ok(pl_store_mirror(store, f->home.target, true, &report));
    pl_store_close(&store);
    store = open_store(f->home.target, PL_STORE_WRITE);
    commit_ref(store, ref, pl_buf_text(&dropped));
}

static void copy_job(const fixture *f, const char *copy)
{
    OWNED(pl_store_close) pl_store *store = open_store(f->home.target, PL_STORE_READ);
    pl_mirror_report report;
    assert_ok(pl_store_mirror(store, copy, false, &report));
}

PL_TEST(older_copy_drops_again_what_an_audit_dropped)
{
    fixture f;
    char copy[PL_PATH_MAX + 8];
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++)
        submit_updates(&f, path, TOKEN);
    snprintf(copy, sizeof copy, "%s.copy", f.home.target);
    copy_job(&f, copy);
    drop_task(&f, "mix/p00.r0", TOKEN + 1);
    submit_updates(&f, 0, TOKEN + 2);
    kill_child(&f.home, SIGKILL);
    go_back_to(&f, copy, PL_DROPPED_REFS "mix/p00.r0/0/101"); /* TOKEN + 1 */
    const pl_lease_secret old = home_secret;
    memset(&home_secret, 0, sizeof home_secret); /* the hub starts again, too */
    start_child(&f.home);
    for (int path = 0; path < PATHS; path++)
        confirm_path(&f, path);
    assert_int_equal(version_of(&f), 0);
    /* the lease of the lie is of no use any more, whatever its token */
    const pl_lease_secret fresh = home_secret;
    home_secret = old;
    assert_int_equal(submit_update(&f, 0, 1, TOKEN + 3), PL_SUBMIT_FENCED);
    assert_said("not made by this job's hub");
    home_secret = fresh;
    submit_updates(&f, 0, TOKEN + 4);
    (void)wait_version(&f, embed);
    close_job(&f);
    assert_ok(pl_remove_tree(copy));
}

static pl_status list_ref(void *context, const char *name, const char *target)
{
    (void)target;
    pl_buf_append(context, name, strlen(name));
    pl_buf_append(context, " ", 1);
    return PL_OK;
}

/* The newer drop has a higher token, so it drops the first lie, too. */
PL_TEST(newer_drop_of_a_phase_replaces_the_older_one_and_drops_both_lies)
{
    OWNED(close_job) fixture f;
    char copy[PL_PATH_MAX + 8];
    static const char newer[] = PL_DROPPED_REFS "mix/p00.r0/0/103"; /* TOKEN + 3 */
    OWNED(pl_buf_destroy) pl_buf refs = {0};
    open_job(&f, "f32");
    for (int path = 0; path < PATHS; path++)
        submit_updates(&f, path, TOKEN);
    for (uint64_t lie = 0; lie < 2; lie++) {
        snprintf(copy, sizeof copy, "%s.%d", f.home.target, (int)lie);
        copy_job(&f, copy);
        if (lie == 1)
            drop_task(&f, "mix/p01.r0", TOKEN + 1); /* another path keeps its own */
        drop_task(&f, "mix/p00.r0", TOKEN + 1 + 2 * lie);
        submit_updates(&f, 0, TOKEN + 2 + 2 * lie);
    }
    kill_child(&f.home, SIGKILL);
    pl_store *store = open_store(f.home.target, PL_STORE_READ);
    assert_ok(pl_store_each_ref(store, PL_DROPPED_REFS, list_ref, &refs));
    pl_store_close(&store);
    assert_string_equal(pl_buf_text(&refs),
                        "dropped/mix/p00.r0/0/103 dropped/mix/p01.r0/0/101 ");
    for (int lie = 0; lie < 2; lie++) { /* both copies have a lie */
        snprintf(copy, sizeof copy, "%s.%d", f.home.target, lie);
        go_back_to(&f, copy, newer);
        start_child(&f.home);
        for (int path = 0; path < PATHS; path++)
            confirm_path(&f, path);
        assert_int_equal(version_of(&f), 0);
        if (lie == 0)
            kill_child(&f.home, SIGKILL);
        assert_ok(pl_remove_tree(copy));
    }
    submit_updates(&f, 0, TOKEN + 6);
    (void)wait_version(&f, embed);
}

/* Receives a message, but waits at most some seconds. */
static void await_message(pl_socket *socket, pl_peer *peer, pl_message *m)
{
    pl_status status = PL_ERR_TIMEOUT;
    for (int i = 0; i < 6000 && status == PL_ERR_TIMEOUT; i++) {
        status = pl_wire_recv(socket, peer, m);
        if (status == PL_ERR_TIMEOUT)
            pl_sleep_ms(10);
    }
    assert_ok(status);
}

/* Returns the type of the home's answer to GET_UPDATE of a peer with this role. */
static int answer_to(home *h, const char *address, pl_key_role role)
{
    OWNED(pl_wire_close) pl_socket *client = NULL;
    pl_peer peer;
    OWNED(pl_message_destroy) pl_message q = {.request = 1}, m, a;
    pl_message_init(&m, 0);
    pl_message_init(&a, 0);
    PL_SAY(&q, GET_UPDATE, get_update, .name = embed, .path = 0, .replica = 0,
           .phase = 0);
    assert_ok(pl_wire_connect(address, &client));
    assert_ok(pl_wire_send(client, &q));
    await_message(h->socket, &peer, &m);
    peer.role = role;
    assert_ok(home_take(h, &peer, &m));
    await_message(client, NULL, &a);
    return a.type;
}

PL_TEST(update_is_for_the_hub_alone)
{
    OWNED(close_job) fixture f;
    char address[PL_ADDRESS_MAX];
    const pl_home_options options = {.audit = 1, .staging_bytes = 1 << 20};
    open_job(&f, "f32");
    submit_updates(&f, 0, TOKEN);
    kill_child(&f.home, SIGTERM);
    home h = {.options = &options};
    assert_ok(pl_store_open(f.home.target, PL_STORE_CREATE, &h.store));
    assert_ok(home_load(&h));
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &h.socket, address));
    assert_int_equal(answer_to(&h, address, PL_AS_HUB), PL_MSG_UPDATE_IS);
    assert_int_equal(answer_to(&h, address, PL_AS_WORKER), PL_MSG_ERR);
    assert_int_equal(answer_to(&h, address, PL_AS_RELAY), PL_MSG_ERR);
    assert_false(pl_role_allows(PL_AS_INSPECTOR, PL_MSG_GET_UPDATE));
    /* under noloco mates need each other's updates */
    for (int i = 0; i < pl_topology_n_modules(h.arms[0].topology); i++)
        h.arms[0].contracts[i].meets = true;
    assert_int_equal(answer_to(&h, address, PL_AS_WORKER), PL_MSG_UPDATE_IS);
    pl_txn_abort(&h.txn);
    home_unload(&h);
    pl_wire_close(&h.socket);
    pl_store_close(&h.store);
    start_child(&f.home);
}

PL_CHILD(argc, argv)
{
    return run_child(argv,
                     (pl_home_options){.keep_updates = true,
                                       .audit = getenv("PL_TEST_NO_AUDIT") ? 0 : 1});
}
