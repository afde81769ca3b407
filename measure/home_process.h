/* Private to measure: what measurements share, and processes that they start. */
#pragma once
#include "net/net.h"
#include <sys/types.h>

void measure_sort(double *values, size_t n);
/* Makes a folder for a measurement under TMPDIR; `name` ends with XXXXXX. ERR_IO. */
pl_status measure_make_folder(const char *name, char out[PL_PATH_MAX]);
/* Fills memory with bytes that cannot be compressed; the last bytes % 16 stay. */
void measure_fill(uint8_t *data, uint64_t bytes, uint64_t seed, uint64_t stream);
/* Ends this process, which a measurement forked, with the last error unless OK. */
void measure_need(pl_status status);
/* Returns the seconds of processor time of a process; pid 0 is the caller. */
double measure_cpu_s(pid_t pid);
/* Returns a number of /proc/PID/status, such as "VmRSS:", in bytes; 0: gone. */
double measure_memory(pid_t pid, const char *what);

typedef struct home_process {
    pid_t pid;
    char address[256];
} home_process;

/* Forks a home whose store is in `folder`, and waits for its address. It admits clients
 * with the key `client`; NULL: it does not encrypt. Call it before the process has
 * sockets, because a forked process cannot use ZeroMQ's threads. */
pl_status home_process_start(home_process *h, const char *folder,
                             const pl_keypair *server, const pl_pubkey *client,
                             uint64_t staging_bytes);
void home_process_end(home_process *h);
