// Datagrams sent in parts (MSG_MORE, UDP_CORK): when they go, where they go, and what ends them.
#include "../internet.h"
#include <netinet/udp.h>

static int taken, other;

static void came(const char *when) {
    static char text[65536];
    for (int turn = 0; turn < 2; turn++)
        for (long got; (got = recv(turn ? other : taken, text, sizeof text, MSG_DONTWAIT)) >= 0;)
            printf("%s: %ld bytes at %s, %.9s\n", when, got, turn ? "the other" : "the first", (text[got < 65536 ? got : 0] = 0, text));
    printf("%s: %s\n", when, strerrorname_np(errno));
}
static void cork(int socket, int on) { printf("cork %d: %s\n", on, said(setsockopt(socket, IPPROTO_UDP, UDP_CORK, &on, sizeof on))); }

static void parts(void) {
    struct sockaddr_storage first, second;
    taken = bound(SOCK_DGRAM), other = bound(SOCK_DGRAM);
    socklen_t bytes = name_of(&first, port_of(taken));
    name_of(&second, port_of(other));
    int client = socket(family, SOCK_DGRAM, 0);
    printf("nowhere %s\n", said(send(client, "x", 1, MSG_MORE)));
    printf("%s, ", said(sendto(client, "one ", 4, MSG_MORE, (void *)&first, bytes)));
    printf("%s, ", said(sendto(client, "two ", 4, MSG_MORE, (void *)&second, bytes)));
    came("held");
    printf("%s\n", said(sendto(client, "end", 3, 0, (void *)&second, bytes)));
    came("ended");
    connect(client, (void *)&first, bytes);
    cork(client, 1);
    printf("%s, ", said(write(client, "a", 1)));
    printf("%s, ", said(send(client, "b", 1, 0)));
    printf("to the other %s\n", said(sendto(client, "c", 1, 0, (void *)&second, bytes)));
    came("corked");
    cork(client, 1);
    came("corked again");
    cork(client, 0);
    came("without a cork");
    cork(client, 0);
    came("nothing kept");
    printf("empty %s\n", said(send(client, "", 0, MSG_MORE)));
    came("empty part");
    printf("empty %s\n", said(send(client, "", 0, 0)));
    came("empty end");

    static char large[40000];
    memset(large, 'l', sizeof large);
    printf("large %s, ", said(send(client, large, 40000, MSG_MORE)));
    printf("%s\n", said(send(client, large, 20000, 0)));
    came("large");
    printf("too large %s, ", said(send(client, large, 40000, MSG_MORE)));
    printf("%s\n", said(send(client, large, 30000, MSG_MORE)));
    printf("after it %s\n", said(send(client, "next", 4, 0)));
    came("after it");

    struct iovec piece = {"gathered", 8};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    printf("message %s, ", said(sendmsg(client, &message, MSG_MORE)));
    printf("%s\n", said(sendmsg(client, &message, 0)));
    came("message");
    printf("lost %s\n", said(send(client, "lost", 4, MSG_MORE)));
    close(client);
    came("closed");
    close(taken), close(other);
}

int main(void) {
    begin();
    BOTH_FAMILIES parts();
    return 0;
}
