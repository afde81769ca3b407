/* pathloom explain WORD: prints what a status, exit code, event or key means. */
#include "cli/cli.h"

#include <strings.h>

static void print_explanation_json(const pl_explanation *e)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "code", e->code);
    pl_json_set_text(o, "meaning", e->meaning);
    pl_json_set_text(o, "causes", e->causes);
    pl_json_set_text(o, "remedy", e->remedy);
    say_json(o);
}

static bool has_exit_code(const pl_explanation *e, int64_t exit_code)
{
    for (int s = PL_OK; s < PL_STATUS_COUNT; s++)
        if (strcmp(pl_status_name((pl_status)s), e->code) == 0)
            return pl_status_exit_code((pl_status)s) == exit_code;
    int64_t own = -1;
    return pl_parse_int(e->code, &own) == PL_OK && own == exit_code;
}

static int print_matching(const char *word, bool json)
{
    int n = 0;
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
        if (json)
            print_explanation_json(e);
        else {
            say("%s", e->code);
            say("  meaning  %s", e->meaning);
            if (e->causes[0])
                say("  causes   %s", e->causes);
            if (e->remedy[0])
                say("  remedy   %s", e->remedy);
        }
        n++;
    }
    return n;
}

static bool print_key_named(const char *word, bool json)
{
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (key->type == PL_KEY_SECTION || strcmp(key->name, word) != 0)
            continue;
        pl_buf wanted = {0};
        const char *initial = *key->initial ? key->initial : "\"\"";
        pl_conf_wanted(key, &wanted);
        if (json) {
            pl_json *o = pl_json_object();
            pl_json_set_text(o, "key", key->name);
            pl_json_set_text(o, "meaning", key->help);
            pl_json_set_text(o, "value", pl_buf_text(&wanted));
            pl_json_set_text(o, "default", key->initial);
            pl_json_set_bool(o, "changes_results", !key->local);
            say_json(o);
        } else {
            say("%s\n  meaning  %s\n  value    %s; default %s\n  results  %s",
                key->name, key->help, pl_buf_text(&wanted), initial,
                key->local
                    ? "do not depend on it: a run may continue with another value"
                    : "depend on it: it is fixed when a run begins");
        }
        pl_buf_destroy(&wanted);
        return true;
    }
    return false;
}

/* ---- words that are no names ---- */
/* Whether the text contains the word; _ stands for a blank, too. */
static bool mentions(const char *text, const char *word)
{
    char spaced[64];
    if (!pl_copy_text(spaced, sizeof spaced, word))
        return false;
    for (char *at = spaced; *at; at++)
        *at = *at == '_' ? ' ' : *at;
    return strcasestr(text, word) || strcasestr(text, spaced);
}

static void print_found(const char *name, const char *meaning, bool json)
{
    if (!json) {
        say("%-18s %s", name, meaning);
        return;
    }
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "found", name);
    pl_json_set_text(o, "meaning", meaning);
    say_json(o);
}

static int print_section(const char *word, bool json)
{
    int n = 0;
    const size_t len = strlen(word);
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (key->type == PL_KEY_SECTION || strncmp(key->name, word, len) != 0 ||
            key->name[len] != '.')
            continue;
        print_found(key->name, key->help, json);
        n++;
    }
    return n;
}

/* Lists the keys, statuses and events whose name or meaning contains the word. */
static int print_search(const char *word, bool json)
{
    int n = 0;
    for (size_t i = 0; i < config_table.n_keys; i++) {
        const pl_key *key = &config_table.keys[i];
        if (key->type == PL_KEY_SECTION ||
            !(mentions(key->name, word) || mentions(key->help, word)))
            continue;
        print_found(key->name, key->help, json);
        n++;
    }
    for (size_t i = 0; i < pl_n_explanations; i++) {
        const pl_explanation *e = &pl_explanations[i];
        if (!(mentions(e->code, word) || mentions(e->meaning, word)))
            continue;
        print_found(e->code, e->meaning, json);
        n++;
    }
    return n;
}

typedef struct explain_request {
    bool json;
} explain_request;

static const cli_option options[] = {CLI_JSON(explain_request, json)};

static pl_status run_explain(int argc, char **argv)
{
    explain_request q = {.json = false};
    cli_words words;
    PL_CHECK(cli_read(&verb_explain, argc, argv, &q, &words));
    for (size_t i = 0; words.n == 0 && i < pl_n_explanations; i++)
        if (q.json)
            print_explanation_json(&pl_explanations[i]);
        else
            say("%-18s %s", pl_explanations[i].code, pl_explanations[i].meaning);
    for (int i = 0; i < words.n; i++) {
        const char *word = words.at[i], *names[128];
        const bool named =
            print_matching(word, q.json) > 0 || print_key_named(word, q.json);
        if (print_section(word, q.json) > 0 || named || print_search(word, q.json) > 0)
            continue;
        size_t n = pl_n_explanations < 128 ? pl_n_explanations : 128;
        for (size_t k = 0; k < n; k++)
            names[k] = pl_explanations[k].code;
        const char *near = pl_nearest(word, names, n);
        near = near ? near : pl_conf_nearest(&config_table, word);
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
    .options = options,
    .n_options = CLI_COUNT(options),
    .notes = "WORD is a status (ERR_BUSY), an exit code (75), an event of a log "
             "(lease.expired), a key (train.tau) or a section of keys (train). A "
             "different WORD is searched in all meanings. Without WORD, all statuses, "
             "codes and events are listed.",
    .most_words = CLI_WORDS_MAX,
    .run = run_explain};
