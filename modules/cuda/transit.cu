/* Copies between host and device in pieces (transit.cuh). The two halves of the memory
 * are used alternately, also when a new copy begins. */
#include "modules/cuda/transit.cuh"

pl_status transit_open(device_transit *transit)
{
    for (int i = 0; i < TRANSIT_HALVES; i++) {
        void *memory = NULL;
        PL_CHECK(device_check(
            cudaHostAlloc(&memory, TRANSIT_PIECE_BYTES, cudaHostAllocDefault),
            "page-locked memory"));
        transit->memory[i] = static_cast<uint8_t *>(memory);
        PL_CHECK(device_check(
            cudaEventCreateWithFlags(&transit->passed[i], cudaEventDisableTiming),
            "creating an event"));
    }
    void *posts = NULL;
    PL_CHECK(device_check(
        cudaHostAlloc(&posts, (size_t)PL_POSTS * PL_POST_BYTES, cudaHostAllocDefault),
        "page-locked memory"));
    transit->posts = static_cast<uint8_t *>(posts);
    for (cudaEvent_t &posted : transit->posted)
        PL_CHECK(device_check(cudaEventCreateWithFlags(&posted, cudaEventDisableTiming),
                              "creating an event"));
    return PL_OK;
}

void transit_close(device_transit *transit)
{
    for (const cudaEvent_t posted : transit->posted)
        if (posted)
            (void)cudaEventDestroy(posted);
    if (transit->posts)
        (void)cudaFreeHost(transit->posts);
    for (int i = 0; i < TRANSIT_HALVES; i++) {
        if (transit->passed[i])
            (void)cudaEventDestroy(transit->passed[i]);
        if (transit->memory[i])
            (void)cudaFreeHost(transit->memory[i]);
    }
    *transit = device_transit{};
}

/* Chooses a half and waits until its last copy has finished. */
static pl_status take_half(device_transit *transit, const char *what, int *out)
{
    *out = (int)(transit->next++ % TRANSIT_HALVES);
    return device_check(cudaEventSynchronize(transit->passed[*out]), what);
}

static size_t piece_at(size_t bytes, size_t at)
{
    return bytes - at < TRANSIT_PIECE_BYTES ? bytes - at : (size_t)TRANSIT_PIECE_BYTES;
}

pl_status transit_upload(device_transit *transit, cudaStream_t stream, void *device,
                         const void *host, size_t bytes)
{
    static const char what[] = "copying data to the device";
    uint8_t *to = static_cast<uint8_t *>(device);
    const uint8_t *from = static_cast<const uint8_t *>(host);
    for (size_t at = 0; at < bytes; at += TRANSIT_PIECE_BYTES) {
        const size_t n = piece_at(bytes, at);
        int half;
        PL_CHECK(take_half(transit, what, &half));
        memcpy(transit->memory[half], from + at, n);
        PL_CHECK(device_check(cudaMemcpyAsync(to + at, transit->memory[half], n,
                                              cudaMemcpyHostToDevice, stream),
                              what));
        PL_CHECK(device_check(cudaEventRecord(transit->passed[half], stream), what));
    }
    return PL_OK;
}

/* A piece that is being copied, and its destination. */
struct arrival {
    int half;
    uint8_t *to;
    size_t bytes;
};

static pl_status take_arrival(const device_transit *transit, const arrival *piece,
                              const char *what)
{
    PL_CHECK(device_check(cudaEventSynchronize(transit->passed[piece->half]), what));
    memcpy(piece->to, transit->memory[piece->half], piece->bytes);
    return PL_OK;
}

pl_status transit_download(device_transit *transit, cudaStream_t stream, void *host,
                           const void *device, size_t bytes)
{
    static const char what[] = "copying data from the device";
    uint8_t *to = static_cast<uint8_t *>(host);
    const uint8_t *from = static_cast<const uint8_t *>(device);
    arrival last = {};
    for (size_t at = 0; at < bytes; at += TRANSIT_PIECE_BYTES) {
        arrival piece = {0, to + at, piece_at(bytes, at)};
        PL_CHECK(take_half(transit, what, &piece.half));
        PL_CHECK(
            device_check(cudaMemcpyAsync(transit->memory[piece.half], from + at,
                                         piece.bytes, cudaMemcpyDeviceToHost, stream),
                         what));
        PL_CHECK(
            device_check(cudaEventRecord(transit->passed[piece.half], stream), what));
        if (last.to)
            PL_CHECK(take_arrival(transit, &last, what));
        last = piece;
    }
    return last.to ? take_arrival(transit, &last, what) : PL_OK;
}

pl_status transit_post(device_transit *transit, cudaStream_t stream, int number,
                       const void *device, size_t bytes)
{
    static const char what[] = "copying results from the device";
    PL_CHECK(
        device_check(cudaMemcpyAsync(transit->posts + number * PL_POST_BYTES, device,
                                     bytes, cudaMemcpyDeviceToHost, stream),
                     what));
    return device_check(cudaEventRecord(transit->posted[number], stream), what);
}

pl_status transit_collect(const device_transit *transit, int number, void *host,
                          size_t bytes)
{
    PL_CHECK(device_check(cudaEventSynchronize(transit->posted[number]),
                          "running operations"));
    memcpy(host, transit->posts + number * PL_POST_BYTES, bytes);
    return PL_OK;
}
