/* The two loops over every byte and every line of a chunk, compiled where the package is built with a C compiler.
 *
 * Each function does what the numpy code beside its caller does, in one pass instead of several; the tests hold the two
 * against each other. Nothing here allocates, keeps anything, or touches a byte outside of what the caller says.
 */
#include <stdint.h>
#include <string.h>

enum { TILE_BYTES = 16 * 1024 }; /* stays in the first-level cache between the two looks at it */

enum { ASCII_ONLY = 1, ENDS_WITH_CR = 2 };

#if defined(__x86_64__) && defined(__GNUC__) && defined(__gnu_linux__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* All bytes of data[start..end) or'ed together, spread over the bytes of a word. */
FOR_EACH_PROCESSOR
static uint64_t bits_of(const uint8_t *data, int64_t start, int64_t end) {
    uint64_t bits = 0;
    for (; start + 8 <= end; start += 8) {
        uint64_t word;
        memcpy(&word, data + start, 8);
        bits |= word;
    }
    for (; start < end; start++) bits |= data[start];
    return bits;
}

/* Find the line feeds of data[start..end).
 *
 * positions: room for `room` of them; more are not looked for.
 * flags: ASCII_ONLY if no byte is above 127; ENDS_WITH_CR if any line feed has a CR before it.
 * Returns how many were found, or -1 if there are more than `room`.
 */
int64_t edgesocket_line_feeds(const uint8_t *data, int64_t start, int64_t end, int64_t *positions, int64_t room,
                              int64_t *flags) {
    int64_t count = 0;
    uint64_t bits = 0;
    int ends_with_cr = 0;
    for (int64_t tile = start; tile < end; tile += TILE_BYTES) {
        int64_t stop = end - tile < TILE_BYTES ? end : tile + TILE_BYTES;
        bits |= bits_of(data, tile, stop);
        const uint8_t *from = data + tile, *until = data + stop;
        while (from < until) {
            const uint8_t *found = memchr(from, '\n', (size_t)(until - from));
            if (!found) break;
            if (count == room) return -1;
            ends_with_cr |= found > data + start && found[-1] == '\r';
            positions[count++] = found - data;
            from = found + 1;
        }
    }
    *flags = ((bits & UINT64_C(0x8080808080808080)) ? 0 : ASCII_ONLY) | (ends_with_cr ? ENDS_WITH_CR : 0);
    return count;
}

/* How many of the lines at starts[0..count) begin with the header of the ids that follow each other.
 *
 * header: the first line's, `size` bytes, both colons included; counted up in place. Its digits begin at `digits`, and
 * are wide enough for all ids.
 */
int64_t edgesocket_consecutive(const uint8_t *data, const int64_t *starts, int64_t count, uint8_t *header, int64_t size,
                               int64_t digits) {
    for (int64_t line = 0; line < count; line++) {
        if (memcmp(data + starts[line], header, (size_t)size) != 0) return line;
        int64_t place = size - 2;
        while (place >= digits && header[place] == '9') header[place--] = '0';
        if (place >= digits) header[place]++;
    }
    return count;
}
