// Sets of epoll report descriptors in the order in which they became ready: pipes, event counters, sockets and timers; those that stay
// ready come behind the others, and what there was no room for comes first.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MANY = 6 };
static int set, from[MANY], to[MANY];

static void control(int how, int which, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = which};
    if (epoll_ctl(set, how, from[which], &event)) perror("epoll_ctl");
}
static void told(const char *what, int most) {
    struct epoll_event events[MANY];
    int count = epoll_wait(set, events, most, 0);
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %d.%x", events[i].data.fd, events[i].events);
    puts("");
}
static void put(int which) {
    char bytes[8] = {1};
    if (write(to[which], bytes, 8) != 8) perror("write");
}
static void take(int which) {
    char bytes[64];
    while (read(from[which], bytes, 64) > 0) {}
}
static void done(void) {
    for (int i = 0; i < MANY; i++) {
        close(from[i]);
        if (to[i] != from[i]) close(to[i]);
    }
    close(set);
}

static void a_pipe(int *ends) { if (pipe(ends)) perror("pipe"); }
static void a_counter(int *ends) { ends[0] = ends[1] = eventfd(0, 0); }
static void a_pair(int *ends) { socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }
static void a_packet_pair(int *ends) { socketpair(AF_UNIX, SOCK_DGRAM, 0, ends); }
static void over_loopback(int *ends, int kind) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    int first = socket(AF_INET, kind, 0);
    bind(first, (void *)&place, length);
    getsockname(first, (void *)&place, &length);
    if (kind == SOCK_STREAM) listen(first, 1);
    ends[1] = socket(AF_INET, kind, 0);
    if (connect(ends[1], (void *)&place, length)) perror("connect");
    ends[0] = kind == SOCK_STREAM ? accept(first, 0, 0) : first;
    if (kind == SOCK_STREAM) close(first);
}
static void a_stream(int *ends) { over_loopback(ends, SOCK_STREAM); }
static void datagrams(int *ends) { over_loopback(ends, SOCK_DGRAM); }
static void (*const kinds[])(int *) = {a_pipe, a_counter, a_pair, a_packet_pair, a_stream, datagrams};
static const char *names[] = {"pipes", "counters", "pairs", "pairs of datagrams", "streams", "datagrams"};

static void made(void (*make)(int *), unsigned events) {
    set = epoll_create1(0);
    for (int i = 0; i < MANY; i++) {
        int ends[2];
        (make ? make : kinds[i])(ends);
        from[i] = ends[0], to[i] = ends[1];
        fcntl(from[i], F_SETFL, O_NONBLOCK);
        if (events) control(EPOLL_CTL_ADD, i, events);
    }
}

// All that is asked of one kind; of no kind: one of each.
static void in_order(const char *name, void (*make)(int *)) {
    printf("%s\n", name);
    made(make, EPOLLIN);
    told("nothing", MANY);
    put(4), put(0), put(3), put(0);
    told("three", MANY);
    told("again", MANY);
    put(1), put(5);
    told("two more", MANY);
    take(4), take(3), put(4);
    told("one taken, one taken and put", MANY);
    take(1), take(5), take(0), take(4);
    told("all taken", MANY);
    done();
    made(make, EPOLLIN);
    put(5), put(2), put(4), put(1), put(3);
    told("two of five", 2);
    put(0);
    told("two more", 2);
    told("four", 4);
    told("one", 1), told("one", 1), told("one", 1);
    take(4);
    told("all but one", MANY);
    done();
    made(make, EPOLLIN | EPOLLET);
    put(3), put(1);
    told("edges", MANY);
    told("no edges", MANY);
    take(3), take(1);
    put(1), put(0), put(3);
    told("edges again", MANY);
    done();
    made(make, EPOLLIN | EPOLLONESHOT);
    put(3), put(1), put(5);
    told("once", MANY);
    told("no more", MANY);
    control(EPOLL_CTL_MOD, 5, EPOLLIN | EPOLLONESHOT), control(EPOLL_CTL_MOD, 2, EPOLLIN | EPOLLONESHOT);
    control(EPOLL_CTL_MOD, 1, EPOLLIN);
    put(2), put(0);
    told("armed again", MANY);
    told("and then", MANY);
    done();
    made(make, 0);
    put(0), put(3), put(2);
    control(EPOLL_CTL_ADD, 2, EPOLLIN), control(EPOLL_CTL_ADD, 5, EPOLLIN), control(EPOLL_CTL_ADD, 0, EPOLLIN);
    put(5);
    control(EPOLL_CTL_ADD, 3, EPOLLIN);
    told("added", MANY);
    control(EPOLL_CTL_MOD, 2, EPOLLIN), control(EPOLL_CTL_DEL, 0, 0), control(EPOLL_CTL_ADD, 0, EPOLLIN);
    told("changed, and added again", MANY);
    done();
}

static void starved(void) {
    made(a_pipe, EPOLLIN);
    put(3);
    told("one at a time", 1);
    put(0);
    for (int i = 0; i < 6; i++) told("one at a time", 1);
    put(5);
    for (int i = 0; i < 6; i++) told("one at a time", 1);
    done();
}

static void closed(void (*make)(int *)) {
    made(make, EPOLLIN);
    close(to[4]), close(to[1]);
    put(2), close(to[3]), close(to[2]);
    told("closed", MANY);
    put(0);
    told("closed", MANY);
    done();
}

static void to_write(void) {
    made(a_pair, 0);
    control(EPOLL_CTL_ADD, 4, EPOLLOUT), control(EPOLL_CTL_ADD, 1, EPOLLOUT), control(EPOLL_CTL_ADD, 3, EPOLLOUT | EPOLLIN);
    told("room", MANY);
    put(3);
    told("room", 2), told("room", 2), told("room", 2);
    done();
}

static void expired(void) {
    set = epoll_create1(0);
    for (int i = 0; i < MANY; i++) {
        from[i] = to[i] = timerfd_create(CLOCK_MONOTONIC, 0);
        control(EPOLL_CTL_ADD, i, EPOLLIN);
        struct itimerspec when = {.it_value.tv_nsec = 1000000 + (i * 5 % MANY) * 3000000};
        if (i != 2) timerfd_settime(from[i], 0, &when, 0);
    }
    usleep(60000);
    told("timers", MANY);
    done();
}

int main(void) {
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) in_order(names[i], kinds[i]);
    in_order("one of each", 0);
    starved();
    closed(a_pipe), closed(a_pair), closed(a_stream);
    to_write();
    expired();
}
