/* folder: net; label: unit */
/* Tests which roles may send which messages. No worker may send a message that harms
 * the work of others, and every question must be permitted to some role. */
#include "net/net.h"

#include "tests/support/suite.h"

static const pl_key_role remote[] = {PL_AS_ADMIN,  PL_AS_HUB,    PL_AS_HOME,
                                     PL_AS_RELAY,  PL_AS_WORKER, PL_AS_INSPECTOR,
                                     PL_AS_INVITE, PL_AS_REVOKED};
enum { N_REMOTE = sizeof remote / sizeof *remote };

static int count_allowed(uint16_t type)
{
    int n = 0;
    for (int i = 0; i < N_REMOTE; i++)
        n += pl_role_allows(remote[i], type);
    return n;
}

PL_TEST(a_worker_cannot_command_define_or_fence)
{
    static const uint16_t forbidden[] = {
        PL_MSG_STOP,      PL_MSG_PUT_OBJECT, PL_MSG_PUT_REF, PL_MSG_CREATE_MODULE,
        PL_MSG_GET_STATE, PL_MSG_FENCE,      PL_MSG_ENROL};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        assert_false(pl_role_allows(PL_AS_WORKER, forbidden[i]));
    assert_true(pl_role_allows(PL_AS_WORKER, PL_MSG_SUBMIT));
    assert_true(pl_role_allows(PL_AS_WORKER, PL_MSG_TASK_REQ));
}

PL_TEST(an_invitation_enrols_and_does_nothing_else)
{
    for (int type = 0; type <= UINT16_MAX; type++)
        assert_int_equal(pl_role_allows(PL_AS_INVITE, (uint16_t)type),
                         type == PL_MSG_ENROL);
}

PL_TEST(an_inspector_and_a_home_only_read)
{
    static const uint16_t writes[] = {
        PL_MSG_HELLO,       PL_MSG_TASK_REQ, PL_MSG_PUT_BLOB, PL_MSG_SUBMIT,
        PL_MSG_SUBMIT_PATH, PL_MSG_PUT_REF,  PL_MSG_RELEASE,  PL_MSG_DONE,
        PL_MSG_RENEW,       PL_MSG_OFFER,    PL_MSG_STOP,     PL_MSG_FENCE};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        assert_false(pl_role_allows(PL_AS_INSPECTOR, writes[i]));
        assert_false(pl_role_allows(PL_AS_HOME, writes[i]));
    }
}

/* Each hash of a text is in an object or in the definition of an arm. An object may
 * also tell a worker which of its tasks will be audited. */
PL_TEST(an_inspector_reads_no_text_and_a_worker_no_objects)
{
    for (int type = 0; type <= UINT16_MAX; type++)
        assert_int_equal(pl_role_allows(PL_AS_INSPECTOR, (uint16_t)type),
                         type == PL_MSG_STATUS || type == PL_MSG_LOG);
    assert_false(pl_role_allows(PL_AS_WORKER, PL_MSG_GET_OBJECT));
    assert_false(pl_role_allows(PL_AS_RELAY, PL_MSG_GET_OBJECT));
    assert_true(pl_role_allows(PL_AS_WORKER, PL_MSG_GET_BLOB));
    assert_true(pl_role_allows(PL_AS_RELAY, PL_MSG_GET_BLOB));
}

PL_TEST(nobody_may_do_anything_without_a_role)
{
    for (int type = 0; type <= UINT16_MAX; type++)
        assert_false(pl_role_allows(PL_AS_NONE, (uint16_t)type));
}

/* Shows that some role may ask each question, and that no role may send an answer as a
 * question. (Only homes send an answer that was not asked for, EVENT; it needs no
 * role.) */
PL_TEST(every_question_is_somebodys_and_no_answer_is_anybodys)
{
    static const uint16_t questions[] = {
#define QUESTION(type, NAME, roles, cost) (type),
#include "net/messages.def"
    };
    static const uint16_t answers[] = {
#define ANSWER(type, NAME) (type),
#include "net/messages.def"
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        assert_true(count_allowed(questions[i]) > 0);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        assert_int_equal(count_allowed(answers[i]), 0);
}

/* Shows that a message that costs the server more takes more tokens from the key's
 * bucket (base/quota.h, 8000 tokens). All 64 workers of a key can send HELLO at the
 * same time, but only a few requests for the STATUS of the whole job are possible. */
PL_TEST(what_costs_the_server_more_costs_the_key_more)
{
    assert_int_equal(pl_message_cost(PL_MSG_RENEW), 1);
    assert_int_equal(pl_message_cost(9999), 1);
    assert_true(64 * pl_message_cost(PL_MSG_HELLO) < 8000);
    assert_in_range(pl_message_cost(PL_MSG_STATUS), 100, 1000);
    assert_true(pl_message_cost(PL_MSG_SUBMIT) > 1);
}
