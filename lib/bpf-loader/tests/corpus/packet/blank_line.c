// Where the first blank line of a text protocol ends.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u32 window = 0;
    for (u64 at = 54; at < length; at++) {
        window = window << 8 | packet[at];
        if (window == 0x0d0a0d0a) return at + 1;
    }
    return 0;
}
