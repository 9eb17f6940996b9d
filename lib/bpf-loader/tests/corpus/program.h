// What the programs of this corpus share: types, byte order, and what a context offers.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

// Bytes of the network as numbers.
INLINE u16 be16(const u8 *at) { return (u16)(at[0] << 8 | at[1]); }
INLINE u32 be32(const u8 *at) { return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3]; }
INLINE void put16(u8 *at, u16 value) { at[0] = value >> 8; at[1] = value; }

INLINE u64 rotate_left(u64 value, int bits) { return value << bits | value >> (64 - bits); }

// Helpers and regions of the contexts.
extern u64 clock_now(void);
extern u64 reply(const void *bytes, u64 length);
extern u64 own_blocks(u64 first, u64 count);
extern u64 state[512];
