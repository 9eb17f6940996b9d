// Options of Internet sockets: each one before it is set, after wrong and right values, with short and long lengths.
#include "../internet.h"
#include <netinet/ip.h>
#include <netinet/udp.h>

struct option { int level, name; const char *what; };
#define ROW(level, name) {level, name, #name}
static const struct option options[] = {
    ROW(SOL_SOCKET, SO_REUSEADDR), ROW(SOL_SOCKET, SO_REUSEPORT), ROW(SOL_SOCKET, SO_KEEPALIVE), ROW(SOL_SOCKET, SO_OOBINLINE), ROW(SOL_SOCKET, SO_BROADCAST), ROW(SOL_SOCKET, SO_DONTROUTE), ROW(SOL_SOCKET, SO_TYPE), ROW(SOL_SOCKET, SO_ERROR), ROW(SOL_SOCKET, SO_ACCEPTCONN), ROW(SOL_SOCKET, SO_PROTOCOL), ROW(SOL_SOCKET, SO_DOMAIN), ROW(SOL_SOCKET, SO_SNDLOWAT), ROW(SOL_SOCKET, SO_TIMESTAMP), ROW(SOL_SOCKET, SO_TIMESTAMPNS), ROW(SOL_SOCKET, SO_NO_CHECK), ROW(SOL_SOCKET, 999),
    ROW(IPPROTO_IP, IP_TTL), ROW(IPPROTO_IP, IP_TOS), ROW(IPPROTO_IP, IP_PKTINFO), ROW(IPPROTO_IP, IP_RECVTTL), ROW(IPPROTO_IP, IP_RECVTOS), ROW(IPPROTO_IP, IP_RECVERR), ROW(IPPROTO_IP, IP_MTU_DISCOVER), ROW(IPPROTO_IP, IP_MTU), ROW(IPPROTO_IP, IP_FREEBIND), ROW(IPPROTO_IP, IP_HDRINCL), ROW(IPPROTO_IP, IP_MULTICAST_IF), ROW(IPPROTO_IP, IP_MULTICAST_TTL), ROW(IPPROTO_IP, IP_MULTICAST_LOOP), ROW(IPPROTO_IP, IP_MULTICAST_ALL), ROW(IPPROTO_IP, IP_MINTTL), ROW(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), ROW(IPPROTO_IP, 999),
    ROW(IPPROTO_IPV6, IPV6_V6ONLY), ROW(IPPROTO_IPV6, IPV6_UNICAST_HOPS), ROW(IPPROTO_IPV6, IPV6_MULTICAST_IF), ROW(IPPROTO_IPV6, IPV6_MULTICAST_HOPS), ROW(IPPROTO_IPV6, IPV6_MULTICAST_LOOP), ROW(IPPROTO_IPV6, IPV6_RECVPKTINFO), ROW(IPPROTO_IPV6, IPV6_RECVHOPLIMIT), ROW(IPPROTO_IPV6, IPV6_RECVTCLASS), ROW(IPPROTO_IPV6, IPV6_RECVHOPOPTS), ROW(IPPROTO_IPV6, IPV6_RECVRTHDR), ROW(IPPROTO_IPV6, IPV6_RECVDSTOPTS), ROW(IPPROTO_IPV6, IPV6_RECVPATHMTU), ROW(IPPROTO_IPV6, IPV6_TCLASS), ROW(IPPROTO_IPV6, IPV6_RECVERR), ROW(IPPROTO_IPV6, IPV6_MTU_DISCOVER), ROW(IPPROTO_IPV6, 999),
    ROW(IPPROTO_TCP, TCP_NODELAY), ROW(IPPROTO_TCP, TCP_CORK), ROW(IPPROTO_TCP, TCP_KEEPIDLE), ROW(IPPROTO_TCP, TCP_KEEPINTVL), ROW(IPPROTO_TCP, TCP_KEEPCNT), ROW(IPPROTO_TCP, TCP_SYNCNT), ROW(IPPROTO_TCP, TCP_LINGER2), ROW(IPPROTO_TCP, TCP_DEFER_ACCEPT), ROW(IPPROTO_TCP, TCP_QUICKACK), ROW(IPPROTO_TCP, TCP_USER_TIMEOUT), ROW(IPPROTO_TCP, TCP_WINDOW_CLAMP), ROW(IPPROTO_TCP, 999),
    ROW(IPPROTO_UDP, UDP_CORK), ROW(IPPROTO_UDP, 999), ROW(77, 1),
};
static const int values[] = {0, 1, -1, 2, 64, 255, 256, 0x7fffffff, (int)0x80000000};

static void one(int made, const struct option *option) {
    int value = -1;
    char large[64] = {1};
    socklen_t bytes = sizeof value;
    int has = !getsockopt(made, option->level, option->name, &value, &bytes), sets = 0;
    printf("%s:", option->what);
    printf(" %s", said(has - 1));
    printf(" %d;", value);
    for (unsigned at = 0; at < sizeof values / sizeof *values; at++) {
        int failed = setsockopt(made, option->level, option->name, &values[at], sizeof values[at]);
        printf(" %s", said(failed));
        sets += !failed;
        value = -7, bytes = sizeof value;
        if (!failed) getsockopt(made, option->level, option->name, &value, &bytes), printf("=%d", value);
    }
    int length;
    for (int at = 0; at < 4; at++)
        length = (int[]){0, 1, 3, -1}[at], printf(" [%d]%s", length, said(setsockopt(made, option->level, option->name, large, length)));
    printf(" [64]%s", said(setsockopt(made, option->level, option->name, large, 64)));
    // Which of several errors counts is not the same for all.
    for (int at = 0; at < (has ? 5 : 4); at++) {
        bytes = (int[]){0, 1, 3, 64, -1}[at];
        printf(" (%d)%s", (int)bytes, said(getsockopt(made, option->level, option->name, large, &bytes)));
        printf("=%d", (int)bytes);
    }
    if (sets) printf(" %s", said(setsockopt(made, option->level, option->name, (void *)16, 4)));
    if (has) printf(" %s", said(getsockopt(made, option->level, option->name, large, (void *)16)));
    printf("\n");
}

// A socket has no options of IP: sshd refuses a connection that has some.
static void ip_options(int made) {
    char large[64] = {1};
    socklen_t bytes = sizeof large;
    int gets = getsockopt(made, IPPROTO_IP, IP_OPTIONS, large, &bytes);
    printf("IP_OPTIONS: %s %d", said(gets), (int)bytes);
    printf(" %s", said(setsockopt(made, IPPROTO_IP, IP_OPTIONS, NULL, 0)));
    printf(" %s\n", said(setsockopt(made, IPPROTO_IP, IP_OPTIONS, large, 44)));
}

int main(void) {
    begin();
    for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++)
        BOTH_FAMILIES {
            for (unsigned at = 0; at < sizeof options / sizeof *options; at++) {
                int made = socket(family, kind, 0);
                printf("%d ", kind), one(made, &options[at]), close(made);
            }
            int made = socket(family, kind, 0);
            ip_options(made), close(made);
        }
    return 0;
}
