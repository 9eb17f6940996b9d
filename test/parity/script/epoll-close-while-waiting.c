// A thread waits in epoll_wait while another closes what the set watches: pipes, sockets, eventfds and timerfds; then the same with
// EPOLL_CTL_DEL before. The other end sees each close at once, and a number that is opened again is no old interest.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int set, outer;
static volatile int stop;

static void *wait_for_set(void *which) {
    struct epoll_event events[8];
    while (!stop) epoll_wait(*(int *)which, events, 8, 20);
    return NULL;
}

static void make(int kind, int own[2]) {
    own[1] = -1;
    switch (kind) {
    case 0: if (pipe2(own, O_NONBLOCK)) exit(2); break;
    case 1: if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, own)) exit(2); break;
    case 2: own[0] = eventfd(0, EFD_NONBLOCK); break;
    default: own[0] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    }
}

static void close_many(int kind, int removes) {
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        int own[2];
        make(kind, own);
        struct epoll_event event = { .events = EPOLLIN };
        wrong += epoll_ctl(set, EPOLL_CTL_ADD, own[0], &event) != 0;
        if (i % 8 == 0) usleep(100);
        if (removes) wrong += epoll_ctl(set, EPOLL_CTL_DEL, own[0], NULL) != 0;
        close(own[0]);
        if (own[1] >= 0) {
            wrong += write(own[1], "x", 1) != -1 || errno != EPIPE;
            close(own[1]);
        }
    }
    printf("kind %d, %s: %d wrong\n", kind, removes ? "removed" : "closed", wrong);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    set = epoll_create1(0);
    outer = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(outer, EPOLL_CTL_ADD, set, &event);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, wait_for_set, &set);
    pthread_create(&threads[1], NULL, wait_for_set, &outer);
    for (int kind = 0; kind < 4; kind++) close_many(kind, 0);
    for (int kind = 0; kind < 4; kind++) close_many(kind, 1);
    stop = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    puts("done");
}
