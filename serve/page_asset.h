/* Private to serve: the bytes of two pages; each page is one HTML file.
 * cmake/page.cmake makes page_asset from serve/page/ (the page of a run) and talk_asset
 * from serve/talk/ (the page of a server). */
#pragma once
#include <stddef.h>

extern const unsigned char page_asset[];
extern const size_t page_asset_bytes;
extern const unsigned char talk_asset[];
extern const size_t talk_asset_bytes;
