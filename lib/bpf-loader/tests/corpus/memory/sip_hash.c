// SipHash-2-4 of the input under a fixed key.
#include "../program.h"
struct sip { u64 a, b, c, d; };
INLINE void turn(struct sip *s) {
    s->a += s->b; s->b = rotate_left(s->b, 13) ^ s->a; s->a = rotate_left(s->a, 32);
    s->c += s->d; s->d = rotate_left(s->d, 16) ^ s->c;
    s->a += s->d; s->d = rotate_left(s->d, 21) ^ s->a;
    s->c += s->b; s->b = rotate_left(s->b, 17) ^ s->c; s->c = rotate_left(s->c, 32);
}
u64 compute(const u8 *input, u64 length, u8 *output) {
    const u64 k0 = 0x0706050403020100, k1 = 0x0f0e0d0c0b0a0908;
    struct sip s = { k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573 };
    u64 at = 0, last = length << 56;
    for (; at + 8 <= length; at += 8) {
        u64 word = *(const u64 *)(input + at);
        s.d ^= word;
        turn(&s); turn(&s);
        s.a ^= word;
    }
    for (int shift = 0; at < length; at++, shift += 8) last |= (u64)input[at] << shift;
    s.d ^= last;
    turn(&s); turn(&s);
    s.a ^= last;
    s.c ^= 255;
    turn(&s); turn(&s); turn(&s); turn(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
