/*
 * A process makes a pair of sockets and sends descriptors to its child, which becomes another user before it receives
 * them. The sender goes on, or has ended by then. The output is Linux's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

static void send_descriptor(int socket, int descriptor) {
    union control control = {0};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, 0) != 1) perror("sendmsg");
}

static int receive_descriptor(int socket) {
    union control control = {0};
    char some;
    int descriptor = -1;
    struct iovec byte = {&some, 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, 0) == 1 && message.msg_controllen != 0)
        memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

static void show(const char *what, int socket) {
    char bytes[16] = "";
    int descriptor = receive_descriptor(socket);
    ssize_t got = descriptor < 0 ? -1 : read(descriptor, bytes, 8);
    printf("%s: %zd bytes%s%.5s\n", what, got, got < 0 ? strerrorname_np(errno) : " ", bytes);
}

static void receive(int socket, int start) {
    char byte;
    read(start, &byte, 1);
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) perror("setresuid");
    show("pipe", socket);
    show("memory", socket);
    show("counter", socket);
    show("socket", socket);
    fflush(stdout);
}

static void send_all(int socket) {
    int pipes[2], pair[2], memory = memfd_create("memory", 0);
    pipe(pipes);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    write(pipes[1], "piped", 5);
    write(memory, "bytes", 5);
    lseek(memory, 0, SEEK_SET);
    write(pair[0], "words", 5);
    const int all[] = {pipes[0], memory, eventfd('7', 0), pair[1]};
    for (int index = 0; index < 4; index++) send_descriptor(socket, all[index]);
}

static void round_of(int kind, int ends) {
    int over[2], start[2], pair[2];
    char byte;
    printf("%s, the sender %s\n", kind == SOCK_STREAM ? "stream" : "packets", ends ? "has ended" : "goes on");
    fflush(stdout);
    pipe(over);
    pipe(start);
    if (fork() == 0) {
        socketpair(AF_UNIX, kind, 0, pair);
        if (fork() == 0) {
            close(start[1]);
            receive(pair[1], start[0]);
            _exit(0);
        }
        close(over[1]);
        send_all(pair[0]);
        if (!ends) {
            write(start[1], "", 1);
            read(over[0], &byte, 1);
        }
        _exit(0);
    }
    close(over[1]);
    if (ends) wait(NULL), write(start[1], "", 1);
    read(over[0], &byte, 1);
    if (!ends) wait(NULL);
    close(over[0]), close(start[0]), close(start[1]);
}

int main(void) {
    for (int ends = 0; ends < 2; ends++) {
        round_of(SOCK_STREAM, ends);
        round_of(SOCK_SEQPACKET, ends);
    }
    return 0;
}
