/* Messages between hub, homes, workers and the launcher, generated from one table
 * (net/messages.def): types, tags of fields, and a struct for each body.
 * docs/PROTOCOL.md sections 2 and 3 define their meaning.
 *
 * An answer echoes the question's request number. Every question may be sent again: a
 * repeated question gets the same answer, and nothing is done twice. */
#pragma once
#include "net/placement.h"
#include "store/store.h"

/* Size limit in bytes, with the NUL, of the text that says why a worker was fenced. */
enum { PL_FENCED_TEXT_MAX = 400 };
/* smaller blobs never go directly between a worker and the service that keeps chunks */
enum { PL_DIRECT_MIN = 256 << 10 };
/* number of a blob's first bytes in a PUT_BLOB that asks for room */
enum { PL_PUT_HEAD = 64 };

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
#define WORK pl_work work;
#define WORKED(member)
#define MEASURED(member)
#define END                                                                            \
    }                                                                                  \
    ;
#include "net/messages.def"

/* PL_SAY(&m, GET_OBJECT, get_object, .name = name) writes type and body. */
#define PL_SAY(message, TYPE, body, ...)                                               \
    pl_message_put((message), PL_MSG_##TYPE, pl_fields_of_##body(),                    \
                   &(pl_msg_##body){__VA_ARGS__})
/* PL_HEAR(&m, get_object, &question) reads the body; ERR_PROTO: another body. */
#define PL_HEAR(message, body, to)                                                     \
    pl_message_get((message), #body, pl_fields_of_##body(),                            \
                   memset(true ? (to) : (pl_msg_##body *)NULL, 0, sizeof *(to)))
#define PL_SAY_BODY(record, body, ...)                                                 \
    pl_put_fields((record), pl_fields_of_##body(), &(pl_msg_##body){__VA_ARGS__})
/* PL_SAY_RECORD appends one more field RECORD with a nested record. */
#define PL_SAY_RECORD(record, body, ...)                                               \
    pl_put_nested((record), PL_TAG_RECORD, pl_fields_of_##body(),                      \
                  &(pl_msg_##body){__VA_ARGS__})

/* Returns how many bytes the answer to a GET_BLOB has; the blob has `total`. */
size_t pl_piece_bytes(const pl_msg_get_blob *q, uint64_t total);

typedef enum pl_submit_result {
    PL_SUBMIT_ACCEPTED = 0,  /* the update or state is durable */
    PL_SUBMIT_DUPLICATE = 1, /* the update was accepted before, or was merged already */
    PL_SUBMIT_UNKNOWN_BLOB = 2, /* the blob is missing: send it, then submit again */
    PL_SUBMIT_FENCED = 3,       /* the task has been leased to another worker */
    PL_SUBMIT_REJECTED = 4,     /* the update is wrong; TEXT says why */
    /* the round was merged without this update; TEXT says so; the worker continues as
     * if the update had been accepted */
    PL_SUBMIT_DROPPED = 5,
    /* another worker's result for this task, with different bytes, was accepted before;
     * TEXT names that worker. The task is done. If this worker has begun a task from
     * its own result, it must begin that task again. */
    PL_SUBMIT_OTHER = 6
} pl_submit_result;

/* The decision about a pair (noloco). The first wish that a worker sends becomes the
 * decision, which never changes. */
typedef enum pl_meeting {
    /* as an answer: not decided; as a wish: only asks for the decision */
    PL_MEETING_OPEN,
    PL_MEETING_MET,   /* both mates take the outer step as a pair */
    PL_MEETING_SPLIT, /* each of the two mates takes an outer step alone */
    PL_MEETING_COUNT
} pl_meeting;
