/* folder: serve
 *
 * Fuzzes lists of clients' keys, and the header of a request in which a client sends
 * its key. */
#include "serve/server_access.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    server_access *access = NULL;
    const char *text = (const char *)input;
    if (server_access_parse(text, len, "keys", &access) == PL_OK) {
        /* as in a real request, the text ends with a zero byte */
        char *header = calloc(len + 8, 1);
        if (header) {
            memcpy(header, "Bearer ", 7);
            memcpy(header + 7, text, len);
            (void)server_access_find(access, header);
            (void)server_access_find(access, header + 7);
        }
        free(header);
    }
    server_access_destroy(&access);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const lists[] = {
        "alice bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319\n",
        "# who\n\nbob   "
        "0000000000000000000000000000000000000000000000000000000000000001"
        "\r\nc.d 0000000000000000000000000000000000000000000000000000000000000002"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        give(lists[i], strlen(lists[i]));
}
