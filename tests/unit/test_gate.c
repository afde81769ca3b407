/* folder: base; label: unit */
/* Tests the gate's copies of the list of keys: however often the list changes, memory
 * does not grow. */
#include "base/base.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/key_edits.h"
#include "tests/support/suite.h"

/* A copy has 40 KiB, so 80 of them would have three times GROWTH_MAX. */
enum { KEYS = 400, CHANGES = 100, GROWTH_MAX = 1 << 20 };

static void number_key(int n, pl_pubkey *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &n, sizeof n);
    out->bytes[31] = 1;
}

static pl_status fill_list(pl_key_list *list, void *context)
{
    (void)context;
    for (int i = 0; i < KEYS; i++) {
        pl_key_entry e = {.role = PL_AS_WORKER};
        number_key(i + 1, &e.key);
        snprintf(e.name, sizeof e.name, "w%d", i);
        PL_CHECK(pl_key_list_put(list, &e));
    }
    return PL_OK;
}

/* The gate reads the whole list again for each key that it admits. */
static void admit(int n)
{
    pl_pubkey key;
    bool own;
    number_key(KEYS + n, &key);
    pl_gate_admit(&key, PL_AS_WORKER);
    int64_t end = pl_now_ms() + 60000;
    while (pl_gate_role(&key, &own) != PL_AS_WORKER && pl_now_ms() < end)
        pl_sleep_ms(1);
    assert_int_equal(pl_gate_role(&key, &own), PL_AS_WORKER);
}

PL_TEST(changes_of_the_list_leave_no_memory_behind)
{
    char folder[] = "/tmp/pl-gate-XXXXXX", list[64];
    pl_keypair own;
    pl_pubkey found;
    assert_non_null(mkdtemp(folder));
    snprintf(list, sizeof list, "%s/allow", folder);
    assert_ok(pl_key_list_edit(list, fill_list, NULL));
    pl_keypair_create(&own);
    pl_wire_keys(&own);
    assert_ok(open_quiet_gate(&own, list));
    for (int i = 1; i <= 20; i++)
        admit(i);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 21; i <= CHANGES; i++)
        admit(i);
    const size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(after < before + GROWTH_MAX);
    assert_true(pl_gate_key_named("w7", &found));
    assert_false(pl_gate_key_named("nobody", &found));
    pl_wire_shutdown();
    pl_wire_keys(NULL);
    assert_ok(pl_remove_tree(folder));
}

PL_TEST(an_empty_socket_leaves_the_last_error_as_it_is)
{
    pl_socket *socket;
    OWNED(pl_message_destroy) pl_message got;
    pl_peer peer;
    char address[PL_ADDRESS_MAX];
    pl_message_init(&got, 0);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &socket, address));
    assert_int_equal(pl_fail(PL_ERR_IO, "the real cause"), PL_ERR_IO);
    assert_int_equal(pl_wire_recv(socket, &peer, &got), PL_ERR_TIMEOUT);
    assert_string_equal(pl_last_error(), "the real cause");
    pl_wire_close(&socket);
    pl_wire_shutdown();
}
