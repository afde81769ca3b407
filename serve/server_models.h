/* Private to serve: the models that a server offers, with names and numbers: first the
 * paths of the mixture, then the run's other arms that consist of one path and have the
 * mixture's vocabulary and context.
 *
 * The list is made when the server starts and does not change, so any thread may read
 * it. */
#pragma once
#include "serve/mixture.h"

/* largest number of arms outside the mixture */
enum { SERVER_OTHERS_MAX = 16 };
typedef struct server_models server_models;

/* The arm and the path from which a model's parameters are read. */
typedef struct server_model {
    const pl_arm *arm;
    const pl_topology *topology;
    int path;
} server_model;

/* Borrows the mixture until close. */
pl_status server_models_open(const pl_mixture *mix, server_models **out);
void server_models_close(server_models **models); /* accepts NULL */
int server_models_count(const server_models *m);
server_model server_models_get(const server_models *m, int number);
void server_models_name(const server_models *m, int number, char name[PL_NAME_MAX]);
/* Whether the server may answer with this model; false if its path is closed
 * (settings.closed). */
bool server_models_is_open(const server_models *m, int number);
/* Finds a model by its name. ERR_NOT_FOUND: no model has this name, or its path is
 * closed. */
pl_status server_models_find(const server_models *m, const char *name, int *number);
/* Whether this name (`auto` or `mix`) means that the server chooses the path of each
 * prompt. */
bool server_models_is_auto(const char *name);
