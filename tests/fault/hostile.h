/* Makes messages with wrong content for the adversary (tests/fault/adversary.c) and for
 * the fuzz targets of hub and home.
 *
 * A draft is a message whose fields can still be changed one by one. It is filled in
 * correctly, from what its sender knows of the job, and then one thing is made wrong: a
 * field, the frame of the record, the data or the token. Dice choose the message and
 * the fault; dice are a seeded generator, or the bytes of a fuzzer's input. */
#ifndef PL_TESTS_HOSTILE_H
#define PL_TESTS_HOSTILE_H
#include "outer/outer.h"
#include "net/net.h"

typedef struct dice {
    uint64_t seed, n;     /* of the generator */
    const uint8_t *bytes; /* instead of it, until they end; then every roll is 0 */
    size_t len;
} dice;

uint32_t dice_roll(dice *d, uint32_t below);
bool dice_is(dice *d, uint32_t one_in);
/* A number at the edge of what counts, lengths and tokens can be. */
uint64_t dice_edge(dice *d);
/* A word that a careless reader prints, parses or takes for a path. */
const char *dice_word(dice *d);

/* What a right message says. Empty texts and zeros are fine. */
typedef struct known {
    char worker[PL_TEXT_MAX], module[PL_MODULE_NAME_MAX], path[PL_MODULE_NAME_MAX];
    char object[PL_MODULE_NAME_MAX], arm[PL_ARM_NAME_MAX], device[PL_TEXT_MAX];
    char codec[16], other[PL_TEXT_MAX]; /* other: the name of another worker */
    char text[PL_TEXT_MAX], address[PL_ADDRESS_MAX];
    int64_t index, replica, phase;
    uint64_t version, first_sample, samples, token, pid;
    pl_hash base, blob;
    pl_pubkey key;
    size_t lease_len; /* 0: none */
    uint8_t lease[PL_LEASE_MAX];
} known;

enum { DRAFT_FIELDS = 32 };

typedef struct draft_field {
    uint16_t tag;
    pl_buf value;
} draft_field;

typedef struct draft {
    uint16_t type;
    uint64_t token;
    int n;
    draft_field fields[DRAFT_FIELDS]; /* in rising order of tags */
    pl_buf data;
} draft;

typedef enum draft_place { AT_HUB = 1, AT_HOME = 2 } draft_place;

/* A kind of message that this place understands, or one of that type. */
int draft_choose(dice *d, draft_place place);
int draft_kind(pl_message_type type);
void draft_fill(draft *out, int kind, const known *k);
/* Replaces the field's bytes, or adds the field. */
void draft_set(draft *m, uint16_t tag, const void *value, size_t len);
/* One more field of this tag, behind those that it has. */
void draft_add(draft *m, uint16_t tag, const void *value, size_t len);
/* Changes one thing, or with a small probability nothing. */
void draft_spoil(draft *m, const known *k, dice *d);
/* The body's record as it then is, spoilt framing included. */
void draft_message(const draft *m, dice *d, pl_message *out);
void draft_clear(draft *m);

/* The arm of the fuzz targets: two paths of a tiny model, sent as f32. */
enum { FUZZ_PATHS = 2 };
void fuzz_arm(pl_arm *arm, pl_topology **topology);
/* Ends the program with what was broken and the last error, so that the fuzzer keeps
 * the input. */
void fuzz_demand(bool truth, const char *what);

#endif
