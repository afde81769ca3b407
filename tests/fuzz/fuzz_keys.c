/* folder: base
 *
 * Fuzzes keys: lists of allowed keys, key files, and keys and invitations as text. The
 * source of the readers is included here, so that they read from memory and not from
 * files. The multiplication on the curve would take most of the time, and it only
 * decides whether a public and a secret key belong together. Therefore it is replaced
 * by a function that copies the secret key. */
#define pl_read_file            fuzz_read_file
#define crypto_scalarmult_base  fuzz_multiply
#define crypto_box_seed_keypair fuzz_seed_keypair
#include "base/keys.c"
#undef pl_read_file
#include "tests/fuzz/fuzz.h"
#include "base/base.h"

pl_status pl_read_file(const char *path, pl_buf *out);

int fuzz_multiply(unsigned char *out, const unsigned char *secret)
{
    memcpy(out, secret, PL_PUBKEY_BYTES);
    return 0;
}

int fuzz_seed_keypair(unsigned char *open, unsigned char *secret,
                      const unsigned char *seed)
{
    memcpy(secret, seed, PL_PUBKEY_BYTES);
    return fuzz_multiply(open, secret);
}

static const uint8_t *list_text;
static size_t list_len;

pl_status fuzz_read_file(const char *path, pl_buf *out)
{
    (void)path;
    pl_buf_append(out, list_text, list_len);
    return PL_OK;
}

/* Loads these bytes as a list of keys. The path "/" exists, so pl_key_list_load reads
 * the "file", and fuzz_read_file gives it these bytes. */
static void read_list(const uint8_t *data, size_t len)
{
    pl_key_list list;
    list_text = data;
    list_len = len;
    if (pl_key_list_load("/", &list) == PL_OK)
        pl_key_list_clear(&list);
}

static void read_pair(const uint8_t *data, size_t len)
{
    char text[512] = "";
    pl_keypair pair;
    memcpy(text, data, len < sizeof text - 1 ? len : sizeof text - 1);
    if (parse_pair(text, &pair))
        pl_keypair_wipe(&pair);
}

static void read_text(const uint8_t *data, size_t len)
{
    char text[512];
    pl_pubkey key;
    pl_keypair pair;
    pl_key_role role;
    len = len < sizeof text - 1 ? len : sizeof text - 1;
    memcpy(text, data, len);
    text[len] = 0;
    (void)pl_pubkey_parse(text, &key);
    (void)pl_key_role_parse(text, &role);
    (void)pl_key_name_check(text);
    if (pl_invite_keypair(text, &pair) == PL_OK)
        pl_keypair_wipe(&pair);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    if (len < 1)
        return 0;
    switch (input[0] % 3) {
    case 0:
        read_list(input + 1, len - 1);
        break;
    case 1:
        read_pair(input + 1, len - 1);
        break;
    default:
        read_text(input + 1, len - 1);
    }
    return 0;
}

static void give_file(void (*give)(const void *, size_t), uint8_t mode,
                      const char *path)
{
    pl_buf file = {0};
    if (pl_read_file(path, &file) == PL_OK)
        fuzz_give(give, mode, file.data, file.len);
    pl_buf_destroy(&file);
}

static pl_status add_entries(pl_key_list *list, void *context)
{
    pl_keypair pair;
    (void)context;
    for (int i = 0; i < 3; i++) {
        pl_key_entry entry;
        memset(&entry, 0, sizeof entry);
        pl_keypair_create(&pair);
        entry.key = pair.open;
        entry.role = i == 0 ? PL_AS_INVITE : PL_AS_WORKER;
        entry.grants = i == 0 ? PL_AS_WORKER : PL_AS_NONE;
        entry.uses = 1;
        snprintf(entry.name, sizeof entry.name, "worker-%d", i);
        PL_CHECK(pl_key_list_put(list, &entry));
    }
    return PL_OK;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    char folder[] = "/tmp/pathloom-fuzz-XXXXXX", path[PL_PATH_MAX];
    char text[PL_INVITE_TEXT + 1] = "\2";
    pl_keypair pair;
    if (!mkdtemp(folder))
        return;
    pl_join(path, folder, "list");
    if (pl_key_list_edit(path, add_entries, NULL) == PL_OK)
        give_file(give, 0, path);
    pl_keypair_create(&pair);
    /* In the target, the public key of a pair is a copy of the secret key. */
    memcpy(pair.open.bytes, pair.secret, PL_PUBKEY_BYTES);
    pl_join(path, folder, "pair");
    if (pl_keypair_save(path, &pair) == PL_OK)
        give_file(give, 1, path);
    pl_invite_create(text + 1);
    give(text, strlen(text));
    if (pl_remove_tree(folder) != PL_OK)
        return;
}
