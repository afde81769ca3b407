/* Prints what `pathloom store` shows: for each kind of thing one function that
 * prints text and one that prints a line of JSON (store_print.h). */
#include "cli/store_print.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SHORT_HASH = 12 };

/* ---- pieces ---- */
const char *print_brief(const pl_hash *hash, char text[PL_HASH_TEXT])
{
    pl_hash_format(hash, text);
    text[SHORT_HASH] = 0;
    return pl_hash_none(hash) ? "-" : text;
}

static const char *age(int64_t wall_ms, char text[16])
{
    int64_t past_ms = pl_wall_ms() - wall_ms;
    return pl_human_seconds(past_ms > 0 ? (double)past_ms / 1000 : 0, text);
}

static void print_date(int64_t wall_ms)
{
    char text[64];
    struct tm parts;
    time_t seconds = (time_t)(wall_ms / 1000);
    if (!gmtime_r(&seconds, &parts) ||
        !strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts))
        pl_copy_text(text, sizeof text, "?");
    printf("%s", text);
}

void print_set_hash(pl_json *object, const char *key, const pl_hash *hash)
{
    char text[PL_HASH_TEXT];
    pl_hash_format(hash, text);
    if (pl_hash_none(hash))
        pl_json_set_real(object, key, NAN); /* null */
    else
        pl_json_set_text(object, key, text);
}

void print_set_count(pl_json *object, const char *key, uint64_t value)
{
    pl_json_set_int(object, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

/* ---- ls ---- */
void print_head(const pl_version *v, uint64_t bytes, int width)
{
    char hash[PL_HASH_TEXT], size[16], past[16];
    printf("%-*s  version %-6llu %s  %3d contributions  %10s  %s ago\n", width,
           v->module, (unsigned long long)v->number, print_brief(&v->params, hash),
           v->n_contributions, pl_human_bytes((double)bytes, size),
           age(v->wall_ms, past));
}

void print_head_json(const pl_version *v, uint64_t bytes)
{
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "module", v->module);
    print_set_count(line, "version", v->number);
    print_set_hash(line, "hash", &v->params);
    pl_json_set_int(line, "contributions", v->n_contributions);
    print_set_count(line, "bytes", bytes);
    pl_json_set_int(line, "wall_ms", v->wall_ms);
    say_json(line);
}

void print_path(const pl_path_state *p, int width)
{
    char tokens[16], seconds[16];
    printf(
        "%-*s  phase %-5lld %8llu samples  %7s tokens  loss %8.4f  %8s  last by %s\n",
        width, p->name, (long long)p->phase, (unsigned long long)p->samples,
        pl_human_count((double)p->n_tokens, tokens), p->loss,
        pl_human_seconds(p->seconds, seconds), p->worker);
}

void print_path_json(const pl_path_state *p)
{
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "path", p->name);
    pl_json_set_int(line, "phase", p->phase);
    print_set_count(line, "samples", p->samples);
    print_set_count(line, "tokens", p->n_tokens);
    pl_json_set_real(line, "loss", p->loss);
    pl_json_set_real(line, "seconds", p->seconds);
    print_set_hash(line, "moments", &p->moments);
    pl_json_set_text(line, "worker", p->worker);
    say_json(line);
}

void print_object(const pl_object *o, int width)
{
    char hash[PL_HASH_TEXT], size[16];
    printf("%-*s  %s  %10s\n", width, o->name, print_brief(&o->blob, hash),
           pl_human_bytes((double)o->bytes, size));
}

void print_object_json(const pl_object *o)
{
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "object", o->name);
    print_set_hash(line, "hash", &o->blob);
    print_set_count(line, "bytes", o->bytes);
    say_json(line);
}

void print_ref(const char *name, const char *target, int width)
{
    printf("%-*s  %s\n", width, name, target);
}

void print_ref_json(const char *name, const char *target)
{
    pl_json *line = pl_json_object();
    pl_json_set_text(line, "ref", name);
    pl_json_set_text(line, "target", target);
    say_json(line);
}

static const char *tag_place(const pl_snapshot *tag, char text[32])
{
    if (tag->phase < 0)
        snprintf(text, 32, "commit %llu", (unsigned long long)tag->sequence);
    else
        snprintf(text, 32, "phase %lld", (long long)tag->phase);
    return text;
}

void print_tag(const pl_snapshot *tag, int width)
{
    char place[32], past[16];
    printf("%-*s  %s  %-14s %3zu modules  %s ago  %s\n", width, tag->name, tag->arm,
           tag_place(tag, place), tag->n_items, age(tag->wall_ms, past), tag->note);
}

void print_tag_full(const pl_snapshot *tag)
{
    char place[32], hash[PL_HASH_TEXT];
    printf("tag         %s\narm         %s\nstate       %s\ncommit      %llu, ",
           tag->name, tag->arm, tag_place(tag, place),
           (unsigned long long)tag->sequence);
    print_date(tag->wall_ms);
    printf("\nnote        %s\n", tag->note);
    for (size_t i = 0; i < tag->n_items; i++)
        printf("    %s@%llu  %s\n", tag->items[i].module,
               (unsigned long long)tag->items[i].number,
               print_brief(&tag->items[i].params, hash));
}

void print_tag_json(const pl_snapshot *tag)
{
    pl_json *line = pl_json_object(), *list = pl_json_array();
    pl_json_set_text(line, "tag", tag->name);
    pl_json_set_text(line, "arm", tag->arm);
    pl_json_set_int(line, "phase", tag->phase);
    print_set_count(line, "sequence", tag->sequence);
    pl_json_set_int(line, "wall_ms", tag->wall_ms);
    pl_json_set_text(line, "note", tag->note);
    for (size_t i = 0; i < tag->n_items; i++) {
        pl_json *item = pl_json_object();
        pl_json_set_text(item, "module", tag->items[i].module);
        print_set_count(item, "version", tag->items[i].number);
        print_set_hash(item, "hash", &tag->items[i].params);
        pl_json_push(list, item);
    }
    pl_json_set(line, "modules", list);
    say_json(line);
}

/* ---- log and show ---- */
static int widest_worker(const pl_version *v)
{
    size_t width = 0;
    for (int i = 0; i < v->n_contributions; i++)
        if (strlen(v->contributions[i].worker) > width)
            width = strlen(v->contributions[i].worker);
    return (int)width;
}

static void print_contribution(const pl_contribution *c, int width)
{
    char hash[PL_HASH_TEXT], tokens[16];
    printf("    %-*s  path %-3lld replica %-2lld samples %6llu +%-5llu %7s tokens  "
           "loss %8.4f  norm %10.4g  weight %-8.6g %s%s\n",
           width, c->worker, (long long)c->path, (long long)c->replica,
           (unsigned long long)c->first_sample, (unsigned long long)c->n_samples,
           pl_human_count((double)c->n_tokens, tokens), c->loss, c->norm, c->weight,
           print_brief(&c->update, hash), c->split ? "  split from its mate" : "");
}

/* Whether the version has numbers of an outer step. A version made by a rollback has
 * those of its source, and version 0 has none. */
static bool has_step(const pl_version *v)
{
    uint64_t source;
    return v->number > 0 && !pl_version_source(v, &source);
}

/* Not every program that makes a version 0 measures its norm. */
static bool has_norm(const pl_version *v)
{
    return v->params_norm > 0;
}

void print_version(const pl_version *v)
{
    char hash[PL_HASH_TEXT], past[16];
    printf("%s@%llu  %s  ", v->module, (unsigned long long)v->number,
           print_brief(&v->params, hash));
    print_date(v->wall_ms);
    printf(" (%s ago)\n", age(v->wall_ms, past));
    char parent[PL_HASH_TEXT];
    printf("    %s", v->method);
    if (has_step(v))
        printf("  lr %g  momentum %g  update norm %.4g", v->lr, v->outer_momentum,
               v->update_norm);
    if (v->number > 0)
        printf("  from %s", print_brief(&v->parent, parent));
    if (has_norm(v))
        printf("  norm %.6g", v->params_norm);
    printf("%s\n", v->params_gone ? "  (parameters collected)" : "");
    for (int i = 0; i < v->n_contributions; i++)
        print_contribution(&v->contributions[i], widest_worker(v));
}

static void print_hash(const char *label, const pl_hash *hash, uint64_t bytes)
{
    char text[PL_HASH_TEXT], size[16];
    pl_hash_format(hash, text);
    printf("%-11s %s", label, pl_hash_none(hash) ? "-" : text);
    if (bytes > 0)
        printf("  %s", pl_human_bytes((double)bytes, size));
    printf("\n");
}

void print_version_full(const pl_version *v, uint64_t bytes, uint64_t momentum_bytes)
{
    char past[16];
    printf("module      %s\nversion     %llu\n", v->module,
           (unsigned long long)v->number);
    print_hash("hash", &v->params, bytes);
    print_hash("parent", &v->parent, 0);
    print_hash("momentum", &v->momentum, momentum_bytes);
    print_hash("config", &v->config, 0);
    printf("parameters  %llu\n", (unsigned long long)v->n_params);
    if (has_norm(v))
        printf("norm        %.9g\n", v->params_norm);
    if (has_step(v))
        printf("update norm %.9g\nmethod      %s, lr %g, momentum %g\n", v->update_norm,
               v->method, v->lr, v->outer_momentum);
    else
        printf("method      %s\n", v->method);
    printf("commit      %llu, ", (unsigned long long)v->sequence);
    print_date(v->wall_ms);
    printf(" (%s ago)\ncontributions %d\n", age(v->wall_ms, past), v->n_contributions);
    for (int i = 0; i < v->n_contributions; i++)
        print_contribution(&v->contributions[i], widest_worker(v));
}

static pl_json *contribution_json(const pl_contribution *c)
{
    pl_json *json = pl_json_object();
    pl_json_set_text(json, "worker", c->worker);
    pl_json_set_text(json, "device", c->device);
    pl_json_set_int(json, "path", c->path);
    pl_json_set_int(json, "replica", c->replica);
    pl_json_set_int(json, "phase", c->phase);
    print_set_count(json, "first_sample", c->first_sample);
    print_set_count(json, "n_samples", c->n_samples);
    print_set_count(json, "tokens", c->n_tokens);
    pl_json_set_real(json, "loss", c->loss);
    pl_json_set_real(json, "norm", c->norm);
    pl_json_set_real(json, "weight", c->weight);
    pl_json_set_real(json, "seconds", c->seconds);
    print_set_count(json, "token", c->token);
    pl_json_set_text(json, "codec", c->codec);
    print_set_hash(json, "update", &c->update);
    print_set_count(json, "bytes", c->update_bytes);
    pl_json_set_bool(json, "split", c->split);
    return json;
}

void print_version_json(const pl_version *v, uint64_t bytes, uint64_t momentum_bytes)
{
    pl_json *line = pl_json_object(), *list = pl_json_array();
    pl_json_set_text(line, "module", v->module);
    print_set_count(line, "version", v->number);
    print_set_hash(line, "hash", &v->params);
    print_set_hash(line, "parent", &v->parent);
    for (int i = 0; i < v->n_contributions; i++)
        pl_json_push(list, contribution_json(&v->contributions[i]));
    pl_json_set(line, "contributions", list);
    pl_json_set_text(line, "method", v->method);
    pl_json_set_real(line, "lr", v->lr);
    pl_json_set_real(line, "momentum", v->outer_momentum);
    print_set_hash(line, "config", &v->config);
    print_set_count(line, "n_params", v->n_params);
    pl_json_set_real(line, "params_norm", has_norm(v) ? v->params_norm : NAN);
    pl_json_set_real(line, "update_norm",
                     has_step(v) ? v->update_norm : NAN); /* null */
    print_set_count(line, "bytes", bytes);
    print_set_hash(line, "momentum_hash", &v->momentum);
    print_set_count(line, "momentum_bytes", momentum_bytes);
    pl_json_set_bool(line, "collected", v->params_gone);
    print_set_count(line, "sequence", v->sequence);
    pl_json_set_int(line, "wall_ms", v->wall_ms);
    say_json(line);
}

/* ---- stat ---- */
void print_stats(const pl_store *store, const pl_store_stats *s)
{
    char blobs[16], chunks[16], stored[16], disk[16];
    printf("modules     %llu\nversions    %llu\n", (unsigned long long)s->n_modules,
           (unsigned long long)s->n_versions);
    printf("blobs       %llu, %s\n", (unsigned long long)s->n_blobs,
           pl_human_bytes((double)s->blob_bytes, blobs));
    printf("chunks      %llu, %s\n", (unsigned long long)s->n_chunks,
           pl_human_bytes((double)s->chunk_bytes, chunks));
    printf("coded       %s\n", pl_human_bytes((double)s->stored_bytes, stored));
    printf("on disk     %s\n", pl_human_bytes((double)s->disk_bytes, disk));
    printf("commits     %llu, epoch %llu\n",
           (unsigned long long)pl_store_sequence(store),
           (unsigned long long)pl_store_epoch(store));
}

void print_stats_json(const pl_store *store, const pl_store_stats *s)
{
    pl_json *line = pl_json_object();
    print_set_count(line, "modules", s->n_modules);
    print_set_count(line, "versions", s->n_versions);
    print_set_count(line, "blobs", s->n_blobs);
    print_set_count(line, "blob_bytes", s->blob_bytes);
    print_set_count(line, "chunks", s->n_chunks);
    print_set_count(line, "chunk_bytes", s->chunk_bytes);
    print_set_count(line, "stored_bytes", s->stored_bytes);
    print_set_count(line, "disk_bytes", s->disk_bytes);
    print_set_count(line, "sequence", pl_store_sequence(store));
    print_set_count(line, "epoch", pl_store_epoch(store));
    say_json(line);
}
