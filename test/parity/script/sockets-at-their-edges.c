// Unix-domain sockets at their edges: what `poll` and epoll say of each state, no bytes at all, lengths of what was cut off, senders without
// a name, connections that end with something unread, listening that ends, and times that a signal cuts short.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static char bytes[4096];

// What a call gave, and why not.
#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result, result < 0 ? strerrorname_np(errno) : "");
}

static void state(const char *when, int fd) {
    enum { ALL = POLLIN | POLLOUT | POLLRDHUP | POLLRDNORM | POLLWRNORM | POLLWRBAND };
    struct pollfd polled = {fd, ALL, 0};
    struct epoll_event event = {.events = ALL}, found = {0};
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    poll(&polled, 1, 0);
    epoll_wait(set, &found, 1, 0);
    printf("  %s: poll %x, epoll %x\n", when, polled.revents, found.events);
    close(set);
}

static void receive(int fd) {
    struct sockaddr_un sender;
    struct iovec piece = {bytes, 3};
    struct msghdr message = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &piece, .msg_iovlen = 1};
    long result = recvmsg(fd, &message, MSG_DONTWAIT);
    printf("  received %ld: name of %d bytes, flags %x\n", result, result < 0 ? 0 : message.msg_namelen,
           result < 0 ? 0 : message.msg_flags);
}

static void lengths(int kind) {
    int pair[2];
    socketpair(AF_UNIX, kind, 0, pair);
    send(pair[0], "hello", 5, 0);
    TELL(recv(pair[1], bytes, 3, MSG_PEEK | MSG_TRUNC));
    TELL(recv(pair[1], bytes, 3, MSG_TRUNC));
    TELL(recv(pair[1], bytes, 3, MSG_DONTWAIT));
    TELL(send(pair[0], "", 0, 0));
    TELL(recv(pair[1], bytes, 3, MSG_DONTWAIT));
    send(pair[0], "again", 5, 0);
    receive(pair[1]);
    receive(pair[1]);
    socklen_t length = sizeof(struct sockaddr_un);
    struct sockaddr_un sender;
    send(pair[0], "more", 4, 0);
    TELL(recvfrom(pair[1], bytes, 4, 0, (void *)&sender, &length));
    printf("  its name has %d bytes\n", length);
    close(pair[0]);
    close(pair[1]);
}

static void ends(int kind) {
    int pair[2], error;
    socklen_t length = sizeof error;
    socketpair(AF_UNIX, kind, 0, pair);
    state("new", pair[0]);
    close(pair[1]);
    state("closed", pair[0]);
    TELL(recv(pair[0], bytes, 1, 0));
    close(pair[0]);
    for (int asked = 0; asked < 3; asked++) {
        socketpair(AF_UNIX, kind, 0, pair);
        send(pair[0], "unread", 6, 0);
        close(pair[1]);
        state("closed with something unread", pair[0]);
        if (asked == 1) {
            TELL(getsockopt(pair[0], SOL_SOCKET, SO_ERROR, &error, &length));
            printf("  error %s\n", strerrorname_np(error));
        }
        if (asked == 2) TELL(send(pair[0], "more", 4, 0));
        TELL(recv(pair[0], bytes, 1, 0));
        TELL(recv(pair[0], bytes, 1, 0));
        TELL(send(pair[0], "more", 4, 0));
        close(pair[0]);
    }
}

static struct sockaddr_un address = {AF_UNIX, "listener"};

static void *accepts(void *listener) {
    return accept((int)(long)listener, NULL, NULL) < 0 ? (void *)(long)errno : NULL;
}

static void listening(int kind) {
    int listener = socket(AF_UNIX, kind, 0), lone = socket(AF_UNIX, kind, 0), other = socket(AF_UNIX, kind, 0);
    state("of its own", lone);
    TELL(recv(lone, bytes, 1, 0));
    TELL(shutdown(lone, SHUT_WR));
    bind(listener, (void *)&address, sizeof address);
    state("named", listener);
    listen(listener, 2);
    state("listening", listener);
    TELL(connect(other, (void *)&address, sizeof address));
    state("asked", listener);
    pthread_t thread;
    int accepted = accept(listener, NULL, NULL);
    pthread_create(&thread, NULL, accepts, (void *)(long)listener);
    usleep(50000);
    TELL(shutdown(listener, SHUT_RD));
    void *error;
    pthread_join(thread, &error);
    printf("  accept meanwhile: %s\n", strerrorname_np((int)(long)error));
    TELL(connect(lone, (void *)&address, sizeof address));
    send(other, "still", 5, 0);
    TELL(recv(accepted, bytes, 5, 0));
    close(listener);
    unlink("listener");
    listener = socket(AF_UNIX, kind, 0);
    bind(listener, (void *)&address, sizeof address);
    listen(listener, 2);
    close(other);
    other = socket(AF_UNIX, kind, 0);
    connect(other, (void *)&address, sizeof address);
    close(listener);
    state("never accepted", other);
    TELL(recv(other, bytes, 1, 0));
    TELL(recv(other, bytes, 1, 0));
    unlink("listener");
    close(accepted);
    close(lone);
    close(other);
}

static void nothing(int signal) { (void)signal; }

// A wait that has a limit is over after a signal, whatever SA_RESTART says.
static void cut_short(void) {
    int pair[2];
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    struct timeval limit = {0, 400000};
    struct itimerval timer = {.it_value = {0, 50000}};
    sigaction(SIGALRM, &action, NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setitimer(ITIMER_REAL, &timer, NULL);
    TELL(recv(pair[0], bytes, 1, 0));
    TELL(recv(pair[0], bytes, 1, 0));
}

int main(void) {
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {{"stream", SOCK_STREAM}, {"packets", SOCK_SEQPACKET}, {"datagrams", SOCK_DGRAM}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    for (int index = 0; index < 3; index++) {
        printf("%s\n", kinds[index].name);
        lengths(kinds[index].kind);
        if (kinds[index].kind == SOCK_DGRAM) continue;
        ends(kinds[index].kind);
        listening(kinds[index].kind);
    }
    int lone = socket(AF_UNIX, SOCK_DGRAM, 0);
    state("a datagram's", lone);
    TELL(accept(lone, NULL, NULL));
    TELL(send(lone, "x", 1, MSG_OOB));
    int pair[2];
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    TELL(sendto(pair[0], "x", 1, 0, (void *)&address, sizeof address));
    cut_short();
    return 0;
}
