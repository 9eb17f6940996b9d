// Does a TCP segment begin with a GET? Both headers may have options.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 34 > end || packet[23] != 6) return 0;
    const u8 *tcp = packet + 14 + (packet[14] & 15) * 4;
    if (tcp + 20 > end) return 0;
    const u8 *data = tcp + (tcp[12] >> 4) * 4;
    if (data + 4 > end) return 0;
    return be32(data) == 0x47455420;
}
