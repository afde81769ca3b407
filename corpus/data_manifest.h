/* data.json, the manifest of a data folder: it lists the options and inputs from which
 * the folder was made, and the files that were made (the products, docs/PROTOCOL.md
 * section 5). data.json is written last, so a folder that has it is complete. */
#pragma once
#include "corpus/corpus.h"

#define DATA_MANIFEST  "data.json"
#define DATA_TOKENIZER "tokenizer.model"
#define DATA_TRAIN     "train.tok"
#define DATA_VALID     "valid.tok"

/* Computes the products' hashes into `result`, and writes the manifest. */
pl_status data_manifest_write(const char *folder, const pl_prepare_options *options,
                              pl_prepare_result *result);

/* Checks that the folder was made with these options from these inputs, and that its
 * products are undamaged. ERR_EXISTS names the option or input that differs;
 * ERR_DAMAGED names the product. */
pl_status data_manifest_reuse(const char *folder, const pl_prepare_options *options,
                              pl_prepare_result *result);
