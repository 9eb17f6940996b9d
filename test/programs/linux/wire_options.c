// Options of tcp(7) and socket(7) on connections to another machine: time-outs of silent peers, urgent bytes, listeners
// that share a port. The peer is that of ./chitin wire: port 1 answers nothing, port 2 falls silent behind the
// handshake, port 7 echoes, and port 20 calls a port of this machine. The same program runs on Linux.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "wire_peer.h"

enum { SILENT = 1, DEAF = 2, ECHO = 7, CALLER = 20, SHARED = 4000, LISTENERS = 3, CALLS = 30 };

static void set(int one, int level, int option, int value) {
    if (setsockopt(one, level, option, &value, sizeof value))
        printf("option %d: %s\n", option, strerror(errno));
}

static int connected(int one, int port) {
    struct sockaddr_in end = end_of(peer_address, port);
    if (connect(one, (void *)&end, sizeof end)) {
        printf("connect to %d: %s\n", port, strerror(errno));
        exit(1);
    }
    return one;
}

static int stream(void) { return socket(AF_INET, SOCK_STREAM, 0); }

// Waits side by side: a child for each, whose lines come in order.
static void wait_for(const char *what, double least, double most, void (*act)(void)) {
    double begun = seconds();
    errno = 0;
    act();
    double took = seconds() - begun;
    printf("%s: %s, %s\n", what, strerror(errno), took < least ? "early" : took > most ? "late" : "in time");
}

static void few_attempts(void) {
    int one = stream();
    struct sockaddr_in end = end_of(peer_address, SILENT);
    set(one, IPPROTO_TCP, TCP_SYNCNT, 1);
    connect(one, (void *)&end, sizeof end);
}

static void short_attempt(void) {
    int one = stream();
    struct sockaddr_in end = end_of(peer_address, SILENT);
    set(one, IPPROTO_TCP, TCP_USER_TIMEOUT, 2000);
    connect(one, (void *)&end, sizeof end);
}

static void unacknowledged(void) {
    int one = connected(stream(), DEAF);
    char byte = 'x';
    set(one, IPPROTO_TCP, TCP_USER_TIMEOUT, 2000);
    write(one, &byte, 1);
    read(one, &byte, 1);
}

static void asleep(void) {
    int one = connected(stream(), DEAF);
    char byte;
    set(one, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(one, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(one, IPPROTO_TCP, TCP_KEEPCNT, 2);
    set(one, SOL_SOCKET, SO_KEEPALIVE, 1);
    read(one, &byte, 1);
}

static void patient(void) {
    int one = connected(stream(), DEAF), error = -1;
    socklen_t size = sizeof error;
    struct timeval patience = {1, 0};
    char byte;
    setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    long got = read(one, &byte, 1);
    int why = errno;
    getsockopt(one, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = got < 0 && error == 0 ? why : EPROTO;
}

// Time-outs of a second machine are not exact: a frame is under way, and machines are slow.
static void time_outs(void) {
    static const struct {
        const char *what;
        double least, most;
        void (*act)(void);
    } all[] = {
        {"one more SYN", 2.8, 6, few_attempts},         {"SYN for two seconds", 1.9, 5, short_attempt},
        {"byte for two seconds", 1.9, 5, unacknowledged}, {"two probes", 2.8, 6, asleep},
        {"reader's patience", 0.9, 4, patient},
    };
    enum { MANY = sizeof all / sizeof *all };
    int lines[MANY][2];
    for (int each = 0; each < MANY; each++) {
        pipe(lines[each]);
        if (fork() == 0) {
            dup2(lines[each][1], 1);
            wait_for(all[each].what, all[each].least, all[each].most, all[each].act);
            fflush(stdout);
            _exit(0);
        }
        close(lines[each][1]);
    }
    for (int each = 0; each < MANY; each++) {
        char line[200];
        long length = read(lines[each][0], line, sizeof line);
        printf("%.*s", (int)length, line);
    }
    while (wait(NULL) > 0)
        ;
}

static volatile int signals;

static void count(int signal) { signals += signal == SIGURG; }

static void wait_for_urgent(int one) {
    struct pollfd look = {one, POLLPRI, 0};
    int found;
    // The signal may come first.
    while ((found = poll(&look, 1, 5000)) < 0 && errno == EINTR)
        ;
    if (found != 1)
        printf("nothing urgent came\n");
}

static void urgent(void) {
    int one = connected(stream(), ECHO), mark = -1;
    char bytes[16] = "", byte = 0;
    signal(SIGURG, count);
    fcntl(one, F_SETOWN, getpid());
    send(one, "ab", 2, 0);
    send(one, "c", 1, MSG_OOB);
    wait_for_urgent(one);
    fd_set exceptional;
    FD_ZERO(&exceptional);
    FD_SET(one, &exceptional);
    struct timeval none = {0, 0};
    int selected = select(one + 1, NULL, NULL, &exceptional, &none);
    send(one, "de", 2, 0);
    long urgent = recv(one, &byte, 1, MSG_OOB), again = recv(one, &byte, 1, MSG_OOB);
    printf("urgent: signal %d, selected %d, %ld %c, again %ld %s\n", signals > 0, selected, urgent, byte, again, strerror(errno));
    long first = recv(one, bytes, sizeof bytes, 0);
    ioctl(one, SIOCATMARK, &mark);
    printf("before it: %.*s, at the mark %d, ", (int)first, bytes, mark);
    long second = recv(one, bytes, 2, MSG_WAITALL);
    ioctl(one, SIOCATMARK, &mark);
    printf("behind it: %.*s, at the mark %d\n", (int)second, bytes, mark);
    set(one, SOL_SOCKET, SO_OOBINLINE, 1);
    send(one, "fg", 2, MSG_OOB);
    wait_for_urgent(one);
    long in_line = recv(one, &byte, 1, MSG_OOB);
    printf("in line: %ld %s, ", in_line, strerror(errno));
    for (long got = 0, count; got < 2; got += count)
        count = recv(one, bytes + got, 2 - got, 0);
    printf("%.2s\n", bytes);
    // The urgent byte of many. Linux marks another byte where it has to wait for room in the middle of a call.
    static char much[50000], back[50000];
    set(one, SOL_SOCKET, SO_SNDBUF, 400000);
    set(one, SOL_SOCKET, SO_OOBINLINE, 0);
    memset(much, 'm', sizeof much);
    much[sizeof much - 1] = 'u';
    send(one, much, sizeof much, MSG_OOB);
    wait_for_urgent(one);
    long all = recv(one, back, sizeof much - 1, MSG_WAITALL);
    recv(one, &byte, 1, MSG_OOB);
    printf("of many: %ld %d %c\n", all, memcmp(much, back, sizeof much - 1), byte);
    close(one);
}

// Connections from the other machine spread over the sockets that listen at one port.
static void shared_port(void) {
    struct sockaddr_in here = end_of("0.0.0.0", SHARED);
    struct pollfd looks[LISTENERS];
    int came[LISTENERS] = {0}, total = 0, wrong = 0;
    for (int each = 0; each < LISTENERS; each++) {
        int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        set(one, SOL_SOCKET, SO_REUSEPORT, 1);
        if (bind(one, (void *)&here, sizeof here) || listen(one, CALLS))
            printf("listener %d: %s\n", each, strerror(errno));
        looks[each] = (struct pollfd){one, POLLIN, 0};
    }
    int caller = connected(stream(), CALLER);
    dprintf(caller, "%d %d\n", SHARED, CALLS);
    while (total < CALLS && poll(looks, LISTENERS, 10000) > 0)
        for (int each = 0; each < LISTENERS; each++) {
            int one = accept(looks[each].fd, NULL, NULL);
            if (one < 0)
                continue;
            char line[16] = "";
            wrong += recv(one, line, 8, MSG_WAITALL) != 7 || strcmp(line, "called\n");
            came[each]++, total++;
            close(one);
        }
    int all = came[0] > 0 && came[1] > 0 && came[2] > 0;
    printf("shared port: %d of %d came, %d wrong, to each listener %d\n", total, CALLS, wrong, all);
    close(caller);
}

int main(int count, char **words) {
    if (count > 1)
        peer_address = words[1];
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    time_outs();
    urgent();
    shared_port();
    return 0;
}
