// Options of sockets that change nothing for Unix-domain sockets, and are told as they were set; those that cannot be set; lengths.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *result(long value) { return value < 0 ? strerrorname_np(errno) : "fine"; }

int main(void) {
    static const int options[] = {SO_REUSEADDR, SO_KEEPALIVE, SO_BROADCAST, SO_OOBINLINE, SO_DONTROUTE, SO_TIMESTAMP, SO_TIMESTAMPNS, SO_PASSSEC,
        SO_NO_CHECK, SO_RXQ_OVFL, SO_NOFCS, SO_SELECT_ERR_QUEUE, SO_RCVLOWAT, SO_SNDLOWAT, SO_PRIORITY, SO_TYPE, SO_DOMAIN, SO_ACCEPTCONN, 999};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        int value = -7;
        socklen_t bytes = sizeof value;
        const char *told = result(getsockopt(pair[0], SOL_SOCKET, options[i], &value, &bytes));
        printf("%d: %s %d %u", options[i], told, value, bytes);
        for (int wanted = 3; wanted >= 0; wanted -= 3) {
            const char *set = result(setsockopt(pair[0], SOL_SOCKET, options[i], &wanted, sizeof wanted));
            value = -7, getsockopt(pair[0], SOL_SOCKET, options[i], &value, &bytes);
            printf(", set to %d: %s %d", wanted, set, value);
        }
        printf(", short: %s\n", result(setsockopt(pair[0], SOL_SOCKET, options[i], &value, 3)));
    }
    struct linger linger = {5, 30}, found = {-1, -1};
    socklen_t bytes = sizeof found;
    printf("linger: %s", result(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger)));
    printf(", short: %s", result(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, 4)));
    printf(", %s", result(getsockopt(pair[0], SOL_SOCKET, SO_LINGER, &found, &bytes)));
    printf(" %d %d %u\n", found.l_onoff, found.l_linger, bytes);
    siginfo_t info;
    printf("waitid for 0: %s", result(waitid(P_PID, 0, &info, WEXITED)));
    printf(", for less: %s", result(waitid(P_PID, -1, &info, WEXITED)));
    printf(", for a group of less: %s\n", result(waitid(P_PGID, -1, &info, WEXITED)));
    return 0;
}
