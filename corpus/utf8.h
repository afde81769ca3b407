/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. NUL
 * is not valid here either, because the tokenizer's texts must not contain it. */
#pragma once
#include "corpus/corpus.h"

/* Returns how many bytes at the text's start are valid UTF-8; `len`: all. */
size_t utf8_valid_len(const char *text, size_t len);
