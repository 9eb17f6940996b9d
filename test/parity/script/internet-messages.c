// Messages through Internet sockets: gathered and scattered, several a call, whole waits, peeks, truncation, control data.
#include "../internet.h"
#include <netinet/ip.h>
#include <sys/uio.h>

static void many_datagrams(void) {
    int receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
    connect_to(sender, port_of(receiver));
    struct iovec pieces[4][2] = {{{"a", 1}, {"bc", 2}}, {{"defg", 4}, {"", 0}}, {{"", 0}, {"", 0}}, {{"hi", 2}, {"jkl", 3}}};
    struct mmsghdr sent[4] = {0}, got[6] = {0};
    for (int at = 0; at < 4; at++) sent[at].msg_hdr.msg_iov = pieces[at], sent[at].msg_hdr.msg_iovlen = 2;
    printf("sent %s:", said(sendmmsg(sender, sent, 4, 0)));
    for (int at = 0; at < 4; at++) printf(" %u", sent[at].msg_len);
    char texts[6][8] = {0};
    struct sockaddr_storage names[6];
    struct iovec rooms[6];
    for (int at = 0; at < 6; at++) rooms[at] = (struct iovec){texts[at], 4}, got[at].msg_hdr.msg_iov = &rooms[at], got[at].msg_hdr.msg_iovlen = 1, got[at].msg_hdr.msg_name = &names[at], got[at].msg_hdr.msg_namelen = sizeof names[at];
    printf("; received %s:", said(recvmmsg(receiver, got, 2, MSG_WAITFORONE, 0)));
    printf(" %s", said(recvmmsg(receiver, got + 2, 4, MSG_WAITFORONE, 0)));
    for (int at = 0; at < 4; at++) printf(" %u '%s' %#x %u", got[at].msg_len, texts[at], got[at].msg_hdr.msg_flags, got[at].msg_hdr.msg_namelen);
    struct timespec soon = {0, 50000000};
    printf("; nothing %s", said(recvmmsg(receiver, got, 2, MSG_DONTWAIT, 0)));
    send(sender, "x", 1, 0);
    struct timeval patience = {0, 50000};
    setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    printf("; one of two %s", said(recvmmsg(receiver, got, 2, 0, &soon)));
    printf("; none %s", said(sendmmsg(sender, sent, 0, 0)));
    sent[1].msg_hdr.msg_iovlen = 5000;
    printf("; bad second %s", said(sendmmsg(sender, sent, 4, 0)));
    printf("; bad place %s\n", said(sendmmsg(sender, (void *)16, 4, 0)));
    close(receiver), close(sender);
}

static void streams(void) {
    int ends[2];
    char one[4] = {0}, two[8] = {0};
    connection(ends);
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdefgh", 6}}, in[2] = {{one, 3}, {two, 4}};
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 3};
    printf("gathered %s", said(sendmsg(ends[0], &message, 0)));
    message = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_name = two, .msg_namelen = 8};
    printf(", peeked %s", said(recvmsg(ends[1], &message, MSG_PEEK)));
    printf(" %s %s, name %u", one, two, message.msg_namelen);
    printf(", scattered %s", said(readv(ends[1], in, 2)));
    printf(", dropped %s", said(recv(ends[1], 0, 8, MSG_TRUNC)));
    pid_t child = fork();
    if (!child) {
        for (int at = 0; at < 5; at++) usleep(3000), write(ends[0], "12", 2);
        _exit(0);
    }
    char text[32] = {0};
    long got = recv(ends[1], text, 9, MSG_WAITALL);
    printf(", whole %s %s", said(got), text);
    waitpid(child, 0, 0);
    printf(", rest %s", said(recv(ends[1], text, 9, 0)));
    write(ends[0], "abc", 3), shutdown(ends[0], SHUT_WR);
    got = recv(ends[1], text, 9, MSG_WAITALL);
    printf(", cut by the end %s\n", said(got));
    close(ends[0]), close(ends[1]);
}

static void peeks_whole(void) {
    int ends[2];
    char text[16] = {0};
    connection(ends);
    pid_t child = fork();
    if (!child) {
        write(ends[0], "abc", 3), usleep(20000), write(ends[0], "def", 3);
        _exit(0);
    }
    long got = recv(ends[1], text, 6, MSG_PEEK | MSG_WAITALL);
    printf("peek of all %s", said(got));
    waitpid(child, 0, 0);
    printf(" %s, still %s\n", text, said(recv(ends[1], text, 16, MSG_DONTWAIT)));
    close(ends[0]), close(ends[1]);
}

static void control(void) {
    int receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
    connect_to(sender, port_of(receiver));
    if (family == AF_INET) {
        set_to(receiver, IPPROTO_IP, IP_PKTINFO, 1), set_to(receiver, IPPROTO_IP, IP_RECVTTL, 1), set_to(receiver, IPPROTO_IP, IP_RECVTOS, 1);
        set_to(sender, IPPROTO_IP, IP_TTL, 33), set_to(sender, IPPROTO_IP, IP_TOS, 0x28);
    } else {
        set_to(receiver, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1), set_to(receiver, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1), set_to(receiver, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set_to(sender, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33), set_to(sender, IPPROTO_IPV6, IPV6_TCLASS, 0x28);
    }
    set_to(receiver, SOL_SOCKET, SO_TIMESTAMP, 1);
    for (int room = 256; room >= 0; room -= room > 64 ? 192 : 32) {
        char space[256], text[8];
        struct iovec piece = {text, 8};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = room};
        send(sender, "x", 1, 0);
        printf("room %d: %s", room, said(recvmsg(receiver, &message, 0)));
        printf(" flags %#x, %zu bytes:", message.msg_flags, (size_t)message.msg_controllen);
        for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
            printf(" %d/%d %zu", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len);
            if (one->cmsg_len == CMSG_LEN(4) && one->cmsg_level != SOL_SOCKET) printf(" = %d", *(int *)CMSG_DATA(one));
        }
        printf("\n");
    }
    close(receiver), close(sender);
}

static void sent_with_control(void) {
    int receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
    connect_to(sender, port_of(receiver));
    union { char space[64]; struct cmsghdr head; } room = {0};
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room.space, .msg_controllen = CMSG_SPACE(4)};
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, ttl = family == AF_INET ? IP_TTL : IPV6_HOPLIMIT, value = 7;
    set_to(receiver, level, family == AF_INET ? IP_RECVTTL : IPV6_RECVHOPLIMIT, 1);
    room.head.cmsg_len = CMSG_LEN(4), room.head.cmsg_level = level, room.head.cmsg_type = ttl;
    memcpy(CMSG_DATA(&room.head), &value, 4);
    printf("time to live of one: %s", said(sendmsg(sender, &message, 0)));
    char text[4];
    struct iovec in = {text, 4};
    struct msghdr back = {.msg_iov = &in, .msg_iovlen = 1, .msg_control = room.space, .msg_controllen = sizeof room.space};
    printf(", %s", said(recvmsg(receiver, &back, MSG_DONTWAIT)));
    struct cmsghdr *found = CMSG_FIRSTHDR(&back);
    printf(", came with %d", found ? *(int *)CMSG_DATA(found) : -1);
    memset(&room, 0, sizeof room);
    room.head.cmsg_len = CMSG_LEN(4), room.head.cmsg_level = level, room.head.cmsg_type = 999;
    message.msg_controllen = CMSG_SPACE(4);
    printf(", unknown %s", said(sendmsg(sender, &message, 0)));
    room.head.cmsg_len = 3;
    printf(", short %s\n", said(sendmsg(sender, &message, 0)));
    close(receiver), close(sender);
}

int main(void) {
    begin();
    BOTH_FAMILIES many_datagrams(), streams(), peeks_whole(), control(), sent_with_control();
    return 0;
}
