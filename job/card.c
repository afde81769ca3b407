/* Writes the model card of an exported path (card.h). The card names no time and no
 * machine, so the same store and evaluation give the same bytes. */
#include "job/card.h"

/* The first bytes of each card. An export replaces only a README.md that begins with
 * them. */
#define CARD_HEAD                                                                      \
    "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n"          \
    "- pathloom\n---\n\n"

typedef struct trained {
    double tokens; /* of all arms in which the path was trained, base model included */
    double flops;
} trained;

/* Writes a user's text into a cell of a table. */
static void put_cell(pl_buf *out, const char *text)
{
    pl_buf safe = {0};
    pl_buf_printable(&safe, text, strlen(text), false);
    for (const char *at = pl_buf_text(&safe); *at; at++)
        pl_buf_printf(out, strchr("|`<>[]*_\\", *at) ? "\\%c" : "%c", *at);
    pl_buf_destroy(&safe);
}

static pl_status put_data(const card *c, pl_buf *out)
{
    const pl_hash *blob = &c->arm->shards[c->path];
    uint64_t bytes = 0;
    void *data = NULL;
    pl_tokens *shard = NULL;
    pl_status status = PL_OK;
    if (!pl_store_has_blob(c->store, blob))
        return PL_OK;
    PL_TRY(pl_store_blob_bytes(c->store, blob, &bytes));
    PL_TRY(pl_try_alloc((size_t)bytes, "a data shard", &data));
    PL_TRY(pl_store_read_blob(c->store, blob, 0, (size_t)bytes, data));
    PL_TRY(pl_tokens_view(data, (size_t)bytes, "a data shard", &shard));
    /* the end of the sentence says how the base model was made */
    const bool imported = c->r->cfg.import[0] != '\0';
    const char *base = imported ? " after it was imported" : "";
    if (strcmp(c->arm->name, "base") != 0) {
        base = " after the base model, which was trained on all documents";
        if (imported)
            base = c->r->cfg.base_steps > 0
                       ? " after the base model, which was imported and then trained "
                         "on all documents"
                       : " after the base model, which was imported";
    }
    pl_buf_printf(
        out, "\n## Data\n\nThe data shard of this path, which it was trained on%s:\n\n",
        base);
    const uint32_t n = pl_tokens_n_domains(shard);
    uint64_t *docs = pl_alloc((n + 1) * sizeof *docs);
    uint64_t *tokens = pl_alloc((n + 1) * sizeof *tokens);
    uint64_t all = 0;
    for (uint32_t d = 0; d < pl_tokens_n_docs(shard); d++) {
        const uint32_t domain = pl_tokens_doc(shard, d)->domain;
        const uint64_t targets =
            pl_counted_targets(shard, d, c->arm->inner.skip_prefix);
        docs[domain]++;
        tokens[domain] += targets;
        all += targets;
    }
    pl_buf_printf(out, "| domain | documents | tokens | share |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < n; i++) {
        if (docs[i] == 0)
            continue;
        pl_buf_printf(out, "| ");
        put_cell(out, pl_tokens_domain(shard, i));
        pl_buf_printf(out, " | %llu | %llu | %.1f %% |\n", (unsigned long long)docs[i],
                      (unsigned long long)tokens[i],
                      all > 0 ? 100.0 * (double)tokens[i] / (double)all : 0);
    }
    pl_free_all(tokens, docs);
done:
    pl_tokens_close(&shard);
    pl_free(data);
    return status;
}

static pl_status add_arm(const card *c, const pl_arm *arm, const pl_topology *t,
                         int path, trained *sum, pl_buf *out)
{
    char name[PL_MODULE_NAME_MAX];
    pl_path_state state;
    double tokens = 0;
    int64_t phases = 0;
    for (int replica = 0; replica < pl_topology_n_replicas(t); replica++) {
        pl_arm_path_name(arm, t, path, replica, name);
        pl_status status = pl_store_get_path(c->store, name, &state);
        if (status == PL_ERR_NOT_FOUND) /* the path has not finished a phase */
            continue;
        PL_CHECK(status);
        tokens += (double)state.work.n_tokens;
        phases = state.phase > phases ? state.phase : phases;
    }
    const double flops =
        tokens * pl_topology_flops_per_token(t, arm->inner.context, true);
    pl_buf_printf(out, "| `%s` | %lld of %d | %d x %d x %d | %.0f | %.3g |\n",
                  arm->name, (long long)phases, arm->inner.phases, arm->inner.tau,
                  arm->inner.batch, arm->inner.context, tokens, flops);
    sum->tokens += tokens;
    sum->flops += flops;
    return PL_OK;
}

/* Adds a row for the arm and for each arm that it continues, the base model first. */
static pl_status add_arms(const card *c, const pl_arm *arm, const pl_topology *t,
                          int path, trained *sum, pl_buf *out)
{
    char name[PL_ARM_NAME_MAX] = "base";
    pl_arm before = {.n_shards = 0};
    pl_topology *from = NULL;
    pl_status status = PL_OK;
    const int chapter = pl_arm_chapter(arm->name);
    if (strcmp(arm->name, "base") == 0)
        return add_arm(c, arm, t, path, sum, out);
    if (chapter > 0)
        pl_chapter_name(chapter - 1, name);
    PL_TRY(pl_read_arm(c->store, name, &before, &from));
    if (chapter > 0 && !pl_topology_descends(t, &arm->descent, from))
        PL_TRY(pl_fail(PL_ERR_DAMAGED, "arm %s cannot descend from arm %s", arm->name,
                       name));
    PL_TRY(add_arms(
        c, &before, from,
        chapter > 0 ? pl_topology_ancestor_path(t, &arm->descent, from, path) : 0, sum,
        out));
    PL_TRY(add_arm(c, arm, t, path, sum, out));
done:
    pl_topology_destroy(&from);
    pl_arm_clear(&before);
    return status;
}

/* Writes the run's last evaluation, if it was an evaluation of the newest versions. */
static void put_evaluation(const card *c, pl_buf *out)
{
    char path[PL_PATH_MAX], newest[PL_ARM_NAME_MAX];
    pl_json *report = NULL;
    /* Whether other versions than the exported ones may have been evaluated. The report
     * names neither the chapter nor the versions, so the store decides. */
    bool others =
        c->chosen || (pl_arm_chapter(c->arm->name) >= 0 &&
                      strcmp(pl_newest_chapter(c->store, newest), c->arm->name) != 0);
    for (int s = 0; !others && s < pl_topology_n_slots(c->topology); s++) {
        pl_version v;
        uint64_t source;
        others = pl_store_get_version(c->store, c->modules[s].name,
                                      c->modules[s].number, &v) != PL_OK ||
                 pl_version_source(&v, &source); /* a rollback made this version */
        pl_version_clear(&v);
    }
    if (others || pl_json_load(run_file(c->r, "report.json", path), &report) != PL_OK)
        return;
    const char *select = pl_json_get_text(report, "select");
    const pl_json *rows = pl_json_get(report, "arms");
    const char *arm = pl_arm_chapter(c->arm->name) >= 0 ? "mix" : c->arm->name;
    if (strcmp(select, "head") != 0 || pl_json_get_text(report, "at")[0] ||
        pl_json_get_text(report, "without")[0])
        goto done;
    pl_buf_printf(out,
                  "\n## Evaluation\n\nWhen the run was last evaluated, on %.0f "
                  "held-out documents (%.0f tokens after the prefix):\n\n| model | "
                  "bits per byte | perplexity |\n|---|---|---|\n",
                  pl_json_get_real(report, "eval_documents"),
                  pl_json_get_real(report, "eval_tokens"));
    for (size_t i = 0; i < pl_json_count(rows); i++) {
        const pl_json *row = pl_json_at(rows, i);
        if (strcmp(pl_json_get_text(row, "arm"), arm) != 0 ||
            !(pl_json_get_real(row, "bits_per_byte") > 0))
            continue;
        pl_buf_printf(out, "| ");
        put_cell(out, pl_json_get_text(row, "title"));
        pl_buf_printf(out, " | %.4f | %.2f |\n", pl_json_get_real(row, "bits_per_byte"),
                      pl_json_get_real(row, "ppl"));
    }
    if (strcmp(arm, "mix") == 0)
        pl_buf_printf(out, "\nThese are numbers of the whole mixture, in which each "
                           "document is answered by its own path.\n");
done:
    pl_json_destroy(&report);
}

pl_status card_refuse_other(const char *folder)
{
    static const char head[] = CARD_HEAD;
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = PL_OK;
    if (!pl_path_exists(pl_join(path, folder, "README.md")))
        return PL_OK;
    PL_TRY(pl_read_file(path, &text));
    if (text.len < strlen(head) || memcmp(text.data, head, strlen(head)) != 0)
        status = pl_fail(PL_ERR_USAGE,
                         "%s is not a model card of Pathloom, and the export would "
                         "replace it; move it away or give another --out",
                         path);
done:
    pl_buf_destroy(&text);
    return status;
}

pl_status card_write(const card *c, const char *folder)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_status status = PL_OK;
    const pl_shape *shape = pl_topology_shape(c->topology);
    char name[PL_NAME_MAX], count[16];
    pl_topology_path_name(c->topology, c->path, name);
    pl_buf_printf(&text, CARD_HEAD "# ");
    put_cell(&text, c->title);
    pl_buf_printf(
        &text,
        "\n\nPath `%s` of %d of the arm `%s`, trained by Pathloom %s. %s parameters: "
        "%d blocks of width %d, %d heads, %d pieces in the vocabulary, context %d.\n",
        name[0] ? name : "p0", pl_topology_n_paths(c->topology), c->arm->name,
        PL_VERSION, pl_human_count((double)pl_topology_path_params(c->topology), count),
        shape->n_blocks, shape->width, shape->n_heads, shape->vocab, shape->context);
    if (pl_topology_n_paths(c->topology) > 1)
        pl_buf_printf(&text,
                      "\nThis path is one part of a mixture. It is meant for text "
                      "like that of its data shard; a router sends other text to "
                      "other paths.\n");
    pl_buf_printf(&text,
                  "\n## How to run it\n\n```python\nfrom transformers import "
                  "AutoModelForCausalLM, AutoTokenizer\n"
                  "tokenizer = AutoTokenizer.from_pretrained(\"FOLDER\")\n"
                  "model = AutoModelForCausalLM.from_pretrained(\"FOLDER\")\n"
                  "inputs = tokenizer(\"The\", return_tensors=\"pt\")\n"
                  "print(tokenizer.decode(model.generate(**inputs, "
                  "max_new_tokens=50)[0]))\n```\n\nIf the folder has "
                  "`sentencepiece.model` in place of `tokenizer.json`, transformers "
                  "cannot read this tokenizer; `pathloom generate` can.\n");
    put_evaluation(c, &text);
    PL_TRY(put_data(c, &text));
    trained sum = {0, 0};
    pl_buf_printf(&text, "\n## Training\n\n| arm | phases | steps x batch x context of "
                         "a phase | tokens | FLOPs |\n|---|---|---|---|---|\n");
    PL_TRY(add_arms(c, c->arm, c->topology, c->path, &sum, &text));
    pl_buf_printf(&text, "| all | | | %.0f | %.3g |\n", sum.tokens, sum.flops);
    pl_buf_printf(&text,
                  "\nTokens and FLOPs are those of this path, with all its "
                  "replicas, up to its newest phase.%s",
                  pl_topology_n_paths(c->topology) > 1 ? "" : "\n");
    if (pl_topology_n_paths(c->topology) > 1)
        pl_buf_printf(&text,
                      " Its shared modules were also merged with the updates of other "
                      "paths (`%s`).\n",
                      pl_method_name(c->arm->outer.method.method));
    if (c->chosen)
        pl_buf_printf(&text, "The user chose the exported versions, so they may have "
                             "had fewer phases than this.\n");
    char hash[PL_HASH_TEXT];
    pl_hash_format(&c->arm->config, hash);
    pl_buf_printf(&text,
                  "\n## Versions\n\n| module | version | hash |\n|---|---|---|\n");
    for (int s = 0; s < pl_topology_n_slots(c->topology); s++) {
        char params[PL_HASH_TEXT];
        pl_hash_format(&c->modules[s].params, params);
        pl_buf_printf(&text, "| `%s` | %llu | `%s` |\n", c->modules[s].name,
                      (unsigned long long)c->modules[s].number, params);
    }
    pl_buf_printf(&text,
                  "\nConfiguration `%s`, seed %llu. `pathloom store blame MODULE` "
                  "names the workers and samples that made a version%s.\n",
                  hash, (unsigned long long)c->arm->seed,
                  c->r->cfg.keep_updates
                      ? ", and `pathloom store verify MODULE` computes it again"
                      : "");
    PL_TRY(pl_write_output(pl_join(path, folder, "README.md"), text.data, text.len));
done:
    pl_buf_destroy(&text);
    return status;
}
