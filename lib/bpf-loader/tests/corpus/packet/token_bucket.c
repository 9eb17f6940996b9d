// A bucket of tokens for each flow, in a hash table of 128 that is probed four times.
#include "../program.h"
struct bucket { u64 last; long long tokens; u32 flow, drops; };
INLINE u32 mix(u32 hash, u32 word) {
    hash = (hash ^ word) * 0x9e3779b1;
    return hash ^ hash >> 15;
}
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 34 > end) return 1;
    struct bucket *buckets = (struct bucket *)state;
    u32 flow = mix(mix(1, be32(packet + 26)), be32(packet + 30)) | 1;
    u64 now = clock_now();
    for (u32 probe = 0; probe < 4; probe++) {
        struct bucket *bucket = &buckets[(flow + probe) % 128];
        if (bucket->flow == 0) *bucket = (struct bucket) { now, 12000, flow, 0 };
        if (bucket->flow != flow) continue;
        long long tokens = bucket->tokens + (long long)((now - bucket->last) / 1000);
        if (tokens > 12000) tokens = 12000;
        bucket->last = now;
        u32 enough = tokens >= (long long)length;
        bucket->tokens = enough ? tokens - length : tokens;
        bucket->drops += !enough;
        return enough;
    }
    return 1;
}
