/* Private to this folder: the folder of a store in parts (parts.c). */
#pragma once
#include "store/store.h"

/* Refs of earlier releases: notes about moved names, the shares of the homes. */
#define PARTS_NOTES "at/"
#define PARTS_TABLE "sys/places"

pl_status parts_write_count(const char *folder, int n);
