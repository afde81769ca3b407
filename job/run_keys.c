/* The keys of a run, in RUN/keys: one key pair for each kind of process on this
 * machine, and the list of all keys that may connect. The keys are made once, when
 * other machines are allowed to connect. */
#include "job/run.h"

#include <sys/stat.h>

static const pl_key_role roles[] = {PL_AS_ADMIN, PL_AS_HUB, PL_AS_HOME, PL_AS_RELAY,
                                    PL_AS_WORKER};
enum { N_ROLES = sizeof roles / sizeof *roles };

char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "keys/%s.key", pl_key_role_name(role));
    return pl_join(out, dir, name);
}

char *run_key_list(const char *dir, char out[PL_PATH_MAX])
{
    return pl_join(out, dir, "keys/allow");
}

bool run_has_keys(const char *dir)
{
    char path[PL_PATH_MAX];
    return pl_path_exists(run_key_list(dir, path));
}

static pl_status put_all(pl_key_list *list, void *context)
{
    const pl_key_entry *entries = context;
    for (size_t i = 0; i < N_ROLES; i++)
        PL_CHECK(pl_key_list_put(list, &entries[i]));
    return PL_OK;
}

/* Makes first the keys and then the list. So if a process finds the list, the keys
 * exist. */
pl_status run_make_keys(const char *dir)
{
    char path[PL_PATH_MAX];
    pl_key_entry entries[N_ROLES];
    if (run_has_keys(dir)) {
        /* Checks that the job's own keys are valid. `key revoke` and `key allow
         * --expires` cannot make them invalid, but the list may have been edited by
         * hand. */
        char key[PL_PUBKEY_TEXT];
        pl_key_list list;
        pl_status status = pl_key_list_load(run_key_list(dir, path), &list);
        for (size_t i = 0; status == PL_OK && i < list.n; i++) {
            const pl_key_entry *e = &list.entries[i];
            /* not the relay's key, because a job may have no relay */
            const bool is_needed = pl_starts_with(e->name, PL_KEY_OWN) &&
                                   strcmp(e->name + strlen(PL_KEY_OWN),
                                          pl_key_role_name(PL_AS_RELAY)) != 0;
            if (!is_needed || pl_key_list_find(&list, &e->key, pl_wall_ms() / 1000))
                continue;
            pl_pubkey_format(&e->key, key);
            status = pl_fail(PL_ERR_NOPERM,
                             "%s, one of the job's own keys, was revoked or has "
                             "expired, so the job cannot start; allow it again with "
                             "`pathloom key allow %s --run %s`, or delete the folder "
                             "%s/keys to get new keys, and invite the other machines "
                             "again",
                             e->name, key, dir, dir);
        }
        pl_key_list_clear(&list);
        return status;
    }
    PL_CHECK(pl_make_folders(pl_join(path, dir, "keys")));
    if (chmod(path, 0700) != 0)
        return pl_fail(PL_ERR_NOPERM, "cannot set the mode of %s to 0700", path);
    for (size_t i = 0; i < N_ROLES; i++) {
        /* if two processes make keys at the same time, both use those of the first */
        pl_keypair pair;
        run_key_file(dir, roles[i], path);
        pl_keypair_create(&pair);
        pl_status status =
            pl_path_exists(path) ? PL_ERR_EXISTS : pl_keypair_save(path, &pair);
        if (status == PL_ERR_EXISTS)
            status = pl_keypair_load(path, &pair);
        entries[i] = (pl_key_entry){.role = roles[i], .key = pair.open};
        snprintf(entries[i].name, sizeof entries[i].name, "%s%s", PL_KEY_OWN,
                 pl_key_role_name(roles[i]));
        pl_keypair_wipe(&pair);
        PL_CHECK(status);
    }
    return pl_key_list_edit(run_key_list(dir, path), put_all, entries);
}

pl_status run_use_keys(const char *dir)
{
    char path[PL_PATH_MAX];
    if (!run_has_keys(dir))
        return PL_OK;
    return pl_admission_open(run_key_file(dir, PL_AS_ADMIN, path), NULL);
}
