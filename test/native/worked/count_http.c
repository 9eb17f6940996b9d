typedef unsigned char u8;
typedef unsigned long u64;

/* Counts the TCP packets to port 80. The state is kept from packet to packet. */
u64 count_http(const u8 *packet, u64 length, u64 *state)
{
    const u8 *end = packet + length;
    if (length < 34 || packet[12] != 8 || packet[13] != 0 || packet[23] != 6)
        return 0;
    const u8 *tcp = packet + 14 + (packet[14] & 15) * 4;
    if (tcp + 4 > end || tcp[2] != 0 || tcp[3] != 80)
        return 0;
    __sync_fetch_and_add(&state[0], 1);
    return 1;
}
