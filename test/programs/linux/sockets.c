// Unix-domain sockets: abstract names, credentials, time-outs, halves, messages that nobody receives. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static socklen_t name_of(struct sockaddr_un *name, const char *text, size_t length) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, text, length);
    return offsetof(struct sockaddr_un, sun_path) + length;
}

static void abstract(void) {
    struct sockaddr_un name, got;
    socklen_t length = name_of(&name, "\0chitin test", 12), got_length = sizeof got;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(listen(listener, 4) == -1 && errno == EINVAL);
    CHECK(!bind(listener, (void *)&name, length) && !listen(listener, 4));
    CHECK(!getsockname(listener, (void *)&got, &got_length) && got_length == length && !memcmp(&name, &got, length));
    int second = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(second, (void *)&name, length) == -1 && errno == EADDRINUSE);
    int copy = dup(listener);
    close(listener);
    pid_t child = fork();
    if (!child) {
        close(copy);
        struct sockaddr_un own;
        socklen_t own_length = name_of(&own, "\0who connects", 13);
        CHECK(!bind(second, (void *)&own, own_length));
        CHECK(!connect(second, (void *)&name, length) && write(second, "hello", 5) == 5);
        struct ucred peer;
        socklen_t bytes = sizeof peer;
        CHECK(!getsockopt(second, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.pid == getppid());
        CHECK(!getpeername(second, (void *)&got, &got_length) && got_length == length);
        char c;
        CHECK(read(second, &c, 1) == 0);
        _exit(0);
    }
    got_length = sizeof got;
    int one = accept(copy, (void *)&got, &got_length);
    CHECK(one >= 0 && got_length == 15 && !memcmp(got.sun_path, "\0who connects", 13));
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    CHECK(!getsockopt(one, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.pid == child && peer.uid == getuid());
    char got_bytes[8];
    CHECK(read(one, got_bytes, 8) == 5);
    close(one);
    int status;
    CHECK(wait(&status) == child && status == 0);
    close(copy);
    CHECK(connect(second, (void *)&name, length) == -1 && errno == ECONNREFUSED);
    close(second);
    // The kernel of Linux chooses a name where none is given.
    int any = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(!bind(any, (void *)&name, sizeof(sa_family_t)));
    got_length = sizeof got;
    CHECK(!getsockname(any, (void *)&got, &got_length) && got_length == 8 && got.sun_path[0] == 0);
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un from;
    length = name_of(&from, "\0sender", 7);
    CHECK(!bind(sender, (void *)&from, length));
    CHECK(sendto(sender, "datagram", 8, 0, (void *)&got, got_length) == 8);
    CHECK(sendto(sender, "d", 1, 0, (void *)&got, got_length) == 1);
    int waiting;
    CHECK(!ioctl(any, FIONREAD, &waiting) && waiting == 8);
    got_length = sizeof got;
    CHECK(recvfrom(any, got_bytes, 4, MSG_PEEK | MSG_TRUNC, (void *)&got, &got_length) == 8 && got_length == length);
    CHECK(recvfrom(any, got_bytes, 4, 0, (void *)&got, &got_length) == 4 && !memcmp(got.sun_path, "\0sender", 7));
    CHECK(recv(any, got_bytes, 8, 0) == 1);
    close(any);
    close(sender);
    puts("abstract names, peers");
}

static void send_message(int to, const char *text, int number, int with_number) {
    char control[CMSG_SPACE(sizeof number)] = {0};
    struct iovec piece = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (with_number) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof number), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &number, sizeof number);
    }
    CHECK(sendmsg(to, &message, 0) == (ssize_t)strlen(text));
}

static void credentials(void) {
    int pair[2], on = 1;
    CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    on = 0;
    socklen_t bytes = sizeof on;
    CHECK(!getsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, &bytes) && on == 1);
    pid_t child = fork();
    if (!child) {
        send_message(pair[1], "with", 0, 1);
        char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
        struct iovec piece = {"own", 3};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        struct ucred own = {getpid(), getuid(), getgid()};
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof own), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS};
        memcpy(CMSG_DATA(head), &own, sizeof own);
        CHECK(sendmsg(pair[1], &message, 0) == 3);
        own.pid = 999999999;
        memcpy(CMSG_DATA(head), &own, sizeof own);
        CHECK(sendmsg(pair[1], &message, 0) == -1 && (errno == ESRCH || errno == EPERM));
        _exit(0);
    }
    for (int round = 0; round < 2; round++) {
        char text[8], control[256];
        struct iovec piece = {text, sizeof text};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        CHECK(recvmsg(pair[0], &message, MSG_CMSG_CLOEXEC) == (round ? 3 : 4));
        int seen = 0;
        for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
            if (head->cmsg_type == SCM_CREDENTIALS) {
                struct ucred who;
                memcpy(&who, CMSG_DATA(head), sizeof who);
                CHECK(who.pid == child && who.uid == getuid());
                seen |= 1;
            } else {
                int number;
                memcpy(&number, CMSG_DATA(head), sizeof number);
                CHECK(head->cmsg_type == SCM_RIGHTS && fcntl(number, F_GETFD) == FD_CLOEXEC);
                close(number);
                seen |= 2;
            }
        }
        CHECK(seen == (round ? 1 : 3));
    }
    int status;
    CHECK(wait(&status) == child && status == 0);
    close(pair[0]);
    close(pair[1]);
    puts("credentials in messages");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void streams(void) {
    int pair[2];
    char text[64];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct timeval patience = {0, 50000}, got;
    socklen_t bytes = sizeof got;
    CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    CHECK(!getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &got, &bytes) && got.tv_sec == 0 && got.tv_usec >= 50000);
    double start = now();
    CHECK(recv(pair[0], text, 1, 0) == -1 && errno == EAGAIN && now() - start >= 0.05);
    CHECK(!setsockopt(pair[1], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience));
    char much[4096] = {0};
    ssize_t sent;
    size_t all = 0;
    while ((sent = send(pair[1], much, sizeof much, 0)) > 0) all += sent;
    CHECK(sent == -1 && errno == EAGAIN);
    int waiting;
    CHECK(!ioctl(pair[0], FIONREAD, &waiting) && waiting == (int)all);
    for (size_t done = 0; done < all;) {
        ssize_t count = recv(pair[0], much, sizeof much, 0);
        CHECK(count > 0);
        done += count;
    }
    // A stream has no borders.
    for (int i = 0; i < 3; i++) CHECK(write(pair[1], "abc", 3) == 3);
    CHECK(recv(pair[0], text, sizeof text, MSG_PEEK) >= 3 && recv(pair[0], text, 4, 0) == 4 && recv(pair[0], text, sizeof text, 0) == 5);
    CHECK(send(pair[1], "12", 2, 0) == 2 && send(pair[1], "34", 2, 0) == 2 && recv(pair[0], text, 4, MSG_WAITALL) == 4);
    // Halves.
    CHECK(write(pair[1], "last", 4) == 4 && !shutdown(pair[1], SHUT_WR));
    struct pollfd one = {pair[0], POLLIN | POLLRDHUP | POLLOUT, 0};
    CHECK(poll(&one, 1, 1000) == 1 && one.revents == (POLLIN | POLLRDHUP | POLLOUT));
    CHECK(read(pair[0], text, sizeof text) == 4 && read(pair[0], text, sizeof text) == 0);
    signal(SIGPIPE, SIG_IGN);
    CHECK(write(pair[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(write(pair[0], "back", 4) == 4 && read(pair[1], text, sizeof text) == 4);
    CHECK(!shutdown(pair[0], SHUT_RDWR));
    CHECK(poll(&one, 1, 1000) == 1 && one.revents & POLLHUP);
    close(pair[0]);
    close(pair[1]);
    struct sockaddr_un name;
    socklen_t length = name_of(&name, "\0slow", 5);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!bind(listener, (void *)&name, length) && !listen(listener, 1));
    CHECK(!setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
    close(listener);
    puts("time-outs, streams, halves");
}

// A descriptor in a message that nobody receives is closed.
static void lost(void) {
    int pair[2], pipes[2];
    char c;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !pipe(pipes));
    send_message(pair[0], "x", pipes[1], 1);
    close(pipes[1]);
    struct pollfd one = {pipes[0], POLLIN, 0};
    CHECK(poll(&one, 1, 50) == 0);
    close(pair[0]);
    close(pair[1]);
    CHECK(poll(&one, 1, 5000) == 1 && read(pipes[0], &c, 1) == 0);
    close(pipes[0]);
    // One that is read without looking at what came with it.
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !pipe(pipes));
    send_message(pair[0], "x", pipes[1], 1);
    close(pipes[1]);
    CHECK(read(pair[1], &c, 1) == 1 && read(pipes[0], &c, 1) == 0);
    close(pipes[0]);
    close(pair[0]);
    close(pair[1]);
    // One that its sender has closed on the way.
    int travelling[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !socketpair(AF_UNIX, SOCK_STREAM, 0, travelling));
    CHECK(write(travelling[0], "b", 1) == 1);
    send_message(pair[0], "x", travelling[1], 1);
    close(travelling[0]);
    close(travelling[1]);
    int others[2];
    CHECK(!pipe(others));
    close(others[0]);
    close(others[1]);
    char room[CMSG_SPACE(sizeof(int))];
    struct iovec one_byte = {&c, 1};
    struct msghdr holder = {.msg_iov = &one_byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int arrived;
    CHECK(recvmsg(pair[1], &holder, 0) == 1 && CMSG_FIRSTHDR(&holder));
    memcpy(&arrived, CMSG_DATA(CMSG_FIRSTHDR(&holder)), sizeof arrived);
    CHECK(read(arrived, &c, 1) == 1 && c == 'b' && read(arrived, &c, 1) == 0);
    close(arrived);
    close(pair[0]);
    close(pair[1]);
    // A listener in a message.
    CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    struct sockaddr_un name;
    socklen_t length = name_of(&name, "\0travels", 8);
    CHECK(!pipe(pipes));
    if (!fork()) {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(!bind(listener, (void *)&name, length) && !listen(listener, 4));
        send_message(pair[0], "l", listener, 1);
        close(listener);
        close(pipes[1]);
        CHECK(read(pipes[0], &c, 1) == 0);
        _exit(0);
    }
    int status, listener;
    char control[CMSG_SPACE(sizeof listener)];
    struct iovec piece = {&c, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(pair[1], &message, 0) == 1);
    memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof listener);
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!connect(client, (void *)&name, length));
    int server = accept(listener, NULL, NULL);
    CHECK(server >= 0 && write(client, "c", 1) == 1 && read(server, &c, 1) == 1 && c == 'c');
    close(listener);
    close(pipes[1]);
    CHECK(wait(&status) > 0 && status == 0);
    puts("descriptors that nobody receives, listeners that travel");
}

static void many(void) {
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    char text[3][8];
    struct iovec pieces[3] = {{"one", 3}, {"two", 3}, {"three", 5}};
    struct mmsghdr all[3] = {0};
    for (int i = 0; i < 3; i++) all[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    CHECK(sendmmsg(pair[0], all, 3, 0) == 3 && all[2].msg_len == 5);
    for (int i = 0; i < 3; i++) pieces[i] = (struct iovec){text[i], sizeof text[i]};
    CHECK(recvmmsg(pair[1], all, 3, MSG_WAITFORONE, NULL) == 3 && all[1].msg_len == 3 && !memcmp(text[2], "three", 5));
    CHECK(recvmmsg(pair[1], all, 3, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
    puts("many messages at once");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(200);
    abstract();
    credentials();
    streams();
    lost();
    many();
    return 0;
}
