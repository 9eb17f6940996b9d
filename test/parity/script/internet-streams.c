// Streams over 127.0.0.1 and ::1: connecting, accepting, bytes both ways, halves, ends and resets, names, errors, poll and epoll.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *said(long value) { static char text[4][32]; static int at; char *to = text[at++ % 4]; if (value < 0) return strerrorname_np(errno); snprintf(to, 32, "%ld", value); return to; }

static int family;
static socklen_t name_of(struct sockaddr_storage *name, int port) {
    memset(name, 0, sizeof *name);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (void *)name;
        v4->sin_family = AF_INET, v4->sin_port = htons(port), v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (void *)name;
    v6->sin6_family = AF_INET6, v6->sin6_port = htons(port), v6->sin6_addr = in6addr_loopback;
    return sizeof *v6;
}

static int port_of(int socket) {
    struct sockaddr_in6 name;
    socklen_t bytes = sizeof name;
    getsockname(socket, (void *)&name, &bytes);
    return ntohs(name.sin6_port);
}

static int listener(int backlog) {
    struct sockaddr_storage name;
    int made = socket(family, SOCK_STREAM, 0);
    socklen_t bytes = name_of(&name, 0);
    if (bind(made, (void *)&name, bytes) || listen(made, backlog)) printf("no listener: %s\n", strerrorname_np(errno)), exit(1);
    return made;
}

static int connected_to(int listener) {
    struct sockaddr_storage name;
    int made = socket(family, SOCK_STREAM, 0);
    socklen_t bytes = name_of(&name, port_of(listener));
    if (connect(made, (void *)&name, bytes)) printf("no connection: %s\n", strerrorname_np(errno)), exit(1);
    return made;
}

static int events(int socket, int wanted) {
    struct pollfd one = {socket, wanted, 0};
    poll(&one, 1, 0);
    return one.revents;
}

static void bytes_and_halves(void) {
    char text[64];
    int listening = listener(5), near = connected_to(listening);
    printf("listener is readable %#x", events(listening, POLLIN | POLLOUT));
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
    int far = accept(listening, (void *)&name, &bytes);
    printf(", accepted with a name of %u, from its port %d", bytes, ntohs(((struct sockaddr_in *)&name)->sin_port) == port_of(near));
    printf(", then %#x", events(listening, POLLIN)); printf("\n");
    printf("idle %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf(" %#x", events(far, POLLIN | POLLOUT | POLLRDHUP)); printf("\n");
    printf("write %s", said(write(near, "hello", 5)));
    int waiting = -1;
    ioctl(far, FIONREAD, &waiting);
    printf(", waiting %d", waiting); printf(", peek %s", said(recv(far, text, 3, MSG_PEEK))); printf(", read %s", said(read(far, text, 64)));
    printf(" %.5s", text); printf(", nothing: %s", said(recv(far, text, 64, MSG_DONTWAIT))); printf("\n");
    printf("shutdown %s", said(shutdown(near, SHUT_WR))); printf(", write %s", said(send(near, "x", 1, MSG_NOSIGNAL)));
    printf(", far %#x", events(far, POLLIN | POLLOUT | POLLRDHUP)); printf(", read %s", said(read(far, text, 64))); printf("\n");
    printf("back %s", said(write(far, "abc", 3))); printf(", %s", said(read(near, text, 64))); printf(" %.3s", text); printf(", near %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf("\n");
    close(far);
    printf("closed: near %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf(", read %s", said(read(near, text, 64))); printf("\n");
    close(near), close(listening);
}

static void ends(void) {
    char text[64];
    int listening = listener(5);
    int near = connected_to(listening), far = accept(listening, 0, 0);
    write(near, "unread", 6);
    close(far);
    printf("reset: %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf(", read %s", said(read(near, text, 64))); printf(", read %s", said(read(near, text, 64)));
    printf(", write %s", said(send(near, "x", 1, MSG_NOSIGNAL))); printf(", %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf("\n");
    close(near);
    near = connected_to(listening), far = accept(listening, 0, 0);
    struct linger linger = {1, 0};
    setsockopt(far, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    write(far, "last", 4);
    close(far);
    int error = -1;
    socklen_t bytes = sizeof error;
    getsockopt(near, SOL_SOCKET, SO_ERROR, &error, &bytes);
    printf("linger of none: error %s", error == ECONNRESET ? "ECONNRESET" : "another");
    getsockopt(near, SOL_SOCKET, SO_ERROR, &error, &bytes);
    printf(", then %d\n", error);
    close(near);
    near = connected_to(listening), far = accept(listening, 0, 0);
    close(far);
    printf("write to a closed one %s", said(send(near, "x", 1, MSG_NOSIGNAL)));
    usleep(10000);
    printf(", then %s", said(send(near, "x", 1, MSG_NOSIGNAL))); printf(", read %s", said(read(near, text, 64))); printf(", %#x", events(near, POLLIN | POLLOUT | POLLRDHUP)); printf("\n");
    close(near), close(listening);
}

static void errors(void) {
    struct sockaddr_storage name;
    int listening = listener(5), port = port_of(listening);
    int one = socket(family, SOCK_STREAM, 0);
    socklen_t bytes = name_of(&name, port);
    printf("in use %s", said(bind(one, (void *)&name, bytes))); printf(", unconnected %#x", events(one, POLLIN | POLLOUT));
    char text[8];
    printf(", read %s", said(read(one, text, 8))); printf(", write %s", said(send(one, "x", 1, MSG_NOSIGNAL)));
    printf(", peer %s", said(getpeername(one, (void *)&name, &bytes))); printf(", shutdown %s", said(shutdown(one, SHUT_RDWR)));
    printf(", accept %s", said(accept(one, 0, 0))); printf("\n");
    bytes = name_of(&name, 1);
    printf("refused %s", said(connect(one, (void *)&name, bytes)));
    fcntl(one, F_SETFL, O_NONBLOCK);
    printf(", nonblocking %s", said(connect(one, (void *)&name, bytes)));
    printf(", %#x", events(one, POLLIN | POLLOUT));
    int error = -1;
    socklen_t size = sizeof error;
    getsockopt(one, SOL_SOCKET, SO_ERROR, &error, &size);
    printf(", error %d\n", error == ECONNREFUSED);
    bytes = name_of(&name, port);
    printf("begun %s", said(connect(one, (void *)&name, bytes))); printf(", %#x", events(one, POLLIN | POLLOUT));
    printf(", again %s", said(connect(one, (void *)&name, bytes)));
    printf(", and again %s", said(connect(one, (void *)&name, bytes)));
    printf(", listen %s", said(listen(one, 5))); printf(", bind %s", said(bind(one, (void *)&name, bytes))); printf("\n");
    int two = socket(family, SOCK_STREAM, 0);
    printf("short %s", said(bind(two, (void *)&name, 3))); printf(", other family %s", (name.ss_family = AF_UNIX, said(bind(two, (void *)&name, bytes))));
    bytes = name_of(&name, 0);
    if (family == AF_INET) ((struct sockaddr_in *)&name)->sin_addr.s_addr = htonl(0x0a010203);
    else ((struct sockaddr_in6 *)&name)->sin6_addr.s6_addr[0] = 0x20;
    printf(", not here %s", said(bind(two, (void *)&name, bytes)));
    if (family == AF_INET) printf(", nowhere %s", (((struct sockaddr_in *)&name)->sin_port = htons(9), said(connect(two, (void *)&name, bytes))));
    printf(", listening unbound %s", said(listen(two, 0))); printf(", connected %s", said(connect(two, (void *)&name, bytes))); printf("\n");
    close(one), close(two), close(listening);
}

static void large_and_nonblocking(void) {
    static char out[300000], in[300000];
    int listening = listener(5), near = connected_to(listening), far = accept(listening, 0, 0);
    for (unsigned at = 0; at < sizeof out; at++) out[at] = at * 7 + at / 1000;
    pid_t child = fork();
    if (!child) {
        close(far);
        long done = 0;
        while (done < (long)sizeof out) {
            long now = write(near, out + done, sizeof out - done);
            if (now <= 0) _exit(1);
            done += now;
        }
        _exit(0);
    }
    close(near);
    long done = 0, now;
    while ((now = read(far, in + done, sizeof in - done)) > 0) done += now;
    int status;
    waitpid(child, &status, 0);
    printf("large: %ld bytes, %s, status %d\n", done, memcmp(in, out, sizeof in) ? "others" : "the same", status);
    close(far), close(listening);
}

// Of TCP_INFO the bytes that were acknowledged, that came, and that were sent.
static void tell_counts(const char *what, int socket) {
    static const int places[] = {120, 128, 200};
    unsigned char told[256] = {0};
    socklen_t bytes = sizeof told;
    getsockopt(socket, IPPROTO_TCP, TCP_INFO, told, &bytes);
    printf("%s:", what);
    for (int at = 0; at < 3; at++) {
        unsigned long long counted;
        memcpy(&counted, told + places[at], 8), printf(" %llu", counted);
    }
    printf("\n");
}

static void counts(void) {
    char text[64] = {0};
    int listening = listener(5), near = connected_to(listening), far = accept(listening, 0, 0);
    tell_counts("new", far);
    for (int turn = 0; turn < 5; turn++) write(near, text, 60);
    read(far, text, 10), write(far, text, 7), read(near, text, 7);
    tell_counts("far", far), shutdown(near, SHUT_WR);
    tell_counts("listener", listening);
    close(near), close(far), close(listening);
}

static void edges(void) {
    char text[8];
    int listening = listener(5), near = connected_to(listening), far = accept(listening, 0, 0);
    int set = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, {.u64 = 7}}, found;
    epoll_ctl(set, EPOLL_CTL_ADD, far, &wanted);
    printf("edge: %d", epoll_wait(set, &found, 1, 0));
    printf(" %#x", found.events); printf(", %d", epoll_wait(set, &found, 1, 0));
    write(near, "ab", 2);
    printf(", %d", epoll_wait(set, &found, 1, 100));
    printf(" %#x", found.events); printf(", %d", epoll_wait(set, &found, 1, 0));
    write(near, "cd", 2);
    printf(", %d", epoll_wait(set, &found, 1, 100)); printf(", read %s", said(read(far, text, 8)));
    close(near);
    printf(", end %d", epoll_wait(set, &found, 1, 100)); printf(" %#x", found.events); printf("\n");
    close(far), close(listening), close(set);
}


int main(void) {
    alarm(60);
    signal(SIGPIPE, SIG_IGN);
    int families[] = {AF_INET, AF_INET6};
    for (int at = 0; at < 2; at++) {
        family = families[at];
        printf("family %d\n", family);
        bytes_and_halves(), ends(), errors(), large_and_nonblocking(), counts(), edges();
    }
    return 0;
}
