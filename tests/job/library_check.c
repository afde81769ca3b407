/* Calls libpathloom as a foreign program would, and checks errors, cancelling, threads
 * and what other scripts cannot see. Prints numbers that tests/job/library.sh compares
 * with the verbs.
 *
 * usage: library_check RUN WORKFOLDER TAG TEXTFILE */
#include <math.h>
#include <pathloom.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int holds, const char *what, const pathloom_error *error)
{
    if (holds)
        return;
    fprintf(stderr, "library_check: %s (%s)\n", what, error ? error->message : "");
    exit(1);
}

#define FAILS(call, code)                                                              \
    check((call) == PATHLOOM_##code && error.status == PATHLOOM_##code &&              \
              error.message[0] != '\0',                                                \
          #call " must fail with " #code, &error)
#define WORKS(call)                                                                    \
    check((call) == PATHLOOM_OK && error.status == 0 && error.message[0] == '\0',      \
          #call, &error)

static pathloom_error error;
static int n_calls;

#define STOPS(name, type)                                                              \
    static int name(void *context, type value)                                         \
    {                                                                                  \
        (void)context, (void)value;                                                    \
        n_calls++;                                                                     \
        return 1;                                                                      \
    }
STOPS(stop_arm, const pathloom_arm *)
STOPS(stop_version, const pathloom_version_info *)
STOPS(stop_tag, const pathloom_tag *)
STOPS(stop_path, const pathloom_path *)
STOPS(stop_phase, const pathloom_phase *)
STOPS(stop_contributor, const pathloom_contributor *)
STOPS(stop_name, const char *)
static int stop_piece(void *c, const char *t, size_t n)
{
    (void)c;
    (void)t;
    (void)n;
    n_calls++;
    return 1;
}

static void check_cancelling(pathloom_run *run, pathloom_model *model)
{
    FAILS(pathloom_each_arm(run, stop_arm, NULL, &error), ERR_CANCELLED);
    FAILS(pathloom_each_module(run, "mix", stop_version, NULL, &error), ERR_CANCELLED);
    FAILS(pathloom_each_version(run, "L1.E0", stop_version, NULL, &error),
          ERR_CANCELLED);
    FAILS(pathloom_each_tag(run, stop_tag, NULL, &error), ERR_CANCELLED);
    FAILS(pathloom_each_path(run, "mix", stop_path, NULL, &error), ERR_CANCELLED);
    FAILS(pathloom_each_phase(run, stop_phase, NULL, &error), ERR_CANCELLED);
    FAILS(pathloom_each_contributor(run, "L1.E0", 1, stop_contributor, NULL, &error),
          ERR_CANCELLED);
    FAILS(pathloom_each_path_module(run, NULL, "p00", NULL, stop_name, NULL, &error),
          ERR_CANCELLED);
    FAILS(pathloom_generate(model, "int", 3, NULL, stop_piece, NULL, NULL, &error),
          ERR_CANCELLED);
    check(n_calls == 9, "a callback that asks to stop must not be called again", NULL);
}

static void check_wrong_names(pathloom_run *run, const char *work)
{
    pathloom_module *module;
    pathloom_model *model;
    pathloom_run *other = (pathloom_run *)run;
    pathloom_model_options o = {.path = NULL};
    FAILS(pathloom_open(work, &other, &error), ERR_NOT_FOUND);
    check(other == NULL, "a failure must clear the handle", NULL);
    check(pathloom_open(NULL, &other, NULL) == PATHLOOM_ERR_ARG, "NULL is refused",
          NULL);
    FAILS(pathloom_each_module(run, "nosuch", stop_version, NULL, &error),
          ERR_NOT_FOUND);
    FAILS(pathloom_each_version(run, "L9.E9", stop_version, NULL, &error),
          ERR_NOT_FOUND);
    FAILS(pathloom_module_open(run, "L1.E0@99", &module, &error), ERR_NOT_FOUND);
    check(module == NULL, "a failure must clear the handle", NULL);
    FAILS(pathloom_each_path_module(run, NULL, "p99", NULL, stop_name, NULL, &error),
          ERR_NOT_FOUND);
    o.path = "p99";
    FAILS(pathloom_model_open(run, &o, &model, &error), ERR_NOT_FOUND);
    o = (pathloom_model_options){.arm = "nosuch"};
    FAILS(pathloom_model_open(run, &o, &model, &error), ERR_NOT_FOUND);
    o = (pathloom_model_options){.tag = "nosuch"};
    FAILS(pathloom_model_open(run, &o, &model, &error), ERR_NOT_FOUND);
    o = (pathloom_model_options){.route = "nosuch"};
    FAILS(pathloom_model_open(run, &o, &model, &error), ERR_USAGE);
    o = (pathloom_model_options){.n_threads = -1};
    FAILS(pathloom_model_open(run, &o, &model, &error), ERR_USAGE);
    o = (pathloom_model_options){.precision = "f31"};
    WORKS(pathloom_model_open(run, &o, &model, &error));
    for (int i = 0; i < 2; i++) /* also after the first failure */
        check(pathloom_generate(model, "int", 3, NULL, NULL, NULL, NULL, &error) != 0,
              "a wrong precision must be refused", &error);
    pathloom_model_close(&model);
    pathloom_model_close(&model);
    check(pathloom_model_open_folder(work, NULL, &model, &error) != 0 && !model,
          "a folder without a model must be refused", &error);
}

/* Counts the floats of all tensors of a path. */
typedef struct path_sum {
    pathloom_run *run;
    unsigned long long n_params;
} path_sum;

static int add_module(void *context, const char *version)
{
    path_sum *sum = context;
    pathloom_module *module;
    pathloom_tensor tensor, again;
    WORKS(pathloom_module_open(sum->run, version, &module, &error));
    for (int i = pathloom_module_n_tensors(module) - 1; i >= 0; i--) {
        WORKS(pathloom_module_shape(module, i, &tensor, &error));
        check(tensor.values == NULL, "a shape has no values", NULL);
        WORKS(pathloom_module_tensor(module, i, &tensor, &error));
        WORKS(pathloom_module_tensor(module, i, &again, &error));
        check(tensor.values == again.values, "a tensor is read once", NULL);
        sum->n_params += (unsigned long long)tensor.rows * (unsigned)tensor.cols;
        for (int j = 0; j < tensor.rows * tensor.cols; j++)
            check(isfinite(tensor.values[j]), "a parameter is not finite", NULL);
    }
    FAILS(pathloom_module_tensor(module, 999, &tensor, &error), ERR_ARG);
    FAILS(pathloom_module_shape(module, -1, &tensor, &error), ERR_ARG);
    pathloom_module_close(&module);
    return 0;
}

static int take_arm(void *context, const pathloom_arm *arm)
{
    if (strcmp(arm->name, "mix") == 0)
        *(unsigned long long *)context = arm->path_params;
    return 0;
}

static void check_parameters(pathloom_run *run, const char *tag)
{
    unsigned long long wanted = 0;
    path_sum newest = {run, 0}, tagged = {run, 0};
    WORKS(pathloom_each_arm(run, take_arm, &wanted, &error));
    WORKS(
        pathloom_each_path_module(run, NULL, "p01", NULL, add_module, &newest, &error));
    WORKS(
        pathloom_each_path_module(run, NULL, "p01", tag, add_module, &tagged, &error));
    check(wanted > 0 && newest.n_params == wanted && tagged.n_params == wanted,
          "the tensors of a path must be all its parameters", NULL);
}

static int append_piece(void *context, const char *text, size_t len)
{
    strncat(context, text, len);
    return 0;
}

/* One thread with its own handles. */
typedef struct worker {
    const char *dir;
    char text[4096];
} worker;

static void *generate_alone(void *context)
{
    worker *w = context;
    pathloom_run *run;
    pathloom_model *model;
    pathloom_error e;
    const pathloom_model_options o = {.path = "p00", .n_threads = 1};
    if (pathloom_open(w->dir, &run, &e) != 0 ||
        pathloom_model_open(run, &o, &model, &e) != 0)
        return NULL;
    pathloom_close(&run); /* the model does not need it */
    if (pathloom_generate(model, "int", 3, NULL, append_piece, w->text, NULL, &e) != 0)
        w->text[0] = '\0';
    pathloom_model_close(&model);
    return NULL;
}

static void check_threads(const char *dir)
{
    worker w[2] = {{.dir = dir}, {.dir = dir}}, alone = {.dir = dir};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, generate_alone, &w[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    generate_alone(&alone);
    check(alone.text[0] && strcmp(w[0].text, alone.text) == 0 &&
              strcmp(w[1].text, alone.text) == 0,
          "two threads must write the text that one writes", NULL);
}

/* Prompts that are empty, not UTF-8, or have a NUL; options that are out of range. */
static void check_odd_prompts(pathloom_model *model)
{
    pathloom_generate_options o;
    pathloom_score score;
    WORKS(pathloom_generate(model, NULL, 0, NULL, NULL, NULL, NULL, &error));
    FAILS(pathloom_generate(model, NULL, 1, NULL, NULL, NULL, NULL, &error), ERR_ARG);
    WORKS(pathloom_generate(model, "\xff\xfe\0int", 6, NULL, NULL, NULL, NULL, &error));
    WORKS(pathloom_score_text(model, "\xff\xfe\0int", 6, &score, &error));
    pathloom_generate_defaults(&o);
    o.max_tokens = 0;
    FAILS(pathloom_generate(model, "int", 3, &o, NULL, NULL, NULL, &error), ERR_USAGE);
    o.max_tokens = 1;
    o.top_p = -1;
    FAILS(pathloom_generate(model, "int", 3, &o, NULL, NULL, NULL, &error), ERR_USAGE);
}

static void check_tokens(pathloom_model *model)
{
    static const char text[] = "int caf\xc3\xa9 = 1;\n";
    int32_t tokens[64];
    char back[64];
    size_t n, same, len;
    WORKS(pathloom_tokenize(model, text, strlen(text), tokens, 64, &n, &error));
    WORKS(pathloom_tokenize(model, text, strlen(text), NULL, 0, &same, &error));
    check(n > 0 && n == same, "the number of tokens does not depend on capacity", NULL);
    WORKS(pathloom_detokenize(model, tokens, n, back, sizeof back, &len, &error));
    check(len == strlen(text) && memcmp(back, text, len) == 0,
          "the text must come back", NULL);
    tokens[0] = 1 << 30;
    FAILS(pathloom_detokenize(model, tokens, n, back, sizeof back, &len, &error),
          ERR_DATA);
}

static void print_scores(pathloom_model *mixture, pathloom_run *run, const char *file)
{
    static char text[1 << 20];
    pathloom_score score;
    pathloom_model *path;
    pathloom_route route;
    pathloom_model_options o = {.path = NULL};
    FILE *f = fopen(file, "rb");
    check(f != NULL, "the text cannot be read", NULL);
    const size_t len = fread(text, 1, sizeof text, f);
    fclose(f);
    WORKS(pathloom_score_text(mixture, text, len, &score, &error));
    printf("score %s %.9f %llu %llu\n", score.path, score.bits_per_byte,
           (unsigned long long)score.n_tokens, (unsigned long long)score.n_bytes);
    o.path = score.path;
    WORKS(pathloom_model_open(run, &o, &path, &error));
    WORKS(pathloom_score_text(path, text, len, &score, &error));
    check(score.n_bytes == len, "a single path scores the whole text", NULL);
    WORKS(pathloom_score_text(path, "", 0, &score, &error));
    check(isnan(score.bits_per_byte) && score.n_tokens == 1,
          "an empty text has only its end", NULL);
    WORKS(pathloom_route_text(path, text, len, &route, &error));
    pathloom_model_close(&path);
}

static int stop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
    return 1;
}

static void check_trainer(const char *work)
{
    pathloom_train_options o;
    pathloom_trainer *trainer;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/trained", work);
    pathloom_train_defaults(&o);
    FAILS(pathloom_trainer_open(&o, &trainer, &error), ERR_ARG); /* no folder */
    o.folder = folder;
    o.text = "base";
    o.vocab = 512;
    o.n_heads = 5;
    FAILS(pathloom_trainer_open(&o, &trainer, &error), ERR_USAGE);
    o.n_heads = 4;
    o.steps = 0;
    FAILS(pathloom_trainer_open(&o, &trainer, &error), ERR_USAGE);
    o.steps = 1;
    o.progress = stop_line;
    FAILS(pathloom_trainer_open(&o, &trainer, &error), ERR_CANCELLED);
    o.progress = NULL;
    o.max_bytes = 60000;
    WORKS(pathloom_trainer_open(&o, &trainer, &error));
    WORKS(pathloom_trainer_step(trainer, NULL, &error));
    FAILS(pathloom_trainer_step(trainer, NULL, &error), ERR_ARG);
    pathloom_trainer_close(&trainer);
}

int main(int argc, char **argv)
{
    pathloom_run *run;
    pathloom_model *model, *tagged;
    const pathloom_model_options at_tag = {.tag = argc > 3 ? argv[3] : ""};
    char text[4096] = "";
    check(argc == 5, "usage: library_check RUN WORKFOLDER TAG TEXTFILE", NULL);
    WORKS(pathloom_open(argv[1], &run, &error));
    WORKS(pathloom_refresh(run, &error));
    WORKS(pathloom_model_open(run, NULL, &model, &error));
    check_tokens(model);
    check_odd_prompts(model);
    check_cancelling(run, model);
    check_wrong_names(run, argv[2]);
    check_parameters(run, argv[3]);
    print_scores(model, run, argv[4]);
    WORKS(pathloom_model_open(run, &at_tag, &tagged, &error));
    WORKS(pathloom_generate(tagged, "int", 3, NULL, append_piece, text, NULL, &error));
    printf("tagged %zu\n", strlen(text));
    pathloom_model_close(&tagged);
    pathloom_model_close(&model);
    pathloom_close(&run);
    pathloom_close(&run);
    check_threads(argv[1]);
    check_trainer(argv[2]);
    return 0;
}
