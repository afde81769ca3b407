/* The public header of net: the messages between the processes of a job.
 *
 * Read in this order: messages.def and messages (the protocol's types and fields, and
 * the code generated from them), roles (which messages the role of a key allows),
 * placement (which home owns a name), lease (the sealed permission to submit), fence
 * (which workers are refused), submission (the update that a worker sends), staging
 * (uploads that no record names yet), client (questions to homes, and what it measures
 * of its connections), absence (logs that a process is away). */
#pragma once
#include "net/absence.h"
#include "net/client.h"
#include "net/fence.h"
#include "net/lease.h"
#include "net/messages.h"
#include "net/placement.h"
#include "net/roles.h"
#include "net/staging.h"
#include "net/submission.h"
