// Sets of epoll: where there is room for a few events only each descriptor has its turn; an edge-triggered end of a pipe tells nothing
// anew when the other side did nothing; and what can be waited for at all.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static long add(int set, int one, unsigned events, int data) {
    struct epoll_event event = {.events = events, .data.fd = data};
    return epoll_ctl(set, EPOLL_CTL_ADD, one, &event);
}
static void tell(const char *what, int set) {
    struct epoll_event events[8];
    int count = epoll_wait(set, events, 8, 0);
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %d %x", events[i].data.fd, events[i].events);
    puts("");
}

static void turns(int most) {
    enum { ALL = 13 };
    int set = epoll_create1(0), counts[ALL] = {0}, ends[ALL];
    for (int i = 0; i < ALL; i++) ends[i] = eventfd(1, 0), add(set, ends[i], EPOLLIN, i);
    for (int told = 0; told < ALL * most;) {
        struct epoll_event events[ALL];
        int now = epoll_wait(set, events, most, 0);
        for (int i = 0; i < now; i++, told++) counts[events[i].data.fd]++;
    }
    printf("%d at a time:", most);
    for (int i = 0; i < ALL; i++) printf(" %d", counts[i]), close(ends[i]);
    puts("");
    close(set);
}

static void edges(const char *what, int from, int to) {
    char bytes[4096] = {0};
    int set = epoll_create1(0);
    add(set, from, EPOLLIN | EPOLLET, 1);
    printf("%s\n", what);
    tell("at first", set);
    if (write(to, bytes, 4096) != 4096) return;
    tell("written", set);
    if (read(from, bytes, 2048) != 2048) return;
    tell("half read", set);
    tell("again", set);
    if (write(to, bytes, 100) != 100) return;
    tell("more written", set);
    close(to);
    tell("closed", set);
    tell("again", set);
    close(from);
    close(set);
}

// A set in a set tells of each event of its own; a timer tells once until it is read.
static void nested(void) {
    int outer = epoll_create1(0), inner = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), ends[2];
    unsigned long times;
    if (pipe(ends)) return;
    add(inner, ends[0], EPOLLIN, 1), add(outer, inner, EPOLLIN | EPOLLET, 2), add(outer, timer, EPOLLIN | EPOLLET, 3);
    puts("a set in a set"), tell("at first", outer);
    for (int i = 0; i < 3; i++) write(ends[1], "x", 1), tell("written", outer), tell("again", outer);
    timerfd_settime(timer, 0, &(struct itimerspec){{0, 3000000}, {0, 3000000}}, NULL);
    for (int i = 0; i < 3; i++) {
        struct epoll_event event;
        printf("timer: %d", epoll_wait(outer, &event, 1, -1)), printf(" %d,", event.data.fd);
        usleep(10000), tell(" later", outer), read(timer, &times, 8);
    }
    close(outer), close(inner), close(timer), close(ends[0]), close(ends[1]);
}

int main(void) {
    for (int most = 1; most < 15; most += 3) turns(most);
    int ends[2];
    if (pipe(ends)) return 1;
    edges("pipe", ends[0], ends[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    edges("socket", ends[0], ends[1]);
    nested();
    static const char *paths[] = {"/proc/self/maps", "/proc/self/mounts", "/proc/self/mountinfo", "/proc/sys/kernel/ostype", "/proc/meminfo", "/proc/self/status", "/etc", "/dev/null", "/proc/self"};
    int set = epoll_create1(0);
    for (int i = 0; i < 9; i++) {
        int one = open(paths[i], O_RDONLY);
        long result = add(set, one, EPOLLPRI, i);
        printf("%s %ld %s\n", paths[i], result, result < 0 ? strerrorname_np(errno) : "");
    }
    return 0;
}
