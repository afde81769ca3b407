/* Status codes and the thread's last error sentence.
 *
 * The function that first sees a failure calls pl_fail() once, with a sentence that
 * names the thing, the numbers and the remedy. Its callers forward the status with
 * PL_TRY and clean up at a single `done:` label.
 *
 * The table has each status's exit code of the process (sysexits(3)) and a text. */
#pragma once

/* The declarations between these two words have C linkage in C++, too. */
#ifdef __cplusplus
#define PL_C_BEGIN extern "C" {
#define PL_C_END   }
#else
#define PL_C_BEGIN
#define PL_C_END
#endif

PL_C_BEGIN

/* X(name, exit code, short text) */
#define PL_STATUS_TABLE(X)                                                             \
    X(OK, 0, "ok")                                                                     \
    X(ERR_ARG, 64, "an argument is wrong")                                             \
    X(ERR_USAGE, 64, "the command line is wrong")                                      \
    X(ERR_CONFIG, 78, "the configuration is wrong or contradicts itself")              \
    X(ERR_DATA, 65, "input data are unusable")                                         \
    X(ERR_DAMAGED, 65, "stored bytes are damaged")                                     \
    X(ERR_NOT_FOUND, 66, "the named thing does not exist")                             \
    X(ERR_EXISTS, 73, "the named thing exists already")                                \
    X(ERR_BUSY, 75, "the thing is in use by another process")                          \
    X(ERR_IO, 74, "reading or writing failed")                                         \
    X(ERR_NOSPACE, 74, "the disk is full")                                             \
    X(ERR_NOMEM, 71, "there is not enough memory")                                     \
    X(ERR_OS, 71, "the operating system refused a request")                            \
    X(ERR_NET, 69, "the peer cannot be reached")                                       \
    X(ERR_TIMEOUT, 75, "no answer in time")                                            \
    X(ERR_PROTO, 76, "the peer broke the protocol")                                    \
    X(ERR_STALE, 75, "the lease or version is no longer current")                      \
    X(ERR_NOPERM, 77, "permission denied")                                             \
    X(ERR_DEVICE, 70, "the compute device failed")                                     \
    X(ERR_NUMERIC, 70, "a value is not finite")                                        \
    X(ERR_CANCELLED, 75, "stopped on request")                                         \
    X(ERR_UNSUPPORTED, 69, "this build or machine cannot do that")                     \
    X(ERR_INTERNAL, 70, "a bug in pathloom")                                           \
    X(ERR_PEEL, 65, "a sum of sketches cannot be decoded")                             \
    X(ERR_FILES, 75, "too many files are open")

/* Under clang, a caller must use the status that a function returns, or cast it to
 * void; GCC has no such attribute for a type. */
#if defined(__clang__)
#define PL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PL_MUST_CHECK
#endif

typedef enum PL_MUST_CHECK pl_status {
#define PL_STATUS_ENUM(name, code, text) PL_##name,
    PL_STATUS_TABLE(PL_STATUS_ENUM)
#undef PL_STATUS_ENUM
        PL_STATUS_COUNT
} pl_status;

#if defined(__GNUC__)
#define PL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define PL_NORETURN     __attribute__((noreturn))
#else
#define PL_PRINTF(f, a)
#define PL_NORETURN
#endif

/* Writes the thread's last error (at most 1023 bytes) and returns `status`.
 * The sentence starts in lower case, has no final full stop and no newline. */
pl_status pl_fail(pl_status status, const char *format, ...) PL_PRINTF(2, 3);

/* Puts "context: " before the thread's last error and returns `status`. */
pl_status pl_fail_in(pl_status status, const char *format, ...) PL_PRINTF(2, 3);

/* Returns the sentence of the last pl_fail on this thread; never NULL. The text is
 * valid until the next pl_fail on this thread. */
const char *pl_last_error(void);

const char *pl_status_name(pl_status status); /* "ERR_BUSY" */
int pl_status_exit_code(pl_status status);    /* sysexits(3) */

/* If the expression fails, stores its status in the local variable `status` and jumps
 * to the label `done`. The calling function must have this variable and this label. */
#define PL_TRY(expression)                                                             \
    do {                                                                               \
        status = (expression);                                                         \
        if (status != PL_OK)                                                           \
            goto done;                                                                 \
    } while (0)

/* If the expression fails, returns its status from the calling function at once. For
 * functions that have nothing to clean up. */
#define PL_CHECK(expression)                                                           \
    do {                                                                               \
        pl_status pl_return_status = (expression);                                     \
        if (pl_return_status != PL_OK)                                                 \
            return pl_return_status;                                                   \
    } while (0)

PL_C_END
