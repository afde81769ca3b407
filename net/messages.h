/* Messages between hub, homes, workers and the launcher: types and field tags
 * (docs/PROTOCOL.md sections 2 and 3 give every message field by field).
 *
 * An answer echoes the question's request number. Every question may be sent
 * again: the answer to a repeated one is the same, nothing is done twice.
 */
#ifndef PL_NET_MESSAGES_H
#define PL_NET_MESSAGES_H
#include "net/placement.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_message_type {
    PL_MSG_ERR = PL_WIRE_ERR,
    PL_MSG_OK = 2,
    PL_MSG_HELLO = 10, /* -> WELCOME */
    PL_MSG_WELCOME = 11,
    PL_MSG_STOP = 12,  /* drain and exit -> OK */
    PL_MSG_ENROL = 13, /* with an invitation's key -> ENROLLED */
    PL_MSG_ENROLLED = 14,

    /* worker -> hub */
    PL_MSG_TASK_REQ = 20, /* -> TASK or NO_WORK */
    PL_MSG_TASK = 21,
    PL_MSG_NO_WORK = 22,
    PL_MSG_RENEW = 23, /* -> RENEWED or LEASE_LOST */
    PL_MSG_RENEWED = 24,
    PL_MSG_LEASE_LOST = 25,
    PL_MSG_DONE = 26,    /* task submitted -> OK */
    PL_MSG_RELEASE = 27, /* lease given back -> OK */
    PL_MSG_OFFER = 30,   /* a phase's updates can be had from the worker -> OK */
    PL_MSG_STATUS = 28,  /* anyone -> STATUS_IS (data: JSON) */
    PL_MSG_STATUS_IS = 29,

    /* anyone -> home */
    PL_MSG_GET_BLOB = 40, /* -> BLOB (data: bytes at offset) */
    PL_MSG_BLOB = 41,
    PL_MSG_PUT_BLOB = 42, /* (data: bytes at offset) -> PUT_STATE */
    PL_MSG_PUT_STATE = 43,
    PL_MSG_SUBMIT = 44, /* -> SUBMITTED */
    PL_MSG_SUBMITTED = 45,
    PL_MSG_SUBMIT_PATH = 46, /* -> SUBMITTED */
    PL_MSG_PUT_OBJECT = 47,  /* -> OK */
    PL_MSG_GET_OBJECT = 48,  /* -> OBJECT_IS */
    PL_MSG_OBJECT_IS = 49,
    PL_MSG_CREATE_MODULE = 50, /* version 0 -> OK */
    PL_MSG_GET_VERSION = 51,   /* -> VERSION_IS */
    PL_MSG_VERSION_IS = 52,
    PL_MSG_GET_PATH = 53, /* -> PATH_IS */
    PL_MSG_PATH_IS = 54,
    PL_MSG_GET_STATE = 55, /* hub -> STATE_IS (data: records at offset) */
    PL_MSG_STATE_IS = 56,
    PL_MSG_FENCE = 57,      /* hub -> OK */
    PL_MSG_EVENT = 58,      /* home -> hub, unasked, may be lost */
    PL_MSG_PUT_REF = 59,    /* -> OK */
    PL_MSG_GET_UPDATE = 60, /* -> UPDATE_IS */
    PL_MSG_UPDATE_IS = 61,
    PL_MSG_MEET = 62, /* noloco with a deadline: does a pair meet? -> MEETING_IS */
    PL_MSG_MEETING_IS = 63,
    PL_MSG_PUT_AUDIT = 70,    /* hub: what came of an audit -> OK */
    PL_MSG_FENCE_WORKER = 71, /* hub: nothing is taken from it any more -> OK */

    /* names that go to another home */
    PL_MSG_MOVED = 64, /* an answer: ask that home */
    PL_MSG_LIST = 65,  /* names, or the rows of one -> LIST_IS (data: records) */
    PL_MSG_LIST_IS = 66,
    PL_MSG_GET_ROW = 67, /* -> ROW_IS (data: the row) */
    PL_MSG_ROW_IS = 68,
    PL_MSG_PUT_ROWS = 69,   /* to the next home (data: records) -> OK */
    PL_MSG_HOLD = 80,       /* what changes a name waits for a while -> OK */
    PL_MSG_HAND_OVER = 81,  /* the owner gives a name away -> OK, or ERR_STALE */
    PL_MSG_ADOPT = 82,      /* the next home owns it from now on -> OK */
    PL_MSG_PUT_PLACES = 83, /* a placement table -> OK */
    PL_MSG_GET_PLACES = 84, /* -> PLACES_ARE */
    PL_MSG_PLACES_ARE = 85,
    PL_MSG_HOMES = 86 /* to the hub: where all homes are -> OK */
} pl_message_type;

/* Field tags, the same in every message. */
typedef enum pl_tag {
    PL_TAG_STATUS = 1, /* of ERR */
    PL_TAG_TEXT = 2,   /* of ERR */
    PL_TAG_NAME = 3,
    PL_TAG_ROLE = 4,
    PL_TAG_DEVICE = 5,
    PL_TAG_PID = 6,
    PL_TAG_ADDRESS = 7, /* repeated: homes, in placement order */
    PL_TAG_HEARTBEAT_MS = 8,
    PL_TAG_TTL_MS = 9,
    PL_TAG_RETRY_MS = 10,
    PL_TAG_FINISHED = 11, /* no work will come any more */
    PL_TAG_KEY = 12,      /* the open half of a pair, 32 bytes */
    PL_TAG_SECRET = 13,   /* a pair's secret half, that all workers of a job share */
    PL_TAG_ARM = 20,
    PL_TAG_ARM_BLOB = 21,
    PL_TAG_PATH = 22,
    PL_TAG_REPLICA = 23,
    PL_TAG_PHASE = 24,
    PL_TAG_MODULE = 25,
    PL_TAG_VERSION = 26,
    PL_TAG_BASE = 27, /* hash of the version that an update was made from */
    PL_TAG_TASK = 28, /* name of a path: "mix/p01.r0" */
    PL_TAG_BLOB = 30,
    PL_TAG_TOTAL = 31,
    PL_TAG_OFFSET = 32,
    PL_TAG_LENGTH = 33,
    PL_TAG_RESULT = 34,
    PL_TAG_SEQUENCE = 35,
    PL_TAG_FIRST_SAMPLE = 40,
    PL_TAG_SAMPLES = 41,
    PL_TAG_TOKENS = 42,
    PL_TAG_LOSS = 43,
    PL_TAG_NORM = 44,
    PL_TAG_SECONDS = 45,
    PL_TAG_CODEC = 46,
    PL_TAG_WEIGHT = 47,
    PL_TAG_STEP = 48,
    PL_TAG_RATE = 49,     /* tokens per second */
    PL_TAG_OVERHEAD = 50, /* seconds that the trainer stood still for a task */
    PL_TAG_IDLE = 51,     /* seconds that there was no task for it */
    PL_TAG_MOMENTUM = 52, /* blob of the outer optimizer's state */
    PL_TAG_TOKEN = 53,    /* of a contributor in a sum */
    PL_TAG_CHANGE = 55,   /* blob of a version's change */
    PL_TAG_WAITED = 56,   /* seconds of OVERHEAD that data were waited for */
    PL_TAG_PEER = 54,     /* repeated: ADDRESS of who offers the phase of TASK */
    PL_TAG_MEETING = 57,  /* pl_meeting: what is wished, what was decided */
    PL_TAG_LATE = 58,     /* of TASK: mates that are not there need not be waited for */
    PL_TAG_LEASE = 59,    /* sealed by the hub (net/lease.h); the worker returns it */
    PL_TAG_RECORD = 60,   /* repeated: nested records of STATE_IS and SUBMIT */
    PL_TAG_HOME = 61,     /* number of a home; -1: the one that speaks */
    PL_TAG_STAMP = 62,    /* how often a name changed its home */
    PL_TAG_FAMILY = 63,   /* of a row */
    PL_TAG_ROW_KEY = 64,
    PL_TAG_ROW = 65,      /* the row; in PUT_ROWS absent: it goes */
    PL_TAG_TOGETHER = 66, /* 1: every update of this task was sent to this home */
    PL_TAG_NEXT = 67,     /* of PUT_PLACES: 1: not for clients yet */
    PL_TAG_AUDIT =
        70, /* of TASK, DONE: an audit; of a record: TEXT is an audit's row */
    PL_TAG_FENCED = 71,   /* of a record: NAME is a fenced worker, TEXT says why */
    PL_TAG_SEED = 72,     /* of likenesses (outer/audit_row.h) */
    PL_TAG_LIKENESS = 73, /* PL_LIKENESS_CELLS values f32 */
    PL_TAG_WORKER = 74    /* of a path: who made its state */
} pl_tag;

/* Results of SUBMIT and SUBMIT_PATH. */
typedef enum pl_submit_result {
    PL_SUBMIT_ACCEPTED = 0,     /* durable */
    PL_SUBMIT_DUPLICATE = 1,    /* was accepted before, or is merged already */
    PL_SUBMIT_UNKNOWN_BLOB = 2, /* send the blob, then submit again */
    PL_SUBMIT_FENCED = 3,       /* the lease was given to another worker */
    PL_SUBMIT_REJECTED = 4,     /* PL_TAG_TEXT says why */
    PL_SUBMIT_DROPPED = 5,      /* its round was merged without it, and TEXT says so:
                                   the task goes on as if it were in */
    PL_SUBMIT_OTHER = 6         /* other bytes were accepted before, and TEXT says from
                                   whom: the task is done, but what was begun from this
                                   worker's own result must begin again */
} pl_submit_result;

/* Why a worker is fenced; one sentence. */
enum { PL_FENCED_TEXT_MAX = 400 };

/* What becomes of a pair. It is decided once, by the worker that asks first. */
typedef enum pl_meeting {
    PL_MEETING_OPEN,  /* not decided; asked for: only tell */
    PL_MEETING_MET,   /* both take the step of a pair */
    PL_MEETING_SPLIT, /* both take the step of a group of one */
    PL_MEETING_COUNT
} pl_meeting;

#ifdef __cplusplus
}
#endif
#endif
