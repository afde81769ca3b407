/* The public header of history: what the versions of a store tell, and how a store is
 * changed while no home runs. Nothing here listens, trains or makes an outer step.
 *
 * Read in this order: names (which versions and paths a user's words mean), phase_tag
 * (which versions a tag names), merged and lineage (from which versions a version was
 * made), blame (which workers made a version), difference (how two versions differ),
 * module_health (how well outer steps worked), coverage (which samples were trained),
 * exposure (how much training used some documents), affected (what changes without
 * some documents), module_lineage and phase_history (the training of every path in
 * every phase), garbage (which versions garbage collection keeps), transfer
 * (copies to another store), merge_plan (which versions a merge makes), rollback_plan
 * (which versions a rollback writes), rewind (a copy without some documents), divide (a
 * copy for another number of homes). */
#pragma once
#include "history/affected.h"
#include "history/audits.h"
#include "history/blame.h"
#include "history/coverage.h"
#include "history/difference.h"
#include "history/divide.h"
#include "history/exposure.h"
#include "history/garbage.h"
#include "history/lineage.h"
#include "history/merge_plan.h"
#include "history/merged.h"
#include "history/module_health.h"
#include "history/module_lineage.h"
#include "history/names.h"
#include "history/phase_history.h"
#include "history/phase_tag.h"
#include "history/rewind.h"
#include "history/rollback_plan.h"
#include "history/transfer.h"
