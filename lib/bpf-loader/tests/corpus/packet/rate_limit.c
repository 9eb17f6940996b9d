// A bucket of tokens for each of 128 sources.
#include "../program.h"
struct bucket { u64 tokens, last; };
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (length < 34) return 0;
    struct bucket *buckets = (struct bucket *)state;
    struct bucket *bucket = &buckets[packet[29] & 127];
    u64 now = clock_now();
    u64 earned = (now - bucket->last) / 1000;
    u64 tokens = bucket->tokens + earned;
    if (tokens > 64) tokens = 64;
    bucket->last = now;
    if (tokens == 0) { bucket->tokens = 0; return 0; }
    bucket->tokens = tokens - 1;
    return 1;
}
