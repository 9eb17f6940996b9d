// poll, select and epoll on Internet sockets: each event as it comes, edges, one-shot, many descriptors, time-outs.
#include "../internet.h"
#include <sys/epoll.h>
#include <sys/select.h>

static void attempts(void) {
    int listening = listener(5), one = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    printf("fresh %#x", events(one, ALL_EVENTS));
    printf(", connect %s", said(connect_to(one, port_of(listening))));
    printf(", %#x", events_soon(one, POLLOUT));
    printf(", error %s", error_of(one));
    printf(", connect %s", said(connect_to(one, port_of(listening))));
    printf(", again %s\n", said(connect_to(one, port_of(listening))));
    close(one);
    int port = port_of(listening);
    close(listening), one = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    printf("nobody there %s", said(connect_to(one, port)));
    printf(", %#x", events_soon(one, POLLOUT | POLLIN));
    printf(", connect %s", said(connect_to(one, port)));
    printf(", %#x", events(one, POLLOUT | POLLIN));
    printf(", error %s\n", error_of(one));
    close(one);
}

static void full(void) {
    static char block[65536];
    int ends[2];
    connection(ends);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    long sent = 0, now, read_back = 0;
    while ((now = write(ends[0], block, sizeof block)) > 0) sent += now;
    printf("full: %s, %#x", said(now), events(ends[0], POLLOUT));
    struct timeval none = {0, 0};
    fd_set writable;
    FD_ZERO(&writable);
    FD_SET(ends[0], &writable);
    printf(", select %d", select(ends[0] + 1, 0, &writable, 0, &none));
    while (read_back < sent && (now = recv(ends[1], block, sizeof block, MSG_DONTWAIT)) > 0) read_back += now;
    printf(", drained %d, %#x", read_back > sent / 2, events_soon(ends[0], POLLOUT));
    printf(", write %d\n", write(ends[0], block, 10) == 10);
    close(ends[0]), close(ends[1]);
}

static void one_event(int set, const char *what) {
    struct epoll_event found = {0};
    int come = epoll_wait(set, &found, 1, 50);
    printf("; %s %d", what, come);
    if (come == 1) printf(" %#x", found.events);
}

static void modes(unsigned mode) {
    int ends[2], set = epoll_create1(0);
    char text[8];
    connection(ends);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLRDHUP | mode};
    printf("mode %#x: %s", mode, said(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &wanted)));
    one_event(set, "nothing");
    write(ends[0], "abcd", 4);
    one_event(set, "data"), one_event(set, "again");
    read(ends[1], text, 2);
    one_event(set, "half read");
    write(ends[0], "e", 1);
    one_event(set, "more");
    epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &wanted);
    one_event(set, "modified");
    read(ends[1], text, 8);
    epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &wanted);
    one_event(set, "empty");
    shutdown(ends[0], SHUT_WR);
    one_event(set, "half"), one_event(set, "again");
    close(ends[0]);
    one_event(set, "closed");
    write(ends[1], "x", 1);
    usleep(1000);
    write(ends[1], "x", 1);
    one_event(set, "broken");
    printf("\n");
    close(ends[1]), close(set);
}

static void many(int count) {
    int ends[count][2], set = epoll_create1(0), wrong = 0, found_count = 0;
    struct pollfd all[count];
    for (int at = 0; at < count; at++) {
        connection(ends[at]);
        struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = at};
        epoll_ctl(set, EPOLL_CTL_ADD, ends[at][1], &wanted);
        all[at] = (struct pollfd){ends[at][1], POLLIN, 0};
    }
    pid_t child = fork();
    if (!child) {
        for (int at = 0; at < count; at++) usleep(2000), write(ends[count - 1 - at][0], "x", 1);
        _exit(0);
    }
    while (found_count < count) {
        struct epoll_event found[4];
        int come = epoll_wait(set, found, 4, 3000);
        if (come <= 0) break;
        for (int at = 0; at < come; at++, found_count++) {
            char byte;
            wrong += recv(ends[found[at].data.u32][1], &byte, 1, MSG_DONTWAIT) != 1;
        }
    }
    waitpid(child, 0, 0);
    printf("%d in a set: %d, wrong %d, poll %d\n", count, found_count, wrong, poll(all, count, 0));
    for (int at = 0; at < count; at++) close(ends[at][0]), close(ends[at][1]);
    close(set);
}

static void wakes(int wanted, int what) {
    int ends[2], listening = listener(4);
    connection(ends);
    struct pollfd both[2] = {{ends[1], wanted, 0}, {listening, POLLIN, 0}};
    pid_t child = fork();
    if (!child) {
        usleep(20000);
        if (what == 0) write(ends[0], "x", 1);
        if (what == 1) shutdown(ends[0], SHUT_WR);
        if (what == 2) connected_to(listening);
        if (what == 3) send(ends[0], "x", 1, MSG_OOB);
        usleep(what == 2 ? 50000 : 0);
        _exit(0);
    }
    close(ends[0]);
    int come = poll(both, 2, 3000);
    printf("woken %d by %d: %d", wanted, what, come);
    printf(" %#x %#x\n", both[0].revents & ~POLLHUP, both[1].revents);
    waitpid(child, 0, 0), close(ends[1]), close(listening);
}

static void least(void) {
    int ends[2];
    char text[16];
    connection(ends);
    printf("least %s", said(set_to(ends[1], SOL_SOCKET, SO_RCVLOWAT, 5)));
    write(ends[0], "abc", 3);
    printf(", three %#x", events(ends[1], POLLIN));
    printf(", recv %s", said(recv(ends[1], text, 2, MSG_DONTWAIT)));
    write(ends[0], "defg", 4);
    usleep(1000);
    printf(", five %#x", events(ends[1], POLLIN));
    long from = milliseconds();
    struct timeval patience = {0, 100000};
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    set_to(ends[1], SOL_SOCKET, SO_RCVLOWAT, 8);
    printf(", waits for eight: %s", said(recv(ends[1], text, 16, 0)));
    printf(" %d\n", milliseconds() - from >= 90);
    close(ends[0]), close(ends[1]);
}

int main(void) {
    begin();
    BOTH_FAMILIES {
        attempts(), full(), modes(0), modes(EPOLLET), modes(EPOLLONESHOT), many(5), many(40), least();
        wakes(POLLIN, 0), wakes(POLLRDHUP, 1), wakes(POLLIN, 2), wakes(POLLPRI, 3), wakes(POLLIN, 1);
    }
    return 0;
}
