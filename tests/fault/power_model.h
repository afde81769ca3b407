/* Simulates, from a trace, a disk that keeps only the promise of fsync.
 *
 * A file is a list of writes; the writes before its last fsync are on the disk. A
 * folder is a list of entries that were made and removed: a new or renamed file has its
 * name only after an fsync of the folder. Writes that were not flushed may be on the
 * disk in part: as a prefix whose last write is cut between two sectors of 512 bytes;
 * as any of their sectors, while the others have the old bytes (zeros if the file
 * became longer); or not at all. The choice is independent for every file and folder.
 * An fsync of a file does not make its name durable here. Real disks promise more, so a
 * store that survives here survives there. */
#ifndef PL_TESTS_POWER_MODEL_H
#define PL_TESTS_POWER_MODEL_H
#include "base/base.h"

typedef struct power_model power_model;

/* Begins with what lies in `folder`, all of it flushed, or with nothing if it is NULL.
 */
power_model *power_model_create(const char *folder);
void power_model_destroy(power_model **model);

/* Sets the trace through which power_model_step goes; borrowed. Gives the number of
 * entries. */
uint64_t power_model_take(power_model *model, const pl_buf *trace);
void power_model_step(power_model *model); /* plays the next entry, if there is one */

/* Whether a file has bytes that were not flushed. Cuts at such moments differ most. */
bool power_model_loose(const power_model *model);

/* The bytes of a file as they are, flushed or not; NULL if there is none. Lives until
 * the next step. */
const pl_buf *power_model_file(power_model *model, const char *path);

/* The states that a power cut may leave now. */
typedef enum power_loss {
    POWER_NOTHING_MORE, /* only what was flushed */
    POWER_ALL,          /* everything */
    POWER_PREFIX,       /* of each file and folder a prefix, torn between sectors */
    POWER_SECTORS,      /* of each file any sectors; of each folder a prefix */
    POWER_LENGTH,       /* files have their length, but zeros or old bytes for data */
    POWER_LOSSES
} power_loss;
const char *power_loss_name(power_loss loss);

/* Writes such a state into `folder`, which is created. Equal seeds give equal
 * folders. */
PL_MUST_CHECK pl_status power_model_cut(power_model *model, power_loss loss,
                                        uint64_t seed, const char *folder);

#endif
