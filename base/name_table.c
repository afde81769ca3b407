/* Implements the map from names to numbers (name_table.h): a hash table with FNV-1a
 * hashes and linear probing, which is kept at most half full. */
#include "base/name_table.h"
#include "base/mem.h"
#include "base/text.h"
#include <string.h>

enum { FIRST_SIZE = 64 };

typedef struct name_entry {
    char *name; /* the name; NULL: the entry is free */
    uint64_t hash;
    int number;
} name_entry;

struct pl_name_table {
    name_entry *entries;
    size_t size, used; /* size is a power of two */
};

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3;
    return hash;
}

/* Returns the entry of the name, or the free entry into which it would be inserted. */
static name_entry *find_name_entry(const pl_name_table *table, const char *name,
                                   uint64_t hash)
{
    size_t at = (size_t)hash & (table->size - 1);
    while (table->entries[at].name && (table->entries[at].hash != hash ||
                                       strcmp(table->entries[at].name, name) != 0))
        at = (at + 1) & (table->size - 1);
    return &table->entries[at];
}

pl_name_table *pl_name_table_create(void)
{
    pl_name_table *table = pl_alloc(sizeof *table);
    table->size = FIRST_SIZE;
    table->entries = pl_alloc(table->size * sizeof *table->entries);
    return table;
}

void pl_name_table_destroy(pl_name_table **handle)
{
    pl_name_table *table = *handle;
    *handle = NULL;
    if (!table)
        return;
    for (size_t i = 0; i < table->size; i++)
        pl_free(table->entries[i].name);
    pl_free_all(table->entries, table);
}

void pl_name_table_put(pl_name_table *table, const char *name, int number)
{
    uint64_t hash = hash_of(name);
    if (2 * (table->used + 1) > table->size) {
        pl_name_table old = *table;
        table->size *= 2;
        table->entries = pl_alloc(table->size * sizeof *table->entries);
        for (size_t i = 0; i < old.size; i++)
            if (old.entries[i].name)
                *find_name_entry(table, old.entries[i].name, old.entries[i].hash) =
                    old.entries[i];
        pl_free(old.entries);
    }
    name_entry *entry = find_name_entry(table, name, hash);
    if (!entry->name) {
        *entry = (name_entry){pl_strdup(name), hash, 0};
        table->used++;
    }
    entry->number = number;
}

/* the dropped entry may have displaced those up to the next free one: insert again */
void pl_name_table_drop(pl_name_table *table, const char *name)
{
    name_entry *entry = find_name_entry(table, name, hash_of(name));
    if (!entry->name)
        return;
    pl_free(entry->name);
    entry->name = NULL;
    table->used--;
    for (size_t at = (size_t)(entry - table->entries + 1) & (table->size - 1);
         table->entries[at].name; at = (at + 1) & (table->size - 1)) {
        name_entry moved = table->entries[at];
        table->entries[at].name = NULL;
        *find_name_entry(table, moved.name, moved.hash) = moved;
    }
}

int pl_name_table_get(const pl_name_table *table, const char *name)
{
    const name_entry *entry = find_name_entry(table, name, hash_of(name));
    return entry->name ? entry->number : -1;
}
