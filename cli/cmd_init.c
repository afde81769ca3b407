/* pathloom init: prints a commented configuration, or a list of the presets. */
#include "cli/cli.h"

/* In the list, a family of presets is shown with this number of paths or replicas. */
#define FAMILY_NUMBER "8"

typedef struct init_request {
    given_settings settings;
    bool list, reference;
} init_request;

static const cli_option options[] = {
    CLI_SETTINGS(
        init_request, settings,
        "write this value instead of the default; preset=NAME applies a preset"),
    CLI_OPTION("list", CLI_FLAG, init_request, list, NULL,
               "list the presets with their numbers of parameters, paths and modules"),
    CLI_OPTION("reference", CLI_FLAG, init_request, reference, NULL,
               "describe all keys as a Markdown page"),
};

static pl_status run_init(int argc, char **argv)
{
    init_request q = {.list = false};
    cli_words words;
    config c;
    pl_buf text = {0};
    PL_CHECK(cli_read(&verb_init, argc, argv, &q, &words));
    if (words.n > 0)
        return pl_fail(PL_ERR_USAGE, "init writes to stdout: pathloom init > %s",
                       words.at[0]);
    if (q.list) {
        char named[64], path[16], all[16];
        pl_shape shape;
        pl_topology_spec spec;
        printf("%-21s %15s %6s %9s %8s %12s\n", "preset", "params per path", "paths",
               "replicas", "modules", "all params");
        for (const char *const *name = pl_preset_names(); *name; name++) {
            pl_topology *t = NULL;
            const size_t len = strlen(*name);
            const bool family = (*name)[len - 1] == 'P';
            snprintf(named, sizeof named, "%.*s%s", (int)(family ? len - 1 : len),
                     *name, family ? FAMILY_NUMBER : "");
            PL_CHECK(pl_preset(named, &shape, &spec));
            PL_CHECK(pl_topology_create(&shape, &spec, &t));
            printf("%-21s %15s %6d %9d %8d %12s\n", *name,
                   pl_human_count((double)pl_topology_path_params(t), path),
                   pl_topology_n_paths(t), pl_topology_n_replicas(t),
                   pl_topology_n_modules(t),
                   pl_human_count((double)pl_topology_total_params(t), all));
            pl_topology_destroy(&t);
        }
        printf("P is a number of paths or replicas; the numbers are shown for "
               "P=" FAMILY_NUMBER ".\n"
               "For the settings of a preset: pathloom init --set preset=NAME\n");
        return PL_OK;
    }
    PL_CHECK(config_build(NULL, q.settings.pairs, q.settings.n, &c));
    config_leave_derived(&c);
    if (q.reference)
        pl_conf_write_reference(&config_table, &text);
    else
        pl_conf_write_yaml(&config_table, &c, &text);
    fputs(pl_buf_text(&text), stdout);
    pl_buf_destroy(&text);
    return PL_OK;
}

const cli_verb verb_init = {.name = "init",
                            .usage = "init [--set KEY=VALUE] > RUN.yaml | init --list",
                            .help =
                                "write a commented configuration, or list the presets",
                            CLI_TABLE(options),
                            .most_words = 1,
                            .run = run_init};
