/* folder: workers; label: unit */
/* Tests how a hub's status is written in the text format of Prometheus. Each metric
 * family must occur once, with its type. No name and no value may break the format. */
#include "base/base.h"
#include "workers/metrics.h"
#include <stdio.h>

#include "tests/support/suite.h"

static const char status_text[] =
    "{\"version\":\"1.2\",\"uptime_seconds\":7,\"homes_ready\":true,\"leases_granted\":"
    "5,"
    "\"homes\":[{\"address\":\"tcp://h:1\",\"up\":false,\"store_bytes\":1024,"
    "\"submissions\":{\"accepted\":3,\"rejected\":1},"
    "\"modules\":[{\"module\":\"mix/L1.E0\",\"version\":4,\"norm\":0.5}]}],"
    "\"arms\":[{\"arm\":\"mix\",\"tasks\":8,\"tasks_done\":2,"
    "\"held_out_bits_per_byte\":2.5,\"held_out_phase\":3,\"paths\":[{\"path\":\"p0."
    "r0\","
    "\"phase\":2,\"tokens\":100,\"gradient_norm\":0.25,"
    "\"held_out_bits_per_byte\":2.25,\"loss\":null,\"lease\":{\"worker\":"
    "\"w\\\"1\\\\\\n\","
    "\"age_seconds\":0.25}}]}],"
    "\"workers\":[{\"worker\":\"a\",\"state\":\"away\",\"tokens\":12,\"memory_bytes\":"
    "4096},{\"worker\":\"b\",\"state\":\"busy\",\"doing\":\"stalled\","
    "\"bytes_up_per_second\":1500,\"round_trip_seconds\":0.08,\"bytes_repeated_"
    "percent\":2,"
    "\"reconnects\":3}]}";

static const char *write_all(pl_buf *out)
{
    OWNED(pl_json_destroy) pl_json *status = NULL;
    assert_ok(pl_json_parse(status_text, strlen(status_text), &status));
    pl_metrics_write(status, out);
    return pl_buf_text(out);
}

PL_TEST(numbers_stand_under_their_names_and_labels)
{
    static const char *const lines[] = {
        "pathloom_build_info{version=\"1.2\"} 1\n",
        "pathloom_up_seconds 7\n",
        "pathloom_homes_ready 1\n",
        "pathloom_leases_granted_total 5\n",
        "pathloom_home_up{home=\"tcp://h:1\"} 0\n",
        "pathloom_store_bytes{home=\"tcp://h:1\"} 1024\n",
        "pathloom_updates_total{home=\"tcp://h:1\",result=\"rejected\"} 1\n",
        "pathloom_module_version{module=\"mix/L1.E0\"} 4\n",
        "pathloom_outer_grad_norm{module=\"mix/L1.E0\"} 0.5\n",
        "pathloom_arm_tasks_done{arm=\"mix\"} 2\n",
        "pathloom_tokens_total{arm=\"mix\",path=\"p0.r0\"} 100\n",
        "pathloom_held_out_bpb{arm=\"mix\"} 2.5\n",
        "pathloom_held_out_phase{arm=\"mix\"} 3\n",
        "pathloom_gradient_norm{arm=\"mix\",path=\"p0.r0\"} 0.25\n",
        "pathloom_path_held_out_bpb{arm=\"mix\",path=\"p0.r0\"} 2.25\n",
        "pathloom_worker_memory_bytes{worker=\"a\"} 4096\n",
        "pathloom_worker_up{worker=\"a\"} 0\n",
        "pathloom_worker_tokens_total{worker=\"a\"} 12\n",
        "pathloom_worker_doing{worker=\"b\",doing=\"stalled\"} 1\n",
        "pathloom_worker_up_bytes_per_second{worker=\"b\"} 1500\n",
        "pathloom_worker_round_trip_seconds{worker=\"b\"} 0.08\n",
        "pathloom_worker_repeated_bytes_percent{worker=\"b\"} 2\n",
        "pathloom_worker_reconnects_total{worker=\"b\"} 3\n"};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    const char *text = write_all(&out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(text, lines[i]));
}

PL_TEST(labels_cannot_break_out_of_their_line)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_non_null(strstr(write_all(&out), "worker=\"w\\\"1\\\\ \"} 0.25\n"));
}

PL_TEST(what_is_not_a_number_is_left_out)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_null(strstr(write_all(&out), "pathloom_train_loss{"));
}

PL_TEST(each_family_is_named_once_and_counters_end_in_total)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    const char *text = write_all(&out);
    int n = 0;
    for (const char *at = text; (at = strstr(at, "# TYPE ")); at++, n++) {
        char name[80], type[16], again[100];
        assert_int_equal(sscanf(at, "# TYPE %79s %15s", name, type), 2);
        snprintf(again, sizeof again, "# TYPE %s ", name);
        assert_null(strstr(at + 1, again));
        assert_int_equal(pl_ends_with(name, "_total"), strcmp(type, "counter") == 0);
        snprintf(again, sizeof again, "# HELP %s ", name);
        assert_non_null(strstr(text, again));
    }
    assert_true(n > 25);
}

PL_TEST(an_empty_status_gives_families_without_samples)
{
    OWNED(pl_json_destroy) pl_json *status = pl_json_object();
    OWNED(pl_buf_destroy) pl_buf out = {0};
    pl_metrics_write(status, &out);
    assert_non_null(
        strstr(pl_buf_text(&out), "# TYPE pathloom_worker_up gauge\n# HELP"));
}
