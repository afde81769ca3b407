/* The tables of fields (base/fields.h) of all message bodies (net/messages.def). */
#include "net/lease.h"
#include "outer/outer.h"

enum {
#define FIELD(tag, NAME, member, type, limit)                                          \
    TAG_OF_##member = (tag), LIMIT_OF_##member = (limit),
#define OTHER(NAME, member, type, limit)                                               \
    TAG_OF_##member = PL_TAG_##NAME, LIMIT_OF_##member = (limit),
#include "net/messages.def"
};

#define BODY(name)                                                                     \
    const pl_field *pl_fields_of_##name(void)                                          \
    {                                                                                  \
        typedef pl_msg_##name T;                                                       \
        static const pl_field fields[] = {
#define RECORD(name) BODY(name)
#define HAS(member)                                                                    \
    {TAG_OF_##member, PL_KIND_OF(T, member), PL_RULE_NEEDED, LIMIT_OF_##member,        \
     PL_FIELD_ROW(T, member)},
#define MAY(member)                                                                    \
    {TAG_OF_##member, PL_KIND_OF(T, member), PL_RULE_NONZERO, LIMIT_OF_##member,       \
     PL_FIELD_ROW(T, member)},
#define WORK
#define WORKED(member)   PL_FIELD(T, TAG_OF_##member, work.member),
#define MEASURED(member) PL_FIELD_NONZERO(T, TAG_OF_##member, work.member),
#define WITH(member, gate)                                                             \
    {TAG_OF_##member,   PL_KIND_OF(T, member),   PL_RULE_GATED,                        \
     LIMIT_OF_##member, PL_FIELD_ROW(T, member), PL_FIELD_OTHER(T, gate)},
#define FLAG(member)
#define LIST(member) HAS(member)
#define NEST(member, body)                                                             \
    {.tag = TAG_OF_##member,                                                           \
     PL_KIND_LIST,                                                                     \
     .offset = offsetof(T, member),                                                    \
     .size = sizeof(pl_msg_##body),                                                    \
     PL_FIELD_OTHER(T, n_##member),                                                    \
     .nested_of = pl_fields_of_##body},
#define END                                                                            \
    PL_FIELDS_END                                                                      \
    }                                                                                  \
    ;                                                                                  \
    return fields;                                                                     \
    }
#include "net/messages.def"

size_t pl_piece_bytes(const pl_msg_get_blob *q, uint64_t total)
{
    uint64_t left = q->offset < total ? total - q->offset : 0;
    uint64_t most = PL_WIRE_DATA_MAX;
    if (q->total > 0 && q->total < most)
        most = q->total;
    return (size_t)(left < most ? left : most);
}
