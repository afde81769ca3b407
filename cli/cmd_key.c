/* pathloom key: makes key pairs and invitations, edits the list of keys. */
#include "cli/cli.h"

typedef struct key_options {
    const char *word; /* the word after the verb; NULL: none */
    const char *run, *list, *hub, *name, *role_name, *span;
    pl_key_role role;
    int64_t uses, lasts_s;
    bool json, expires;
} key_options;

static const cli_option options[] = {
    CLI_RUN(key_options, run),
    CLI_OPTION("keys", CLI_TEXT, key_options, list, "FILE",
               "use this list of keys (default: the run's)"),
    CLI_OPTION("hub", CLI_TEXT, key_options, hub, "ADDRESS",
               "address of the hub for the token (default: the run's)"),
    CLI_OPTION(
        "role", CLI_TEXT, key_options, role_name, "ROLE",
        "role of the key: worker, relay, inspector, home, hub or admin (worker)"),
    CLI_NUMBER("uses", CLI_INT64, key_options, uses, "N", 1, 10000,
               "how many keys an invitation may add (1)"),
    CLI_OPTION("expires", CLI_TEXT, key_options, span, "SPAN",
               "time after which the invitation or key expires: 90s, 30m, 24h, 7d; 0: "
               "never (invite: 24h, allow: 0)"),
    CLI_OPTION("name", CLI_TEXT, key_options, name, "NAME",
               "name of the invitation or key in the list"),
    CLI_JSON(key_options, json),
};

/* Parses a time such as "90s", "30m", "24h" or "7d" into seconds; "0" means no end. */
static pl_status parse_span(const char *text, int64_t *out)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char number[32];
    size_t digits = strspn(text, "0123456789");
    snprintf(number, sizeof number, "%.*s", (int)digits, text);
    for (size_t i = 0; i < sizeof units / sizeof *units && digits < 10; i++)
        if (strcmp(text + digits, units[i].unit) == 0 &&
            pl_parse_int(number, out) == PL_OK) {
            *out *= units[i].seconds;
            return PL_OK;
        }
    return pl_fail(PL_ERR_USAGE, "--expires takes 90s, 30m, 24h or 7d, not `%s`", text);
}

/* ---- key pairs ---- */
/* Prints the public half of a pair that was made or read, and wipes the pair. */
static pl_status show_pair(pl_status status, pl_keypair *pair)
{
    char text[PL_PUBKEY_TEXT];
    if (status == PL_OK) {
        pl_pubkey_format(&pair->open, text);
        say("%s", text);
    }
    pl_keypair_wipe(pair);
    return status;
}

static pl_status new_key(const key_options *o)
{
    pl_keypair pair;
    pl_keypair_create(&pair);
    return show_pair(pl_keypair_save(o->word, &pair), &pair);
}

static pl_status show_key(const key_options *o)
{
    pl_keypair pair;
    return show_pair(pl_keypair_load(o->word, &pair), &pair);
}

/* ---- the list of keys ---- */
static pl_status find_key_list(const key_options *o, char out[PL_PATH_MAX])
{
    if (o->list) {
        pl_copy_text(out, PL_PATH_MAX, o->list);
        return PL_OK;
    }
    run_key_list(o->run, out);
    if (run_has_keys(o->run))
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND,
                   "the job in %s has no keys: only this machine reaches it. Start the "
                   "job with --set net.hub=tcp://0.0.0.0:7000 --set "
                   "net.home=tcp://0.0.0.0:7001, or name another run with --run FOLDER",
                   o->run);
}

static void note_complaint(const pl_key_list *list)
{
    if (list->n_bad > 0)
        fprintf(stderr, "pathloom: note: %s\n", list->complaint);
}

static pl_status list_keys(const key_options *o)
{
    char path[PL_PATH_MAX];
    pl_key_list list;
    PL_CHECK(find_key_list(o, path));
    PL_CHECK(pl_key_list_load(path, &list));
    for (size_t i = 0; i < list.n; i++) {
        const pl_key_entry *e = &list.entries[i];
        char key[PL_PUBKEY_TEXT], until[PL_TIME_TEXT] = "never", role[32];
        pl_pubkey_format(&e->key, key);
        snprintf(role, sizeof role, "%s%s", e->role == PL_AS_INVITE ? "invite/" : "",
                 pl_key_role_name(e->role == PL_AS_INVITE ? e->grants : e->role));
        if (e->expires_s != 0)
            pl_format_time(e->expires_s, true, until);
        bool over = e->expires_s != 0 && pl_wall_ms() / 1000 > e->expires_s;
        if (o->json)
            say("{\"role\":\"%s\",\"key\":\"%s\",\"name\":\"%s\",\"expires\":%lld,"
                "\"uses\":%d,\"expired\":%s}",
                role, key, e->name, (long long)e->expires_s, e->uses,
                over ? "true" : "false");
        else
            say("%-16s %s  %-20s %s%s", role, key, e->name, until,
                over ? " (expired)" : "");
    }
    note_complaint(&list);
    pl_key_list_clear(&list);
    return PL_OK;
}

/* Names an entry. Makes one if none was given, so that all can be revoked. */
static void name_entry(const char *given, const char *kind, pl_key_entry *e)
{
    char key[PL_PUBKEY_TEXT];
    pl_pubkey_format(&e->key, key);
    if (given[0])
        snprintf(e->name, sizeof e->name, "%s", given);
    else
        snprintf(e->name, sizeof e->name, "%s-%.8s", kind, key);
}

/* Puts an entry into the list. If the key is one of the job's own keys, the entry keeps
 * its name, gets the role that the name contains, and never expires, because the job
 * would not work otherwise. */
static pl_status put_key_entry(pl_key_list *list, void *context)
{
    pl_key_entry e = *(const pl_key_entry *)context;
    const pl_key_entry *old = pl_key_list_find(list, &e.key, 0);
    note_complaint(list);
    if (old && pl_starts_with(old->name, PL_KEY_OWN)) {
        pl_copy_text(e.name, sizeof e.name, old->name);
        PL_CHECK(pl_key_role_parse(e.name + strlen(PL_KEY_OWN), &e.role));
        if (e.expires_s != 0)
            return pl_fail(PL_ERR_NOPERM,
                           "%s is one of the job's own keys, which do not expire; "
                           "leave --expires out",
                           e.name);
    } else {
        PL_CHECK(pl_key_list_check_name(list, e.name, &e.key));
    }
    return pl_key_list_put(list, &e);
}

static pl_status allow_key(const key_options *o)
{
    char path[PL_PATH_MAX];
    pl_key_entry e = {.role = o->role};
    PL_CHECK(find_key_list(o, path));
    PL_CHECK(pl_pubkey_parse(o->word, &e.key));
    e.expires_s = o->expires && o->lasts_s > 0 ? pl_wall_ms() / 1000 + o->lasts_s : 0;
    name_entry(o->name, "allowed", &e);
    return pl_key_list_edit(path, put_key_entry, &e);
}

typedef struct revocation {
    char word[PL_KEY_NAME_MAX];
    pl_key_entry entry;
    int n_open; /* number of invitations that are still open */
} revocation;

/* Revokes the entry with this key or this name. ERR_USAGE if several entries have the
 * name, which is possible in a list that was edited by hand. */
static pl_status revoke_entry(pl_key_list *list, void *context)
{
    revocation *v = context;
    pl_pubkey key;
    int n = 0;
    note_complaint(list);
    bool is_key = pl_pubkey_parse(v->word, &key) == PL_OK;
    for (size_t i = 0; i < list->n; i++) {
        const pl_key_entry *e = &list->entries[i];
        if (is_key ? !pl_pubkey_equal(&e->key, &key) : strcmp(e->name, v->word) != 0)
            continue;
        v->entry = *e;
        n++;
    }
    if (n == 0)
        return pl_fail(PL_ERR_NOT_FOUND, "no key or name `%s` is in the list", v->word);
    if (n > 1)
        return pl_fail(PL_ERR_USAGE,
                       "%d keys have the name %s; give the KEY of one, as `pathloom "
                       "key list` shows it",
                       n, v->word);
    if (pl_starts_with(v->entry.name, PL_KEY_OWN))
        return pl_fail(
            PL_ERR_NOPERM,
            "%s is one of the job's own keys, without which the job cannot start; to "
            "replace all of them, stop the job, delete the folder keys of the run, "
            "start the job again, and invite the other machines again",
            v->entry.name);
    pl_key_list_revoke(list, &v->entry.key);
    for (size_t i = 0; i < list->n; i++) {
        const pl_key_entry *e = &list->entries[i];
        v->n_open += e->role == PL_AS_INVITE &&
                     pl_key_list_find(list, &e->key, pl_wall_ms() / 1000) != NULL;
    }
    return PL_OK;
}

static pl_status revoke_key(const key_options *o)
{
    char path[PL_PATH_MAX];
    revocation v = {.n_open = 0};
    PL_CHECK(find_key_list(o, path));
    pl_copy_text(v.word, sizeof v.word, o->word);
    PL_CHECK(pl_key_list_edit(path, revoke_entry, &v));
    if (v.entry.role == PL_AS_INVITE) {
        say("the invitation %s is revoked: it adds no further keys", v.entry.name);
        return PL_OK;
    }
    say("%s is revoked: messages from its key are refused from now on, and no "
        "invitation can add the key again",
        v.entry.name);
    if (v.n_open > 0)
        say("%d invitation%s open: anybody who has the token can still add a new key "
            "(see `pathloom key list`; `key revoke` ends an invitation)",
            v.n_open, v.n_open > 1 ? "s are" : " is");
    return PL_OK;
}

static pl_status invite(const key_options *o)
{
    char path[PL_PATH_MAX], secret[PL_INVITE_TEXT], token[PL_TOKEN_MAX];
    char text[PL_ADDRESS_MAX];
    pl_address hub;
    pl_keypair pair;
    pl_key_entry e = {.role = PL_AS_INVITE, .grants = o->role, .uses = (int)o->uses};
    if (o->word)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", o->word);
    if (o->hub)
        pl_copy_text(text, sizeof text, o->hub);
    else
        PL_CHECK(run_hub_address(o->run, text));
    PL_CHECK(pl_address_parse(text, &hub));
    if (!hub.has_key)
        return pl_fail(PL_ERR_CONFIG,
                       "the hub at %s is not encrypted, so only this machine can reach "
                       "it. Start the job with --set net.hub=tcp://0.0.0.0:7000 --set "
                       "net.home=tcp://0.0.0.0:7001",
                       hub.endpoint);
    if (!hub.host[0])
        return pl_fail(PL_ERR_CONFIG,
                       "the hub listens at %s, which other machines cannot reach; "
                       "start the job with --set net.hub=tcp://0.0.0.0:7000",
                       hub.endpoint);
    if (hub.is_local)
        fprintf(
            stderr,
            "pathloom: note: the hub listens at %s, which only this machine reaches\n",
            hub.endpoint);
    else if (pl_address_is_private(&hub))
        fprintf(stderr,
                "pathloom: note: the token names %s, an address that only this network "
                "(or this container's) reaches; for machines elsewhere start the job "
                "with --set net.advertise=NAME, a name or address that they reach\n",
                hub.host);
    PL_CHECK(find_key_list(o, path));
    pl_invite_create(secret);
    PL_CHECK(pl_invite_keypair(secret, &pair));
    e.key = pair.open;
    pl_keypair_wipe(&pair);
    e.expires_s = o->lasts_s > 0 ? pl_wall_ms() / 1000 + o->lasts_s : 0;
    name_entry(o->name, "invitation", &e);
    PL_CHECK(pl_key_list_edit(path, put_key_entry, &e));
    pl_token_format(&hub, secret, token);
    if (o->json)
        say("{\"token\":\"%s\",\"role\":\"%s\",\"uses\":%lld,\"lasts_s\":%lld}", token,
            pl_key_role_name(o->role), (long long)o->uses, (long long)o->lasts_s);
    else
        say("pathloom join %s", token);
    return PL_OK;
}

static pl_status add_api_key(const key_options *o)
{
    char key[PL_API_KEY_TEXT];
    if (!o->list)
        return pl_fail(
            PL_ERR_USAGE,
            "key api needs --keys FILE, the file of `serve --api-keys FILE`");
    PL_CHECK(pl_server_add_key(o->list, o->word, key));
    if (o->json)
        say("{\"name\":\"%s\",\"key\":\"%s\"}", o->word, key);
    else
        say("%s", key);
    return PL_OK;
}

static pl_status run_key(int argc, char **argv)
{
    static const struct {
        const char *name;
        pl_status (*run)(const key_options *o);
        const char *word; /* what its word must be; NULL: it needs none */
    } verbs_of[] = {
        {"new", new_key, "the FILE that gets the key"},
        {"show", show_key, "the FILE of a key"},
        {"list", list_keys, NULL},
        {"allow", allow_key, "the KEY that `pathloom key show FILE` printed"},
        {"invite", invite, NULL},
        {"revoke", revoke_key, "a NAME or a KEY of the list"},
        {"api", add_api_key, "the NAME of a client of `serve`"}};
    key_options o = {.run = "pathloom-run",
                     .name = "",
                     .role = PL_AS_WORKER,
                     .uses = 1,
                     .lasts_s = 24 * 3600};
    cli_words words;
    PL_CHECK(cli_read(&verb_key, argc, argv, &o, &words));
    const char *verb = words.n > 0 ? words.at[0] : NULL;
    o.word = words.n > 1 ? words.at[1] : NULL;
    o.expires = o.span != NULL;
    if (o.name[0])
        PL_CHECK(pl_key_name_check(o.name));
    if (o.role_name)
        PL_CHECK(pl_key_role_parse(o.role_name, &o.role));
    if (o.span)
        PL_CHECK(parse_span(o.span, &o.lasts_s));
    for (size_t i = 0; verb && i < sizeof verbs_of / sizeof *verbs_of; i++) {
        if (strcmp(verb, verbs_of[i].name) != 0)
            continue;
        if (verbs_of[i].word && words.n != 2)
            return pl_fail(PL_ERR_USAGE, "key %s takes %s", verb, verbs_of[i].word);
        return verbs_of[i].run(&o);
    }
    return pl_fail(
        PL_ERR_USAGE,
        "`pathloom key` takes new, show, list, allow, invite, revoke or api%s%s",
        verb ? ", not " : "", verb ? verb : "");
}

const cli_verb verb_key = {
    .name = "key",
    .usage = "key new|show|list|invite|allow|revoke|api [--run RUN]",
    .help = "show and change who may connect; invite other machines",
    CLI_TABLE(options),
    .notes = "  new FILE            make a key pair; prints its public half\n  show "
             "FILE           print the public half of a pair\n  list                "
             "list the keys that may connect\n"
             "  invite              print a command that lets another machine join\n"
             "  allow KEY           put a key into the list, without an invitation\n  "
             "revoke NAME|KEY     refuse this key; no invitation can add it again\n  "
             "api NAME            make a key for a client of `serve --api-keys FILE`; "
             "prints it, and adds its hash to --keys FILE",
    .most_words = 3,
    .run = run_key};
