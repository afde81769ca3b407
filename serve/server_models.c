/* Lists the models that a server offers (server_models.h). */
#include "serve/server_models.h"

typedef struct other_arm {
    pl_arm arm;
    pl_topology *topology;
} other_arm;

struct server_models {
    const pl_mixture *mix;
    int n_paths, n_others;
    other_arm others[SERVER_OTHERS_MAX];
};

/* Adds an arm outside the mixture, if the arm is a single model with the mixture's
 * vocabulary and context. */
static pl_status add_other_arm(void *context, const pl_object *object)
{
    static const char folder[] = "arm/";
    server_models *m = context;
    const char *name = object->name + strlen(folder);
    other_arm *other = &m->others[m->n_others];
    if (strcmp(name, m->mix->arm.name) == 0 || m->n_others == SERVER_OTHERS_MAX)
        return PL_OK;
    pl_status status = pl_read_arm(m->mix->store, name, &other->arm, &other->topology);
    const pl_shape *shape = &other->arm.shape, *wanted = &m->mix->arm.shape;
    if (status == PL_OK && pl_topology_n_paths(other->topology) == 1 &&
        shape->vocab == wanted->vocab && shape->context == wanted->context) {
        m->n_others++;
        return PL_OK;
    }
    pl_arm_clear(&other->arm);
    pl_topology_destroy(&other->topology);
    return status;
}

pl_status server_models_open(const pl_mixture *mix, server_models **out)
{
    server_models *m = pl_alloc(sizeof *m);
    m->mix = mix;
    m->n_paths = pl_topology_n_paths(mix->topology);
    pl_status status = pl_store_each_object(mix->store, "arm/", add_other_arm, m);
    *out = m;
    if (status != PL_OK)
        server_models_close(out);
    return status;
}

void server_models_close(server_models **models)
{
    server_models *m = *models;
    if (!m)
        return;
    for (int i = 0; i < m->n_others; i++) {
        pl_arm_clear(&m->others[i].arm);
        pl_topology_destroy(&m->others[i].topology);
    }
    pl_free(m);
    *models = NULL;
}

int server_models_count(const server_models *m)
{
    return m->n_paths + m->n_others;
}

server_model server_models_get(const server_models *m, int number)
{
    if (number < m->n_paths)
        return (server_model){&m->mix->arm, m->mix->topology, number};
    const other_arm *other = &m->others[number - m->n_paths];
    return (server_model){&other->arm, other->topology, 0};
}

void server_models_name(const server_models *m, int number, char name[PL_NAME_MAX])
{
    if (number < m->n_paths)
        pl_topology_path_name(m->mix->topology, number, name);
    else
        pl_copy_text(name, PL_NAME_MAX, m->others[number - m->n_paths].arm.name);
}

bool server_models_is_open(const server_models *m, int number)
{
    return number >= m->n_paths || !pl_path_is_closed(&m->mix->settings, number);
}

pl_status server_models_find(const server_models *m, const char *name, int *number)
{
    char known[PL_NAME_MAX];
    for (int i = m->n_paths; i < server_models_count(m); i++) {
        server_models_name(m, i, known);
        *number = i;
        if (strcmp(known, name) == 0)
            return PL_OK;
    }
    if (pl_find_path(m->mix->topology, name, number) != PL_OK) {
        server_models_name(m, m->n_paths - 1, known);
        return pl_fail(PL_ERR_NOT_FOUND,
                       "there is no model `%.100s`; send `auto`, or a name of GET "
                       "/v1/models (a path up to %s, or an arm)",
                       name, known);
    }
    if (server_models_is_open(m, *number))
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND,
                   "path %s does not answer, because it uses a module that the server "
                   "excludes (--without)",
                   name);
}

bool server_models_is_auto(const char *name)
{
    return strcmp(name, "auto") == 0 || strcmp(name, "mix") == 0;
}
