// Processes that the kernel destroys, or whose library is gone: what they held comes back. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel_rows.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

// Where ExOS detail its heap and the areas of environments, by its address_map.rs.
static char *const heap = (char *)0x7d8000100000, *const area = (char *)0x7d8000000000;
enum { PAGE = 4096, OWN_NAME = 1, GATE_END = 4096 + 11 * 8 };

// The running process is gone at once: a call of the kernel itself, which the library does not see.
static void be_destroyed(void) {
    uint64_t own = getpid(), result, detail = 0;
    *(volatile uint64_t *)(area + GATE_END) = 0;
    for (;;)
        __asm__ volatile("syscall" : "=a"(result), "+d"(detail) : "a"(ROW_ENVIRONMENT_DESTROY), "D"((uint64_t)OWN_NAME), "S"(own)
                         : "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
}

// The library finds nothing of its own any more.
static void lose_the_library(void) {
    memset(heap, 0x5a, 8 * PAGE);
    for (;;) getppid();
}

static void (*const ends[])(void) = {be_destroyed, lose_the_library};

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// A child that ends in one of the two ways after a while.
static pid_t doomed(void (*end)(void), int closes) {
    pid_t child = fork();
    if (!child) {
        if (closes >= 0) close(closes);
        usleep(30000);
        end();
    }
    return child;
}

static void readers(void (*end)(void)) {
    int pipes[2];
    char byte;
    CHECK(!pipe(pipes));
    pid_t child = doomed(end, pipes[0]);
    close(pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 0 && status_of(child) != 0 && read(pipes[0], &byte, 1) == 0);
    close(pipes[0]);
    // A brother that lives holds it open, and what it writes comes.
    CHECK(!pipe(pipes));
    child = doomed(end, pipes[0]);
    pid_t brother = fork();
    if (!brother) { usleep(120000); _exit(write(pipes[1], "x", 1) != 1); }
    close(pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'x' && read(pipes[0], &byte, 1) == 0);
    CHECK(status_of(child) != 0 && status_of(brother) == 0);
    close(pipes[0]);
}

static void watchers(void (*end)(void)) {
    int pipes[2], epoll = epoll_create1(0);
    CHECK(!pipe(pipes));
    pid_t child = doomed(end, pipes[0]);
    // Two descriptors of the end, of which one is closed: the other one holds it.
    int again = dup(pipes[1]);
    close(pipes[1]);
    struct pollfd watched = {pipes[0], POLLIN, 0};
    CHECK(poll(&watched, 1, 100) == 0 && status_of(child) != 0);
    close(again);
    CHECK(poll(&watched, 1, 5000) == 1 && watched.revents == POLLHUP);
    close(pipes[0]);
    CHECK(!pipe(pipes));
    struct epoll_event event = {EPOLLIN | EPOLLET, {.fd = 7}};
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event));
    child = doomed(end, pipes[0]);
    close(pipes[1]);
    CHECK(epoll_wait(epoll, &event, 1, 5000) == 1 && event.events == EPOLLHUP && event.data.fd == 7 && status_of(child) != 0);
    close(pipes[0]);
    close(epoll);
}

static void writers(void (*end)(void)) {
    int pipes[2];
    static char much[1 << 18];
    signal(SIGPIPE, SIG_IGN);
    CHECK(!pipe(pipes));
    pid_t child = doomed(end, pipes[1]);
    close(pipes[0]);
    ssize_t done = write(pipes[1], much, sizeof much);
    CHECK((done == 1 << 16 || (done == -1 && errno == EPIPE)) && write(pipes[1], much, 1) == -1 && errno == EPIPE);
    CHECK(status_of(child) != 0);
    close(pipes[1]);
}

static void sockets(void (*end)(void)) {
    int pair[2];
    char byte;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = doomed(end, pair[0]);
    close(pair[1]);
    CHECK(recv(pair[0], &byte, 1, 0) == 0 && status_of(child) != 0);
    close(pair[0]);
    struct sockaddr_un name = {AF_UNIX, "listener"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!bind(listener, (struct sockaddr *)&name, sizeof name) && !listen(listener, 3));
    child = fork();
    if (!child) {
        int client = dup(socket(AF_UNIX, SOCK_STREAM, 0));
        if (connect(client, (struct sockaddr *)&name, sizeof name) || write(client, "x", 1) != 1) _exit(0);
        usleep(50000);
        end();
    }
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0 && read(accepted, &byte, 1) == 1 && byte == 'x' && read(accepted, &byte, 1) == 0 && status_of(child) != 0);
    close(accepted);
    // The other way round: who accepted is gone.
    child = fork();
    if (!child) { CHECK(accept(listener, NULL, NULL) >= 0); usleep(50000); end(); }
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!connect(client, (struct sockaddr *)&name, sizeof name) && read(client, &byte, 1) == 0 && status_of(child) != 0);
    close(client);
    close(listener);
    unlink("listener");
}

static int send_descriptor(int socket, int descriptor) {
    char byte = 'd', control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, 0) == 1;
}

// An end that is on its way in a message is held by nobody, and open.
static void on_their_way(void (*end)(void)) {
    int pipes[2], pair[2];
    CHECK(!pipe(pipes) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = fork();
    if (!child) { CHECK(send_descriptor(pair[1], pipes[1])); end(); }
    close(pipes[1]);
    CHECK(status_of(child) != 0);
    struct pollfd watched = {pipes[0], POLLIN, 0};
    CHECK(poll(&watched, 1, 100) == 0);
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(pair[0], &message, 0) == 1);
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    CHECK(write(received, "y", 1) == 1 && read(pipes[0], &byte, 1) == 1 && byte == 'y');
    close(received);
    CHECK(read(pipes[0], &byte, 1) == 0);
    close(pipes[0]), close(pair[0]), close(pair[1]);
}

static void named_pipes(void (*end)(void)) {
    char byte;
    CHECK(!mkfifo("fifo", 0600));
    pid_t child = fork();
    if (!child) { CHECK(open("fifo", O_WRONLY) >= 0); usleep(30000); end(); }
    int reader = open("fifo", O_RDONLY);
    CHECK(reader >= 0 && read(reader, &byte, 1) == 0 && status_of(child) != 0);
    // The next one who opens it is heard.
    child = fork();
    if (!child) { int writer = open("fifo", O_WRONLY); _exit(write(writer, "z", 1) != 1); }
    struct pollfd watched = {reader, POLLIN, 0};
    CHECK(status_of(child) == 0 && poll(&watched, 1, 5000) == 1 && read(reader, &byte, 1) == 1 && byte == 'z');
    close(reader);
    unlink("fifo");
}

static void locks(void (*end)(void)) {
    int file = open("locked", O_CREAT | O_RDWR, 0600);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int ready[2];
    char byte;
    CHECK(!pipe(ready));
    pid_t child = fork();
    if (!child) { CHECK(!fcntl(file, F_SETLK, &whole) && write(ready[1], "", 1) == 1); usleep(50000); end(); }
    CHECK(read(ready[0], &byte, 1) == 1 && fcntl(file, F_SETLK, &whole) == -1 && !fcntl(file, F_SETLKW, &whole));
    CHECK(status_of(child) != 0);
    close(file), close(ready[0]), close(ready[1]);
}

static int finds_what_it_holds(int file, unsigned wait, unsigned names) {
    struct stat found;
    char bytes[6] = "";
    usleep(wait);
    int is_fine = pread(file, bytes, 5, 0) == 5 && !strcmp(bytes, "first") && !fstat(file, &found) && found.st_nlink == names;
    int own = open("own", O_CREAT | O_RDWR, 0600);
    return is_fine && write(own, "own", 3) == 3 && !close(own) && !unlink("own");
}

// A child holds what its parent held when it was made, of which nobody was told, whatever that one did afterwards.
static void children_of(void (*end)(void), int changes) {
    int result[2], file = open("held", O_CREAT | O_TRUNC | O_RDWR, 0600);
    char bytes[6] = "";
    CHECK(!pipe(result) && write(file, "first", 5) == 5);
    pid_t parent = fork();
    if (!parent) {
        // What it closes again and again it goes on holding by itself.
        for (int i = 0; i < 12; i++) close(open("held", O_RDONLY));
        // Nothing of the program is to be brought for the child later.
        CHECK(finds_what_it_holds(file, 1, 1));
        if (!fork()) _exit(write(result[1], finds_what_it_holds(file, 90000, !changes) ? "y" : "n", 1) != 1);
        if (changes) {
            close(open("held", O_RDONLY)), close(file), unlink("held");
            CHECK(write(open("held", O_CREAT | O_RDWR, 0600), "other", 5) == 5);
        }
        usleep(30000);
        if (!end) _exit(1);
        end();
    }
    close(file), close(result[1]);
    CHECK(status_of(parent) != 0 && read(result[0], bytes, 6) == 1 && bytes[0] == 'y' && !read(result[0], bytes, 1));
    close(result[0]), unlink("held");
}

static void children(void (*end)(void)) {
    for (int changes = 0; changes < 2; changes++) children_of(end, changes), children_of(0, changes);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(60);
    char folder[] = "/tmp/destroyed-XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder));
    static const struct { void (*part)(void (*)(void)); const char *line; } parts[] = {
        {readers, "who reads from them comes to the end"},
        {watchers, "who polls learns of it"},
        {writers, "who writes to them is told"},
        {sockets, "so it is with sockets"},
        {on_their_way, "what is on its way in a message stays open"},
        {named_pipes, "pipes with names"},
        {locks, "their locks are free"},
        {children, "their children go on with what they had open"},
    };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        parts[i].part(ends[0]);
        parts[i].part(ends[1]);
        puts(parts[i].line);
    }
}
