/* The door of base: what every folder stands on.
 *
 * Read in this order: status (errors), mem and buf (memory), record (the one
 * encoding), fields (records that lie in structs), hash, rng, keys (who may connect),
 * then the doors to foreign libraries: wire and gate (ZeroMQ), zip (zstd), json
 * (jansson), conf (libyaml), thread (pthreads).
 *
 * The files up to fs.h need nothing but a C library and are all that `modules`
 * uses, so that the engine builds alone (PL_ONLY_MODULES).
 */
#ifndef PL_BASE_BASE_H
#define PL_BASE_BASE_H
#include "base/bf16.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fs.h"
#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/name_table.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#ifndef PL_ONLY_MODULES
#include "base/address.h"
#include "base/conf.h"
#include "base/fields.h"
#include "base/gate.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/keys.h"
#include "base/record.h"
#include "base/wire.h"
#include "base/zip.h"
#endif
#endif
