/* pathloom explain WORD: prints what a status, exit code, event or key means. */
#include "cli/cli.h"

#include <strings.h>

static bool has_exit_code(const pl_explanation *e, int64_t exit_code)
{
    for (int s = PL_OK; s < PL_STATUS_COUNT; s++)
        if (strcmp(pl_status_name((pl_status)s), e->code) == 0)
            return pl_status_exit_code((pl_status)s) == exit_code;
    int64_t own = -1;
    return pl_parse_int(e->code, &own) == PL_OK && own == exit_code;
}

/* Prints the statuses and events with this name or exit code, otherwise the key of this
 * name. Returns whether there is any. */
static bool print_named(const char *word)
{
    bool found = false;
    int64_t exit_code = -1;
    bool is_number = pl_parse_int(word, &exit_code) == PL_OK;
    for (size_t i = 0; i < pl_n_explanations; i++) {
        const pl_explanation *e = &pl_explanations[i];
        /* ERR_BUSY, err_busy and BUSY mean the same status. */
        const bool is_named =
            strcasecmp(e->code, word) == 0 ||
            (pl_starts_with(e->code, "ERR_") && strcasecmp(e->code + 4, word) == 0);
        if (is_number ? !has_exit_code(e, exit_code) : !is_named)
            continue;
        say("%s\n  meaning  %s%s%s%s%s", e->code, e->meaning,
            e->causes[0] ? "\n  causes   " : "", e->causes,
            e->remedy[0] ? "\n  remedy   " : "", e->remedy);
        found = true;
    }
    for (size_t i = 0; !found && i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (key->type == PL_KEY_SECTION || strcmp(key->name, word) != 0)
            continue;
        pl_buf wanted = {0};
        pl_conf_wanted(key, &wanted);
        say("%s\n  meaning  %s\n  value    %s; default %s\n  results  %s", key->name,
            key->help, pl_buf_text(&wanted), *key->initial ? key->initial : "\"\"",
            key->local ? "do not depend on it: a run may continue with another value"
                       : "depend on it: it is fixed when a run begins");
        pl_buf_destroy(&wanted);
        found = true;
    }
    return found;
}

/* Whether the text contains the word; _ and - stand for a blank, too, and a plural's
 * last s need not be there. */
static bool mentions(const char *text, const char *word)
{
    char spaced[64];
    if (!pl_copy_text(spaced, sizeof spaced, word))
        return false;
    for (char *at = spaced; *at; at++)
        *at = *at == '_' || *at == '-' ? ' ' : *at;
    const size_t len = strlen(spaced);
    if (len > 3 && spaced[len - 1] == 's')
        spaced[len - 1] = '\0';
    return strcasestr(text, word) || strcasestr(text, spaced);
}

/* Lists the keys, statuses and events whose name or meaning contains the word; with
 * `section` only the keys of the section of this name. */
static int print_search(const char *word, bool section)
{
    int n = 0;
    const size_t len = strlen(word);
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        const bool in_section =
            pl_starts_with(key->name, word) && key->name[len] == '.';
        if (key->type == PL_KEY_SECTION ||
            !(section ? in_section
                      : mentions(key->name, word) || mentions(key->help, word)))
            continue;
        say("%-18s %s", key->name, key->help);
        n++;
    }
    for (size_t i = 0; i < pl_n_explanations && !section; i++) {
        const pl_explanation *e = &pl_explanations[i];
        if (!(mentions(e->code, word) || mentions(e->meaning, word)))
            continue;
        say("%-18s %s", e->code, e->meaning);
        n++;
    }
    return n;
}

static pl_status run_explain(int argc, char **argv)
{
    cli_words words;
    PL_CHECK(cli_read(&verb_explain, argc, argv, NULL, &words));
    for (size_t i = 0; words.n == 0 && i < pl_n_explanations; i++)
        say("%-18s %s", pl_explanations[i].code, pl_explanations[i].meaning);
    for (int i = 0; i < words.n; i++) {
        const char *word = words.at[i], *names[128];
        const bool named = print_named(word);
        if (print_search(word, true) > 0 || named || print_search(word, false) > 0)
            continue;
        size_t n = pl_n_explanations < 128 ? pl_n_explanations : 128;
        for (size_t k = 0; k < n; k++)
            names[k] = pl_explanations[k].code;
        const char *near = pl_nearest(word, names, n);
        near = near ? near : pl_conf_nearest(&config_table, word);
        /* If no name is near, searches the parts of the word, such as those of
         * batch_size. */
        int n_found = 0;
        char part[64];
        for (const char *at = near ? "" : word; *(at += strspn(at, "_-. "));
             at += strlen(part)) {
            if (!pl_copy_text(part, sizeof part, at))
                break;
            part[strcspn(part, "_-. ")] = '\0';
            if (strlen(part) > 2 && strcmp(part, word) != 0)
                n_found += print_search(part, false);
        }
        if (n_found > 0)
            continue;
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "`%.64s` is not a status, exit code, event or key%s%s; `pathloom explain` "
            "lists statuses, codes and events, `pathloom init` keys",
            word, near ? "; did you mean " : "", near ? near : "");
    }
    return PL_OK;
}

const cli_verb verb_explain = {
    .name = "explain",
    .usage = "explain [WORD]",
    .help = "explain a status, exit code, event or key; or search their meanings",
    .notes = "WORD is a status (ERR_BUSY), an exit code (75), an event of a log "
             "(lease.expired), a key (train.tau) or a section of keys (train). A "
             "different WORD is searched in all meanings. Without WORD, all statuses, "
             "codes and events are listed.",
    .most_words = CLI_WORDS_MAX,
    .run = run_explain};
