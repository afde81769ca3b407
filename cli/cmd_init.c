/* pathloom init: a commented configuration on stdout, or a list of the presets. */
#include "cli/cli.h"

/* A family is shown with this number of paths or replicas. */
#define FAMILY_NUMBER "8"

static pl_status print_preset(const char *name)
{
    char text[64], path[16], all[16];
    pl_shape shape;
    pl_topology_spec spec;
    pl_topology *t = NULL;
    size_t len = strlen(name);
    bool family = name[len - 1] == 'P';
    snprintf(text, sizeof text, "%.*s%s", (int)(family ? len - 1 : len), name,
             family ? FAMILY_NUMBER : "");
    PL_RETURN_IF(pl_preset(text, &shape, &spec));
    PL_RETURN_IF(pl_topology_create(&shape, &spec, &t));
    printf("%-21s %15s %6d %9d %8d %12s\n", name,
           pl_human_count((double)pl_topology_path_params(t), path),
           pl_topology_n_paths(t), pl_topology_n_replicas(t), pl_topology_n_modules(t),
           pl_human_count((double)pl_topology_total_params(t), all));
    pl_topology_destroy(&t);
    return PL_OK;
}

static pl_status print_presets(void)
{
    printf("%-21s %15s %6s %9s %8s %12s\n", "preset", "params per path", "paths",
           "replicas", "modules", "all params");
    for (const char *const *name = pl_preset_names(); *name; name++)
        PL_RETURN_IF(print_preset(*name));
    printf("P is a number of paths or replicas; shown for " FAMILY_NUMBER ".\n"
           "Settings of one: pathloom init --set preset=NAME\n");
    return PL_OK;
}

int cmd_init(int argc, char **argv)
{
    cli_options o;
    config c;
    pl_buf text = {0};
    pl_status status = cli_parse(argc, argv, &o);
    if (status == PL_OK && o.n_rest > 0)
        status = pl_fail(PL_ERR_USAGE, "init writes to stdout: pathloom init > %s",
                         o.rest[0]);
    if (status == PL_OK && o.list) {
        status = print_presets();
        return status == PL_OK ? 0 : cli_fail(status);
    }
    if (status == PL_OK)
        status = config_build(NULL, o.ask.sets, o.ask.n_sets, &c);
    if (status != PL_OK)
        return cli_fail(status);
    config_leave_derived(&c);
    if (o.reference)
        pl_conf_write_reference(&config_table, &text);
    else
        pl_conf_write_yaml(&config_table, &c, &text);
    fputs(pl_buf_text(&text), stdout);
    pl_buf_destroy(&text);
    return 0;
}
