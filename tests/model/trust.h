/* The state of the model of trust (trust.c), its rules, and what the search needs. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { N = 2, PHASES = 2, HUBS = 2, TOKENS_MAX = 4, ROUNDS = 2 };
enum value { NONE, RIGHT, WRONG };
enum owner { HONEST, LIAR, FRIEND, OWNERS }; /* FRIEND is the liar's second key */
enum verdict { NO_VERDICT, AGREED, DROP };
enum result { ACCEPTED, KNOWN, OTHER, REFUSED, ENDED, LATER };

typedef uint8_t u8;

typedef struct update {
    u8 value, owner;
} update;

/* What a home writes to its disk: the row of its path, its module, and what it knows of
 * hubs and liars. */
typedef struct disk {
    u8 phase, state;       /* phases that the path has finished; its state's value */
    u8 held, held_by;      /* value and sender of a state that waits for its audit */
    u8 drawn;              /* bit t: phase t was drawn (only for the checks) */
    u8 version, merged[N]; /* values of the newest version's updates */
    update pending[ROUNDS][N]; /* by round modulo ROUNDS, and by path */
    u8 epoch;                  /* of the newest hub */
    u8 fenced;                 /* bit per owner */
} disk;

/* What a home knows until it ends. */
typedef struct memory {
    u8 secret, before;      /* the secret of the newest hub, and the one before */
    u8 confirmed;           /* phases that the other home's path has finished */
    u8 valid[N][2], top[N]; /* tokens that may write; the highest that was named */
} memory;

typedef struct hub {
    u8 epoch, secret, counter; /* epoch 0: no such process */
    u8 knows;                  /* bit per secret that it can open */
    u8 welcome;                /* bit per home that has answered HELLO */
    u8 gave;                   /* bit per path that it has given to a worker */
    u8 lease[N], backup[N];    /* number of the token + 1 */
    u8 verdict[N], dropped[N], blames[N];
} hub;

/* A lease. Its holder keeps the sealed bytes, and the receipts that it got under it. */
typedef struct token {
    u8 number; /* epoch * 16 + counter; 0: not given yet */
    u8 path, phase, owner;
    u8 ahead;          /* the lease is for the next phase, too */
    u8 sealed;         /* bit per secret under which the holder has it */
    u8 receipts[2][N]; /* of (phase, phase + 1) and module: secret; 0: none */
    u8 late;           /* a receipt is newer than the backup of its home */
    u8 dead;           /* the hub has ended it (only for the checks) */
} token;

typedef struct state {
    disk disks[N];
    memory homes[N];
    hub hubs[HUBS];
    token tokens[TOKENS_MAX];
    u8 honest, honest_ahead; /* the honest worker's lease + 1; it trains phase + 1 */
    disk copy;               /* a backup of a home's disk */
    u8 remembers;            /* a home remembers a receipt that is newer */
    u8 copy_of;              /* home + 1 */
    u8 secrets, n_tokens, restarts, restores, undecided;
} state;

/* ---- rules of the design, each of which can be switched off ---- */
#define RULES(X)                                                                       \
    X(receipts, "SUBMIT_PATH shows receipts of the other homes' updates")              \
    X(bound, "a receipt is bound to the token of its lease")                           \
    X(other, "a different state of a finished phase is answered other")                \
    X(new_secret, "each start of the hub makes a new secret; the epoch never falls")   \
    X(fence, "every grant fences, also the first after a restart")                     \
    X(exact, "after a release the fence names exactly the valid tokens")               \
    X(once, "a hub takes up no lease of a path that it has given or fenced itself")    \
    X(first, "a home gets the secret only after all fences of that hub")               \
    X(deny, "a home accepts no lease but those that the newest fence names")           \
    X(older, "a home refuses orders of a hub that is older than the newest")           \
    X(hold, "a round waits until the tasks of its path's home are confirmed")          \
    X(confirm, "a round waits for tasks at other homes, too")                          \
    X(missing, "an audit drops a task of which a home lacks an update")                \
    X(everywhere, "the verdict waits until all homes have dropped the task")           \
    X(coverage, "a start refuses a home that lacks updates of finished phases")        \
    X(sequence, "a start refuses a home that is older than its newest receipt")

enum rule {
#define AS_NUMBER(name, text) R_##name,
    RULES(AS_NUMBER) N_RULES
};
extern bool off[N_RULES];

/* How large a scenario is. */
typedef struct scenario {
    const char *name;
    u8 tokens, hubs, restarts, restores, undecided, ahead, backups, alone;
} scenario;
extern scenario now;
extern const char *broken; /* the first promise that a step broke */

void demand(bool holds, const char *promise);

static inline bool is_bit(u8 set, int i)
{
    return set >> i & 1;
}

static inline u8 bit(int i)
{
    return (u8)(1u << i);
}

/* The number of rounds that may be open at the same time. */
static inline int window(void)
{
    return now.ahead ? 2 : 1;
}

/* Each function tries one kind of step. It returns false if the step is not possible or
 * has no effect; the state may have changed then. */
bool start_hub(state *s, int slot);
bool hello(state *s, hub *j, int h);
bool grant(state *s, hub *j, int p, enum owner owner, bool as_backup);
bool end_lease(state *s, hub *j, int p, bool of_backup, bool released);
bool renew(state *s, hub *j, int k);
bool extend(state *s, hub *j, int p);
bool judge(state *s, hub *j, int p, bool fails);
bool send_drop(state *s, hub *j, int h, int p);
bool send_verdict(state *s, hub *j, int p);
bool confirm(state *s, const hub *j, int h);
bool fence_again(state *s, const hub *j, int h, int p);
bool restart_home(state *s, int h);
bool copy_disk(state *s, int h);
bool restore(state *s);
bool honest_update(state *s, int k, int m);
bool honest_update_ahead(state *s, int m);
bool honest_end(state *s, int k, bool drawn, bool is_told);
bool honest_crash(state *s);
bool lie_update(state *s, int k, int m, int ahead, u8 value);
bool lie_end(state *s, int k, int ahead, u8 value, bool drawn);
