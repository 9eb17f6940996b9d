// Hashes the first name of a DNS question, label by label.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u64 at = 54, hash = 5381;
    for (int label = 0; label < 16; label++) {
        if (at >= length) return 0;
        u8 size = packet[at++];
        if (size == 0) return hash;
        if (size > 63) return 0;
        for (u8 letter = 0; letter < size; letter++) {
            if (at >= length) return 0;
            hash = hash * 33 + (packet[at++] | 0x20);
        }
    }
    return 0;
}
