// Where a request for a forbidden page begins, by the method of Boyer, Moore and Horspool.
#include "../program.h"
static const u8 needle[10] = "GET /admin";
// How far to go on by the byte below the needle's end, less 10.
static const signed char skips[256] = {
    ['G'] = -1, ['E'] = -2, ['T'] = -3, [' '] = -4, ['/'] = -5, ['a'] = -6, ['d'] = -7, ['m'] = -8, ['i'] = -9,
};
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u64 at = 0;
    while (at + 10 <= length) {
        u32 left = 10;
        while (left && packet[at + left - 1] == needle[left - 1]) left--;
        if (!left) return at;
        at += 10 + skips[packet[at + 9]];
    }
    return -1;
}
