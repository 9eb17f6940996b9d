// Sockets that one process makes and another one that holds them binds, connects, makes listen, shuts down or sets options of: relatives after a
// fork, and processes that were passed them, one of which ends or is killed before the others go on.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result, result < 0 ? strerrorname_np(errno) : "");
}

static struct sockaddr_un address(const char *path, socklen_t *length) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path + (*path == '@'), path + (*path == '@'));
    *length = offsetof(struct sockaddr_un, sun_path) + strlen(path) + (*path != '@');
    return name;
}
static int bound(int fd, const char *path) {
    socklen_t length;
    struct sockaddr_un name = address(path, &length);
    return bind(fd, (void *)&name, length);
}
static int joined(int fd, const char *path) {
    socklen_t length;
    struct sockaddr_un name = address(path, &length);
    return connect(fd, (void *)&name, length);
}
static void tell_name(const char *whose, int fd, int (*get)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    int result = get(fd, (void *)&name, &length);
    if (result || length <= 2) printf("  %s: %d %d\n", whose, result, length);
    else printf("  %s: %d %d %s%s\n", whose, result, length, *name.sun_path ? "" : "@", name.sun_path + !*name.sun_path);
}
static int listener(int kind, const char *path) {
    int fd = socket(AF_UNIX, kind, 0);
    if (bound(fd, path) || listen(fd, 5)) perror("listener"), exit(1);
    return fd;
}
// Does something in a child, and waits for its end; it may kill itself.
#define IN_CHILD(...) do { fflush(stdout); if (fork() == 0) { __VA_ARGS__; fflush(stdout); _exit(0); } int status_; wait(&status_); \
    printf("  the child ended: %d\n", WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_)); } while (0)

static void receive(const char *who, int fd) {
    char bytes[40] = {0};
    errno = 0;
    long got = recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT);
    printf("  %s: %ld %s\n", who, got, got < 0 ? strerrorname_np(errno) : bytes);
}

static void binds(int kind, const char *path) {
    printf("bound by a child, kind %d: %s\n", kind, path);
    int fd = socket(AF_UNIX, kind, 0), other = dup(fd);
    IN_CHILD(TELL(bound(fd, path)); if (kind != SOCK_DGRAM) TELL(listen(fd, 5)));
    int sender = socket(AF_UNIX, kind, 0);
    TELL(joined(sender, path));
    TELL(send(sender, "first", 5, 0));
    tell_name("its name", fd, getsockname);
    TELL(bound(fd, "@another"));
    struct pollfd polled = {other, POLLIN | POLLOUT, 0};
    TELL(poll(&polled, 1, 0));
    printf("  poll says %x\n", polled.revents);
    int open = kind == SOCK_DGRAM ? other : accept(other, NULL, NULL);
    receive("receives", open);
    TELL(close(fd));
    IN_CHILD(TELL(send(sender, "second", 6, 0)); receive("the child receives", open));
    TELL(close(other));
    int late = socket(AF_UNIX, kind, 0);
    TELL(joined(late, path));
    TELL(bound(late, path));
    if (*path != '@') unlink(path);
    close(open), close(sender), close(late);
}

static void connects(int kind, int killed) {
    printf("connected by a child, kind %d%s\n", kind, killed ? ", which is killed" : "");
    int listening = listener(kind, "place"), fd = socket(AF_UNIX, kind, 0);
    IN_CHILD(TELL(joined(fd, "place")); TELL(send(fd, "from the child", 14, 0)); fflush(stdout); if (killed) raise(SIGKILL));
    struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
    if (killed) TELL(poll(&polled, 1, 0)), printf("  poll says %x\n", polled.revents);
    int open = accept(listening, NULL, NULL);
    receive("who accepted receives", open);
    TELL(send(open, "an answer", 9, 0));
    tell_name("its peer", fd, getpeername);
    receive("receives", fd);
    TELL(send(fd, "from the parent", 15, 0));
    receive("who accepted receives", open);
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    TELL(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
    printf("  %d %d %d\n", peer.pid == getpid(), peer.uid == getuid(), peer.gid == getgid());
    TELL(joined(fd, "place"));
    IN_CHILD(TELL(shutdown(fd, SHUT_WR)));
    receive("after the end", open);
    TELL(send(fd, "more", 4, MSG_NOSIGNAL));
    TELL(close(fd));
    polled.fd = open;
    TELL(poll(&polled, 1, 0));
    printf("  poll says %x\n", polled.revents);
    close(open), close(listening), unlink("place");
}

// Who never did anything with a socket closes it last.
static void closes_last(void) {
    puts("closed last by who did nothing with it");
    int listening = listener(SOCK_STREAM, "place"), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    IN_CHILD(TELL(joined(fd, "place")));
    int open = accept(listening, NULL, NULL);
    receive("open yet", open);
    close(fd);
    receive("closed", open);
    close(open), close(listening), unlink("place");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    IN_CHILD(TELL(bound(fd, "@place")); TELL(listen(fd, 5)));
    close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    TELL(joined(fd, "@place"));
    TELL(bound(fd, "@place"));
    close(fd);
}

static void datagrams(void) {
    puts("datagrams");
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), fd = socket(AF_UNIX, SOCK_DGRAM, 0), ready[2];
    pipe(ready);
    bound(to, "to");
    TELL(send(fd, "x", 1, 0));
    IN_CHILD(TELL(joined(fd, "to")); TELL(bound(fd, "from")));
    TELL(send(fd, "hello", 5, 0));
    char bytes[40] = {0};
    struct sockaddr_un name = {0};
    socklen_t length = sizeof name;
    long got = recvfrom(to, bytes, sizeof bytes, 0, (void *)&name, &length);
    printf("  %ld bytes from %s: %s\n", got, name.sun_path, bytes);
    close(fd), unlink("from");
    // One waits before the socket has a name.
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    receive("before it has a name", fd);
    fflush(stdout);
    if (fork() == 0) {
        usleep(50000);
        bound(fd, "from");
        _exit(joined(to, "from") || send(to, "late", 4, 0) != 4);
    }
    memset(bytes, 0, sizeof bytes);
    TELL(recv(fd, bytes, sizeof bytes, 0));
    printf("  %s\n", bytes);
    wait(NULL);
    close(fd), close(to), unlink("from"), unlink("to");
}

static void pass(int through, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = '.';
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    TELL(sendmsg(through, &message, 0));
}
static int taken(int through) {
    int fd = -1;
    char room[CMSG_SPACE(sizeof fd)], byte;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(through, &message, 0) == 1 && message.msg_controllen) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

// A broker that was there before binds and connects what others pass it.
static void passed(void) {
    puts("passed to a broker");
    int pair[2], listening = listener(SOCK_STREAM, "place");
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    fflush(stdout);
    pid_t broker = fork();
    if (broker == 0) {
        int first = taken(pair[1]), second = taken(pair[1]), on = 1;
        int failed = joined(first, "place") || bound(second, "@brokered") || listen(second, 3);
        failed = failed || setsockopt(second, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        close(first), close(second);
        write(pair[1], failed ? "n" : "y", 1);
        _exit(0);
    }
    int one = socket(AF_UNIX, SOCK_STREAM, 0), two = socket(AF_UNIX, SOCK_STREAM, 0);
    pass(pair[0], one), pass(pair[0], two);
    char answer = 0;
    TELL(read(pair[0], &answer, 1));
    waitpid(broker, NULL, 0);
    printf("  %c\n", answer);
    int open = accept(listening, NULL, NULL), client = socket(AF_UNIX, SOCK_STREAM, 0);
    TELL(write(open, "to one", 6));
    receive("one receives", one);
    TELL(joined(client, "@brokered"));
    TELL(write(client, "to two", 6));
    int value = 0, also = accept(two, NULL, NULL);
    socklen_t length = sizeof value;
    receive("two receives", also);
    TELL(getsockopt(two, SOL_SOCKET, SO_KEEPALIVE, &value, &length));
    printf("  %d\n", value);
    // What is joined already is passed as it is.
    pass(pair[0], one), pass(pair[0], two);
    int again[2] = {taken(pair[1]), taken(pair[1])};
    struct ucred peer = {0};
    length = sizeof peer;
    TELL(getsockopt(again[0], SOL_SOCKET, SO_PEERCRED, &peer, &length));
    printf("  %d %d\n", peer.pid == getpid(), peer.uid == getuid());
    TELL(write(again[0], "to open", 7));
    receive("open receives", open);
    tell_name("its name", again[1], getsockname);
    tell_name("its peer", again[0], getpeername);
    close(again[0]), close(again[1]);
    close(one), close(two), close(open), close(client), close(also), close(listening), unlink("place");
}

static void options(const char *what, int fd) {
    printf("options of %s\n", what);
    struct timeval patience = {0, 20000}, found = {0};
    struct linger linger = {1, 7}, lingers = {0};
    int on = 1, keeps = 0, credentials = 0;
    IN_CHILD(TELL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience)); TELL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
             TELL(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on)); TELL(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on)));
    socklen_t length = sizeof found;
    getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &found, &length);
    length = sizeof lingers, getsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, &length);
    length = sizeof keeps, getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keeps, &length);
    length = sizeof credentials, getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &credentials, &length);
    printf("  %ld %ld, %d %d, %d, %d\n", (long)found.tv_sec, (long)found.tv_usec, lingers.l_onoff, lingers.l_linger, keeps, credentials);
}

// One waits in epoll for what another one joins.
static void waited_for(void) {
    puts("waited for by epoll");
    int listening = listener(SOCK_STREAM, "place"), fd = socket(AF_UNIX, SOCK_STREAM, 0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, found = {0};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    TELL(epoll_wait(set, &found, 1, 0));
    printf("  epoll says %x\n", found.events);
    fflush(stdout);
    if (fork() == 0) {
        usleep(20000);
        if (joined(fd, "place")) _exit(1);
        usleep(20000);
        int open = accept(listening, NULL, NULL);
        _exit(write(open, "hello", 5) != 5);
    }
    do {
        if (epoll_wait(set, &found, 1, -1) != 1) break;
    } while (!(found.events & EPOLLIN) || recv(fd, &found, 0, MSG_PEEK | MSG_DONTWAIT) < 0);
    receive("receives", fd);
    int status;
    wait(&status);
    printf("  %d\n", status);
    close(fd), close(listening), close(set), unlink("place");
}

int main(void) {
    int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}, pair[2];
    alarm(60);
    for (int i = 0; i < 3; i++) binds(kinds[i], "path"), binds(kinds[i], "@abstract");
    for (int i = 0; i < 2; i++) connects(kinds[i], 0), connects(kinds[i], 1);
    closes_last();
    datagrams();
    passed();
    waited_for();
    options("a fresh one", socket(AF_UNIX, SOCK_STREAM, 0));
    for (int i = 0; i < 3; i++) socketpair(AF_UNIX, kinds[i], 0, pair), options("a pair", pair[0]), options("its other end", pair[1]);
    return 0;
}
