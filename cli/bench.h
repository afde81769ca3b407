/* Private to cli: what `pathloom bench` measures. Each prints a table, or with `json`
 * one JSON object on one line. A file a subject: bench_SUBJECT.c. */
#ifndef PL_CLI_BENCH_H
#define PL_CLI_BENCH_H
#include "cli/cli.h"

/* Codecs of updates: speed a core, bytes a parameter, error. `folder` is that of a
 * run whose updates are taken; NULL trains a small model for them. */
pl_status bench_codec(bool json, const char *folder);
/* Outer methods: parameters a second and bytes touched a parameter. */
pl_status bench_outer(bool json);

/* A training step, or with `ops` its operations (bench_engine.c). */
typedef struct bench_engine_options {
    bool ops, json, cpu_clock;
    const char *model;     /* one of those that bench_models.c names, or NULL */
    cli_settings settings; /* model.KEY=VALUE: a shape of one's own */
    int threads;
    int processes; /* 0: this one, and where its time goes */
    const char *backend, *precision, *clock;
} bench_engine_options;
pl_status bench_engine(const bench_engine_options *o);
/* Reading a prompt and writing tokens; precision NULL: all. */
pl_status bench_generate(const bench_engine_options *o);

#endif
