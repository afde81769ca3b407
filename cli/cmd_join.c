/* pathloom join TOKEN: makes this machine a worker of a job on another machine. The
 * machine makes a key pair and sends only the public half. The secret in the token
 * proves that the machine may join, and the hub adds the key to the hub's list. The
 * command may be repeated; it uses the same key again. */
#include "cli/process_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { REACH_MS = 5000 };

/* Admits this machine. One that joined before needs no hub now. */
static pl_status enrol(process *p, const pl_keypair *invite, char role[32])
{
    pl_keypair own;
    const bool was_there = pl_path_exists(p->key);
    if (!was_there)
        PL_CHECK(pl_wire_reach(p->hub, REACH_MS));
    pl_status status = pl_keypair_load(p->key, &own);
    if (status == PL_ERR_NOT_FOUND) {
        pl_keypair_create(&own);
        status = pl_keypair_save(p->key, &own);
    }
    PL_CHECK(status);
    if (!p->name)
        process_name(p);
    pl_copy_text(role, 32, "worker");
    /* If the hub knows the key, the token is not used, because no use of it may be
     * left. ERR_NOPERM: it does not know the key. ERR_NET, ERR_TIMEOUT: it is away. */
    status =
        was_there ? run_ask_once(p->hub, &own, PL_MSG_STATUS, REACH_MS) : PL_ERR_NOPERM;
    if (status == PL_ERR_NET || status == PL_ERR_TIMEOUT) {
        say("%s; this machine has joined before, so its worker waits for the hub",
            pl_last_error());
        status = PL_OK;
    } else if (status != PL_OK) {
        status = pl_admission_join(p->hub, invite, &own.open, p->name, role);
        if (status == PL_ERR_NOPERM)
            status =
                pl_fail(status, "the hub refuses the token: it was used already, has "
                                "expired or was revoked; print a new one on the hub's "
                                "machine with `pathloom key invite --run RUN`");
        if (status == PL_OK)
            say("enrolled as %s %s; the key is in %s", role, p->name, p->key);
    }
    pl_keypair_wipe(&own);
    return status;
}

static const cli_option options[] = {
    CLI_OPTION(
        "token-file", CLI_TEXT, process, token_file, "FILE",
        "read TOKEN from this file; it may also be in the environment, PATHLOOM_TOKEN"),
    CLI_OPTION("key", CLI_TEXT, process, key, "FILE",
               "file of this machine's key, which is made if it does not exist"),
    CLI_OPTION("only-enrol", CLI_FLAG, process, only_enrol, NULL,
               "only add the key to the job; do not work yet"),
    CLI_SETTINGS(process, settings, "set a key that does not change training"),
    COMPUTE_OPTIONS,
    LOG_OPTIONS,
};

static pl_status run_join(int argc, char **argv)
{
    process p = {.wait_ms = 0};
    cli_words words;
    char hub[PL_ADDRESS_MAX], role[32], token[PL_TOKEN_MAX];
    pl_keypair invite;
    pl_address at;
    PL_CHECK(cli_read(&verb_join, argc, argv, &p, &words));
    /* Finds the token: in the command line, in a file or in the environment. Other
     * users can read a command line, but not the file, which may be a pipe
     * (<(command)). */
    const char *named = getenv("PATHLOOM_TOKEN");
    token[0] = '\0';
    if (words.n > 0) {
        pl_copy_text(token, PL_TOKEN_MAX, words.at[0]);
    } else if (p.token_file) {
        FILE *file = fopen(p.token_file, "re");
        if (!file)
            return pl_fail(PL_ERR_NOT_FOUND, "cannot open the token's file %s: %s",
                           p.token_file, strerror(errno));
        if (!fgets(token, PL_TOKEN_MAX, file))
            token[0] = '\0';
        fclose(file);
    } else if (named) {
        pl_copy_text(token, PL_TOKEN_MAX, named);
    } else {
        return pl_fail(PL_ERR_USAGE,
                       "join needs the token that `pathloom key invite` printed on the "
                       "other machine: as a word, in --token-file or PATHLOOM_TOKEN");
    }
    token[strcspn(token, " \r\n")] = '\0';
    PL_CHECK(pl_token_parse(token, hub, &invite));
    PL_CHECK(pl_address_parse(hub, &at));
    pl_copy_text(p.found[0], sizeof p.found[0], hub);
    p.hub = p.found[0];
    if (!p.key) {
        /* one key per job, so the name of its file is made from the hub's key */
        char folder[PL_PATH_MAX], key[PL_PUBKEY_TEXT], name[64];
        PL_CHECK(process_user_folder("XDG_CONFIG_HOME", ".config", folder));
        if (chmod(folder, 0700) != 0)
            return pl_fail(PL_ERR_NOPERM,
                           "cannot set the mode of %s to 0700; give --key FILE",
                           folder);
        pl_pubkey_format(&at.key, key);
        snprintf(name, sizeof name, "job-%.16s.key", key);
        pl_join(p.paths[0], folder, name);
        p.key = p.paths[0];
    }
    pl_status status = enrol(&p, &invite, role);
    pl_keypair_wipe(&invite);
    PL_CHECK(status);
    if (p.only_enrol || strcmp(role, "worker") != 0) {
        say("now start: pathloom %s --hub '%s' --key %s",
            strcmp(role, "inspector") == 0 ? "status" : role, p.hub, p.key);
        return PL_OK;
    }
    say("working for %s; Ctrl+C finishes the task and ends", at.endpoint);
    process_open_log(&p, "worker");
    PL_CHECK(pl_admission_open(p.key, NULL));
    p.stop = cli_stop_flag(true);
    PL_CHECK(process_configure(&p));
    status = process_work(&p);
    return status == PL_OK && cli_was_stopped() ? pl_fail(PL_ERR_CANCELLED, "%s", "")
                                                : status;
}

const cli_verb verb_join = {
    .name = "join",
    .usage = "join TOKEN [--threads N] [--name NAME]",
    .help = "work for a job on another machine",
    CLI_TABLE(options),
    .notes = "`pathloom key invite` on the job's machine prints TOKEN. The token works "
             "once; the key that is made here stays valid. After Ctrl+C or TERM, the "
             "worker finishes its task and ends with exit code 130; the same command "
             "joins again. Exit code 0: the job has ended, or `pathloom drain`.",
    .most_words = 1,
    .computes = true,
    .run = run_join};
