/* The public header of config: the keys of a run, and how their values are chosen. No
 * function here starts a process or writes to a run folder.
 *
 * Read in this order: settings (the values of all keys, and how sources are combined),
 * config_keys (the table of keys), config_preset (presets), config_outer (method and
 * codec), config_chapters, config_graft and config_freeze (chapters of the mixture),
 * given (options that are given several times), dial (keys from a time), slow_link
 * (keys for a link). */
#pragma once
#include "config/dial.h"
#include "config/given.h"
#include "config/settings.h"
#include "config/slow_link.h"
