/* Private to serve: remembers which prompts the slots of a decoder still hold, so that
 * an equal beginning of a prompt is not read again.
 *
 * A slot keeps the keys and values of its last prompt until another prompt takes the
 * slot. A new prompt uses them only if the same client sent both prompts (`asker` is
 * equal), if its path has the same modules (`contents` is equal), and if reading the
 * tokens again would give the same bytes. The bytes are the same in two cases. (1) The
 * two prompts are equal, and the logits after the prompt are known. (2) The prompts
 * have the same first tokens, up to a position at which every prompt is divided into
 * pieces (pl_decoder_shared). Only one thread may use a cache. */
#pragma once
#include "modules/modules.h"

typedef struct prefix_cache prefix_cache;

/* Borrows the decoder until destroy. */
prefix_cache *prefix_cache_create(pl_decoder *decoder, int n_slots, int vocab);
void prefix_cache_destroy(prefix_cache **cache); /* accepts NULL */

/* The slot for a prompt, and how much of the prompt is known. */
typedef struct prefix_match {
    int slot; /* the slot that the prompt will use */
    /* the slot that holds the prompt's first n_known tokens; -1: no slot has any */
    int from;
    /* number of known tokens; if all tokens of the prompt are known, the logits after
     * the prompt are known, too */
    int n_known;
} prefix_match;
/* A prompt, and numbers that identify the modules of the path that reads it, and the
 * client who asks (pl_batch_request.asker). */
typedef struct prefix_prompt {
    const int32_t *tokens;
    int n;
    uint64_t contents, asker;
} prefix_prompt;
/* Chooses a slot for the prompt; taken [n_slots] is false for the free slots, and at
 * least one slot must be free. If `again` is false, remembered tokens are not used, so
 * that the whole prompt will be read. */
prefix_match prefix_cache_choose(const prefix_cache *c, const bool *taken,
                                 const prefix_prompt *prompt, bool again);
/* Gives the prompt its slot, and copies the known keys and values into this slot. */
pl_status prefix_cache_take(prefix_cache *c, const prefix_match *match,
                            const prefix_prompt *prompt);
/* Notes that the first n tokens of the prompt were read. */
void prefix_cache_read(prefix_cache *c, int slot, const int32_t *prompt, int n);
/* Notes that the whole prompt was read, with the logits [vocab] after it. */
void prefix_cache_finish(prefix_cache *c, int slot, const float *logits);
const float *prefix_cache_logits(const prefix_cache *c, int slot);
/* Chooses a free slot for a request whose tokens are not remembered, and forgets the
 * prompt that the slot held. Returns -1 if no slot is free. */
int prefix_cache_lend(prefix_cache *c, const bool *taken);
/* Forgets everything, because the decoder has failed. */
void prefix_cache_forget(prefix_cache *c);
