// ICMP: raw sockets, their filters and headers, and which kinds and protocols there are.
#include "../internet.h"
#include <netinet/icmp6.h>
#include <linux/icmp.h>

static void raw(void) {
    int made = socket(family, SOCK_RAW, family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    printf("raw %s", said(made < 0 ? -1 : 0));
    if (made < 0) { printf("\n"); return; }
    unsigned char packet[64], got[256];
    struct sockaddr_storage name, from;
    socklen_t bytes = name_of(&name, 0), size = sizeof from;
    printf(", sent %s", said(sendto(made, packet, request(packet, 0x1234, 1), 0, (void *)&name, bytes)));
    usleep(1000);
    for (int turn = 0; turn < 3; turn++) {
        long came = recvfrom(made, got, sizeof got, MSG_DONTWAIT, (void *)&from, &size);
        printf(", came %s", said(came));
        if (came <= 0) break;
        int head = family == AF_INET ? (got[0] & 15) * 4 : 0;
        printf(" type %d id %x", got[head], got[head + 4] << 8 | got[head + 5]);
        if (head) printf(" protocol %d ttl %d length %d", got[9], got[8], got[2] << 8 | got[3]);
    }
    printf("\n");
    if (family == AF_INET) {
        struct icmp_filter filter = {~(1u << 0)}, back = {0};
        socklen_t length = sizeof back;
        printf("filter %s", said(setsockopt(made, SOL_RAW, ICMP_FILTER, &filter, sizeof filter)));
        printf(" %s", said(getsockopt(made, SOL_RAW, ICMP_FILTER, &back, &length)));
        printf(" %d", back.data == filter.data);
    } else {
        struct icmp6_filter filter, back;
        socklen_t length = sizeof back;
        ICMP6_FILTER_SETBLOCKALL(&filter);
        ICMP6_FILTER_SETPASS(129, &filter);
        printf("filter %s", said(setsockopt(made, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter)));
        printf(" %s", said(getsockopt(made, IPPROTO_ICMPV6, ICMP6_FILTER, &back, &length)));
        printf(" %d %u", !memcmp(&filter, &back, sizeof back), length);
    }
    sendto(made, packet, request(packet, 0x4321, 2), 0, (void *)&name, bytes);
    usleep(1000);
    int count = 0;
    while (recv(made, got, sizeof got, MSG_DONTWAIT) > 0) count++;
    printf(", then %d\n", count);
    close(made);
}

int main(void) {
    begin();
    BOTH_FAMILIES raw();
    for (int kind = 0; kind < 10; kind++)
        for (int protocol = 0; protocol < 300; protocol += protocol == 18 ? 240 : protocol == 1 ? 5 : protocol == 6 ? 11 : 1) {
            // Which groups may have one `ping_group_range` says, which a host sets as it likes.
            if (kind == SOCK_DGRAM && protocol == IPPROTO_ICMP) continue;
            int v4 = socket(AF_INET, kind, protocol);
            printf("%d/%d %s", kind, protocol, said(v4 < 0 ? -1 : 0));
            int v6 = socket(AF_INET6, kind, protocol);
            printf(" %s; ", said(v6 < 0 ? -1 : 0));
            close(v4), close(v6);
            if (protocol > 260) break;
        }
    printf("\n");
    return 0;
}
