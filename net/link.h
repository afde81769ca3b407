/* What a client has measured of its connection to one process. */
#ifndef PL_NET_LINK_H
#define PL_NET_LINK_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are 0 while they are not known. Bytes are those of blobs, without headers. */
typedef struct pl_link {
    /* rates that transfers of blobs reached; they fall slowly if transfers get slower
     */
    double up_bytes_per_s, down_bytes_per_s;
    uint32_t rtt_ms;               /* the shortest round trip, rounded up */
    uint64_t up_bytes, down_bytes; /* sent, and received, since the client was made */
    /* those of the bytes above that were sent or arrived more than once */
    uint64_t repeated_bytes;
    uint32_t n_connects; /* number of connections that were made */
} pl_link;

#ifdef __cplusplus
}
#endif
#endif
