/* train_one: from text to a trained language model in one program.
 *
 *   1. prepare   text -> documents -> tokenizer -> tokens
 *   2. train     some hundred optimizer steps
 *   3. evaluate  mean loss on documents that training never saw
 *   4. save      parameters -> a folder that transformers and vLLM load, too
 *   5. generate  load the folder again, and let the model continue a prompt
 *
 *   cc train_one.c -o train_one $(pkg-config --cflags --libs pathloom) -lm
 *   ./train_one --out FOLDER [--text PATH] [--prompt TEXT] [--vocab N] [--steps N]
 *               [--threads N]
 *
 * PATH is a text file, a folder of text files, or JSON lines; without it the program
 * reads text that the machine has below /usr. With the defaults it takes about a minute
 * on two cores. The same text and options give the same model, byte for byte.
 *
 * A job trains many such models at once, which share parts (`pathloom train`,
 * docs/TUTORIAL.md). The functions behind this program are a tour of the engine
 * (lib/lib_train.c). */
#include <math.h>
#include <pathloom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const char *text;   /* file or folder to train on; "": the machine's own text */
    const char *out;    /* folder for everything that this program writes */
    const char *prompt; /* text that the model continues */
    int vocab;          /* number of pieces of the tokenizer */
    int steps;          /* number of optimizer steps */
    int threads;
} options;

static double seconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int print_line(void *context, const char *line)
{
    (void)context;
    puts(line);
    return 0; /* go on */
}

/* Every function of the library that can fail returns a status, 0 if it succeeded, and
 * writes one sentence into `error`. */
static int train(const options *o, const char *model, pathloom_error *error)
{
    char data[4096];
    pathloom_train_options how;
    pathloom_trainer *trainer;
    pathloom_trainer_info info;
    pathloom_step step;
    double before, after, start, n_tokens = 0;
    int status;

    snprintf(data, sizeof data, "%s/data", o->out);
    pathloom_train_defaults(&how);
    how.text = o->text;
    how.folder = data;
    how.vocab = o->vocab;
    how.steps = o->steps;
    how.n_threads = o->threads;
    how.progress = print_line;
    if ((status = pathloom_trainer_open(&how, &trainer, error)) != PATHLOOM_OK)
        return status;
    pathloom_trainer_describe(trainer, &info);
    printf("model  %llu parameters on %s\n", (unsigned long long)info.n_params,
           info.device);
    status = pathloom_trainer_evaluate(trainer, &before, error);
    start = seconds();
    for (int i = 0; status == PATHLOOM_OK && i < o->steps; i++) {
        status = pathloom_trainer_step(trainer, &step, error);
        n_tokens += (double)step.n_tokens;
        if (status == PATHLOOM_OK && (i == 0 || (i + 1) % 50 == 0 || i + 1 == o->steps))
            printf("train  step %4d  loss %.4f  lr %.2e  %.0f tokens/s\n", step.step,
                   step.loss, step.lr, n_tokens / (seconds() - start));
    }
    if (status == PATHLOOM_OK)
        status = pathloom_trainer_evaluate(trainer, &after, error);
    if (status == PATHLOOM_OK) {
        printf("valid  loss %.4f before training, %.4f after: perplexity %.1f\n",
               before, after, exp(after));
        status = pathloom_trainer_save(trainer, model, "train_one", error);
    }
    if (status == PATHLOOM_OK)
        printf("save   %llu parameters in %s\n", (unsigned long long)info.n_params,
               model);
    pathloom_trainer_close(&trainer);
    return status;
}

/* Prints the next piece of the answer, which always has whole characters. The model may
 * write characters that would control the terminal, so these are left out. */
static int print_piece(void *context, const char *text, size_t len)
{
    (void)context;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] >= ' ' || text[i] == '\n' || text[i] == '\t')
            putchar(text[i]);
    fflush(stdout);
    return 0;
}

static int generate(const options *o, const char *folder, pathloom_error *error)
{
    pathloom_model *model;
    pathloom_generate_options how;
    pathloom_generated made;
    const pathloom_model_options one = {.n_threads = o->threads};
    int status = pathloom_model_open_folder(folder, &one, &model, error);
    if (status != PATHLOOM_OK)
        return status;
    pathloom_generate_defaults(&how);
    how.max_tokens = 60;
    printf("text   %s", o->prompt);
    status = pathloom_generate(model, o->prompt, strlen(o->prompt), &how, print_piece,
                               NULL, &made, error);
    if (status == PATHLOOM_OK)
        printf("\ndone   %d tokens in %.3f s\n", made.n_tokens, made.decode_seconds);
    pathloom_model_close(&model);
    return status;
}

/* Returns the name of the first option that is wrong, or NULL. */
static const char *parse_options(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        int number = atoi(value);
        if (strcmp(name, "--text") == 0)
            o->text = value;
        else if (strcmp(name, "--out") == 0)
            o->out = value;
        else if (strcmp(name, "--prompt") == 0)
            o->prompt = value;
        else if (strcmp(name, "--vocab") == 0 && number > 0)
            o->vocab = number;
        else if (strcmp(name, "--steps") == 0 && number > 0)
            o->steps = number;
        else if (strcmp(name, "--threads") == 0 && number > 0)
            o->threads = number;
        else
            return name;
    }
    return o->out[0] ? NULL : "--out";
}

int main(int argc, char **argv)
{
    options o = {.text = "",
                 .out = "",
                 .prompt = "The",
                 .vocab = 2048,
                 .steps = 300,
                 .threads = 2};
    char model[4096];
    pathloom_error error;
    const char *wrong = parse_options(argc, argv, &o);
    if (wrong) {
        fprintf(stderr,
                "train_one: the option %s is missing, unknown, or has a wrong "
                "value; give --out FOLDER and numbers of 1 or more\n",
                wrong);
        return 64;
    }
    snprintf(model, sizeof model, "%s/model", o.out);
    if (train(&o, model, &error) == PATHLOOM_OK &&
        generate(&o, model, &error) == PATHLOOM_OK)
        return 0;
    fprintf(stderr, "train_one: %s\n", error.message);
    return 1;
}
