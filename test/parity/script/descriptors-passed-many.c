// Many descriptors in messages: sockets that are sent through themselves and closed, hundreds that stay open at both ends, thousands
// one after the other.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static long pass(int through, const int *sent, int count) {
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), sent, count * sizeof(int));
    return sendmsg(through, &message, 0);
}
static int take(int through) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int taken = -1;
    if (recvmsg(through, &message, 0) == 1 && CMSG_FIRSTHDR(&message)) memcpy(&taken, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof taken);
    return taken;
}

static void through_themselves(void) {
    int done = 0, pair[2];
    for (; done < 300 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && pass(pair[0], pair, 2) == 1; done++) close(pair[0]), close(pair[1]);
    printf("%d through themselves\n", done);
}

static void kept(void) {
    enum { KEPT = 200 };
    int through[2], pair[2], own[KEPT], sent = 0, answered = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, through)) return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < KEPT; i++) if (write(take(through[1]), "y", 1) != 1) _exit(1);
        _exit(read(through[1], pair, 1) == 1 ? 7 : 2);
    }
    for (; sent < KEPT && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && pass(through[0], &pair[1], 1) == 1; sent++) own[sent] = pair[0], close(pair[1]);
    char byte;
    for (int i = 0; i < sent; i++) answered += read(own[i], &byte, 1) == 1 && byte == 'y';
    int status, ended = 0;
    if (write(through[0], "e", 1) != 1 || waitpid(child, &status, 0) != child) return;
    for (int i = 0; i < sent; i++) ended += read(own[i], &byte, 1) == 0, close(own[i]);
    printf("%d sent, %d answered, %d ended, %x\n", sent, answered, ended, status);
    close(through[0]), close(through[1]);
}

static void one_by_one(void) {
    int through[2], ends[2], done = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, through)) return;
    for (; done < 1000 && !pipe(ends) && pass(through[0], ends, 1) == 1; done++) {
        int taken = take(through[1]);
        char byte = 0;
        if (write(ends[1], "p", 1) != 1 || read(taken, &byte, 1) != 1 || byte != 'p') break;
        close(taken), close(ends[0]), close(ends[1]);
    }
    printf("%d pipes", done);
    int null = open("/dev/null", O_RDWR);
    for (done = 0; done < 5000 && pass(through[0], &null, 1) == 1; done++) close(take(through[1]));
    printf(", and one file %d times; the next descriptor is %d\n", done, dup(null) - null);
}

// What is on its way for ever leaves room for what a child that has ended bound.
static void after_them(void) {
    for (int children = 0; children < 2; children++) {
        fflush(stdout);
        if (fork() == 0) through_themselves(), fflush(stdout), _exit(0);
        wait(NULL);
    }
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0after them"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fork() == 0) _exit(bind(fd, (void *)&name, 20));
    int status;
    wait(&status);
    char bytes[8] = {0};
    int joined = connect(sender, (void *)&name, 20);
    long sent = send(sender, "first", 5, 0), got = recv(fd, bytes, 8, MSG_DONTWAIT);
    printf("bound %x, joined %d, sent %ld, got %ld %s\n", status, joined, sent, got, bytes);
}

int main(void) {
    through_themselves(), kept(), one_by_one(), after_them();
    return 0;
}
