/* pathloom init: a commented configuration on stdout. */
#include "cli/cli.h"

int cmd_init(int argc, char **argv)
{
    cli_options o;
    config c;
    pl_buf text = {0};
    pl_status status = cli_parse(argc, argv, &o);
    if (status == PL_OK && o.n_rest > 0)
        status = pl_fail(PL_ERR_USAGE, "init writes to stdout: pathloom init > %s",
                         o.rest[0]);
    if (status == PL_OK)
        status = config_build(NULL, o.sets, o.n_sets, &c);
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
