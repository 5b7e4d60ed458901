/* The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), read field by field from
 * memory. Nothing is copied, and no memory is allocated by numbers of a message. */
#ifndef AORTA_TRACE_PROTO_H
#define AORTA_TRACE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A text, a message, or its part that is not read yet. */
struct aorta_proto {
    const char *at, *end;
};

static inline size_t aorta_proto_length(struct aorta_proto text) {
    return (size_t)(text.end - text.at);
}

static inline bool aorta_proto_begins(struct aorta_proto text, const char *word) {
    const size_t length = strlen(word);
    return aorta_proto_length(text) >= length && !memcmp(text.at, word, length);
}

static inline bool aorta_proto_is(struct aorta_proto text, const char *word) {
    return aorta_proto_length(text) == strlen(word) && aorta_proto_begins(text, word);
}

/* The number after a beginning: "/device:GPU:0", "Stream #14(Compute)". -1 if there is none. */
static inline int64_t aorta_proto_number_after(struct aorta_proto text, const char *begin) {
    if (!text.at || !aorta_proto_begins(text, begin)) return -1;
    int64_t number = -1;
    for (const char *at = text.at + strlen(begin); at < text.end && *at >= '0' && *at <= '9' && number < INT32_MAX;
         at++)
        number = (number < 0 ? 0 : 10 * number) + (*at - '0');
    return number > INT32_MAX ? -1 : number;
}

/* `number` is the field's number; `value` is a varint or fixed bytes; `bytes` is a text, message or packed list.
 * Groups, an obsolete type, are not read. */
struct aorta_proto_field {
    uint32_t number;
    uint64_t value;
    struct aorta_proto bytes; /* .at is NULL: the field is a number */
};

/* Reads a number of 7 bits per byte, the lowest first. False if it ends early or is too long. */
static inline bool aorta_proto_varint(struct aorta_proto *message, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        const unsigned char byte = (unsigned char)*message->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static inline bool aorta_proto_fixed(struct aorta_proto *message, size_t bytes, uint64_t *value) {
    *value = 0;
    if ((size_t)(message->end - message->at) < bytes) return false;
    for (size_t i = 0; i < bytes; i++) *value |= (uint64_t)(unsigned char)message->at[i] << 8 * i;
    message->at += bytes;
    return true;
}

/* Reads the next field. False at the end of the message (.at == .end), or if it is broken at .at. */
static inline bool aorta_proto_next(struct aorta_proto *message, struct aorta_proto_field *field) {
    enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
    const char *const begin = message->at;
    uint64_t key;
    bool known = message->at < message->end && aorta_proto_varint(message, &key) && key >> 3 && key >> 3 <= UINT32_MAX;
    *field = (struct aorta_proto_field){0};
    if (known) {
        field->number = (uint32_t)(key >> 3);
        const unsigned type = key & 7;
        if (type == VARINT || type == BYTES) known = aorta_proto_varint(message, &field->value);
        if (type == FIXED64 || type == FIXED32)
            known = aorta_proto_fixed(message, type == FIXED64 ? 8 : 4, &field->value);
        if (type > BYTES && type != FIXED32) known = false;
        if (known && type == BYTES) known = field->value <= (uint64_t)(message->end - message->at);
        if (known && type == BYTES) {
            field->bytes = (struct aorta_proto){message->at, message->at + field->value};
            message->at += field->value;
        }
    }
    if (!known) message->at = begin;
    return known;
}

/* Finds the first field of this number. False, with the field all 0, if there is none or the message breaks before
 * it. */
static inline bool aorta_proto_find(struct aorta_proto message, uint32_t number, struct aorta_proto_field *field) {
    while (aorta_proto_next(&message, field))
        if (field->number == number) return true;
    return false;
}

/* The message at the beginning of a file, as far as it is in these bytes. False if the file begins differently. */
static inline bool aorta_proto_first(const char *head, size_t length, uint32_t number, struct aorta_proto *message) {
    uint64_t key, size;
    *message = (struct aorta_proto){head, head + length};
    if (!aorta_proto_varint(message, &key) || key != (number << 3 | 2) || !aorta_proto_varint(message, &size))
        return false;
    if (size < aorta_proto_length(*message)) message->end = message->at + size;
    return true;
}

#endif
