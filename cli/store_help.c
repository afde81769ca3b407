/* Prints help, manual page and completion of `pathloom store` (cmd_store.c). */
#include "cli/store_call.h"

void store_print_completion(void)
{
    printf("# bash completion of `pathloom store`; made by `pathloom "
           "--completion`.\n_pathloom_store() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local options='--run --store --json'\n"
           "    case $last in\n    --run|--store)\n"
           "        COMPREPLY=($(compgen -d -- \"$word\")); return;;\n    esac\n"
           "    if [ \"$COMP_CWORD\" -eq 2 ]; then\n        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < n_store_verbs; i++)
        printf("%s%s", i ? " " : "", store_verbs[i].name);
    printf("' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[2]} in\n");
    for (size_t i = 0; i < n_store_verbs; i++) {
        if (!store_verbs[i].takes)
            continue;
        printf("    %s) options=\"$options", store_verbs[i].name);
        for (int o = STORE_OPT_JSON + 1; o < STORE_OPT_COUNT; o++)
            if (store_takes(&store_verbs[i], o))
                printf(" --%s", store_option_row(o)->name);
        printf("\" ;;\n");
    }
    printf("    esac\n    case $word in\n"
           "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
           "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n");
}

void store_explain(int argc, char **argv)
{
    for (size_t i = 0; i < n_store_verbs; i++)
        if (cli_has_word(argc, argv, store_verbs[i].name)) {
            const store_verb *v = &store_verbs[i];
            printf("usage: pathloom store %s%s%s [OPTIONS]\n\n%s\n\n", v->name,
                   *v->words ? " " : "", v->words, v->help);
            cli_print_wrapped(v->about, 0);
            printf("\n");
            for (int o = STORE_OPT_COUNT; o-- > STORE_OPT_JSON + 1;)
                if (store_takes(v, o))
                    cli_print_option(store_option_row(o));
            for (int o = 0; o <= STORE_OPT_JSON; o++)
                if (store_takes(v, o))
                    cli_print_option(store_option_row(o));
            return;
        }
    if (cli_has_word(argc, argv, "--man")) {
        printf(
            ".\\\" Made by `pathloom store --man`.\n"
            ".TH PATHLOOM\\-STORE 1 \"\" \"pathloom %s\" \"Pathloom\"\n"
            ".SH NAME\npathloom\\-store \\- look into a module store and maintain it\n"
            ".SH SYNOPSIS\n.B pathloom store\n.I VERB\n[\\fIWORDS\\fR] [\\-\\-run "
            "\\fIRUN\\fR | \\-\\-store \\fIFOLDER\\fR] [\\-\\-json]\n"
            ".SH DESCRIPTION\n",
            PL_VERSION);
        cli_man_text(
            "Verbs that only show something may run while a job trains: they do not "
            "disturb the job, and show the store at one moment. Verbs that change the "
            "store need the job to be stopped, except tag and backup.");
        printf(".PP\n");
        cli_man_text("A MODULE is ARM/SLOT.Ek, or SLOT.Ek of the mixture. A version V "
                     "is a number or the name of a tag.");
        printf(".SH OPTIONS\n");
        for (int i = 0; i <= STORE_OPT_JSON; i++)
            cli_man_option(store_option_row(i));
        printf(".SH VERBS\n");
        for (const store_verb *v = store_verbs; v < store_verbs + n_store_verbs; v++) {
            printf(".SS \"%s %s\"\n", v->name, v->words);
            cli_man_text(v->help);
            printf(".PP\n");
            cli_man_text(v->about);
            for (int i = STORE_OPT_JSON + 1; i < STORE_OPT_COUNT; i++)
                if (store_takes(v, i))
                    cli_man_option(store_option_row(i));
        }
        printf(".SH EXIT STATUS\n");
        cli_man_text(
            "0: done. 64: the command line is wrong. 65: something in the store is "
            "damaged, or was recomputed with a different result. 66: the named thing "
            "does not exist. 73: the named thing already exists. 74: reading or "
            "writing failed. 75: a running job has locked the store. 77: this user may "
            "not read or write the store. Others as in sysexits.h.");
        return;
    }
    printf(
        "usage: pathloom store VERB [WORDS] [--run RUN | --store FOLDER] [--json]\n\n"
        "look into the module store and maintain it, also while training runs\n\n");
    for (size_t i = 0; i < n_store_verbs; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", store_verbs[i].name,
                 store_verbs[i].words);
        printf("  %-26s %s\n", usage, store_verbs[i].help);
    }
    printf("\n");
    for (int i = 0; i <= STORE_OPT_JSON; i++)
        cli_print_option(store_option_row(i));
    printf("\n");
    cli_print_wrapped(
        "MODULE is ARM/SLOT.Ek, or SLOT.Ek of the mixture; V is a version number or a "
        "tag. Options of a verb: `pathloom store VERB --help`.",
        0);
}
