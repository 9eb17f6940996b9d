// CRC-32 by a table of sixteen constants.
#include "../program.h"
static const u32 table[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
u64 compute(const u8 *input, u64 length, u8 *output) {
    u32 crc = ~0u;
    for (u64 i = 0; i < length; i++) {
        crc ^= input[i];
        crc = table[crc & 15] ^ crc >> 4;
        crc = table[crc & 15] ^ crc >> 4;
    }
    return (u32)~crc;
}
