// Connections that come about later or never: states of a socket that does not wait, time-outs, names of all lengths, reconnected ones.
#include "../internet.h"

static void bad_names(int kind) {
    struct sockaddr_storage name;
    int made = socket(family, kind, 0), listening = listener(5);
    socklen_t bytes = name_of(&name, port_of(listening));
    printf("kind %d:", kind);
    for (int at = -1; at < 6; at++) {
        int length = (int[]){-1, 0, 1, 2, 15, 23, 200}[at + 1], bound_now = bind(made, (void *)&name, length);
        printf(" %d %s", length, said(bound_now));
        printf(" %s", said(connect(made, (void *)&name, length)));
        close(made), made = socket(family, kind, 0);
    }
    printf(", nowhere %s", said(connect(made, (void *)16, bytes)));
    name.ss_family = 99;
    printf(", family 99 %s", said(bind(made, (void *)&name, bytes)));
    printf(" %s", said(connect(made, (void *)&name, bytes)));
    name.ss_family = AF_UNSPEC;
    printf(", none %s", said(bind(made, (void *)&name, bytes)));
    printf(" %s", said(connect(made, (void *)&name, bytes)));
    socklen_t room = 3;
    printf(", short room %s", said(getsockname(made, (void *)&name, &room)));
    printf(" %u", room);
    room = -1;
    printf(", negative room %s", said(getsockname(made, (void *)&name, &room)));
    printf(", no room %s", said(getsockname(made, (void *)&name, (void *)16)));
    printf(", no peer %s\n", said(getpeername(made, (void *)&name, &room)));
    close(made), close(listening);
}

static void again(void) {
    struct sockaddr_storage name;
    int listening = listener(5), made = socket(family, SOCK_STREAM, 0);
    printf("first %s", said(connect_to(made, port_of(listening))));
    int own = port_of(made);
    printf(", again %s", said(connect_to(made, port_of(listening))));
    printf(", bind %s", said(bind(made, (void *)&name, name_of(&name, 0))));
    printf(", listen %s", said(listen(made, 1)));
    name_of(&name, 0), name.ss_family = AF_UNSPEC;
    int far = accept(listening, 0, 0);
    char text[8];
    printf(", taken apart %s", said(connect(made, (void *)&name, sizeof name)));
    usleep(1000);
    printf(", other side %s", said(recv(far, text, 8, MSG_DONTWAIT)));
    printf(", own side %s", said(recv(made, text, 8, MSG_DONTWAIT)));
    printf(", connected again %s", said(connect_to(made, port_of(listening))));
    printf(", same port %d\n", port_of(made) == own);
    close(far), far = accept(listening, 0, 0);
    write(made, "ok", 2);
    printf("works again %s\n", said(read(far, text, 8)));
    close(made), close(far), close(listening);
    made = socket(family, SOCK_STREAM, 0);
    for (int turn = 0; turn < 3; turn++) printf("refused %s ", said(connect_to(made, 1)));
    listening = listener(5);
    printf("then %s\n", said(connect_to(made, port_of(listening))));
    close(made), close(listening);
}

static void itself(void) {
    int made = bound(SOCK_STREAM), datagrams = bound(SOCK_DGRAM);
    char text[8] = {0};
    printf("itself %s", said(connect_to(made, port_of(made))));
    printf(", write %s", said(send(made, "self", 4, MSG_NOSIGNAL)));
    printf(", read %s", said(recv(made, text, 8, MSG_DONTWAIT)));
    printf(" %s", text);
    printf("; datagrams %s", said(connect_to(datagrams, port_of(datagrams))));
    send(datagrams, "me", 2, 0);
    printf(" %s\n", said(recv(datagrams, text, 8, MSG_DONTWAIT)));
    close(made), close(datagrams);
}

static void patience(void) {
    int listening = listener(0), ends[2];
    struct timeval some = {0, 60000}, odd = {0, 1000000}, negative = {-1, 0}, found;
    socklen_t bytes = sizeof found;
    char text[8];
    printf("odd %s", said(setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &odd, sizeof odd)));
    printf(", negative %s", said(setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &negative, sizeof negative)));
    printf(", short %s", said(setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &some, 8)));
    setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some);
    getsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &found, &bytes);
    printf(", told %d", found.tv_usec >= 60000 && found.tv_usec <= 64000);
    long from = milliseconds();
    printf(", accept %s", said(accept(listening, 0, 0)));
    printf(" %d", milliseconds() - from >= 55);
    connection(ends);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some);
    from = milliseconds();
    printf(", recv %s", said(recv(ends[0], text, 8, 0)));
    printf(" %d", milliseconds() - from >= 55);
    static char block[1 << 20];
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &some, sizeof some);
    long sent = 0, now;
    for (int turn = 0; turn < 50 && (now = send(ends[0], block, sizeof block, 0)) > 0; turn++) sent += now;
    printf(", send %s, some %d", said(now), sent > 0);
    int first = connected_to(listening), second = socket(family, SOCK_STREAM, 0);
    setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &some, sizeof some);
    from = milliseconds();
    printf(", connect %s", said(connect_to(second, port_of(listening))));
    printf(" %d\n", milliseconds() - from >= 55);
    close(first), close(second), close(ends[0]), close(ends[1]), close(listening);
}

static void interrupted(void) {
    int ends[2], status;
    connection(ends);
    pid_t child = fork();
    if (!child) {
        signal(SIGUSR1, SIG_IGN);
        char text[8];
        long got = recv(ends[0], text, 8, 0);
        _exit(got == 2 ? 0 : 1);
    }
    usleep(20000), kill(child, SIGUSR1), usleep(5000), kill(child, SIGSTOP), usleep(5000);
    write(ends[1], "ab", 2), usleep(5000), kill(child, SIGCONT);
    waitpid(child, &status, 0);
    printf("ignored, stopped, continued: status %d\n", WEXITSTATUS(status));
    close(ends[0]), close(ends[1]);
}

int main(void) {
    begin();
    BOTH_FAMILIES bad_names(SOCK_STREAM), bad_names(SOCK_DGRAM), again(), itself(), patience(), interrupted();
    return 0;
}
