/* The public header of base, which all other folders include.
 *
 * Read in this order: status (errors), mem and buf (memory), record (the encoding of
 * messages and stored values), fields (reads and writes structs as records), hash, rng,
 * keys (the keys that may connect), then the interfaces to foreign libraries: wire and
 * gate (ZeroMQ), zip (zstd), json (jansson), conf (libyaml), thread (pthreads), web
 * (libcurl), library (shared libraries that are loaded when they are needed).
 *
 * With the build option PL_ONLY_MODULES only the first group of headers is included.
 * These headers need only the C library and pthreads. The folder `modules` uses no
 * other header of base, so base and modules can be built without the other folders. */
#pragma once
#include "base/bf16.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fs.h"
#include "base/isa.h"
#include "base/le.h"
#include "base/library.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/name_table.h"
#include "base/output.h"
#include "base/processors.h"
#include "base/rng.h"
#include "base/sanitize.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#ifndef PL_ONLY_MODULES
#include "base/address.h"
#include "base/conf.h"
#include "base/crowd.h"
#include "base/explain.h"
#include "base/fields.h"
#include "base/gate.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/keys.h"
#include "base/record.h"
#include "base/web.h"
#include "base/wire.h"
#include "base/zip.h"
#endif
