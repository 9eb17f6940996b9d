// Closing: SO_LINGER, resets by unread bytes, ends of processes, data that was sent before.
#include "../internet.h"

static void after(const char *what, int near) {
    char text[16];
    usleep(5000);
    printf("%s: %#x", what, events(near, ALL_EVENTS));
    printf(", recv %s", said(recv(near, text, 16, MSG_DONTWAIT)));
    printf(", recv %s", said(recv(near, text, 16, MSG_DONTWAIT)));
    printf(", send %s", said(send(near, "x", 1, MSG_NOSIGNAL)));
    usleep(2000);
    printf(", send %s", said(send(near, "x", 1, MSG_NOSIGNAL)));
    printf(", error %s, %#x\n", error_of(near), events(near, ALL_EVENTS));
    close(near);
}

static void closed(const char *what, int on, int seconds, int unread, int sent) {
    int ends[2];
    connection(ends);
    struct linger linger = {on, seconds};
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    if (unread) send(ends[0], "unread", 6, 0);
    if (sent) send(ends[1], "sent", 4, 0);
    long from = milliseconds();
    close(ends[1]);
    printf(milliseconds() - from < 500 ? "quick " : "slow ");
    after(what, ends[0]);
}

static void ended(const char *what, int signal_number) {
    int ends[2], status;
    connection(ends);
    pid_t child = fork();
    if (!child) {
        close(ends[0]);
        send(ends[1], "last", 4, 0);
        if (!signal_number) _exit(0);
        for (;;) pause();
    }
    close(ends[1]);
    if (signal_number) usleep(20000), kill(child, signal_number);
    waitpid(child, &status, 0);
    after(what, ends[0]);
}

static void kept(void) {
    int ends[2];
    connection(ends);
    int copy = dup(ends[1]);
    close(ends[1]);
    usleep(1000);
    printf("a copy keeps it: %#x", events(ends[0], ALL_EVENTS));
    close(copy);
    usleep(1000);
    printf(", then %#x\n", events(ends[0], ALL_EVENTS));
    close(ends[0]);
}

static void values(void) {
    int one = socket(family, SOCK_STREAM, 0);
    struct linger linger = {-1, -1}, found;
    socklen_t bytes = sizeof found;
    printf("set %s", said(setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof linger)));
    getsockopt(one, SOL_SOCKET, SO_LINGER, &found, &bytes);
    printf(" %d %d; short %s", found.l_onoff, found.l_linger > 0, said(setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, 7)));
    linger.l_onoff = 0, linger.l_linger = 9;
    setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    getsockopt(one, SOL_SOCKET, SO_LINGER, &found, &bytes);
    printf("; off %d\n", found.l_onoff);
    close(one);
}

int main(void) {
    begin();
    BOTH_FAMILIES {
        closed("plain", 0, 0, 0, 0), closed("plain with data", 0, 0, 0, 1), closed("unread", 0, 0, 1, 0), closed("unread with data", 0, 0, 1, 1);
        closed("linger 0", 1, 0, 0, 0), closed("linger 0 with data", 1, 0, 0, 1), closed("linger 2", 1, 2, 0, 1), closed("linger 2 unread", 1, 2, 1, 0);
        ended("exited", 0), ended("killed", SIGKILL), ended("terminated", SIGTERM), kept(), values();
    }
    return 0;
}
