/* Shared by the tests of the store: a temporary folder, and functions that store
 * bytes. */
#pragma once
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite.h"

int make_folder(void **state);

/* Copies a folder with everything in it. It must have no symbolic links. `before` is
 * NULL or an older copy: files that are the same in it are not copied, but get one more
 * name. A store can bear this, because it changes no file in place except HWM and
 * logs, which are always copied. */
void copy_folder(const char *from, const char *to, const char *before);

bool same_file(const char *a, const char *b);

int drop_folder(void **state);

/* Makes n bytes, which depend only on the seed. */
uint8_t *make_bytes(uint64_t seed, size_t n);

pl_hash put_bytes(pl_txn *txn, uint64_t seed, size_t n);

pl_store *open_store(const char *folder, pl_store_mode mode);

pl_txn *begin(pl_store *store);

/* Commits version `number` of a module in a separate transaction. The parameters are
 * make_bytes(seed, n). A version above 0 also has a momentum of n bytes. */
void commit_version(pl_store *store, const char *module, uint64_t number, uint64_t seed,
                    size_t n);

/* Commits a reference in a separate transaction. */
void commit_ref(pl_store *store, const char *name, const char *target);

/* Checks what the reference says; NULL: there is no such reference. */
void assert_ref(pl_store *store, const char *name, const char *expected);

/* Puts the bytes as a blob, and an object that names it. */
void put_object(pl_txn *txn, const char *name, const void *bytes, size_t n);

bool blob_holds(pl_store *store, const pl_hash *blob, uint64_t seed, size_t n);

/* Checks that an audit of all bytes finds no problem; prints those that it finds. */
void assert_whole(pl_store *store);

/* A test in a folder of its own, whose path is *state. */
#define STORE_TEST(name) PL_TEST_WITH(name, make_folder, drop_folder)
