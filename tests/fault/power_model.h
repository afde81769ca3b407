/* Simulates a disk that does no more than fsync promises. The writes come from a trace.
 *
 * A file is a list of writes. The writes before the file's last fsync are on the disk.
 * A folder is a list of entries that were made and removed: a new or renamed file has
 * its name only after an fsync of the folder. Writes that were not flushed may be on
 * the disk in part. Then the disk has the first of them, and the last of these may be
 * cut between two sectors of 512 bytes; or it has any of their sectors, and old bytes
 * (or zeros, if the file became longer) in the others; or it has none of them. The
 * choice is independent for every file and folder. In this model an fsync of a file
 * does not make its name durable. Real disks promise more, so a store that survives in
 * the model survives on them. */
#pragma once
#include "base/base.h"

typedef struct power_model power_model;

/* Makes a model of the files in `folder`, as if all of them were flushed. If `folder`
 * is NULL, the model begins without files. */
power_model *power_model_create(const char *folder);
void power_model_destroy(power_model **model);

/* Sets the trace that power_model_step plays, and returns the number of its entries.
 * The trace is borrowed. */
uint64_t power_model_take(power_model *model, const pl_buf *trace);
void power_model_step(power_model *model); /* plays the next entry, if there is one */

/* Returns whether a file has bytes that were not flushed. At such moments a power cut
 * has the most different results. */
bool power_model_loose(const power_model *model);

/* Returns the present bytes of a file, flushed or not, or NULL if there is no such
 * file. They are valid until the next step. */
const pl_buf *power_model_file(power_model *model, const char *path);

/* The states in which a power cut may leave the disk. */
typedef enum power_loss {
    POWER_NOTHING_MORE, /* only flushed data is on the disk */
    POWER_ALL,          /* all writes are on the disk */
    /* the first writes of each file and folder; the last one is cut between sectors */
    POWER_PREFIX,
    POWER_SECTORS, /* any sectors of each file; the first entries of each folder */
    /* Files have their new length, but zeros or old bytes as data. */
    POWER_LENGTH,
    POWER_LOSSES
} power_loss;
const char *power_loss_name(power_loss loss);

/* Writes the files into `folder`, which is created, as such a cut leaves them. Equal
 * seeds give equal folders. */
pl_status power_model_cut(power_model *model, power_loss loss, uint64_t seed,
                          const char *folder);
