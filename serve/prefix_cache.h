/* Private to serve: remembers which prompts the slots of a decoder still hold. So a
 * prompt that was read before, or that begins like one, need not be read again.
 *
 * A slot keeps the keys and values of its last prompt until another prompt takes the
 * slot. They are used again only by a path with the same modules (`contents` is equal),
 * and only if reading would give the same bytes: either the whole of an equal prompt,
 * with the logits after it, or first tokens up to a border at which every reading ends
 * a piece (pl_decoder_shared). For one thread. */
#ifndef PL_SERVE_PREFIX_CACHE_H
#define PL_SERVE_PREFIX_CACHE_H
#include "modules/modules.h"

typedef struct prefix_cache prefix_cache;

/* Borrows the decoder until destroy. */
prefix_cache *prefix_cache_create(pl_decoder *decoder, int n_slots, int vocab);
void prefix_cache_destroy(prefix_cache **cache); /* accepts NULL */

/* The slot for a prompt, and how much of the prompt is known. */
typedef struct prefix_match {
    int slot;
    /* the slot that holds the prompt's first n_known tokens; -1: no slot does */
    int from;
    int n_known; /* if this is the whole prompt, the logits after it are known, too */
} prefix_match;
/* A prompt, and what identifies the path that reads it. */
typedef struct prefix_prompt {
    const int32_t *tokens;
    int n;
    uint64_t contents;
} prefix_prompt;
/* Chooses one of the free slots (not `taken`); there must be one. If `again` is false,
 * the whole prompt will be read. */
prefix_match prefix_cache_choose(const prefix_cache *c, const bool *taken,
                                 const prefix_prompt *prompt, bool again);
/* Copies what is known of the prompt into its slot. */
PL_MUST_CHECK pl_status prefix_cache_take(prefix_cache *c, const prefix_match *match,
                                          const prefix_prompt *prompt);
/* Notes that the first n tokens of the prompt were read. */
void prefix_cache_read(prefix_cache *c, int slot, const int32_t *prompt, int n);
/* Notes that the whole prompt was read, with the logits [vocab] after it. */
void prefix_cache_finish(prefix_cache *c, int slot, const float *logits);
const float *prefix_cache_logits(const prefix_cache *c, int slot);
/* Chooses a free slot for tokens that are not remembered, and forgets what it held; -1:
 * no slot is free. */
int prefix_cache_lend(prefix_cache *c, const bool *taken);
/* Forgets everything, because the decoder has failed. */
void prefix_cache_forget(prefix_cache *c);

#endif
