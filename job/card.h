/* The model card of an exported path: the README.md in the folder of its files. The
 * card is made from the provenance in the store and from the run's last evaluation. */
#pragma once
#include "job/run.h"

typedef struct card {
    const pl_run *r;
    pl_store *store;
    const pl_arm *arm;
    const pl_topology *topology;
    int path;
    const pl_path_module *modules; /* [n_slots] the versions that were exported */
    const char *title;
    /* the user chose the versions, which may be older than the newest ones */
    bool chosen;
} card;

/* ERR_USAGE if FOLDER/README.md exists and is not a card. */
pl_status card_refuse_other(const char *folder);
/* Writes FOLDER/README.md. Facts that the store does not have are left out. */
pl_status card_write(const card *c, const char *folder);
