// Internet sockets of several users: ports that another user may bind, low ports, connections to user 0, raw sockets, and
// sockets for echoes. A name space of the host that knows only one user cannot say what Linux does; this was said by
// Linux 6.18 for root, with every group in `ping_group_range`.
#include "../../parity/internet.h"

static void users(void) {
    int status, listening = socket(family, SOCK_STREAM, 0);
    set_to(listening, SOL_SOCKET, SO_REUSEPORT, 1);
    struct sockaddr_storage name;
    socklen_t bytes = name_of(&name, 0);
    bind(listening, (void *)&name, bytes), listen(listening, 5);
    if (!fork()) {
        if (setgid(1000) || setuid(1000)) _exit(1);
        for (int reuse = 0; reuse < 4; reuse++) {
            int other = socket(family, SOCK_STREAM, 0);
            if (reuse & 1) set_to(other, SOL_SOCKET, SO_REUSEADDR, 1);
            if (reuse & 2) set_to(other, SOL_SOCKET, SO_REUSEPORT, 1);
            bytes = name_of(&name, port_of(listening));
            printf("another user %d: %s", reuse, said(bind(other, (void *)&name, bytes)));
            printf(" %s\n", said(listen(other, 1)));
            close(other);
        }
        for (int port = 80; port < 1025; port += 943) {
            int low = socket(family, SOCK_STREAM, 0);
            bytes = name_of(&name, port);
            printf("port %d: %s\n", port, said(bind(low, (void *)&name, bytes)));
            close(low);
        }
        int near = socket(family, SOCK_STREAM, 0);
        printf("connect %s", said(connect_to(near, port_of(listening))));
        char text[8];
        printf(", read %s\n", said(read(near, text, 8)));
        _exit(0);
    }
    int one = accept(listening, 0, 0);
    write(one, "root", 4), close(one), close(listening);
    wait(&status);
}

static void echoes(void) {
    int made = socket(family, SOCK_DGRAM, family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    if (made < 0) { printf("echoes %s\n", strerrorname_np(errno)); return; }
    unsigned char packet[64], got[256];
    struct sockaddr_storage name;
    socklen_t bytes = name_of(&name, 0);
    printf("echo type %d, protocol %d", number_of(made, SOL_SOCKET, SO_TYPE), number_of(made, SOL_SOCKET, SO_PROTOCOL));
    printf(", sent %s", said(sendto(made, packet, request(packet, 0x55, 3), 0, (void *)&name, bytes)));
    long came = recv(made, got, sizeof got, 0);
    printf(", came %s, type %d, own number %d", said(came), got[0], (got[4] << 8 | got[5]) == port_of(made));
    packet[0] = 0;
    printf(", another type %s", said(sendto(made, packet, 24, 0, (void *)&name, bytes)));
    printf(", short %s", said(sendto(made, packet, 4, 0, (void *)&name, bytes)));
    printf(", connect %s\n", said(connect(made, (void *)&name, bytes)));
    close(made);
}

int main(void) {
    begin();
    BOTH_FAMILIES users(), echoes();
    if (!fork()) {
        if (setgid(7) || setuid(7)) _exit(1);
        printf("another user: %s", said(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)));
        printf(" %s\n", said(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)));
        _exit(0);
    }
    wait(0);
    return 0;
}
