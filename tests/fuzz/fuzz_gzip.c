/* Any bytes as a packed file, unpacked on its thread: the same bytes, and the same end, as zlib gives in one call. The
 * first byte is the size of the pieces that are asked for. */
#include "fuzz.h"
#include "trace/source.h"

#include <zlib.h>

enum { MOST = 1 << 20 };

/* All members; what is broken ends it. Returns the number of bytes, *whole: without a failure. */
static size_t unpack(const uint8_t *data, size_t size, unsigned char *bytes, bool *whole) {
    z_stream inflater = {
        .next_in = (unsigned char *)data, .avail_in = (uInt)size, .next_out = bytes, .avail_out = MOST};
    int result = inflateInit2(&inflater, 15 + 16);
    fuzz_require(result == Z_OK);
    while (inflater.avail_in && inflater.avail_out && result == Z_OK) {
        result = inflate(&inflater, Z_NO_FLUSH);
        if (result != Z_STREAM_END) continue;
        while (inflater.avail_in && !*inflater.next_in) { /* padding */
            inflater.next_in++;
            inflater.avail_in--;
        }
        if (inflater.avail_in) result = inflateReset2(&inflater, 15 + 16);
    }
    const size_t length = MOST - inflater.avail_out;
    *whole = result == Z_STREAM_END;
    inflateEnd(&inflater);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned char expected[MOST];
    static char found[MOST];
    if (size < 3 || data[1] != 0x1f || data[2] != 0x8b) return 0;
    bool whole;
    const size_t length = unpack(data + 1, size - 1, expected, &whole), piece = data[0] ? data[0] : MOST;
    if (length == MOST || (length >= 3 && !memcmp(expected, "\xef\xbb\xbf", 3))) return 0;
    char path[FUZZ_PATH];
    fuzz_path(path, "x.gz");
    fuzz_write(path, data + 1, size - 1);
    struct aorta_source *source;
    aorta_status status = aorta_source_open(path, &source);
    fuzz_require(!status);
    size_t count = 0, got = 1;
    while (!status && got && count < MOST) {
        const size_t wanted = count + piece < MOST ? piece : MOST - count;
        status = aorta_source_read(source, found + count, wanted, &got);
        if (!status) count += got;
    }
    fuzz_require(whole == !status && count <= length && !memcmp(found, expected, count));
    if (whole) fuzz_require(count == length);
    aorta_status_free(status);
    aorta_source_close(source);
    unlink(path);
    return 0;
}
