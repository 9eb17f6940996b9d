// More than 64 KiB in a pipe or a socket that nobody reads from yet: F_SETPIPE_SZ up to a MiB, sockets that take some 200 KiB, long
// messages; the writer may be gone before the reader looks, or the reader be another program, or get its end in a message.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char block[2 << 20];

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static void send_some(int to, unsigned seed, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) block[at] = seed + at * 2654435761u / 65536;
    tell("wrote", write(to, block, bytes));
}
static void take(const char *what, int from, size_t most) {
    unsigned sum = 0;
    size_t all = 0;
    for (ssize_t got; all < most && (got = read(from, block, most - all < 50000 ? most - all : 50000)) > 0; all += got)
        for (ssize_t at = 0; at < got; at++) sum = sum * 31 + block[at];
    printf("%s: %zu bytes, %08x\n", what, all, sum);
    fflush(stdout);
}
static void make(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(1);
}
static void wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) == child) tell("child", status);
}

static void alone(void) {
    int ends[2];
    make(ends);
    send_some(ends[0], 1, 200000), send_some(ends[1], 2, 150000);
    take("there", ends[1], 200000), take("back", ends[0], 150000);
    for (unsigned turn = 0; turn < 5; turn++) send_some(ends[0], turn, 130000), take("again", ends[1], 130000);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    long all = 0;
    for (ssize_t one; (one = write(ends[0], block, 4096)) > 0;) all += one;
    tell("as much as Linux takes at least", all >= 150000);
    close(ends[0]), take("before it was closed", ends[1], 100000), close(ends[1]);
}

// Two that write before they read.
static void both(void) {
    int ends[2];
    make(ends);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]), send_some(ends[1], 3, 150000);
        unsigned char last;
        for (size_t all = 0; all < 150000; all++) if (read(ends[1], &last, 1) != 1) exit(1);
        exit(last);
    }
    close(ends[1]);
    for (size_t at = 0; at < 150000; at++) block[at] = at % 251;
    ssize_t wrote = write(ends[0], block, 150000);
    wait_for(child);
    tell("wrote", wrote), take("from the child", ends[0], 1 << 20), close(ends[0]);
}

static void writer_gone(void) {
    int ends[2];
    make(ends);
    pid_t child = fork();
    if (child == 0) close(ends[0]), send_some(ends[1], 4, 180000), exit(0);
    close(ends[1]), wait_for(child), take("of who is gone", ends[0], 1 << 20), close(ends[0]);
    // The reader is another program.
    make(ends);
    child = fork();
    if (child == 0) send_some(ends[1], 5, 180000), exit(0);
    wait_for(child);
    child = fork();
    if (child == 0) close(ends[1]), dup2(ends[0], 0), execlp("cksum", "cksum", NULL), exit(1);
    close(ends[0]), close(ends[1]), wait_for(child);
}

static void pipes(void) {
    int ends[2];
    if (pipe(ends)) exit(1);
    send_some(ends[1], 6, 60000), take("a part", ends[0], 50000), send_some(ends[1], 7, 30000);
    tell("256 KiB", fcntl(ends[1], F_SETPIPE_SZ, 200000)), tell("it says", fcntl(ends[0], F_GETPIPE_SZ));
    tell("1 MiB", fcntl(ends[0], F_SETPIPE_SZ, 1 << 20)), take("what was there", ends[0], 40000);
    send_some(ends[1], 8, 1 << 20), fcntl(ends[1], F_SETFL, O_NONBLOCK), tell("full", write(ends[1], "x", 1));
    tell("too small", fcntl(ends[0], F_SETPIPE_SZ, 65536));
    pid_t child = fork();
    if (child == 0) take("in a child", ends[0], 1 << 20), exit(0);
    wait_for(child), tell("smaller", fcntl(ends[0], F_SETPIPE_SZ, 65536)), tell("it says", fcntl(ends[1], F_GETPIPE_SZ));
    send_some(ends[1], 9, 60000), take("in the smaller one", ends[0], 60000), close(ends[0]), close(ends[1]);
    if (pipe(ends)) exit(1);
    child = fork();
    if (child == 0) tell("by a child", fcntl(ends[1], F_SETPIPE_SZ, 512 << 10)), send_some(ends[1], 10, 512 << 10), exit(0);
    wait_for(child), tell("it says", fcntl(ends[0], F_GETPIPE_SZ)), close(ends[1]);
    take("what it left", ends[0], 1 << 20), close(ends[0]);
}

static void messages(int kind) {
    int ends[2];
    if (socketpair(AF_UNIX, kind, 0, ends)) exit(1);
    for (size_t at = 0; at < sizeof block; at++) block[at] = at % 253;
    tell("long", send(ends[0], block, 200000, 0)), tell("longest", recv(ends[1], block, sizeof block, 0));
    tell("its end", block[199999]);
    tell("212,960", send(ends[0], block, 212960, 0)), tell("taken", recv(ends[1], block, sizeof block, 0));
    tell("too long", send(ends[0], block, 212961, 0)), close(ends[0]), close(ends[1]);
}

static void passed(void) {
    int way[2], ends[2];
    make(way), make(ends), send_some(ends[0], 11, 170000);
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec piece = {&byte, 1};
    struct msghdr head = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]), close(ends[1]), close(way[0]);
        if (recvmsg(way[1], &head, 0) != 1) exit(1);
        int got;
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&head)), sizeof got);
        take("passed", got, 1 << 20), exit(0);
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
    *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(rights), &ends[1], sizeof(int));
    tell("sent", sendmsg(way[0], &head, 0)), close(ends[0]), close(ends[1]), wait_for(child);
}

static void unaccepted(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "name"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), other = socket(AF_UNIX, SOCK_STREAM, 0);
    tell("bind", bind(listener, (void *)&name, sizeof name)), tell("listen", listen(listener, 3));
    tell("connect", connect(other, (void *)&name, sizeof name)), send_some(other, 12, 150000), close(other);
    int accepted = accept(listener, NULL, NULL);
    take("who was gone before it was accepted", accepted, 1 << 20), close(accepted);
    pid_t child = fork();
    if (child == 0) {
        other = socket(AF_UNIX, SOCK_STREAM, 0);
        tell("connect", connect(other, (void *)&name, sizeof name)), send_some(other, 13, 150000), exit(0);
    }
    accepted = accept(listener, NULL, NULL);
    wait_for(child), take("who was gone before it was read", accepted, 1 << 20);
}

int main(void) {
    alone(), both(), writer_gone(), pipes(), messages(SOCK_SEQPACKET), messages(SOCK_DGRAM), passed(), unaccepted();
    return 0;
}
