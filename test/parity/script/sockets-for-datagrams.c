// Sockets for datagrams: whom one that is connected takes messages from, connections that are taken back or made elsewhere, peers that go,
// and ends of one half, which are no affair of others'.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/sockios.h>
#include <unistd.h>

static char bytes[40];

#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result, result < 0 ? strerrorname_np(errno) : "");
}
static int by_name(int (*call)(int, const struct sockaddr *, socklen_t), int fd, const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    return call(fd, (void *)&name, offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}
static int named(const char *path) {
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    unlink(path);
    by_name(bind, fd, path);
    return fd;
}
static int to(int fd, const char *path) { return by_name(connect, fd, path); }
static long send_to(int fd, const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    return sendto(fd, path, strlen(path), MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&name, sizeof name);
}
static long say(int fd) { return send(fd, "said", 4, MSG_DONTWAIT | MSG_NOSIGNAL); }
static long receive(int fd) { return recv(fd, bytes, sizeof bytes, MSG_DONTWAIT); }
static int none(int fd, socklen_t length) {
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    return connect(fd, &nobody, length);
}
static void state(const char *when, int fd) {
    struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&polled, 1, 0);
    printf("  %s: poll %x\n", when, polled.revents);
}
static int peer(int fd) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    return getpeername(fd, (void *)&name, &length);
}

static void connected(void) {
    puts("connected");
    int a = named("a"), b = named("b"), c = named("c"), nameless = socket(AF_UNIX, SOCK_DGRAM, 0);
    TELL(to(a, "b"));
    TELL(send_to(c, "a"));
    TELL(send_to(nameless, "a"));
    TELL(send_to(b, "a"));
    TELL(to(c, "a"));
    TELL(to(b, "a"));
    puts("taken back");
    TELL(none(a, sizeof(struct sockaddr)));
    TELL(receive(a));
    TELL(say(a));
    TELL(peer(a));
    TELL(say(b));
    TELL(say(b));
    TELL(send_to(c, "a"));
    TELL(receive(a));
    TELL(receive(a));
    TELL(none(a, 2));
    TELL(none(a, 1));
    puts("elsewhere");
    TELL(to(a, "c"));
    TELL(say(b));
    TELL(to(a, "a"));
    TELL(say(a));
    TELL(receive(c));
    TELL(receive(b));
    puts("by a child");
    fflush(stdout);
    if (fork() == 0) _exit(to(nameless, "b") || none(c, 2));
    wait(NULL);
    TELL(to(c, "b"));
    fflush(stdout);
    if (fork() == 0) _exit(none(c, 2) != 0);
    wait(NULL);
    TELL(say(nameless));
    TELL(say(c));
    TELL(receive(b));
    int stream = socket(AF_UNIX, SOCK_STREAM, 0);
    TELL(none(stream, sizeof(struct sockaddr)));
    close(a), close(b), close(c), close(nameless), close(stream);
}

static void pairs(void) {
    puts("pairs");
    int pair[2], other = named("other");
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    TELL(by_name(bind, pair[0], "one"));
    TELL(send_to(other, "one"));
    TELL(say(pair[1]));
    TELL(say(pair[0]));
    TELL(none(pair[1], sizeof(struct sockaddr)));
    TELL(receive(pair[1]));
    TELL(say(pair[1]));
    TELL(send_to(pair[1], "one"));
    close(pair[1]);
    state("the other one is closed", pair[0]);
    TELL(receive(pair[0]));
    TELL(say(pair[0]));
    TELL(say(pair[0]));
    TELL(send_to(other, "one"));
    close(pair[0]), close(other), unlink("one"), unlink("other");
}

static void halves(int how) {
    printf("shut down: %d\n", how);
    int pair[2], server = named("server"), client = named("client"), other = named("another");
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    say(pair[1]);
    TELL(shutdown(pair[0], how));
    state("its state", pair[0]);
    state("the other's", pair[1]);
    TELL(receive(pair[0]));
    TELL(receive(pair[0]));
    if (how != SHUT_WR) TELL(recv(pair[0], bytes, sizeof bytes, 0));
    TELL(say(pair[0]));
    TELL(say(pair[1]));
    TELL(receive(pair[1]));
    // A client that ends its half ends nobody else's.
    to(client, "server");
    TELL(shutdown(client, how));
    TELL(say(client));
    TELL(send_to(other, "server"));
    TELL(send_to(server, "client"));
    TELL(receive(server));
    close(pair[0]), close(pair[1]), close(server), close(client), close(other);
    unlink("server"), unlink("client"), unlink("another");
}

static void unread(int kind) {
    printf("unread, kind %d:", kind);
    int pair[2], count[4] = {-1, -1, -1, -1};
    socketpair(AF_UNIX, kind, 0, pair);
    ioctl(pair[0], SIOCOUTQ, &count[0]);
    say(pair[0]);
    ioctl(pair[0], SIOCOUTQ, &count[1]);
    ioctl(pair[1], SIOCOUTQ, &count[2]);
    receive(pair[1]);
    ioctl(pair[0], SIOCOUTQ, &count[3]);
    printf(" %d %d %d %d\n", count[0], count[1] > 0, count[2], count[3]);
    close(pair[0]), close(pair[1]);
}

int main(void) {
    connected();
    pairs();
    for (int how = SHUT_RD; how <= SHUT_RDWR; how++) halves(how);
    unread(SOCK_STREAM), unread(SOCK_DGRAM), unread(SOCK_SEQPACKET);
    return 0;
}
