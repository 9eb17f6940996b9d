// The Ethernet type behind up to four VLAN tags.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    const u8 *at = packet + 12;
    for (int tag = 0; tag < 5; tag++) {
        if (at + 2 > end) return 0;
        u16 type = be16(at);
        if (type != 0x8100 && type != 0x88a8) return type;
        at += 4;
    }
    return 0;
}
