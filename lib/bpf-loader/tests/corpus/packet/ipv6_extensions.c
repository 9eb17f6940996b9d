// Walks IPv6 extension headers to the transport.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 54 > end || be16(packet + 12) != 0x86dd) return 0;
    u8 next = packet[20];
    const u8 *at = packet + 54;
    for (int header = 0; header < 8; header++) {
        if (next != 0 && next != 43 && next != 60) return next;
        if (at + 8 > end) return 0;
        next = at[0];
        at += 8 + at[1] * 8;
    }
    return 255;
}
