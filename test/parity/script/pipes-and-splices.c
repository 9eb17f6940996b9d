// Bytes that go through pipes and sockets in other ways than by read and write of one piece:
// splice, tee, vmsplice, sizes of pipes, pieces of memory that are one message, more than a socket holds; what cannot be handed on; lowered limits.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static int waiting(int end) {
    int bytes = -1;
    ioctl(end, FIONREAD, &bytes);
    return bytes;
}
static void show(const char *what, int end) {
    char bytes[100];
    ssize_t got = read(end, bytes, sizeof bytes);
    printf("%s: %zd \"%.*s\"\n", what, got, got > 0 ? (int)got : 0, bytes);
    fflush(stdout);
}
static int fresh(const char *text) {
    char name[] = "/tmp/splice-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    if (write(file, text, strlen(text)) < 0) exit(1);
    lseek(file, 0, SEEK_SET);
    return file;
}

static void splices(void) {
    int in[2], out[2], file = fresh("the quick brown fox"), null = open("/dev/null", O_WRONLY);
    if (pipe(in) || pipe(out)) exit(1);
    tell("file to pipe", splice(file, NULL, in[1], NULL, 9, 0));
    tell("offset after", lseek(file, 0, SEEK_CUR));
    loff_t place = 10;
    tell("file at a place to pipe", splice(file, &place, in[1], NULL, 100, 0));
    printf("place %ld, offset %ld, waiting %d\n", (long)place, (long)lseek(file, 0, SEEK_CUR), waiting(in[0]));
    tell("at the end", splice(file, &place, in[1], NULL, 100, 0));
    tell("pipe to pipe", splice(in[0], NULL, out[1], NULL, 3, 0));
    show("came", out[0]);
    tell("tee", tee(in[0], out[1], 6, 0));
    show("teed", out[0]);
    printf("still waiting %d\n", waiting(in[0]));
    int copy = fresh("0123456789abcdefghijklmnop");
    place = 5;
    tell("pipe to file at a place", splice(in[0], NULL, copy, &place, 4, 0));
    tell("pipe to file", splice(in[0], NULL, copy, NULL, 100, 0));
    printf("place %ld, offset %ld\n", (long)place, (long)lseek(copy, 0, SEEK_CUR));
    lseek(copy, 0, SEEK_SET);
    show("file", copy);
    tell("empty, not waiting", splice(in[0], NULL, out[1], NULL, 1, SPLICE_F_NONBLOCK));
    tell("empty tee, not waiting", tee(in[0], out[1], 1, SPLICE_F_NONBLOCK));
    char zeros[5000] = "";
    tell("zeros", write(in[1], zeros, sizeof zeros));
    tell("to nothing", splice(in[0], NULL, null, NULL, 9000, 0));
    tell("of nothing", splice(in[0], NULL, out[1], NULL, 0, 0));
    tell("wrong flags", splice(in[0], NULL, out[1], NULL, 1, 64));
    tell("wrong flags of tee", tee(in[0], out[1], 0, 64));
    tell("onto itself", splice(in[0], NULL, in[1], NULL, 1, 0));
    tell("tee onto itself", tee(in[0], in[1], 1, 0));
    tell("tee of a file", tee(file, in[1], 1, 0));
    tell("no pipe", splice(file, NULL, copy, NULL, 1, 0));
    tell("the wrong end", splice(in[1], NULL, out[1], NULL, 1, 0));
    tell("to the wrong end", splice(file, NULL, in[0], NULL, 1, 0));
    tell("a place in a pipe", splice(in[0], &place, out[1], NULL, 1, 0));
    tell("a place in a pipe to write", splice(file, NULL, in[1], &place, 1, 0));
    tell("a place nowhere", splice(file, (loff_t *)8, in[1], NULL, 1, 0));
    place = -1;
    tell("a place before the beginning", splice(file, &place, in[1], NULL, 1, 0));
    tell("not open", splice(99, NULL, in[1], NULL, 1, 0));
    fcntl(copy, F_SETFL, O_APPEND);
    if (write(in[1], "x", 1) != 1) exit(1);
    tell("to a file that is appended to", splice(in[0], NULL, copy, NULL, 1, 0));
    int folder = open("/tmp", O_RDONLY);
    tell("from a folder", splice(folder, NULL, out[1], NULL, 1, 0));
    close(in[1]);
    tell("what is left", splice(in[0], NULL, out[1], NULL, 10, 0));
    tell("nobody writes", splice(in[0], NULL, out[1], NULL, 10, 0));
    tell("tee, and nobody writes", tee(in[0], out[1], 10, 0));
    close(out[0]);
    tell("nobody reads", splice(file, NULL, out[1], NULL, 1, 0));
}

static void memory(void) {
    int ends[2], file = fresh("file");
    if (pipe(ends)) exit(1);
    char one[] = "one", two[] = "two ", got[8] = "", more[8] = "";
    struct iovec pieces[] = {{one, 3}, {NULL, 0}, {two, 4}}, room[] = {{got, 5}, {more, 7}};
    tell("vmsplice", vmsplice(ends[1], pieces, 3, 0));
    tell("vmsplice out", vmsplice(ends[0], room, 2, 0));
    printf("%.5s|%.7s\n", got, more);
    tell("vmsplice out of nothing", vmsplice(ends[0], room, 2, SPLICE_F_NONBLOCK));
    tell("vmsplice of nothing", vmsplice(ends[1], pieces + 1, 1, 0));
    tell("vmsplice to a file", vmsplice(file, pieces, 1, 0));
    tell("vmsplice of wrong memory", vmsplice(ends[1], &(struct iovec){(void *)8, 5}, 1, 0));
    tell("vmsplice with wrong flags", vmsplice(ends[1], pieces, 1, 99));
    if (write(ends[1], "abcd", 4) != 4) exit(1);
    room[0].iov_len = 4;
    tell("pieces, the first of which is filled", readv(ends[0], room, 2));
    char large[3000];
    memset(large, 'l', sizeof large);
    struct iovec halves[] = {{large, 2000}, {large, 2000}};
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], large, 1000) > 0) {}
    if (read(ends[0], large, 3000) != 3000) exit(1);
    printf("what is written as one has no room: %d\n", writev(ends[1], halves, 2) < 0);
}

static void sizes(void) {
    int ends[2], bytes = 0;
    if (pipe(ends)) exit(1);
    tell("size", fcntl(ends[0], F_GETPIPE_SZ));
    tell("smaller", fcntl(ends[1], F_SETPIPE_SZ, 5000));
    tell("size now", fcntl(ends[0], F_GETPIPE_SZ));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char page[4096];
    memset(page, 'p', sizeof page);
    for (ssize_t now; (now = write(ends[1], page, sizeof page)) > 0;) bytes += now;
    printf("%d bytes, then %s\n", bytes, strerrorname_np(errno));
    tell("smaller than what waits", fcntl(ends[1], F_SETPIPE_SZ, 4096));
    tell("as it was", fcntl(ends[1], F_SETPIPE_SZ, 65536));
    for (ssize_t now; (now = write(ends[1], page, sizeof page)) > 0;) bytes += now;
    printf("%d bytes\n", bytes);
    tell("the least", (close(ends[0]), close(ends[1]), pipe(ends), fcntl(ends[1], F_SETPIPE_SZ, 0)));
    tell("far too much", fcntl(ends[1], F_SETPIPE_SZ, -1));
    tell("of a file", fcntl(fresh(""), F_GETPIPE_SZ));
    // A pipe that grows has room for who waits.
    if (write(ends[1], page, 4096) != 4096) exit(1);
    pid_t child = fork();
    if (child == 0) _exit(write(ends[1], page, 10) != 10);
    usleep(50000);
    tell("grown", fcntl(ends[1], F_SETPIPE_SZ, 8192));
    int status;
    waitpid(child, &status, 0);
    printf("the child went on: %d, %d bytes\n", status, waiting(ends[0]));
}

static void caught(int signal) { (void)signal; }

// What cannot be handed on stays in the pipe, all of it: to a socket that nobody reads any more, and to one that is full, where a
// signal ends the wait.
static void splices_that_fail(int pipes[2]) {
    static char bytes[65536], other[65536];
    for (int i = 0; i < 65536; i++) bytes[i] = i * 7 % 251;
    for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
        int ends[2];
        if (socketpair(AF_UNIX, kind, 0, ends)) exit(1);
        close(ends[1]);
        if (write(pipes[1], bytes, 60000) != 60000) exit(1);
        tell("to a socket that is closed", splice(pipes[0], NULL, ends[0], NULL, 60000, 0));
        printf("left: %d\n", waiting(pipes[0]));
        while (waiting(pipes[0])) if (read(pipes[0], other, sizeof other) <= 0) exit(1);
        close(ends[0]);
        if (socketpair(AF_UNIX, kind, 0, ends)) exit(1);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        long full = 0;
        for (ssize_t now; (now = write(ends[0], "0123456789abcdef", 16)) > 0;) full += now;
        fcntl(ends[0], F_SETFL, 0);
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = caught}, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 100000}, {0, 100000}}, NULL);
        if (write(pipes[1], bytes, 60000) != 60000) exit(1);
        tell("to a socket that is full", splice(pipes[0], NULL, ends[0], NULL, 60000, 0));
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
        printf("left: %d\n", waiting(pipes[0]));
        pid_t child = fork();
        if (child == 0) {
            int wrong = 0;
            for (long got = 0; got < full;) got += read(ends[1], other, full - got < 16 ? full - got : 16);
            for (long at = 0; at < 60000;) {
                ssize_t now = read(ends[1], other, sizeof other);
                if (now <= 0) _exit(2);
                wrong += memcmp(bytes + at, other, now) != 0, at += now;
            }
            _exit(wrong);
        }
        long sent = 0;
        for (ssize_t now; sent < 60000 && (now = splice(pipes[0], NULL, ends[0], NULL, 60000 - sent, 0)) > 0;) sent += now;
        int status;
        waitpid(child, &status, 0);
        printf("in the end: %ld, left %d, %d\n", sent, waiting(pipes[0]), status);
        close(ends[0]), close(ends[1]);
    }
}

static void splices_to_terminals(int pipes[2]) {
    fflush(stdout);
    if (write(pipes[1], "a line\n", 7) != 7) exit(1);
    tell("to where output goes", splice(pipes[0], NULL, 1, NULL, 100, 0));
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
    if (master < 0 || grantpt(master) || unlockpt(master) || (slave = open(ptsname(master), O_RDWR | O_NOCTTY)) < 0) exit(1);
    static char bytes[30000], other[40000];
    memset(bytes, 'x', sizeof bytes), bytes[10] = '\n';
    if (write(pipes[1], bytes, 30000) != 30000) exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        long sent = 0;
        for (ssize_t now; sent < 30000 && (now = splice(pipes[0], NULL, slave, NULL, 30000 - sent, 0)) > 0;) sent += now;
        _exit(sent == 30000 && waiting(pipes[0]) == 0 ? 7 : 8);
    }
    long got = 0;
    for (ssize_t now; got < 30001 && (now = read(master, other + got, sizeof other - got)) > 0;) got += now;
    int status;
    waitpid(child, &status, 0);
    printf("to a terminal: %ld, %d, %d %d\n", got, status, other[10], other[11]);
    close(slave);
    if (write(pipes[1], "more", 4) != 4) exit(1);
    close(master);
}

static void sockets(void) {
    int ends[2];
    char a[5] = "", b[10] = "", text[20];
    struct iovec words[] = {{"abc", 3}, {"defg", 4}}, room[] = {{a, 4}, {b, 9}};
    for (int kind = SOCK_STREAM; kind <= SOCK_SEQPACKET; kind++) {
        if (kind != SOCK_STREAM && kind != SOCK_DGRAM && kind != SOCK_SEQPACKET) continue;
        if (socketpair(AF_UNIX, kind, 0, ends)) exit(1);
        tell("pieces to a socket", writev(ends[0], words, 2));
        tell("one message", recv(ends[1], text, sizeof text, 0));
        if (write(ends[0], "123456", 6) != 6 || write(ends[0], "789", 3) != 3) exit(1);
        tell("pieces from a socket", readv(ends[1], room, 2));
        printf("%s|%.2s\n", a, b);
        tell("no room", read(ends[1], text, 0));
        tell("no pieces", readv(ends[1], room, 0));
        tell("and then", recv(ends[1], text, sizeof text, MSG_DONTWAIT));
        close(ends[0]), close(ends[1]);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(1);
    static char large[500000], other[500000];
    for (int i = 0; i < 500000; i++) large[i] = i * 7 % 251;
    for (int how = 0; how < 4; how++) {
        pid_t child = fork();
        if (child == 0) {
            long got = 0;
            for (ssize_t now; got < 500000 && (now = read(ends[1], other + got, 500000 - got)) > 0;) got += now;
            _exit(got != 500000 || memcmp(large, other, 500000) != 0);
        }
        struct iovec halves[] = {{large, 250000}, {large + 250000, 250000}};
        struct msghdr message = {.msg_iov = halves, .msg_iovlen = 2};
        long sent = how == 0 ? write(ends[0], large, 500000) : how == 1 ? send(ends[0], large, 500000, 0)
            : how == 2 ? writev(ends[0], halves, 2) : sendmsg(ends[0], &message, 0);
        int status;
        waitpid(child, &status, 0);
        printf("more than a socket holds: %ld, %d\n", sent, status);
    }
    int pipes[2];
    if (pipe(pipes) || write(pipes[1], "by a pipe", 9) != 9) exit(1);
    tell("pipe to socket", splice(pipes[0], NULL, ends[0], NULL, 100, 0));
    show("socket", ends[1]);
    splices_that_fail(pipes);
    splices_to_terminals(pipes);
}

static void folders_of_processes(void) {
    char name[40];
    snprintf(name, sizeof name, "/proc/%d", getpid());
    int folder = open(name, O_RDONLY | O_DIRECTORY), tasks = open("/proc/self/task", O_RDONLY);
    signal(SIGUSR1, caught);
    tell("signal by a folder", syscall(SYS_pidfd_send_signal, folder, SIGUSR1, NULL, 0));
    tell("by another folder", syscall(SYS_pidfd_send_signal, tasks, SIGUSR1, NULL, 0));
    tell("by a file", syscall(SYS_pidfd_send_signal, fresh(""), SIGUSR1, NULL, 0));
}

// Descriptors above a limit that was lowered since do not count.
static void limits(void) {
    for (int i = 60; i < 90; i++) dup2(0, i);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){30, 30});
    int before = open("/dev/null", O_RDONLY), count = 0;
    while (open("/dev/null", O_RDONLY) >= 0) count++;
    printf("the next one below the limit: %d; then %s after some\n", before >= 0, strerrorname_np(errno));
    tell("above it", dup2(0, 40));
    tell("still there", fcntl(80, F_GETFD));
    printf("%d\n", count > 0);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    splices();
    memory();
    sizes();
    sockets();
    folders_of_processes();
    limits();
}
