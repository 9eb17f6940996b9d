// Ends of connections to another machine, in all orders: half-close, close, reset, SO_LINGER, a sender that exits at
// once; options of tcp(7) as they work on the wire. The peer is that of ./chitin wire: port 7 echoes, port 9 answers
// the SHA-256 of what it got, port 19 sends as many bytes as a line asks for. The same program runs on Linux.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "wire_peer.h"

enum { ECHO = 7, SINK = 9, SOURCE = 19, CLOSED = 11, SUM = 65, MUCH = 100000 };

static int connected(int port) {
    struct sockaddr_in end = end_of(peer_address, port);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (void *)&end, sizeof end)) {
        printf("connect to %d: %s\n", port, strerror(errno));
        exit(1);
    }
    return one;
}

static long read_all(int from) {
    char some[4096];
    long total = 0, count;
    while ((count = read(from, some, sizeof some)) > 0)
        total += count;
    return count < 0 ? -errno : total;
}

static void send_much(int to) {
    static char much[MUCH];
    for (long done = 0, count; done < MUCH; done += count)
        if ((count = write(to, much + done, MUCH - done)) <= 0) {
            printf("write: %s\n", strerror(errno));
            exit(1);
        }
}

// The sum of as many zeros as a connection that ends in some way has sent reaches the peer only if all did.
static void half_close(void) {
    int one = connected(SINK);
    send_much(one);
    shutdown(one, SHUT_WR);
    int again = write(one, "x", 1);
    printf("half-close: write %d %s, ", again, strerror(errno));
    printf("sum of %ld\n", read_all(one));
    close(one);
}

static void peer_closes_first(void) {
    int one = connected(SOURCE);
    write(one, "1000\n", 5);
    printf("peer first: %ld bytes\n", read_all(one));
    struct pollfd look = {one, POLLIN | POLLRDHUP, 0};
    poll(&look, 1, 5000);
    printf("events %#x, ", look.revents);
    shutdown(one, SHUT_WR);
    printf("end %d\n", (int)read(one, &look, 1));
    close(one);
}

static void with_linger(int on, int period, const char *name) {
    int one = connected(SINK);
    struct linger linger = {on, period};
    setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    send_much(one);
    double begun = seconds();
    int outcome = close(one);
    printf("%s: %d, %s\n", name, outcome, seconds() - begun < 4 ? "soon" : "late");
}

static void exits_at_once(void) {
    int echo = connected(ECHO);
    if (fork() == 0) {
        write(echo, "last words", 10);
        _exit(0);
    }
    wait(NULL);
    char words[16] = "";
    recv(echo, words, 10, MSG_WAITALL);
    printf("exits at once: %s\n", words);
    close(echo);
}

static void refused(void) {
    struct sockaddr_in end = end_of(peer_address, CLOSED);
    int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    socklen_t size = sizeof error;
    int begun = connect(one, (void *)&end, sizeof end) ? errno : 0;
    struct pollfd look = {one, POLLOUT, 0};
    poll(&look, 1, 5000);
    getsockopt(one, SOL_SOCKET, SO_ERROR, &error, &size);
    printf("refused: %s, events %#x, %s\n", strerror(begun), look.revents, strerror(error));
    close(one);
}

// Nothing answers at an address of the link: its neighbour is asked for three times.
static void unreachable(void) {
    struct sockaddr_in end = end_of("10.0.2.99", ECHO);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    double begun = seconds();
    int outcome = connect(one, (void *)&end, sizeof end);
    double took = seconds() - begun;
    printf("silent neighbour: %s, %s\n", outcome ? strerror(errno) : "connected", took > 2 ? "after a while" : "at once");
    close(one);
}

static void information(void) {
    int one = connected(ECHO);
    char back[1000];
    memset(back, 'b', sizeof back);
    write(one, back, sizeof back);
    recv(one, back, sizeof back, MSG_WAITALL);
    usleep(300000);
    struct tcp_info told = {0};
    socklen_t size = sizeof told;
    getsockopt(one, IPPROTO_TCP, TCP_INFO, &told, &size);
    printf("information: state %d, acked %lld, received %lld, ", told.tcpi_state, (long long)told.tcpi_bytes_acked,
           (long long)told.tcpi_bytes_received);
    int counts = told.tcpi_segs_out >= 3 && told.tcpi_segs_in >= 2 && told.tcpi_data_segs_out >= 1;
    printf("segments %d, round trip %d, segment %u, window %d\n", counts, told.tcpi_rtt > 0, told.tcpi_snd_mss,
           told.tcpi_snd_cwnd > 0);
    close(one);
}

// Level, edge and one-shot interests of the same connection.
static void events(void) {
    int one = connected(ECHO), set = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, come;
    epoll_ctl(set, EPOLL_CTL_ADD, one, &wanted);
    write(one, "ab", 2);
    int edge = epoll_wait(set, &come, 1, 5000), again = epoll_wait(set, &come, 1, 100);
    write(one, "c", 1);
    int next = epoll_wait(set, &come, 1, 5000);
    wanted.events = EPOLLIN | EPOLLONESHOT;
    epoll_ctl(set, EPOLL_CTL_MOD, one, &wanted);
    int shot = epoll_wait(set, &come, 1, 5000), spent = epoll_wait(set, &come, 1, 100);
    wanted.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_MOD, one, &wanted);
    int level = epoll_wait(set, &come, 1, 5000) + epoll_wait(set, &come, 1, 100);
    printf("events: edge %d %d %d, one-shot %d %d, level %d\n", edge, again, next, shot, spent, level);
    close(set);
    close(one);
}

int main(int count, char **words) {
    if (count > 1)
        peer_address = words[1];
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    half_close();
    peer_closes_first();
    with_linger(0, 0, "close");
    with_linger(1, 5, "lingering close");
    with_linger(1, 0, "reset");
    exits_at_once();
    refused();
    information();
    events();
    unreachable();
    return 0;
}
