/* pathloom export: writes one path as a Hugging Face folder or as a GGUF file. */
#include "cli/cli.h"
#include "cli/row.h"

typedef struct request {
    const char *dir, *arm, *path, *text, *out, *format, *type_name;
    const char *select;
    bool best;
    const char *at; /* the number of a version, or a tag; NULL: the newest versions */
    bool all, gguf, json;
    pl_weight_type type;
} request;

static const cli_option options[] = {
    CLI_RUN(request, dir),
    CLI_OPTION("arm", CLI_TEXT, request, arm, "NAME", "the arm to export from (mix)"),
    CLI_OPTION("path", CLI_TEXT, request, path, "pNN", "export this path"),
    CLI_OPTION("prompt", CLI_TEXT, request, text, "TEXT",
               "export the path that would answer this text (as generate and serve "
               "choose it)"),
    CLI_OPTION("all", CLI_FLAG, request, all, NULL,
               "export every path, each to its own folder or file in --out"),
    CLI_OPTION("at", CLI_TEXT, request, at, "N|TAG",
               "version N of every module, or the versions of a tag (the newest)"),
    CLI_SELECT(request, select),
    CLI_OPTION("format", CLI_TEXT, request, format, "NAME",
               "safetensors: a folder for transformers; gguf: a file for llama.cpp "
               "(safetensors)"),
    CLI_OPTION("type", CLI_TEXT, request, type_name, "NAME",
               "type of the parameters: f32, f16, bf16 or, only with gguf, q8_0 (f32)"),
    CLI_OPTION("out", CLI_TEXT, request, out, "PATH",
               "where to write: a folder, or FILE.gguf"),
    CLI_JSON(request, json),
};

/* ---- choosing what is exported ---- */
/* largest number of notes that are not about a single module */
enum { NOTES_MAX = 8 };

typedef struct note_text {
    char key[PL_MODULE_NAME_MAX + 32], value[PL_HASH_TEXT + 32];
} note_text;

typedef struct job {
    const request *q;
    pl_run r;
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    pl_snapshot tag; /* --at TAG; without items: --at is not a tag */
    int64_t number;  /* --at N; -1: --at is not a number */
    pl_buf tokenizer;
    float *params;
    pl_path_module *modules;
    note_text *texts;
    pl_note *notes;
    int n_notes;
} job;

static void add_export_note(job *j, const char *key, const char *value)
{
    note_text *text = &j->texts[j->n_notes];
    snprintf(text->key, sizeof text->key, "pathloom.%s", key);
    pl_copy_text(text->value, sizeof text->value, value);
    j->notes[j->n_notes++] = (pl_note){text->key, text->value};
}

static pl_status export_path(job *j, int path)
{
    const request *q = j->q;
    char name[PL_NAME_MAX], target[PL_PATH_MAX], title[PL_PATH_MAX];
    pl_topology_path_name(j->topology, path, name);
    /* Finds where the path is written. With one path, the folder is --out. With --all,
     * --out gets one folder per path. A GGUF file is named ARM-PATH-TYPE.gguf and is
     * put into the folder --out; without --all, --out may also be the file's name. */
    char file[2 * PL_NAME_MAX];
    bool whole = q->gguf ? pl_ends_with(q->out, ".gguf") : true;
    snprintf(file, sizeof file, "%s", name);
    if (q->gguf)
        snprintf(file, sizeof file, "%s-%s-%s.gguf", j->arm.name, name,
                 pl_weight_type_name(q->type));
    if (q->all || !whole)
        pl_join(target, q->out, file);
    else if (!pl_copy_text(target, PL_PATH_MAX, q->out))
        target[0] = '\0';
    if (!target[0])
        return pl_fail(PL_ERR_USAGE, "the path of --out is too long");
    const uint64_t number = (uint64_t)j->number;
    const pl_which which = {.at = j->tag.n_items > 0 ? &j->tag : NULL,
                            .best = q->best,
                            .number = j->number >= 0 ? &number : NULL};
    PL_CHECK(
        pl_name_path_modules(j->store, &j->arm, j->topology, path, which, j->modules));
    PL_CHECK(pl_read_path_modules(j->store, j->topology, j->modules, j->params));
    /* The note about a module has a key such as "pathloom.module.L1.E0"; its value: the
     * version's number and hash. The other notes say how the model was made. */
    char key[PL_MODULE_NAME_MAX + 16], value[PL_HASH_TEXT + 32], hash[PL_HASH_TEXT];
    j->n_notes = 0;
    add_export_note(j, "version", PL_VERSION);
    pl_hash_format(&j->arm.config, hash);
    add_export_note(j, "config", hash);
    add_export_note(j, "arm", j->arm.name);
    add_export_note(j, "path", name);
    for (int s = 0; s < pl_topology_n_slots(j->topology); s++) {
        const pl_path_module *m = &j->modules[s];
        pl_hash_format(&m->params, hash);
        snprintf(key, sizeof key, "module.%s", pl_module_place(m->name));
        snprintf(value, sizeof value, "%llu %s", (unsigned long long)m->number, hash);
        add_export_note(j, key, value);
    }
    const char *slash = strrchr(j->r.dir, '/');
    snprintf(title, sizeof title, "%.200s %s %s",
             slash && slash[1] ? slash + 1 : j->r.dir, j->arm.name, name);
    pl_export e = {.name = title,
                   .topology = j->topology,
                   .params = j->params,
                   .tokenizer_model = j->tokenizer.data,
                   .tokenizer_bytes = j->tokenizer.len,
                   .type = q->type,
                   .notes = j->notes,
                   .n_notes = j->n_notes};
    const card about = {.r = &j->r,
                        .store = j->store,
                        .arm = &j->arm,
                        .topology = j->topology,
                        .path = path,
                        .modules = j->modules,
                        .title = title,
                        .chosen = q->at || q->best};
    if (!q->gguf)
        PL_CHECK(card_refuse_other(target));
    PL_CHECK(q->gguf ? pl_export_gguf(&e, target) : pl_export_folder(&e, target));
    if (!q->gguf)
        PL_CHECK(card_write(&about, target));
    row line = row_begin(q->json);
    row_text(&line, "arm", j->arm.name, "export   %s");
    row_text(&line, "path", name, " %s");
    row_tokens(&line, NULL, pl_topology_path_params(j->topology), ", %s parameters");
    row_text(&line, "type", pl_weight_type_name(q->type), ", %s");
    row_text(&line, "out", target, " -> %s");
    if (q->json) {
        pl_json *notes = pl_json_object();
        for (int i = 0; i < j->n_notes; i++)
            pl_json_set_text(notes, j->notes[i].key, j->notes[i].value);
        pl_json_set(line.json, "metadata", notes);
    }
    row_finish(&line);
    char kept[PL_PATH_MAX];
    if (!q->json && !q->gguf &&
        pl_path_exists(pl_join(kept, target, "sentencepiece.model")))
        say("         without files for transformers' tokenizer, because transformers "
            "would\n"
            "         misread this tokenizer; the folder has sentencepiece.model");
    return PL_OK;
}

/* ---- which paths are exported ---- */
static pl_status route(job *j, int *path)
{
    pl_tokenizer *tokenizer = NULL;
    pl_answer_settings settings;
    pl_path_chooser *chooser = NULL;
    pl_path_choice choice;
    pl_buf tokens = {0};
    pl_status status = PL_OK;
    PL_TRY(pl_tokenizer_load_bytes(j->tokenizer.data, j->tokenizer.len, &tokenizer));
    PL_TRY(pl_prompt_encode(tokenizer, j->q->text, strlen(j->q->text), &tokens));
    run_answer_settings(&j->r, &settings);
    settings.which.best = j->q->best;
    if (j->tag.n_items > 0 && pl_arm_chapter(j->tag.arm) >= 0)
        settings.which.at = &j->tag;
    PL_TRY(pl_path_chooser_open(&settings, j->store, &chooser));
    PL_TRY(pl_path_chooser_follow(chooser, &j->arm, j->topology));
    PL_TRY(pl_path_chooser_choose(chooser, pl_prompt_tokens(&tokens),
                                  pl_prompt_count(&tokens), &choice));
    *path = choice.path;
done:
    pl_path_chooser_close(&chooser);
    pl_buf_destroy(&tokens);
    pl_tokenizer_destroy(&tokenizer);
    return status;
}

static pl_status choose_export_path(job *j, int *path)
{
    char last[PL_NAME_MAX];
    int n = pl_topology_n_paths(j->topology);
    *path = 0;
    if (j->q->path)
        return pl_find_path(j->topology, j->q->path, path);
    if (n == 1)
        return PL_OK;
    if (j->q->text && pl_arm_chapter(j->arm.name) >= 0)
        return route(j, path);
    pl_topology_path_name(j->topology, n - 1, last);
    return pl_fail(PL_ERR_USAGE,
                   "arm %s has %d paths, the last one %s; give --path NAME, --prompt "
                   "TEXT or --all",
                   j->arm.name, n, last);
}

static pl_status run_export(int argc, char **argv)
{
    request q = {.format = "safetensors"};
    job j = {.q = &q, .r.lock = -1};
    char arm[PL_ARM_NAME_MAX];
    int path = 0;
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_export, argc, argv, &q, NULL));
    PL_CHECK(cli_read_select(q.select, q.at, &q.best));
    q.gguf = strcmp(q.format, "gguf") == 0;
    if (!q.gguf && strcmp(q.format, "safetensors") != 0)
        return pl_fail(PL_ERR_USAGE, "--format takes safetensors or gguf, not `%s`",
                       q.format);
    if (q.type_name)
        PL_CHECK(pl_weight_type_parse(q.type_name, &q.type));
    if (!q.out || !q.out[0])
        return pl_fail(PL_ERR_USAGE, "export needs --out, the folder or file to write");
    if (q.type == PL_WEIGHT_Q8_0 && !q.gguf)
        return pl_fail(
            PL_ERR_USAGE,
            "safetensors has no q8_0; give --format gguf, or --type f32, f16 or bf16");
    if ((q.path != NULL) + (q.text != NULL) + q.all > 1)
        return pl_fail(PL_ERR_USAGE,
                       "give one of --path, --prompt and --all, not several");
    PL_TRY(run_look(q.dir, &j.r));
    PL_TRY(run_read_tokenizer(&j.r, &j.tokenizer));
    PL_TRY(store_open_run(j.r.dir, &j.store));
    pl_newest_chapter(j.store, arm);
    j.number = -1;
    if (q.at && (pl_parse_int(q.at, &j.number) != PL_OK || j.number < 0)) {
        j.number = -1;
        PL_TRY(pl_store_get_tag(j.store, q.at, &j.tag));
        pl_copy_text(arm, sizeof arm, j.tag.arm);
    }
    if (q.arm)
        pl_copy_text(arm, sizeof arm, q.arm);
    status = pl_read_arm(j.store, arm, &j.arm, &j.topology);
    if (status == PL_ERR_NOT_FOUND)
        PL_TRY(pl_fail(status,
                       "the run in %s has no arm `%s` (yet); `pathloom store ls "
                       "--objects --run %s` lists what is there",
                       j.r.dir, arm, j.r.dir));
    PL_TRY(status);
    size_t n = (size_t)pl_topology_n_slots(j.topology);
    j.modules = pl_alloc(n * sizeof *j.modules);
    j.notes = pl_alloc((NOTES_MAX + n) * sizeof *j.notes);
    j.texts = pl_alloc((NOTES_MAX + n) * sizeof *j.texts);
    PL_TRY(pl_try_alloc(pl_topology_path_params(j.topology) * sizeof(float),
                        "a path's parameters", (void **)&j.params));
    if (q.gguf && (q.all || !pl_ends_with(q.out, ".gguf")))
        PL_TRY(pl_make_folders(q.out));
    if (!q.all) {
        PL_TRY(choose_export_path(&j, &path));
        PL_TRY(export_path(&j, path));
    }
    for (; q.all && path < pl_topology_n_paths(j.topology); path++)
        PL_TRY(export_path(&j, path));
done:
    pl_free_all(j.notes, j.texts, j.modules, j.params);
    pl_snapshot_clear(&j.tag);
    pl_buf_destroy(&j.tokenizer);
    pl_topology_destroy(&j.topology);
    pl_arm_clear(&j.arm);
    pl_store_close(&j.store);
    run_close(&j.r);
    return status;
}

const cli_verb verb_export = {
    .name = "export",
    .usage = "export --run RUN --path pNN --out PATH [--format gguf] [--type NAME]",
    .help = "write a path as files for transformers or llama.cpp",
    CLI_TABLE(options),
    .computes = true,
    .run = run_export};
