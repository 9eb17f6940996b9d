// Datagrams over 127.0.0.1 and ::1: names, sizes, truncation, connections, refusals, control messages; sockets inherited and passed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *said(long value) { static char text[32]; if (value < 0) return strerrorname_np(errno); snprintf(text, 32, "%ld", value); return text; }

static int family;
static socklen_t name_of(struct sockaddr_storage *name, int port) {
    memset(name, 0, sizeof *name);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (void *)name;
        v4->sin_family = AF_INET, v4->sin_port = htons(port), v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (void *)name;
    v6->sin6_family = AF_INET6, v6->sin6_port = htons(port), v6->sin6_addr = in6addr_loopback;
    return sizeof *v6;
}
static int port_of(int socket) {
    struct sockaddr_in6 name;
    socklen_t bytes = sizeof name;
    getsockname(socket, (void *)&name, &bytes);
    return ntohs(name.sin6_port);
}
static int bound(int kind) {
    struct sockaddr_storage name;
    int made = socket(family, kind, 0), on = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t bytes = name_of(&name, 0);
    if (bind(made, (void *)&name, bytes)) exit(1);
    return made;
}

static void datagrams(void) {
    static char large[65536], text[65536];
    struct sockaddr_storage name;
    int one = bound(SOCK_DGRAM), two = socket(family, SOCK_DGRAM, 0);
    socklen_t bytes = name_of(&name, port_of(one));
    printf("unconnected %s, ", said(send(two, "x", 1, 0)));
    printf("short name %s, ", said(sendto(two, "x", 1, 0, (void *)&name, 7)));
    printf("sent %s, ", said(sendto(two, "hello", 5, 0, (void *)&name, bytes)));
    printf("empty %s, ", said(sendto(two, "", 0, 0, (void *)&name, bytes)));
    memset(large, 'l', sizeof large);
    printf("large %s, ", said(sendto(two, large, 60000, 0, (void *)&name, bytes)));
    printf("too large %s\n", said(sendto(two, large, sizeof large, 0, (void *)&name, bytes)));
    int waiting = -1;
    ioctl(one, FIONREAD, &waiting);
    printf("waiting %d, ", waiting);
    struct sockaddr_storage from;
    bytes = sizeof from;
    printf("peek %s, ", said(recv(one, text, 3, MSG_PEEK | MSG_TRUNC)));
    printf("got %s ", said(recvfrom(one, text, 3, 0, (void *)&from, &bytes)));
    printf("with a name of %u from its port %d, ", bytes, ntohs(((struct sockaddr_in *)&from)->sin_port) == port_of(two));
    printf("empty %s, ", said(recv(one, text, 9, 0)));
    printf("large %s ", said(recv(one, text, sizeof text, 0)));
    printf("%d, ", memcmp(large, text, 60000));
    printf("nothing %s\n", said(recv(one, text, 9, MSG_DONTWAIT)));
    bytes = name_of(&name, port_of(one));
    printf("connected %s, ", said(connect(two, (void *)&name, bytes)));
    printf("sent %s, ", said(write(two, "a", 1)));
    printf("back %s, ", said((recvfrom(one, text, 9, 0, (void *)&from, &bytes), sendto(one, "bc", 2, 0, (void *)&from, bytes))));
    printf("got %s\n", said(read(two, text, 9)));
    close(one);
    printf("gone %s, ", said(send(two, "x", 1, 0)));
    usleep(1000);
    struct pollfd poll_one = {two, POLLIN | POLLOUT, 0};
    poll(&poll_one, 1, 0);
    printf("%#x, ", poll_one.revents);
    printf("refused %s, ", said(send(two, "x", 1, 0)));
    printf("then %s\n", said(recv(two, text, 9, MSG_DONTWAIT)));
    close(two);
}

static void options(void) {
    static const int all[][2] = {{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT}, {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_BROADCAST},
        {SOL_SOCKET, SO_TYPE}, {SOL_SOCKET, SO_PROTOCOL}, {SOL_SOCKET, SO_DOMAIN}, {SOL_SOCKET, SO_ACCEPTCONN}, {SOL_SOCKET, SO_OOBINLINE},
        {SOL_SOCKET, SO_RCVLOWAT}, {SOL_SOCKET, 999}, {IPPROTO_IP, IP_TTL}, {IPPROTO_IP, IP_TOS}, {IPPROTO_IP, IP_RECVERR}, {IPPROTO_IP, IP_PKTINFO},
        {IPPROTO_IP, 999}, {IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_CORK}, {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL},
        {IPPROTO_TCP, TCP_KEEPCNT}, {IPPROTO_TCP, TCP_USER_TIMEOUT}, {IPPROTO_TCP, TCP_SYNCNT}, {IPPROTO_TCP, 999},
        {IPPROTO_UDP, UDP_CORK}, {IPPROTO_IPV6, IPV6_UNICAST_HOPS}, {IPPROTO_IPV6, IPV6_RECVPKTINFO}, {IPPROTO_IPV6, 999}, {999, 1}};
    int kinds[] = {SOCK_STREAM, SOCK_DGRAM};
    for (int which = 0; which < 2; which++) {
        int one = socket(family, kinds[which], 0);
        for (unsigned at = 0; at < sizeof all / sizeof *all; at++) {
            int value = -7;
            socklen_t bytes = sizeof value;
            printf("%d %d: %s", all[at][0], all[at][1], said(getsockopt(one, all[at][0], all[at][1], &value, &bytes)));
            printf(" %d", value);
            for (int wanted = 7; wanted >= 0; wanted -= 7) {
                printf(", %d %s", wanted, said(setsockopt(one, all[at][0], all[at][1], &wanted, sizeof wanted)));
                value = -7, getsockopt(one, all[at][0], all[at][1], &value, &bytes);
                printf(" %d", value);
            }
            int negative = -5;
            printf(", negative %s", said(setsockopt(one, all[at][0], all[at][1], &negative, sizeof negative)));
            printf(", none %s\n", said(setsockopt(one, all[at][0], all[at][1], &negative, 0)));
        }
        close(one);
    }
}

static void kinds(void) {
    int all[][3] = {{AF_INET, SOCK_STREAM, IPPROTO_UDP}, {AF_INET, SOCK_DGRAM, IPPROTO_TCP}, {AF_INET, SOCK_SEQPACKET, 0}, {AF_INET, SOCK_STREAM, 300},
        {AF_INET6, SOCK_STREAM, IPPROTO_TCP}, {AF_INET, SOCK_RAW, 0}, {AF_INET, 77, 0}, {45, SOCK_STREAM, 0}, {AF_INET6, SOCK_DGRAM, IPPROTO_UDP}};
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++) {
        int made = socket(all[at][0], all[at][1], all[at][2]);
        printf("kind %u: %s\n", at, made < 0 ? strerrorname_np(errno) : "made");
        close(made);
    }
    int pair[2];
    printf("pair %s\n", said(socketpair(AF_INET, SOCK_STREAM, 0, pair)));
}

static void passed_and_shared(void) {
    family = AF_INET;
    int listening = bound(SOCK_STREAM), pair[2];
    listen(listening, 5);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (!child) {
        // An inherited listener, and a connection that is passed back.
        int made = accept(listening, 0, 0);
        char room[CMSG_SPACE(sizeof made)] = {0}, byte = 'p';
        struct iovec piece = {&byte, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(sizeof made);
        memcpy(CMSG_DATA(control), &made, sizeof made);
        write(made, "from the child", 14);
        sendmsg(pair[1], &message, 0);
        _exit(0);
    }
    struct sockaddr_storage name;
    int near = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t bytes = name_of(&name, port_of(listening));
    connect(near, (void *)&name, bytes);
    char text[64], room[CMSG_SPACE(sizeof near)], byte;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    recvmsg(pair[0], &message, 0);
    int far;
    memcpy(&far, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof far);
    waitpid(child, 0, 0);
    printf("child wrote %s", said(read(near, text, sizeof text)));
    write(near, "to the passed one", 17);
    printf(", passed one reads %s", said(read(far, text, sizeof text)));
    write(far, "back", 4);
    printf(", back %s", said(read(near, text, sizeof text)));
    close(far);
    printf(", end %s\n", said(read(near, text, sizeof text)));
    child = fork();
    if (!child) pause();
    close(listening);
    kill(child, SIGKILL), waitpid(child, 0, 0);
    close(near);
    int again = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    printf("port of a killed holder: %s\n", said(bind(again, (void *)&name, bytes)));
}

static void interfaces(void) {
    struct ifaddrs *all;
    printf("getifaddrs %s", said(getifaddrs(&all)));
    for (struct ifaddrs *one = all; one; one = one->ifa_next) printf(", %s %#x %d", one->ifa_name, one->ifa_flags, one->ifa_addr ? one->ifa_addr->sa_family : -1);
    printf(", index %u\n", if_nametoindex("lo"));
}

static void dual(void) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    int listening = socket(AF_INET6, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
    bind(listening, (void *)&any, sizeof any), listen(listening, 5);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port_of(listening)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    printf("dual %s", said(connect(near, (void *)&to, sizeof to)));
    struct sockaddr_in6 from;
    socklen_t bytes = sizeof from;
    accept(listening, (void *)&from, &bytes);
    char text[64];
    printf(", from %s", inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    int four = socket(AF_INET, SOCK_STREAM, 0);
    printf(", in use %s\n", said(bind(four, (void *)&to, sizeof to)));
}

int main(void) {
    alarm(60);
    family = AF_INET, datagrams(), options();
    family = AF_INET6, datagrams(), options();
    kinds(), passed_and_shared(), interfaces(), dual();
    return 0;
}
