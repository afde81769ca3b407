/* `pathloom train --link RATE`: sets the keys with which a link of this rate does not
 * slow the workers down, or slows them down least. */
#pragma once
#include "measure/train_dial.h"

/* Chooses the first of slow_link_levels (config/slow_link.h) with which the transfers
 * of a phase take no longer than its inner steps, or else the last one; keys that the
 * user gave stay. The time of the steps is measured on this machine. Prints the choice
 * and why. `d` has the keys that were chosen before; its text `link` is the rate. */
pl_status train_link_choose(train_dial *d, pl_run *r);
