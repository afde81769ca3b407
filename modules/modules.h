/* Includes the public headers of this folder: the engine that trains and runs models.
 *
 * Read in this order: shape (the numbers of a path), topology (slots, levels, modules,
 * paths), ops (every operation with its equation), backend (executes operations),
 * module (the parameters of modules, and paths made of them), model (a path that
 * trains, scores and decodes). `ref/` is the specification in plain loops, `cpu/` the
 * production backend without a GPU.
 *
 * This folder uses neither the store nor the network, and can be built without the
 * other folders except base (PL_ONLY_MODULES). */
#pragma once
#include "modules/backend.h"
#include "modules/model.h"
#include "modules/module.h"
#include "modules/topology.h"
