// The largest segment size that a SYN offers.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 54 > end || packet[14] != 0x45 || packet[23] != 6) return 0;
    u64 at = 54, last = 34 + (packet[46] >> 4) * 4;
    for (int option = 0; option < 20; option++) {
        if (at + 4 > last || at + 4 > length) return 0;
        u8 kind = packet[at];
        if (kind == 0) return 0;
        if (kind == 1) { at += 1; continue; }
        if (kind == 2) return be16(packet + at + 2);
        if (packet[at + 1] < 2) return 0;
        at += packet[at + 1];
    }
    return 0;
}
