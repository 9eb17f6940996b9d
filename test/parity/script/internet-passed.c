// Internet sockets in messages (SCM_RIGHTS): listeners, connections with data in them, datagram sockets; senders that are gone.
#include "../internet.h"

static int pass(int over, int number) {
    char space[CMSG_SPACE(sizeof number)] = {0}, byte = '.';
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof number);
    memcpy(CMSG_DATA(head), &number, sizeof number);
    return sendmsg(over, &message, 0);
}

static int take(int over) {
    int number = -1;
    char space[CMSG_SPACE(sizeof number)] = {0}, byte;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (recvmsg(over, &message, 0) < 1 || !CMSG_FIRSTHDR(&message)) return -1;
    memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
    return number;
}

static void listener_passed(void) {
    int pair[2], status;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (!child) {
        close(pair[0]);
        int listening = take(pair[1]);
        char text[8];
        printf("accepting %d", number_of(listening, SOL_SOCKET, SO_ACCEPTCONN));
        write(pair[1], "r", 1);
        int one = accept(listening, 0, 0);
        printf(", got %s\n", said(read(one, text, 8)));
        write(one, "reply", 5);
        _exit(0);
    }
    close(pair[1]);
    int listening = listener(5), port = port_of(listening);
    pass(pair[0], listening), close(listening);
    char text[8] = {0};
    read(pair[0], text, 1);
    int near = socket(family, SOCK_STREAM, 0);
    int outcome = connect_to(near, port);
    write(near, "ab", 2);
    long got = recv(near, text, 5, MSG_WAITALL);
    waitpid(child, &status, 0);
    printf("connect %s", said(outcome));
    printf(", read %s", said(got));
    printf(" %s\n", text);
    int again = socket(family, SOCK_STREAM, 0);
    printf("afterwards %s\n", said(connect_to(again, port)));
    close(near), close(again), close(pair[0]);
}

static void connection_passed(int bytes) {
    int pair[2], ends[2], status;
    char *block = malloc(bytes), *found = malloc(bytes + 1);
    for (int at = 0; at < bytes; at++) block[at] = at * 13 + at / 251;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    connection(ends);
    int sent = send(ends[0], block, bytes, MSG_DONTWAIT);
    if (!fork()) {
        close(ends[0]);
        recv(ends[1], found, bytes / 2, MSG_WAITALL);
        pass(pair[1], ends[1]);
        _exit(0);
    }
    close(ends[1]), close(pair[1]);
    wait(&status);
    int one = take(pair[0]);
    printf("%d bytes: all sent %d, kept %#x", bytes, sent == bytes, events(ends[0], POLLIN | POLLRDHUP));
    long rest = bytes - bytes / 2, got = recv(one, found, rest, MSG_WAITALL);
    printf(", read %d, same %d", got == rest, !memcmp(found, block + bytes / 2, rest));
    printf(", back %s", said(write(one, "back", 4)));
    printf(" %s", said(read(ends[0], found, 4)));
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    printf(", peer %s", said(getpeername(one, (void *)&name, &size)));
    printf(" %d\n", ntohs(((struct sockaddr_in *)&name)->sin_port) == port_of(ends[0]));
    close(one), close(ends[0]), close(pair[0]), free(block), free(found);
}

static void datagrams_passed(void) {
    int pair[2], receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    connect_to(sender, port_of(receiver));
    send(sender, "one", 3, 0);
    pass(pair[0], receiver), pass(pair[0], sender);
    close(receiver), close(sender);
    int got_receiver = take(pair[1]), got_sender = take(pair[1]);
    char text[8];
    printf("datagrams: %s", said(recv(got_receiver, text, 8, MSG_DONTWAIT)));
    printf(", send %s", said(send(got_sender, "two!", 4, 0)));
    printf(", %s\n", said(recv(got_receiver, text, 8, MSG_DONTWAIT)));
    close(got_receiver), close(got_sender), close(pair[0]), close(pair[1]);
}

static void lost_on_the_way(void) {
    int pair[2], ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    connection(ends);
    pass(pair[0], ends[1]), close(ends[1]);
    usleep(1000);
    printf("on the way %#x", events(ends[0], ALL_EVENTS));
    close(pair[0]), close(pair[1]);
    usleep(50000);
    printf(", lost %#x\n", events_soon(ends[0], POLLIN | POLLRDHUP));
    close(ends[0]);
}

int main(void) {
    begin();
    BOTH_FAMILIES listener_passed(), connection_passed(10), connection_passed(60000), datagrams_passed(), lost_on_the_way();
    return 0;
}
