// Counts packets by destination port, in 512 counters.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 38 > end) return 0;
    u16 port = be16(packet + 36);
    __sync_fetch_and_add(&state[port & 511], 1);
    return port;
}
