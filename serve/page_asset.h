/* Private to serve: two pages, of one HTML file each. cmake/page.cmake makes them from
 * serve/page/ (the page of a run) and serve/talk/ (the page of a server). */
#ifndef PL_SERVE_PAGE_ASSET_H
#define PL_SERVE_PAGE_ASSET_H
#include <stddef.h>

extern const unsigned char page_asset[];
extern const size_t page_asset_bytes;
extern const unsigned char talk_asset[];
extern const size_t talk_asset_bytes;

#endif
