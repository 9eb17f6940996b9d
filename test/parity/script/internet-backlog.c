// Backlogs: how many connections come about before one is accepted, and what becomes of the others.
#include "../internet.h"

static void fill(int backlog) {
    enum { MANY = 8 };
    int listening = listener(backlog), sockets[MANY], ready = 0;
    printf("backlog %d:", backlog);
    for (int at = 0; at < MANY; at++) {
        sockets[at] = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        printf(" %s", said(connect_to(sockets[at], port_of(listening))));
    }
    usleep(20000);
    for (int at = 0; at < MANY; at++) ready += !!(events(sockets[at], POLLOUT) & POLLOUT);
    printf("; ready %d; again %s", ready, said(connect_to(sockets[MANY - 1], port_of(listening))));
    printf("; waiting one %#x, %s", events(sockets[MANY - 1], ALL_EVENTS), error_of(sockets[MANY - 1]));
    char byte;
    printf("; send %s", said(send(sockets[MANY - 1], "x", 1, MSG_NOSIGNAL)));
    printf("; recv %s\n", said(recv(sockets[MANY - 1], &byte, 1, 0)));
    fcntl(listening, F_SETFL, O_NONBLOCK);
    int accepted = 0;
    while (accepted < ready) {
        int one = accept(listening, 0, 0);
        if (one < 0) break;
        close(one), accepted++;
    }
    printf("accepted %d\n", accepted);
    close(listening);
    for (int at = 0; at < MANY; at++) close(sockets[at]);
}

static void gone_in_the_queue(void) {
    int listening = listener(3), one = connected_to(listening), two = connected_to(listening);
    send(one, "left", 4, 0), close(one);
    struct linger linger = {1, 0};
    setsockopt(two, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), close(two);
    int first = accept(listening, 0, 0), second = accept(listening, 0, 0);
    char text[8];
    printf("closed in the queue: %s", said(recv(first, text, 8, 0)));
    printf(" %s", said(recv(first, text, 8, 0)));
    printf("; reset in the queue: %s", said(recv(second, text, 8, 0)));
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
    printf(", peer %s\n", said(getpeername(second, (void *)&name, &bytes)));
    close(first), close(second);
    one = connected_to(listening), close(listening);
    usleep(1000);
    printf("listener closed: %#x", events(one, ALL_EVENTS));
    printf(", %s\n", said(recv(one, text, 8, MSG_DONTWAIT)));
    close(one);
}

static void changed(void) {
    int listening = listener(0), sockets[3];
    printf("again %s", said(listen(listening, 2)));
    for (int at = 0; at < 3; at++) sockets[at] = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0), connect_to(sockets[at], port_of(listening));
    usleep(10000);
    for (int at = 0; at < 3; at++) printf(" %#x", events(sockets[at], POLLOUT));
    printf("\n");
    for (int at = 0; at < 3; at++) close(sockets[at]);
    close(listening);
}

int main(void) {
    begin();
    BOTH_FAMILIES fill(0), fill(1), fill(3), gone_in_the_queue(), changed();
    return 0;
}
