/* Prints help from the verbs' tables of options: --help, the manual pages (`pathloom
 * VERB --man`, `pathloom --man`) and the completion (`pathloom --completion`). */
#include "cli/options.h"

enum { HELP_COLUMN = 22, LINE_END = 79 };

/* A line has at most LINE_END characters, unless a word is longer. */
void cli_print_wrapped(const char *text, int indent)
{
    int column = indent;
    bool first = true;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (!first && column + 1 + len > LINE_END) {
            printf("\n%*s", indent, "");
            column = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", len, text);
        column += len + !first;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    printf("\n");
}

void cli_print_option(const cli_option *o)
{
    int column =
        printf("  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    if (column >= HELP_COLUMN) {
        printf("\n");
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    cli_print_wrapped(o->help, HELP_COLUMN);
}

void cli_print_verb(const cli_verb *v)
{
    char line[1024];
    printf("usage: pathloom %s\n\n%s\n\n", v->usage, v->help);
    for (size_t i = 0; i < v->n_options; i++)
        cli_print_option(&v->options[i]);
    if (v->notes) {
        printf("%s", v->n_options > 0 ? "\n" : "");
        /* paragraphs; one that begins with a space is printed unchanged */
        const char *notes = v->notes;
        for (; *notes; notes += strcspn(notes, "\n"), notes += *notes == '\n') {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(notes, "\n"), notes);
            if (line[0] == ' ')
                printf("%s\n", line);
            else
                cli_print_wrapped(line, 0);
        }
    }
}

/* ---- the manual pages ---- */
static void print_roff(const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '-')
            putchar('\\');
        putchar(*text);
    }
}

void cli_man_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        printf("\\&");
    print_roff(text);
    printf("\n");
}

void cli_man_option(const cli_option *o)
{
    printf(".TP\n.B \\-\\-");
    print_roff(o->name);
    if (o->value)
        printf(" \\fI%s\\fR", o->value);
    printf("\n");
    cli_man_text(o->help);
}

void cli_print_manual(const cli_verb *v)
{
    char line[1024];
    printf(".\\\" Made by `pathloom %s --man`.\n"
           ".TH PATHLOOM\\-%s 1 \"\" \"pathloom %s\" \"Pathloom\"\n"
           ".SH NAME\npathloom\\-%s \\- ",
           v->name, v->name, PL_VERSION, v->name);
    cli_man_text(v->help);
    printf(".SH SYNOPSIS\n.B pathloom\n");
    cli_man_text(v->usage);
    if (v->n_options > 0)
        printf(".SH OPTIONS\n");
    for (size_t i = 0; i < v->n_options; i++)
        cli_man_option(&v->options[i]);
    if (v->notes)
        printf(".SH NOTES\n");
    for (const char *notes = v->notes; notes && *notes;
         notes += strcspn(notes, "\n"), notes += *notes == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(notes, "\n"), notes);
        if (!line[0])
            printf(".PP\n");
        else if (line[0] == ' ')
            printf(".nf\n%s\n.fi\n", line);
        else
            cli_man_text(line);
    }
    printf(".SH EXIT STATUS\n");
    cli_man_text("0 if it succeeded, else a number of sysexits.h; `pathloom explain` "
                 "says what each means.");
}

void cli_print_manual_of_all(const cli_verb *const *verbs, size_t n)
{
    printf(".\\\" Made by `pathloom --man`.\n"
           ".TH PATHLOOM 1 \"\" \"pathloom %s\" \"Pathloom\"\n"
           ".SH NAME\npathloom \\- train and serve mixtures of paths (DiPaCo)\n"
           ".SH SYNOPSIS\n.B pathloom\n\\fIVERB\\fR [OPTIONS]\n"
           ".SH VERBS\nEach verb has a page of its own: pathloom\\-\\fIVERB\\fR(1).\n",
           PL_VERSION);
    for (size_t i = 0; i < n; i++) {
        printf(".TP\n.B %s\n", verbs[i]->name);
        cli_man_text(verbs[i]->help);
    }
}

void cli_print_completion(const cli_verb *const *verbs, size_t n)
{
    printf(
        "# bash completion of pathloom; made by `pathloom --completion`.\n"
        "_pathloom() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
        "    local last=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    if [ \"${COMP_WORDS[1]}\" = store ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n"
        "        _pathloom_store\n        return\n    fi\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? " " : "", verbs[i]->name);
    printf("' -- \"$word\"))\n        return\n    fi\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < n; i++) {
        if (verbs[i]->n_options == 0)
            continue;
        printf("    %s) options='", verbs[i]->name);
        for (size_t k = 0; k < verbs[i]->n_options; k++)
            printf("--%s ", verbs[i]->options[k].name);
        printf("--help' ;;\n");
    }
    printf("    esac\n    if [ \"$last\" = --set ] || [ \"${COMP_WORDS[1]}\" = explain "
           "]; then\n        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < config_table.n_keys; i++)
        if (config_table.keys[i].type != PL_KEY_SECTION)
            printf("%s ", config_table.keys[i].name);
    printf("' -- \"$word\"))\n        return\n    fi\n    case $word in\n"
           "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
           "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n"
           "complete -F _pathloom pathloom\n");
}
