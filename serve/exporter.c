/* Serves the hub's status as /metrics and /metrics.json, on libmicrohttpd
 * (exporter.h). Nothing is cached: each request asks the hub. */
#include "serve/exporter.h"
#include "serve/http.h"
#include "workers/workers.h"

#include <arpa/inet.h>
#include <errno.h>

enum {
    CONNECTIONS_MAX = 64,
    PLACES = 16, /* as in server_http.c */
    TIMEOUT_S = 10,
    MEMORY_MAX = 32 << 10
};

struct pl_exporter {
    struct MHD_Daemon *daemon;
    http_site site;
    pl_status (*hub)(void *context, pl_json **status);
    void *context;
};

static enum MHD_Result on_metrics_request(void *context, struct MHD_Connection *c,
                                          const char *url, const char *method,
                                          const char *version, const char *upload,
                                          size_t *upload_bytes, void **state)
{
    const pl_exporter *e = context;
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)state;
    const char *doubt = http_site_doubt(&e->site, c, url);
    if (doubt)
        return http_reply_text(c, MHD_HTTP_FORBIDDEN, doubt);
    if (!http_only_reads(method))
        return http_refuse_method(c);
    const bool as_json = strcmp(url, "/metrics.json") == 0;
    if (!as_json && strcmp(url, "/metrics") != 0)
        return http_reply_text(c, MHD_HTTP_NOT_FOUND,
                               "this server has only /metrics and /metrics.json\n");
    pl_json *status = NULL;
    pl_buf text = {0};
    if (e->hub(e->context, &status) != PL_OK)
        return http_reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, pl_last_error());
    if (as_json)
        pl_json_write(status, 0, &text);
    else
        pl_metrics_write(status, &text);
    enum MHD_Result result = http_reply(
        c, MHD_HTTP_OK, as_json ? "application/json" : "text/plain; version=0.0.4",
        text.data, text.len);
    pl_json_destroy(&status);
    pl_buf_destroy(&text);
    return result;
}

static pl_status parse_listen(const char *listen, http_listen *out)
{
    if (http_listen_parse(listen, "net.metrics (--metrics)", out) != PL_OK)
        return pl_fail(PL_ERR_CONFIG, "%s", pl_last_error());
    return out->port > 0
               ? PL_OK
               : pl_fail(PL_ERR_CONFIG,
                         "net.metrics needs the number of a port, not `%s`", listen);
}

pl_status pl_exporter_check(const char *listen, char address[PL_ADDRESS_MAX])
{
    http_listen at;
    PL_CHECK(parse_listen(listen, &at));
    snprintf(address, PL_ADDRESS_MAX, "tcp://%s:%d", at.host, at.port);
    return PL_OK;
}

pl_status pl_exporter_open(const char *listen,
                           pl_status (*hub)(void *context, pl_json **status),
                           void *context, pl_exporter **out)
{
    http_listen at;
    *out = NULL;
    PL_CHECK(parse_listen(listen, &at));
    PL_CHECK(http_load());
    /* Whoever can reach the address may read the metrics, as Prometheus expects. */
    const server_clients_options places = {
        .places = PLACES, .request_s = TIMEOUT_S, .answer_s = TIMEOUT_S};
    pl_exporter *e = pl_alloc(sizeof *e);
    e->hub = hub;
    e->context = context;
    pl_status status = http_site_open(&at, at.loopback ? "net.metrics" : NULL, NULL,
                                      &places, &e->site);
    PL_TRY(status);
    /* poll, because select would refuse descriptors from 1,024 on */
    errno = 0;
    e->daemon = mhd.MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | at.flags, 0, NULL, NULL,
        on_metrics_request, e, MHD_OPTION_SOCK_ADDR, &at.at.any,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, http_site_connection, &e->site,
        MHD_OPTION_UNESCAPE_CALLBACK, http_unescape, NULL, MHD_OPTION_END);
    if (!e->daemon)
        PL_TRY(http_not_listening(listen, "metrics", "net.metrics", errno));
done:
    if (status != PL_OK)
        pl_exporter_close(&e);
    *out = e;
    return status;
}

void pl_exporter_close(pl_exporter **e)
{
    if (!*e)
        return;
    if ((*e)->daemon)
        mhd.MHD_stop_daemon((*e)->daemon);
    server_clients_close(&(*e)->site.clients);
    pl_free(*e);
    *e = NULL;
}
