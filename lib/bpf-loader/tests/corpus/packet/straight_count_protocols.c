// Counts packets by IP protocol in a table of 256 words.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (length < 34 || be16(packet + 12) != 0x0800) return 0;
    state[packet[23]] += 1;
    return 1;
}
