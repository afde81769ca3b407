/* folder: relay; label: integration; alone
 *
 * Tests a relay between workers and a real home. A sum of updates must give the same
 * version as the single updates, with fewer bytes. This must also hold if a process is
 * killed, or if an update reaches the home in two ways. */
#include "tests/support/passing_time.h"
#include "tests/support/relay_fixture.h"
#include "relay/relay_internal.h"

#include <fcntl.h>

/* ---- a relay in this process, so that the test can read its report ---- */
typedef struct near_relay {
    pl_relay_options options;
    pl_relay_report report;
    volatile sig_atomic_t stop;
    pl_status status;
    char ready[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    pl_thread *thread;
} near_relay;

static void run_near_relay(void *context)
{
    near_relay *r = context;
    r->status = pl_relay_run(&r->options, &r->report);
}

static uint64_t near_bytes = 64 << 20; /* what the next one may hold in memory */

static void open_near_relay(near_relay *r, fixture *f, int expect, int wait_ms)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    memset(r, 0, sizeof *r);
    pl_join(r->ready, f->dir, "near.address");
    r->options = (pl_relay_options){.home = f->home.address,
                                    .bind = "tcp://127.0.0.1:*",
                                    .ready_file = r->ready,
                                    .expect = expect,
                                    .wait_ms = wait_ms,
                                    .patience_ms = PATIENCE_MS,
                                    .staging_bytes = near_bytes,
                                    .stop = &r->stop};
    assert_ok(pl_thread_start("relay", run_near_relay, r, &r->thread));
    for (int i = 0; i < 6000 && !pl_path_exists(r->ready); i++)
        pl_sleep_ms(10);
    assert_ok(pl_read_file(r->ready, &text));
    pl_copy_text(r->address, sizeof r->address, pl_buf_text(&text));
}

static void close_near_relay(near_relay *r)
{
    __atomic_store_n(&r->stop, 1, __ATOMIC_RELAXED);
    pl_thread_join(&r->thread);
    assert_ok(r->status);
}

/* ---- tests ---- */
typedef struct near_job {
    fixture f;
    near_relay r;
    worker w[PATHS + 1]; /* worker i sends the update of path i */
} near_job;

static void close_near_job(near_job *j)
{
    close_job(&j->f);
}

/* Opens a job with a relay in this process. */
static void open_near_job(near_job *j, const char *codec, int expect, int wait_ms)
{
    memset(j->w, 0, sizeof j->w);
    open_job(&j->f, codec);
    open_near_relay(&j->r, &j->f, expect, wait_ms);
}

/* The workers `from` to `to` - 1 send their updates to the relay, at the same time. */
static void send_all(near_job *j, int from, int to)
{
    for (int i = from; i < to; i++)
        start_worker(&j->w[i], &j->f, j->r.address, i);
    join_workers(j->w + from, to - from);
}

/* Ends the relay, and checks its report and, unless `n` is 0, that the version of the
 * embedding is the same as without a relay and names n updates. */
static void assert_sums(near_job *j, int n_sums, int n_alone, int n)
{
    close_near_relay(&j->r);
    assert_int_equal(j->r.report.n_sums, n_sums);
    assert_int_equal(j->r.report.n_alone, n_alone);
    if (n == 0)
        return;
    assert_version(&j->f, j->f.arm.outer.codec_name);
    assert_int_equal(n_updates(&j->f), n);
}

PL_TEST(four_updates_travel_as_one_and_make_the_same_version)
{
    static const char *const codecs[] = {"i8-shared", "sketch16"};
    for (int c = 0; c < 2; c++) {
        OWNED(close_near_job) near_job j;
        uint64_t sent = 0;
        open_near_job(&j, codecs[c], 0, WAIT_LONG_MS);
        send_all(&j, 0, PATHS);
        for (int i = 0; i < PATHS; i++)
            sent += j.w[i].bytes_sent;
        assert_sums(&j, 1, 0, 1);
        assert_int_equal(j.r.report.n_summed, PATHS);
        assert_int_equal(j.r.report.bytes_received, sent);
        assert_true(2 * j.r.report.bytes_sent < sent);
    }
}

PL_TEST(update_that_has_waited_long_enough_goes_alone)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8-shared", 0, 50);
    assert_int_equal(send_one(&j.f, j.r.address, 0).result, PL_SUBMIT_ACCEPTED);
    assert_int_equal(send_one(&j.f, j.r.address, 0).result, PL_SUBMIT_DUPLICATE);
    assert_sums(&j, 0, 2, 0);
}

PL_TEST(sum_leaves_when_all_workers_behind_the_relay_are_in_it)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8-shared", 2, WAIT_LONG_MS);
    send_all(&j, 0, 2);
    send_all(&j, 2, 4);
    assert_sums(&j, 2, 0, 2);
}

PL_TEST(codecs_that_cannot_be_added_pass_through)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8", 0, WAIT_LONG_MS);
    send_all(&j, 0, PATHS);
    assert_sums(&j, 0, 0, PATHS);
    assert_true(j.r.report.bytes_sent >= j.r.report.bytes_received);
}

/* Delivers a task: the updates of all slots, and the state of the path. */
static void run_task(void *context)
{
    worker *w = context;
    fixture *f = w->job;
    pl_submission s[N_SLOTS];
    pl_buf bytes[N_SLOTS] = {{0}};
    char names[N_SLOTS][96], texts[N_SLOTS + 1][256];
    pl_submit_result results[N_SLOTS + 1];
    size_t n = 2 * pl_topology_path_params(f->topology);
    OWNED(free_memory) float *moments = pl_alloc(n * sizeof *moments);
    pl_path_state path = {0};
    OWNED(pl_client_destroy) pl_client *client = open_client(w->address);
    pl_arm_path_name(&f->arm, f->topology, w->path, 0, path.name);
    path.phase = 1;
    path.work.n_samples = pl_phase_samples(&f->arm);
    pl_blob_hash(moments, n * sizeof *moments, &path.moments);
    for (int slot = 0; slot < N_SLOTS; slot++)
        fill(w, client, slot, names[slot], &bytes[slot], &s[slot]);
    w->status = pl_client_submit_task(client, s, N_SLOTS, &path, moments,
                                      n * sizeof *moments, results, texts);
    w->result = results[N_SLOTS];
    pl_copy_text(w->text, sizeof w->text, texts[N_SLOTS]);
    for (int slot = 0; slot < N_SLOTS; slot++)
        pl_buf_destroy(&bytes[slot]);
}

/* Shows that a task does not wait in a relay for updates that cannot come. Paths p00
 * and p11 share only the embedding and the head. Their other updates would wait for
 * paths that are not trained. */
PL_TEST(tasks_do_not_wait_for_updates_that_nobody_can_send)
{
    OWNED(close_near_job) near_job j;
    int64_t start = pl_now_ms();
    open_near_job(&j, "i8-shared", 2, WAIT_LONG_MS);
    for (int i = 0; i < 2; i++) {
        j.w[i] = (worker){.job = &j.f, .address = j.r.address, .path = 3 * i};
        assert_ok(pl_thread_start("worker", run_task, &j.w[i], &j.w[i].thread));
    }
    join_workers(j.w, 2);
    assert_sums(&j, 2, 4, 0); /* sums of the embedding and of the head */
    assert_int_equal(j.w[0].result, PL_SUBMIT_ACCEPTED);
    assert_int_equal(j.w[1].result, PL_SUBMIT_ACCEPTED);
    assert_true(pl_now_ms() - start < WAIT_LONG_MS / 2);
}

/* A worker sends its updates, then its state, which the relay passes on: on a slow link
 * that takes longer than abandoned uploads stay. */
PL_TEST(updates_wait_in_a_relay_as_long_as_the_state_of_their_task_is_sent)
{
    enum { LONG_S = 55, PIECES = 5 };
    OWNED(close_near_job) near_job j;
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    pl_link link;
    pl_hash hash;
    pl_version_facts facts;
    uint8_t state[PIECES] = {1, 2, 3, 4, 5};
    open_near_job(&j, "i8-shared", 0, 50);
    worker w = {.job = &j.f, .address = j.r.address};
    OWNED(pl_client_destroy) pl_client *client = open_client(w.address);
    fill(&w, client, SLOT_EMBED, name, &bytes, &s);
    assert_ok(pl_client_put_blob(client, name, s.data, s.bytes, &hash));
    for (int i = 0; i < PIECES; i++) {
        assert_ok(pl_client_put_blob(client, name, &state[i], 1, &hash));
        let_pass(LONG_S);
        /* the relay looks for abandoned uploads before it passes the answer */
        assert_ok(pl_client_get_version(client, name, 0, &facts));
    }
    assert_ok(pl_client_submit(client, &s, &w.result, w.text));
    assert_int_equal(w.result, PL_SUBMIT_ACCEPTED);
    pl_client_link(client, &link);
    assert_int_equal(link.up_bytes, s.bytes + PIECES);
    close_near_relay(&j.r);
}

/* ERR_NOMEM would end a worker: it would mean the memory of its own machine. The home
 * says that the upload is too large. */
PL_TEST(relay_without_memory_passes_uploads_on)
{
    OWNED(close_near_job) near_job j;
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    OWNED(pl_message_destroy) pl_message m = {0}, a = {0};
    pl_submission s;
    near_bytes = 1ull << 60;
    open_near_job(&j, "i8-shared", 0, 50);
    near_bytes = 64 << 20;
    worker w = {.job = &j.f};
    fill(&w, j.f.client, SLOT_EMBED, name, &bytes, &s);
    m.request = pl_wire_next_request();
    PL_SAY(&m, PUT_BLOB, put_blob, .blob = {{1}}, .total = 1ull << 50,
           .head = {s.data, PL_PUT_HEAD});
    assert_ok(pl_wire_connect(j.r.address, &socket));
    assert_ok(pl_wire_send(socket, &m));
    pl_status status = PL_ERR_TIMEOUT;
    for (int i = 0; i < 3000 && status == PL_ERR_TIMEOUT; i++) {
        pl_sleep_ms(i > 0 ? 10 : 0);
        status = pl_wire_recv(socket, NULL, &a);
    }
    assert_ok(status);
    assert_int_equal(a.type, PL_MSG_ERR);
    assert_int_equal(pl_wire_error_of(&a), PL_ERR_CONFIG);
    close_near_relay(&j.r);
}

/* The question for room may have begun with other bytes than the update itself. */
PL_TEST(an_update_that_claims_more_values_than_fit_is_added_to_none)
{
    OWNED(close_job) fixture f;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    uint64_t n = 0;
    place_home(&f, "i8-shared");
    const worker w = {.job = &f};
    encode(&w, SLOT_EMBED, 1, &bytes);
    assert_true(pl_codec_claims_homomorphic(bytes.data, bytes.len, &n));
    for (int fits = 0; fits < 2; fits++) {
        staging_blob blob = {.data = bytes.data, .bytes = bytes.len};
        relay_part part = {.blob = &blob, .submit = {.n = 1}};
        relay_group *groups = NULL;
        relay_groups_add(&groups, &part, n - 1 + (uint64_t)fits);
        assert_int_equal(groups->limit, fits ? PATHS : 1); /* 1: it waits for none */
        pl_free(groups);
    }
}

PL_TEST(relay_killed_with_updates_in_its_hands_loses_none)
{
    OWNED(close_job) fixture f;
    worker w[PATHS] = {0};
    open_job(&f, "i8-shared");
    start_relay(&f.relay, f.home.address, 0, WAIT_LONG_MS);
    start_workers(w, PATHS - 1, &f, f.relay.address);
    pl_sleep_ms(300);
    restart_child(&f.relay);
    start_worker(&w[PATHS - 1], &f, f.relay.address, PATHS - 1);
    join_workers(w, PATHS);
    assert_version(&f, "i8-shared");
}

PL_TEST(home_killed_under_a_relay_takes_each_update_once)
{
    OWNED(close_job) fixture f;
    worker w[PATHS] = {0};
    open_job(&f, "i8-shared");
    start_relay(&f.relay, f.home.address, 2, WAIT_LONG_MS);
    start_workers(w, 2, &f, f.relay.address);
    join_workers(w, 2);
    kill_child(&f.home, SIGKILL);
    start_worker(&w[2], &f, f.relay.address, 2);
    start_worker(&w[3], &f, f.relay.address, 3);
    pl_sleep_ms(200);
    start_child(&f.home);
    join_workers(w, PATHS);
    assert_version(&f, "i8-shared");
}

static bool log_says(const char *log, const char *text)
{
    enum { TRIES = 3000, PAUSE_MS = 20 };
    bool said = false;
    for (int i = 0; i < TRIES && !said; i++) {
        OWNED(pl_buf_destroy) pl_buf lines = {0};
        pl_sleep_ms(PAUSE_MS);
        said = pl_read_file(log, &lines) == PL_OK && strstr(pl_buf_text(&lines), text);
    }
    return said;
}

/* The relay waits for ever, so its log must tell why nothing happens. */
PL_TEST(relay_says_that_its_home_is_away_and_that_it_is_back)
{
    OWNED(close_job) fixture f;
    near_relay r;
    char log[PL_PATH_MAX];
    open_job(&f, "i8-shared");
    const int errors = dup(STDERR_FILENO),
              file =
                  open(pl_join(log, f.dir, "log"), O_CREAT | O_WRONLY | O_APPEND, 0600);
    assert_true(errors >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    pl_log_open("relay", PL_LOG_INFO, false);
    open_near_relay(&r, &f, 2, WAIT_LONG_MS);
    assert_true(log_says(log, "relay.ready"));
    kill_child(&f.home, SIGKILL);
    const bool away = log_says(log, "peer.away peer=home");
    start_child(&f.home);
    const bool back = log_says(log, "peer.back peer=home");
    close_near_relay(&r);
    pl_log_open("test", PL_LOG_ERROR, false);
    assert_true(dup2(errors, STDERR_FILENO) >= 0);
    close(errors);
    close(file);
    assert_true(away && back);
}

PL_TEST(update_that_came_directly_is_not_counted_in_a_sum_again)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8-shared", 2, WAIT_LONG_MS);
    assert_int_equal(send_one(&j.f, j.f.home.address, 1).result, PL_SUBMIT_ACCEPTED);
    send_all(&j, 0, 2);
    assert_int_equal(j.w[0].result, PL_SUBMIT_ACCEPTED);
    assert_int_equal(j.w[1].result, PL_SUBMIT_DUPLICATE);
    send_all(&j, 2, 4);
    assert_sums(&j, 1, 2, 3);
}

PL_TEST(update_in_a_sum_is_a_duplicate_when_it_comes_directly)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8-shared", 2, WAIT_LONG_MS);
    send_all(&j, 0, 2);
    for (int path = 0; path < PATHS; path++)
        assert_int_equal(send_one(&j.f, j.f.home.address, path).result,
                         path < 2 ? PL_SUBMIT_DUPLICATE : PL_SUBMIT_ACCEPTED);
    assert_sums(&j, 1, 0, 3);
}

PL_TEST(one_task_done_by_two_workers_stands_in_no_sum_twice)
{
    OWNED(close_near_job) near_job j;
    open_near_job(&j, "i8-shared", 0, 1000);
    j.w[PATHS].name = "another";
    start_workers(j.w, PATHS - 1, &j.f, j.r.address);
    start_worker(&j.w[PATHS], &j.f, j.r.address, 0);
    pl_sleep_ms(200);
    start_worker(&j.w[PATHS - 1], &j.f, j.r.address, PATHS - 1);
    join_workers(j.w, PATHS + 1);
    close_near_relay(&j.r);
    assert_int_equal(j.w[0].result + j.w[PATHS].result,
                     PL_SUBMIT_ACCEPTED + PL_SUBMIT_DUPLICATE);
    assert_version(&j.f, "i8-shared");
}

PL_TEST(relays_stand_behind_a_relay)
{
    OWNED(close_job) fixture f;
    near_relay top;
    worker w[PATHS] = {0};
    open_job(&f, "sketch16");
    open_near_relay(&top, &f, 2, WAIT_LONG_MS);
    start_relay(&f.relay, top.address, 2, WAIT_LONG_MS);
    start_relay(&f.second, top.address, 2, WAIT_LONG_MS);
    /* The first relay gets the updates of p00 and p10, the second those of p01 and
     * p11. */
    for (int path = 0; path < PATHS; path++)
        start_worker(&w[path], &f, path % 2 ? f.second.address : f.relay.address, path);
    join_workers(w, PATHS);
    close_near_relay(&top);
    assert_int_equal(top.report.n_sums, 1);
    assert_int_equal(top.report.n_summed, 2);
    assert_version(&f, "sketch16");
    assert_int_equal(n_updates(&f), 1);
}

/* ---- the home without a relay ---- */
PL_TEST(equal_updates_of_several_paths_all_count)
{
    OWNED(close_job) fixture f;
    worker w[PATHS] = {0};
    pl_version_facts first;
    open_job(&f, "i8-shared");
    for (int i = 0; i < PATHS; i++)
        w[i].idle = true;
    start_workers(w, PATHS, &f, f.home.address);
    join_workers(w, PATHS);
    pl_hash got = wait_version(&f, embed);
    /* The four updates have equal bytes, so they are one blob. */
    assert_int_equal(n_updates(&f), 1);
    assert_ok(pl_client_get_version(f.client, embed, 0, &first));
    assert_true(pl_hash_equal(&got, &first.params));
}

/* Sends the update of path 0, and claims that it is the sum of n paths. All claimed
 * workers have sealed this. */
static pl_status claim_sum(fixture *f, const uint64_t *paths, int n,
                           pl_submit_result *result, char text[256])
{
    enum { MOST = 4 };
    worker w = {.job = f};
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    pl_contribution from[MOST];
    pl_submission_proof proofs[MOST] = {{0}};
    pl_hash receipts[MOST];
    fill(&w, f->client, SLOT_EMBED, name, &bytes, &s);
    pl_submit_message sum = {
        .base = s.base, .n = n, .contributors = from, .proofs = proofs};
    pl_copy_text(sum.module, sizeof sum.module, name);
    pl_blob_hash(s.data, s.bytes, &sum.update);
    for (int i = 0; i < n; i++) {
        pl_lease lease = lease_of(&f->arm, (int64_t)paths[i], 0, 0);
        pl_sealed_lease sealed;
        tell_valid(&f->arm, &lease, lease.token);
        pl_lease_seal(&home_secret, &lease, &sealed);
        from[i] = s.contribution;
        from[i].path = lease.path;
        from[i].work.seconds = 1;
        proofs[i].len = sealed.len;
        memcpy(proofs[i].lease, sealed.bytes, sealed.len);
        proofs[i].update = sum.update;
        pl_submission_seal(&sum, i, &sealed.key, &proofs[i].seal);
    }
    pl_client_act_under(f->client, NULL); /* as a relay */
    return pl_client_submit_as(f->client, &sum, s.data, s.bytes, result, text,
                               receipts);
}

PL_TEST(sum_that_is_not_what_it_says_changes_nothing)
{
    static const uint64_t two[] = {0, 1}, twice[] = {1, 1}, falling[] = {1, 0},
                          unknown[] = {0, 99};
    OWNED(close_job) fixture f;
    worker w[PATHS] = {0};
    pl_submit_result result;
    char text[256];
    open_job(&f, "i8-shared");
    assert_ok(claim_sum(&f, two, 2, &result, text));
    assert_int_equal(result, PL_SUBMIT_REJECTED);
    assert_non_null(strstr(text, "is not the sum of 2 updates"));
    assert_int_equal(claim_sum(&f, unknown, 2, &result, text), PL_ERR_STALE);
    assert_int_equal(claim_sum(&f, twice, 2, &result, text), PL_ERR_PROTO);
    assert_int_equal(claim_sum(&f, falling, 2, &result, text), PL_ERR_PROTO);
    start_workers(w, PATHS, &f, f.home.address);
    join_workers(w, PATHS);
    for (int i = 0; i < PATHS; i++)
        assert_int_equal(w[i].result, PL_SUBMIT_ACCEPTED);
    assert_version(&f, "i8-shared");
}

static pl_status run_relay(char **argv)
{
    pl_relay_report report;
    pl_relay_options o = {.home = argv[2],
                          .bind = argv[3],
                          .ready_file = argv[4],
                          .wait_ms = atoi(argv[5]),
                          .expect = atoi(argv[6]),
                          .patience_ms = PATIENCE_MS,
                          .staging_bytes = 64 << 20,
                          .stop = &child_stop};
    return pl_relay_run(&o, &report);
}

PL_CHILD(argc, argv)
{
    if (strcmp(argv[1], "relay") != 0)
        return run_child(argv, (pl_home_options){.keep_updates = true});
    begin_child(argv);
    return end_child(argv, run_relay(argv));
}
