// Urgent data: MSG_OOB, SO_OOBINLINE, SIOCATMARK, POLLPRI, exceptional sets of select, owners.
#include "../internet.h"
#include <sys/select.h>

static int at_mark(int socket) {
    int mark = -1;
    return ioctl(socket, SIOCATMARK, &mark) ? -errno : mark;
}

static void step(int far, const char *what) {
    char text[16] = {0};
    printf("  %s: mark %d, %#x", what, at_mark(far), events(far, ALL_EVENTS));
    long got = recv(far, text, 16, MSG_DONTWAIT);
    printf(", recv %s", said(got));
    printf(" '%.*s'\n", got > 0 ? (int)got : 0, text);
}

static void out_of_band(int in_line) {
    int ends[2];
    char byte[4] = {0};
    connection(ends);
    printf("in line %d\n", in_line);
    set_to(ends[1], SOL_SOCKET, SO_OOBINLINE, in_line);
    printf("  none: %s", said(recv(ends[1], byte, 1, MSG_OOB)));
    printf(", mark %d\n", at_mark(ends[1]));
    printf("  sent %s", said(send(ends[0], "abc", 3, 0)));
    printf(" %s", said(send(ends[0], "DE", 2, MSG_OOB)));
    printf(" %s\n", said(send(ends[0], "fgh", 3, 0)));
    usleep(1000);
    step(ends[1], "first");
    printf("  peek %s", said(recv(ends[1], byte, 4, MSG_OOB | MSG_PEEK)));
    printf(" %s, take %s", byte, said(recv(ends[1], byte, 4, MSG_OOB)));
    printf(" %s, again %s\n", byte, said(recv(ends[1], byte, 1, MSG_OOB)));
    step(ends[1], "second"), step(ends[1], "third"), step(ends[1], "fourth");
    printf("  two: %s", said(send(ends[0], "x", 1, MSG_OOB)));
    printf(" %s\n", said(send(ends[0], "y", 1, MSG_OOB)));
    usleep(1000);
    step(ends[1], "first"), step(ends[1], "second"), step(ends[1], "third");
    printf("  nothing: %s\n", said(send(ends[0], "", 0, MSG_OOB)));
    close(ends[0]), close(ends[1]);
}

static void waits(void) {
    int ends[2], status;
    connection(ends);
    printf("owner %s", said(fcntl(ends[1], F_SETOWN, getpid())));
    int owner = 0;
    printf(", is %d", fcntl(ends[1], F_GETOWN) == getpid());
    printf(", %s %d\n", said(ioctl(ends[1], SIOCGPGRP, &owner)), owner == getpid());
    pid_t child = fork();
    if (!child) usleep(30000), send(ends[0], "!", 1, MSG_OOB), _exit(0);
    fd_set special;
    FD_ZERO(&special);
    FD_SET(ends[1], &special);
    struct timeval soon = {5, 0};
    int found = select(ends[1] + 1, 0, 0, &special, &soon);
    printf("select %d", found);
    printf(", set %d", !!FD_ISSET(ends[1], &special));
    printf(", poll %#x\n", events(ends[1], POLLPRI));
    waitpid(child, &status, 0);
    close(ends[0]), close(ends[1]);
}

int main(void) {
    begin();
    BOTH_FAMILIES out_of_band(0), out_of_band(1), waits();
    family = AF_INET;
    int datagrams = bound(SOCK_DGRAM);
    char text[2];
    connect_to(datagrams, port_of(datagrams));
    printf("datagrams: %s", said(send(datagrams, "x", 1, MSG_OOB)));
    printf(", %s", said(recv(datagrams, text, 1, MSG_OOB | MSG_DONTWAIT)));
    printf(", mark %d\n", at_mark(datagrams));
    return 0;
}
