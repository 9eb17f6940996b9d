// A program in C, compiled by the host's compiler, and the same on both sides.
// Arguments that only their upper half makes wrong, and structures near the end of the address space: errors.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void try(const char *name, long number, long a, long b, long c, long d, long e)
{
    int status;
    fflush(stdout);
    if (fork() == 0) {
        long result = syscall(number, a, b, c, d, e, 0);
        printf("%s: %ld, error %d\n", name, result, result < 0 ? errno : 0);
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    printf("%s: status %#x\n", name, status);
}

int main(void)
{
    int pair[2], ends[2];
    struct itimerval times = {{0, 0}, {0, 0}};
    char control[64] = {0};
    struct msghdr head = {.msg_control = control, .msg_controllen = -1};
    long set[2] = {1, 0};
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) || pipe(ends))
        return 1;
    int epoll = epoll_create1(0);
    try("getitimer", SYS_getitimer, 1L << 35, (long)&times, 0, 0, 0);
    try("setitimer", SYS_setitimer, 1L << 35, (long)&times, 0, 0, 0);
    try("alarm", SYS_alarm, 1L << 35, 0, 0, 0, 0);
    try("sendmmsg", SYS_sendmmsg, pair[0], -16, 2, 0, 0);
    try("recvmmsg", SYS_recvmmsg, pair[0], -16, 2, MSG_DONTWAIT, 0);
    try("sendmsg", SYS_sendmsg, pair[0], -16, 0, 0, 0);
    try("sendmsg, long control", SYS_sendmsg, pair[0], (long)&head, 0, 0, 0);
    try("openat2", SYS_openat2, -100, (long)"/tmp", -8, 32, 0);
    try("openat2, a page", SYS_openat2, -100, (long)"/tmp", -64, 4096, 0);
    try("clone3", SYS_clone3, -8, 88, 0, 0, 0);
    try("readv", SYS_readv, ends[0], -8, 2, 0, 0);
    try("writev", SYS_writev, ends[1], -8, 2, 0, 0);
    try("epoll_ctl", SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, ends[0], -4, 0);
    try("epoll_wait", SYS_epoll_wait, epoll, -8, 0x7fffffff, 0, 0);
    try("poll", SYS_poll, -8, 4, 0, 0, 0);
    try("clock_gettime", SYS_clock_gettime, 0, -8, 0, 0, 0);
    try("times", SYS_times, -8, 0, 0, 0, 0);
    try("sched_getattr", SYS_sched_getattr, 0, -8, 48, 0, 0);
    try("sched_setattr", SYS_sched_setattr, 0, -8, 0, 0, 0);
    try("capget", SYS_capget, -4, 0, 0, 0, 0);
    try("timerfd_settime", SYS_timerfd_settime, 0, 0, -8, 0, 0);
    try("getrandom", SYS_getrandom, -8, 4096, 0, 0, 0);
    try("select", SYS_select, 1024, (long)set, -8, -8, -8);
    return 0;
}
