// The time that select, pselect6 and ppoll write back: what is left, also after an error, but not under STICKY_TIMEOUTS.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void ignore(int number) { (void)number; }

int main(void) {
    struct timeval none = { 0, 10000 }, one = { 0, 10000 }, ready = { 50, 0 }, wrong = { 50, 0 }, sticky = { 0, 10000 };
    struct timespec polled = { 0, 10000000 }, pselected = { 0, 10000000 }, interrupted = { 50, 0 };
    int ends[2];
    fd_set set;
    if (pipe(ends)) return 1;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    select(0, 0, 0, 0, &none);
    select(ends[0] + 1, &set, 0, 0, &one);
    syscall(SYS_ppoll, 0, 0, &polled, 0, 8);
    syscall(SYS_pselect6, 0, 0, 0, 0, &pselected, 0);
    printf("over: %ld %ld %ld %ld\n", (long)none.tv_usec, (long)one.tv_usec, polled.tv_nsec, pselected.tv_nsec);
    FD_SET(ends[1], &set);
    printf("ready %d, ", select(ends[1] + 1, 0, &set, 0, &ready));
    printf("left %d\n", ready.tv_sec == 49 && ready.tv_usec > 0);
    errno = 0;
    printf("wrong %d %d, ", select(-1, 0, 0, 0, &wrong), errno);
    printf("left %d\n", wrong.tv_sec == 49);
    signal(SIGALRM, ignore);
    alarm(1);
    errno = 0;
    printf("interrupted %ld %d, ", syscall(SYS_ppoll, 0, 0, &interrupted, 0, 8), errno);
    printf("left %d\n", interrupted.tv_sec >= 30 && interrupted.tv_sec <= 49);
    personality(STICKY_TIMEOUTS);
    select(0, 0, 0, 0, &sticky);
    printf("sticky %ld\n", (long)sticky.tv_usec);
    return 0;
}
