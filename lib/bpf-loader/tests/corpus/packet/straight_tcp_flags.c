// A TCP segment that opens a connection to port 80.
#include "../program.h"
struct headers {
    u8 to[6], from[6]; u16 type;
    u8 version, service; u16 total, identity, fragment; u8 hops, protocol; u16 sum; u32 source, destination;
    u16 source_port, destination_port; u32 sequence, acknowledged; u8 offset, flags; u16 window;
} __attribute__((packed));
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    const struct headers *headers = (const void *)packet;
    if ((const u8 *)(headers + 1) > end) return 0;
    if (headers->type != 0x0008 || headers->version != 0x45 || headers->protocol != 6) return 0;
    return headers->destination_port == 0x5000 && (headers->flags & 0x12) == 0x02;
}
