#include "base/hash.h"

#include <string.h>

/* 16 bytes at a time. */
uint64_t aorta_hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = length, a, b;
    for (size_t left = length; left >= 16; left -= 16, at += 16) {
        memcpy(&a, at, 8);
        memcpy(&b, at + 8, 8);
        hash = aorta_hash_add(a ^ hash, b);
    }
    unsigned char rest[16] = {0};
    memcpy(rest, at, length % 16);
    memcpy(&a, rest, 8);
    memcpy(&b, rest + 8, 8);
    return aorta_hash_add(a ^ hash, b);
}
