/* Decides where a long text is cut into documents: at the end of a paragraph; if there
 * is none, at the end of a line; if there is none, at the end of a word; otherwise
 * between two characters. All pieces joined in order are the whole text. */
#ifndef PL_CORPUS_TEXT_CUT_H
#define PL_CORPUS_TEXT_CUT_H
#include "corpus/corpus.h"

/* Returns the length of the first piece, 1 to `most` bytes. The text must have more
 * than `most` bytes; it need not be valid UTF-8. */
size_t text_cut_len(const char *text, size_t most);

#endif
