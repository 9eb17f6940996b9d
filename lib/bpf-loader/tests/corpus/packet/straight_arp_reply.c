// Answers who has 10.0.2.15 at once, from a frame built on the stack.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u8 frame[42];
    if (length < 42 || be16(packet + 12) != 0x0806 || be16(packet + 20) != 1) return 0;
    if (be32(packet + 38) != 0x0a00020f) return 0;
    __builtin_memcpy(frame, packet, 42);
    __builtin_memcpy(frame, packet + 6, 6);
    __builtin_memcpy(frame + 6, "\x52\x54\x00\x12\x34\x56", 6);
    put16(frame + 20, 2);
    __builtin_memcpy(frame + 22, "\x52\x54\x00\x12\x34\x56", 6);
    __builtin_memcpy(frame + 28, packet + 38, 4);
    __builtin_memcpy(frame + 32, packet + 22, 10);
    return reply(frame, sizeof frame);
}
