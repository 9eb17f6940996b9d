// The FNV-1a hash of the input.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 hash = 0xcbf29ce484222325ull;
    for (u64 i = 0; i < length; i++) hash = (hash ^ input[i]) * 0x100000001b3ull;
    return hash;
}
