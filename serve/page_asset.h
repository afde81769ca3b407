/* Private to serve: the page, one HTML file made of serve/page/ by cmake/page.cmake. */
#ifndef PL_SERVE_PAGE_ASSET_H
#define PL_SERVE_PAGE_ASSET_H
#include <stddef.h>

extern const unsigned char page_asset[];
extern const size_t page_asset_bytes;

#endif
