/* Private to cli: the measurements of `pathloom bench`, one file per subject
 * (bench_SUBJECT.c). Each prints a table or, with `json`, one JSON object on one line.
 */
#ifndef PL_CLI_BENCH_H
#define PL_CLI_BENCH_H
#include "cli/cli.h"

/* Codecs of updates: speed per core, bytes per parameter, error. The updates are taken
 * from the run in `folder`; NULL trains a small model for them. */
pl_status bench_codec(bool json, const char *folder);
/* Outer methods: parameters per second, and bytes touched per parameter. */
pl_status bench_outer(bool json);

/* A training step, or with `ops` its operations (bench_engine.c). */
typedef struct bench_engine_options {
    bool ops, json, cpu_clock;
    const char *model;     /* a name from bench_models.c, or NULL */
    cli_settings settings; /* model.KEY=VALUE pairs: the user's own shape */
    int threads;
    int processes; /* 0: only this process, with a table of where its time goes */
    const char *backend, *precision, *clock;
} bench_engine_options;
pl_status bench_engine(const bench_engine_options *o);
/* Reading a prompt and writing tokens. precision NULL: all precisions. */
pl_status bench_generate(const bench_engine_options *o);

#endif
