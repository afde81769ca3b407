/* Exchange: exports one path as files that other programs load, and imports the models
 * of other programs.
 *
 * A path is a Llama decoder (with QK norm, a Qwen3 decoder). Its tensors have the names
 * that the library transformers uses, and its rotary pairs have the same order as in
 * that library, so its parameters are written to safetensors files unchanged. GGUF
 * orders the rows of q and k of a Llama differently (weights.h).
 *
 *   folder  model.safetensors, config.json, generation_config.json, tokenizer.model,
 *           tokenizer.json, tokenizer_config.json, special_tokens_map.json
 *   file    GGUF version 3, architecture llama or qwen3, with the tokenizer inside
 *
 * The same parameters, options and notes give the same bytes. Files of other programs
 * are not trusted: every length, offset, shape and type is checked before it is used.
 *
 * Read in this order: safetensors, weights, llama_config, import; piece_list,
 * export, export_gguf. */
#pragma once
#include "modules/modules.h"

/* The type in which parameters are written. In GGUF the weights of norms are always
 * f32. */
typedef enum pl_weight_type {
    PL_WEIGHT_F32,
    PL_WEIGHT_F16,
    PL_WEIGHT_BF16,
    PL_WEIGHT_Q8_0, /* GGUF only: blocks of 32 signed bytes with one f16 scale */
    PL_WEIGHT_COUNT
} pl_weight_type;
const char *pl_weight_type_name(pl_weight_type type); /* for example "q8_0" */
/* Parses the name of a type. The message of ERR_USAGE lists the known names. */
pl_status pl_weight_type_parse(const char *text, pl_weight_type *out);

/* A note about the origin of the parameters, which is copied into the file's
 * metadata. */
typedef struct pl_note {
    const char *key, *value; /* for example "pathloom.arm" and "mix" */
} pl_note;

typedef struct pl_export {
    const char *name; /* name of the model, which programs show to their users */
    const pl_topology *topology;
    const float *params; /* parameters of one path */
    /* a SentencePiece model, such as tokenizer.model in a run's data folder */
    const void *tokenizer_model;
    size_t tokenizer_bytes;
    pl_weight_type type;
    const pl_note *notes;
    int n_notes;
} pl_export;

/* Writes the model into a folder, which is made if it is missing. Each file is written
 * durably, or not at all. Other programs would misread a tokenizer that is not BPE over
 * unchanged text, so such a tokenizer is only copied, as sentencepiece.model.
 * ERR_UNSUPPORTED for type q8_0. ERR_NUMERIC: the type cannot hold a parameter; the
 * message names its tensor. ERR_IO. */
pl_status pl_export_folder(const pl_export *e, const char *folder);
/* Writes a GGUF file. The errors are those of pl_export_folder, but q8_0 is supported,
 * and a tokenizer that is not BPE over unchanged text gives ERR_UNSUPPORTED. In a q8_0
 * file, a matrix whose row length is not a multiple of 32 is written as f16. */
pl_status pl_export_gguf(const pl_export *e, const char *path);

typedef struct pl_import pl_import;

/* `path` is either a .safetensors file with config.json beside it, or a folder with
 * config.json and model.safetensors (or with model.safetensors.index.json and the files
 * that this index names). After OK, every needed tensor exists exactly once, with the
 * right shape. If the model is refused, the message names the field, its value, and
 * what to do. ERR_NOT_FOUND, ERR_DATA, ERR_UNSUPPORTED. */
pl_status pl_import_open(const char *path, pl_import **out);
void pl_import_close(pl_import **import); /* accepts NULL */
typedef struct pl_import_info {
    pl_shape shape;
    int n_files;           /* number of safetensors files */
    int n_derived;         /* tensors that were ignored because they can be computed */
    const char *tokenizer; /* path of the tokenizer in the folder; "": there is none */
} pl_import_info;
/* Valid until close. */
const pl_import_info *pl_import_describe(const pl_import *import);

/* Copies the model's parameters to `params`, which has room for pl_topology_path_params
 * floats. The topology's context may differ from the model's, because no parameter
 * depends on the context. ERR_CONFIG if the shapes differ; ERR_NUMERIC if a value is
 * not finite. */
pl_status pl_import_load(const pl_import *import, const pl_topology *topology,
                         float *params);
