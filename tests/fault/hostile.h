/* Makes messages with wrong content for the adversary (tests/fault/adversary.c) and for
 * the fuzz targets of hub and home.
 *
 * A draft is a message whose fields can still be changed one by one. It is filled with
 * correct values, as far as its sender knows the job, and then one thing is made wrong:
 * a field, the frame of the record, the data or the token. The message and the fault
 * are chosen by dice. Dice are a seeded generator of random numbers, or the bytes of a
 * fuzzer's input. */
#pragma once
#include "outer/outer.h"
#include "net/net.h"

typedef struct dice {
    uint64_t seed, n; /* state of the generator */
    /* If bytes is not NULL, rolls use its `len` bytes; after these, each roll is 0. */
    const uint8_t *bytes;
    size_t len;
} dice;

uint32_t dice_roll(dice *d, uint32_t below);
bool dice_is(dice *d, uint32_t one_in);
/* Returns an extreme value of a count, a length or a token. */
uint64_t dice_edge(dice *d);
/* Returns a word that does harm if a program prints, parses or opens it without
 * care. */
const char *dice_word(dice *d);

/* What a sender needs for a correct message. Texts may be empty, and numbers may be
 * zero. */
typedef struct known {
    char worker[PL_TEXT_MAX], module[PL_MODULE_NAME_MAX], path[PL_MODULE_NAME_MAX];
    char object[PL_MODULE_NAME_MAX], arm[PL_ARM_NAME_MAX], device[PL_TEXT_MAX];
    char codec[16], other[PL_TEXT_MAX]; /* other: the name of another worker */
    char text[PL_TEXT_MAX], address[PL_ADDRESS_MAX];
    int64_t index, replica, phase;
    uint64_t version, first_sample, samples, token, pid;
    pl_hash base, blob;
    pl_pubkey key;
    size_t lease_len; /* 0 if there is no lease */
    uint8_t lease[PL_LEASE_MAX];
    pl_lease_secret task_key;
} known;

enum { DRAFT_FIELDS = 32 };

typedef struct draft_field {
    uint16_t tag;
    pl_buf value;
} draft_field;

typedef struct draft {
    uint16_t type;
    uint64_t token;
    pl_lease_secret task_key; /* with which the message is sealed, if it can be */
    int n;
    draft_field fields[DRAFT_FIELDS]; /* in rising order of tags */
    pl_buf data;
} draft;

typedef enum draft_place { AT_HUB = 1, AT_HOME = 2 } draft_place;

/* draft_choose draws a kind of message that can be sent to this process (hub or home).
 * draft_kind returns the kind of a message type. */
int draft_choose(dice *d, draft_place place);
int draft_kind(pl_message_type type);
void draft_fill(draft *out, int kind, const known *k);
/* Replaces the bytes of the field with this tag, or adds such a field. */
void draft_set(draft *m, uint16_t tag, const void *value, size_t len);
/* Adds a field with this tag, after other fields that have the tag. */
void draft_add(draft *m, uint16_t tag, const void *value, size_t len);
/* Makes one thing wrong, but sometimes nothing, so that correct messages occur, too. */
void draft_spoil(draft *m, const known *k, dice *d);
/* Makes a message from the draft. If dice are given, one message in twelve ends in the
 * middle of a field. */
void draft_message(const draft *m, dice *d, pl_message *out);
void draft_clear(draft *m);

/* The arm of the fuzz targets has two paths of a tiny model and the codec f32. */
enum { FUZZ_PATHS = 2 };
void fuzz_arm(pl_arm *arm, pl_topology **topology);
/* If `truth` is false, prints `what` and the last error and ends the program, so that
 * the fuzzer keeps the input. */
void fuzz_demand(bool truth, const char *what);
void demand_ok(pl_status status, const char *what);
/* Makes a folder, in memory if this machine has a folder in memory, and binds a socket
 * with this name in it. */
void fuzz_prepare(const char *name, char folder[PL_PATH_MAX], pl_socket **listens);
/* Each sender has an id and a key of its own. */
pl_peer fuzz_peer(int sender, pl_key_role role);
/* Seals a lease of the sender with worker, device, phase and token of `k`, and notes it
 * there. */
void fuzz_lease(const pl_lease_secret *secret, const char *arm, int path, int sender,
                known *k);
