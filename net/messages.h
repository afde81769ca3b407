/* Messages between hub, homes, workers and the launcher, generated from one table
 * (net/messages.def): types, tags of fields, and a struct for each body.
 * docs/PROTOCOL.md sections 2 and 3 define their meaning.
 *
 * An answer echoes the question's request number. Every question may be sent again: a
 * repeated question gets the same answer, and nothing is done twice. */
#ifndef PL_NET_MESSAGES_H
#define PL_NET_MESSAGES_H
#include "net/placement.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Limit for the length of the sentence that says why a worker is fenced. */
enum { PL_FENCED_TEXT_MAX = 400 };

typedef enum pl_message_type {
#define QUESTION(type, NAME, roles, cost) PL_MSG_##NAME = (type),
#define ANSWER(type, NAME)                PL_MSG_##NAME = (type),
#include "net/messages.def"
} pl_message_type;

typedef enum pl_tag {
#define FIELD(tag, NAME, member, type, limit) PL_TAG_##NAME = (tag),
#include "net/messages.def"
} pl_tag;

#define PL_TYPE_U uint64_t
#define PL_TYPE_S int64_t
#define PL_TYPE_F double
#define PL_TYPE_H pl_hash
#define PL_TYPE_T const char *
#define PL_TYPE_B pl_bytes
#define PL_TYPE_K const uint8_t *
#define FIELD(tag, NAME, member, type, limit)                                          \
    typedef PL_TYPE_##type pl_type_of_##member;
#define OTHER(NAME, member, type, limit) typedef PL_TYPE_##type pl_type_of_##member;
#include "net/messages.def"

#define BODY(name)                                                                     \
    const pl_field *pl_fields_of_##name(void);                                         \
    typedef struct pl_msg_##name pl_msg_##name;                                        \
    struct pl_msg_##name {
#define RECORD(name)       BODY(name)
#define HAS(member)        pl_type_of_##member member;
#define MAY(member)        pl_type_of_##member member;
#define WITH(member, gate) pl_type_of_##member member;
#define FLAG(member)       bool member;
#define LIST(member)       pl_items member;
#define NEST(member, body)                                                             \
    pl_msg_##body *member; /* allocated when the message is read */                    \
    size_t n_##member;
#define END                                                                            \
    }                                                                                  \
    ;
#include "net/messages.def"

/* PL_SAY(&m, GET_OBJECT, get_object, .name = name) writes the message's type and
 * body. */
#define PL_SAY(message, TYPE, body, ...)                                               \
    pl_message_put((message), PL_MSG_##TYPE, pl_fields_of_##body(),                    \
                   &(pl_msg_##body){__VA_ARGS__})
/* PL_HEAR(&m, get_object, &question) reads the body; ERR_PROTO unless it is of this
 * kind. */
#define PL_HEAR(message, body, to)                                                     \
    pl_message_get((message), #body, pl_fields_of_##body(),                            \
                   true ? (to) : (pl_msg_##body *)NULL)
#define PL_SAY_BODY(record, body, ...)                                                 \
    pl_put_fields((record), pl_fields_of_##body(), &(pl_msg_##body){__VA_ARGS__})
/* Appends one more RECORD. */
#define PL_SAY_RECORD(record, body, ...)                                               \
    pl_put_nested((record), PL_TAG_RECORD, pl_fields_of_##body(),                      \
                  &(pl_msg_##body){__VA_ARGS__})

/* Results of SUBMIT and SUBMIT_PATH. */
typedef enum pl_submit_result {
    PL_SUBMIT_ACCEPTED = 0,  /* durable */
    PL_SUBMIT_DUPLICATE = 1, /* the update was accepted before, or is merged already */
    PL_SUBMIT_UNKNOWN_BLOB = 2, /* the blob is missing: send it, then submit again */
    PL_SUBMIT_FENCED = 3,       /* the lease was given to another worker */
    PL_SUBMIT_REJECTED = 4,     /* the update is not acceptable; TEXT says why */
    /* the update's round was merged without it, as TEXT says; the worker continues as
     * if it had been accepted */
    PL_SUBMIT_DROPPED = 5,
    /* different bytes of this update were accepted before, and TEXT names their sender.
     * The task is done, but a task that began from this worker's own result must begin
     * again. */
    PL_SUBMIT_OTHER = 6
} pl_submit_result;

/* The decision about a pair (noloco). The worker that asks first makes it, and it never
 * changes. */
typedef enum pl_meeting {
    PL_MEETING_OPEN,  /* not decided; as a wish: only asks for the decision */
    PL_MEETING_MET,   /* both mates take the step of a pair */
    PL_MEETING_SPLIT, /* each of the two takes a step by itself */
    PL_MEETING_COUNT
} pl_meeting;

#ifdef __cplusplus
}
#endif
#endif
