// Many datagrams to one place, which take a short way after some: their order among those of other senders and other
// lengths, receivers that close, are bound anew or connect elsewhere, senders that exit, waits of several kinds.
#include "../internet.h"
#include <sys/epoll.h>

static long send_to(int from, int port, const void *bytes, int count) {
    struct sockaddr_storage name;
    socklen_t length = name_of(&name, port);
    return sendto(from, bytes, count, 0, (void *)&name, length);
}

// Receives one within a second and prints how it begins, how long it is, and which port it came from.
static void received(int socket, int sender) {
    char text[4096] = {0};
    struct sockaddr_in6 name = {0};
    socklen_t length = sizeof name;
    struct pollfd one = {socket, POLLIN, 0};
    if (poll(&one, 1, 1000) != 1) { printf(" nothing"); return; }
    long got = recvfrom(socket, text, sizeof text - 1, MSG_DONTWAIT, (void *)&name, &length);
    text[4] = 0;
    printf(" %s/%s%s", said(got), text, ntohs(name.sin6_port) == port_of(sender) ? "" : " from another");
}

// Far more than the short way holds, with long ones among them, and others between: all arrive in order.
static void in_order(void) {
    int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), other = bound(SOCK_DGRAM);
    char block[3000];
    int sent = 0, wrong = 0, others = 0;
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < 60; at++) {
            int length = at % 7 == 6 ? 2500 : at % 11 == 10 ? 0 : 20 + at;
            memset(block, 0, sizeof block);
            snprintf(block, sizeof block, "%d", sent);
            sent += send_to(from, port_of(to), block, length < 20 ? 20 : length) >= 20;
            if (at % 9 == 8) send_to(other, port_of(to), "other", 5);
        }
        int expected = sent - 60;
        for (;;) {
            char text[4096] = {0};
            struct sockaddr_in6 name = {0};
            socklen_t length = sizeof name;
            long got = recvfrom(to, text, sizeof text - 1, MSG_DONTWAIT, (void *)&name, &length);
            if (got < 0) break;
            if (ntohs(name.sin6_port) == port_of(other)) {
                // It comes after the one that was sent before it.
                others++, wrong += (expected - (sent - 60)) % 9 != 0;
                continue;
            }
            wrong += atoi(text) != expected++;
        }
        wrong += expected != sent;
    }
    printf("in order: sent %d, others %d, wrong %d\n", sent, others, wrong);
    close(to), close(from), close(other);
}

static void looked_at(void) {
    int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), bytes = -1;
    char text[16] = {0};
    for (int at = 0; at < 12; at++) send_to(from, port_of(to), "abcdefghijkl", at + 1), recv(to, text, 16, 0);
    send_to(from, port_of(to), "first", 5), send_to(from, port_of(to), "", 0), send_to(from, port_of(to), "third!!", 7);
    ioctl(to, FIONREAD, &bytes);
    printf("looked at: bytes %d, peek %s", bytes, said(recv(to, text, 3, MSG_PEEK)));
    printf(", whole %s", said(recv(to, text, 2, MSG_PEEK | MSG_TRUNC)));
    printf(", events %x", events(to, ALL_EVENTS));
    printf(", %s", said(recv(to, text, 2, MSG_TRUNC)));
    printf(" %s", said(recv(to, text, 16, 0)));
    printf(" %s", said(recv(to, text, 16, 0)));
    printf(" %s, events %x\n", said(recv(to, text, 16, MSG_DONTWAIT)), events(to, ALL_EVENTS));
    close(to), close(from);
}

static void receiver_changes(void) {
    int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), other = bound(SOCK_DGRAM), port = port_of(to);
    char text[16];
    connect_to(from, port);
    for (int at = 0; at < 10; at++) send(from, "warm", 4, 0), recv(to, text, 16, 0);
    // A receiver that is connected elsewhere takes nothing new, but what waits.
    send(from, "kept", 4, 0);
    connect_to(to, port_of(other));
    printf("connected elsewhere: %s", said(send(from, "lost", 4, 0)));
    received(to, from), received(to, from);
    connect_to(to, port_of(from));
    send(from, "back", 4, 0), received(to, from);
    for (int at = 0; at < 10; at++) send(from, "warm", 4, 0), recv(to, text, 16, 0);
    close(to);
    printf(", closed: %s", said(send(from, "gone", 4, 0)));
    printf(" %s\n", said(send(from, "gone", 4, 0)));
    // Another socket at the port.
    struct sockaddr_storage name;
    socklen_t bytes = name_of(&name, port);
    int again = socket(family, SOCK_DGRAM, 0);
    printf("bound again: %s", said(bind(again, (void *)&name, bytes)));
    error_of(from);
    for (int at = 0; at < 10; at++) send(from, "more", 4, 0), received(again, from);
    printf("\n");
    // The sender turns elsewhere and back.
    for (int at = 0; at < 12; at++) {
        int elsewhere = at / 3 % 2;
        send_to(from, elsewhere ? port_of(other) : port, "turn", 4), received(elsewhere ? other : again, from);
    }
    connect_to(from, port_of(other));
    for (int at = 0; at < 6; at++) send(from, "ways", 4, 0), received(other, from);
    printf("\n");
    close(again), close(from), close(other);
}

// A socket for any address has a rival with the very address.
static void better_receiver(void) {
    struct sockaddr_storage name;
    socklen_t bytes = name_of(&name, 0);
    int any = socket(family, SOCK_DGRAM, 0), from = bound(SOCK_DGRAM);
    set_to(any, SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET) ((struct sockaddr_in *)&name)->sin_addr.s_addr = 0;
    else ((struct sockaddr_in6 *)&name)->sin6_addr = in6addr_any;
    bind(any, (void *)&name, bytes);
    int port = port_of(any);
    printf("better:");
    for (int at = 0; at < 8; at++) send_to(from, port, "any", 3), received(any, from);
    int own = socket(family, SOCK_DGRAM, 0);
    set_to(own, SOL_SOCKET, SO_REUSEADDR, 1);
    bytes = name_of(&name, port);
    printf(", bound %s:", said(bind(own, (void *)&name, bytes)));
    for (int at = 0; at < 8; at++) send_to(from, port, "own", 3), received(own, from);
    close(own);
    printf(", closed:");
    for (int at = 0; at < 8; at++) send_to(from, port, "any", 3), received(any, from);
    printf("\n");
    close(any), close(from);
}

// What a sender sent that has exited is there; many senders, one after the other and all at once.
static void senders_exit(void) {
    int to = bound(SOCK_DGRAM), status, sum = 0;
    for (int round = 0; round < 12; round++) {
        if (!fork()) {
            int from = bound(SOCK_DGRAM);
            for (int at = 0; at < 10; at++) send_to(from, port_of(to), "abcdefghij", at + 1);
            _exit(0);
        }
        if (round % 2) wait(&status), wait(&status);
    }
    char text[16];
    for (long got; (got = recv(to, text, 16, MSG_DONTWAIT)) > 0;) sum += got;
    printf("senders exit: %d bytes\n", sum);
    close(to);
}

// Both processes send by one socket, and both receive by another.
static void shared(void) {
    int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), done = bound(SOCK_DGRAM), status, sum = 0;
    char text[16];
    for (int at = 0; at < 8; at++) send_to(from, port_of(to), "w", 1), recv(to, text, 16, 0);
    pid_t child = fork();
    for (int at = 0; at < 50; at++) {
        send_to(from, port_of(to), "abc", 3);
        recv(to, text, 16, 0);
        send_to(from, port_of(done), "abc", 3);
    }
    if (!child) _exit(0);
    waitpid(child, &status, 0);
    for (long got; (got = recv(done, text, 16, MSG_DONTWAIT)) > 0;) sum += got;
    printf("shared: %d bytes, left %s\n", sum, said(recv(to, text, 16, MSG_DONTWAIT)));
    close(to), close(from), close(done);
}

// A receiver that sleeps while the short way is made, and one that waits by epoll, both ways, by edges.
static void waits(int by_epoll) {
    int near = bound(SOCK_DGRAM), far = bound(SOCK_DGRAM), status, rounds = 0;
    connect_to(near, port_of(far)), connect_to(far, port_of(near));
    if (!fork()) {
        char text[16];
        int poller = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        epoll_ctl(poller, EPOLL_CTL_ADD, far, &event);
        for (long got = 1; got > 0;) {
            if (by_epoll) epoll_wait(poller, &event, 1, 5000);
            while ((got = recv(far, text, 16, by_epoll ? MSG_DONTWAIT : 0)) > 0) send(far, text, got, 0);
            if (by_epoll && got < 0) got = 1;
        }
        _exit(0);
    }
    char text[16];
    for (; rounds < 40; rounds++) {
        struct pollfd one = {near, POLLIN, 0};
        send(near, "question", 8, 0);
        if (poll(&one, 1, 5000) != 1 || recv(near, text, 16, 0) != 8) break;
    }
    send(near, "", 0, 0);
    wait(&status);
    printf("%s: %d rounds, %x\n", by_epoll ? "epoll" : "sleep", rounds, status);
    close(near), close(far);
}

static void shut(void) {
    int near = bound(SOCK_DGRAM), far = bound(SOCK_DGRAM), status;
    char text[16];
    connect_to(near, port_of(far)), connect_to(far, port_of(near));
    for (int at = 0; at < 8; at++) send(near, "warm", 4, 0), recv(far, text, 16, 0);
    if (!fork()) usleep(100000), shutdown(far, SHUT_RDWR), _exit(0);
    printf("shut: %s", said(recv(far, text, 16, 0)));
    wait(&status);
    printf(", send %s\n", said(send(far, "x", 1, 0)));
    close(near), close(far);
}

int main(void) {
    begin();
    BOTH_FAMILIES {
        in_order(), looked_at(), receiver_changes(), better_receiver(), senders_exit(), shared(), waits(0), waits(1), shut();
    }
    return 0;
}
