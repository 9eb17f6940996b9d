// Answers a ping of 56 bytes: swaps the addresses and mends the checksum.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u8 frame[98];
    if (length < 98 || be16(packet + 12) != 0x0800 || packet[14] != 0x45) return 0;
    if (packet[23] != 1 || packet[34] != 8) return 0;
    __builtin_memcpy(frame, packet, 98);
    __builtin_memcpy(frame, packet + 6, 6);
    __builtin_memcpy(frame + 6, packet, 6);
    __builtin_memcpy(frame + 26, packet + 30, 4);
    __builtin_memcpy(frame + 30, packet + 26, 4);
    frame[34] = 0;
    u32 sum = be16(packet + 36) + 0x0800;
    put16(frame + 36, (u16)(sum + (sum >> 16)));
    return reply(frame, sizeof frame);
}
