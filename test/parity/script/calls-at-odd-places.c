// Calls on what they mostly are not made on: `lseek` on what has no place, `poll` and `select` of mere places, blocks of what has none; names that
// end in slashes behind links; the file system of terminals; sockets that are named twice; an edge-triggered wait for a peer that ends its half and is closed later.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <linux/fs.h>
#include <unistd.h>

#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result, result < 0 ? strerrorname_np(errno) : "");
}

static void places(const char *what, int fd) {
    char bytes[8] = {0};
    int block = -1;
    printf("%s\n", what);
    TELL(lseek(fd, 5, SEEK_SET));
    TELL(lseek(fd, -5, SEEK_CUR));
    TELL(lseek(fd, 1, SEEK_END));
    TELL(lseek(fd, 5, 99));
    TELL(pread(fd, bytes, sizeof bytes, 0));
    TELL(pwrite(fd, bytes, sizeof bytes, 4));
    TELL(ioctl(fd, FIGETBSZ, &block));
    printf("  blocks of %d\n", block);
}

static void blocks(const char *path, int flags) {
    int block = -1, fd = open(path, flags);
    long result = ioctl(fd, FIGETBSZ, &block);
    printf("%s: %ld %s %d\n", path, result, result < 0 ? strerrorname_np(errno) : "", block);
    close(fd);
}

static void mere_places(void) {
    puts("mere places");
    mkfifo("fifo", 0600);
    const char *const paths[] = {".", "file", "fifo", "/dev/null"};
    for (int i = 0; i < 4; i++) {
        int fd = open(paths[i], O_PATH);
        struct pollfd polled[2] = {{fd, POLLIN | POLLOUT, 0}, {fd, 0, 0}};
        TELL(poll(polled, 2, 1000));
        printf("  %x %x\n", polled[0].revents, polled[1].revents);
        fd_set reads, writes;
        struct timeval now = {0, 0};
        FD_ZERO(&reads);
        FD_ZERO(&writes);
        FD_SET(fd, &reads);
        FD_SET(fd, &writes);
        TELL(select(fd + 1, &reads, &writes, NULL, &now));
        printf("  %d %d\n", FD_ISSET(fd, &reads), FD_ISSET(fd, &writes));
        int set = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        TELL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        close(fd), close(set);
        TELL(select(fd + 1, &reads, NULL, NULL, &now));
    }
}

static void slashes(void) {
    puts("slashes");
    mkdir("folder", 0700);
    symlink("nowhere", "dangling"), symlink("file", "to-file"), symlink("folder", "to-folder");
    const char *const paths[] = {"dangling/", "none/", "to-file/", "to-folder/", "file/", "folder/", "to-folder//", "folder/."};
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        printf("%s\n", paths[i]);
        TELL(unlink(paths[i]));
        if (strcmp(paths[i], "folder/")) TELL(rmdir(paths[i]));
        TELL(rename(paths[i], "folder/beyond"));
        TELL(rename("file", paths[i]));
        TELL(link(paths[i], "linked"));
        TELL(unlink("linked"));
    }
    TELL(rmdir("folder/"));
    unlink("dangling"), unlink("to-file"), unlink("to-folder");
}

static int bound(int fd, const char *name, int abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path + abstract, name);
    return bind(fd, (void *)&address, *name ? offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1 : 2);
}

static void named_twice(int kind) {
    printf("named twice, kind %d\n", kind);
    int fd = socket(AF_UNIX, kind, 0), other = socket(AF_UNIX, kind, 0);
    TELL(bound(fd, "name", 0));
    TELL(bound(fd, "name", 0));
    TELL(bound(fd, "another", 0));
    TELL(access("another", F_OK));
    TELL(bound(fd, "none/another", 0));
    TELL(bound(fd, "abstract", 1));
    TELL(bound(fd, "", 0));
    TELL(bound(other, "abstract", 1));
    TELL(bound(other, "abstract", 1));
    TELL(bound(other, "another", 0));
    TELL(bound(fd, "abstract", 1));
    close(fd), close(other), unlink("name");
}

// An edge is told once, and the next one again.
static void edges(int kind, int wanted) {
    printf("edges, kind %d, %x\n", kind, wanted);
    int pair[2], set = epoll_create1(0);
    struct epoll_event event = {.events = wanted | EPOLLET}, found;
    socketpair(AF_UNIX, kind, 0, pair);
    epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
    for (int step = 0; step < 3; step++) {
        if (step == 1) shutdown(pair[1], SHUT_WR);
        if (step == 2) close(pair[1]);
        found.events = 0;
        TELL(epoll_wait(set, &found, 1, 0));
        printf("  %x\n", found.events);
        TELL(epoll_wait(set, &found, 1, 0));
    }
    close(pair[0]), close(set);
}

int main(void) {
    sigset_t signals;
    int pipes[2], pair[2];
    struct itimerspec never = {{0, 0}, {1000, 0}};
    sigemptyset(&signals);
    close(open("file", O_CREAT | O_RDWR, 0600));
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    timerfd_settime(timer, 0, &never, NULL);
    places("eventfd", eventfd(1, EFD_NONBLOCK));
    places("timerfd", timer);
    places("signalfd", signalfd(-1, &signals, SFD_NONBLOCK));
    places("inotify", inotify_init1(IN_NONBLOCK));
    places("epoll", epoll_create1(0));
    TELL(lseek(syscall(SYS_pidfd_open, getpid(), 0), 5, SEEK_SET));
    pipe(pipes), socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    places("pipe", pipes[0]);
    places("socket", pair[0]);
    blocks("file", O_RDONLY), blocks(".", O_RDONLY), blocks("/dev/null", O_RDWR), blocks("/proc/self/status", O_RDONLY), blocks("file", O_PATH);
    struct statfs space;
    TELL(statfs("/dev/pts", &space));
    printf("  %lx %ld\n", (long)space.f_type, (long)space.f_namelen);
    mere_places();
    slashes();
    named_twice(SOCK_STREAM), named_twice(SOCK_DGRAM);
    edges(SOCK_STREAM, EPOLLIN), edges(SOCK_STREAM, EPOLLIN | EPOLLRDHUP), edges(SOCK_SEQPACKET, EPOLLIN);
    edges(SOCK_STREAM, EPOLLIN | EPOLLOUT);
    return 0;
}
