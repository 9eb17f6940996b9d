// A read that has room gets all that waits, however the bytes lie: of streams, of Unix sockets and of pipes.
#include "../internet.h"
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#define MANY 60000

static char sent[MANY], came[MANY + 1];

static void fill(const char *what, int to, int from) {
    write(to, sent, 1000), write(to, sent + 1000, MANY - 1000);
    usleep(20000);
    int waiting = 0;
    ioctl(from, FIONREAD, &waiting);
    printf("%s: %d wait", what, waiting);
}

static void same(long count) {
    printf(" %ld %s", count, count > 0 && !memcmp(sent, came, count) ? "equal" : "other");
    memset(came, 0, sizeof came);
}

static void reads(const char *what, int to, int from, int is_socket) {
    fcntl(from, F_SETFL, O_NONBLOCK);
    fill(what, to, from);
    if (is_socket) same(recv(from, came, sizeof came, MSG_PEEK));
    same(read(from, came, sizeof came));
    printf(" %s\n", said(read(from, came, 1)));
    fill(what, to, from);
    struct iovec parts[3] = {{came, 1000}, {came + 1000, 30000}, {came + 31000, 29001}};
    same(readv(from, parts, 3));
    printf(" %s\n", said(read(from, came, 1)));
}

// After a short read that follows an edge, no more bytes wait.
static void edges(const char *what, int to, int from) {
    fcntl(from, F_SETFL, O_NONBLOCK);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(set, EPOLL_CTL_ADD, from, &event);
    fill(what, to, from);
    long total = 0, got;
    while (epoll_wait(set, &event, 1, 300) == 1)
        if ((got = read(from, came, sizeof came)) > 0) total += got;
    printf(" %ld by edges\n", total);
    close(set);
}

int main(void) {
    begin();
    for (int at = 0; at < MANY; at++) sent[at] = at * 7 + at / 251;
    BOTH_FAMILIES {
        int listening = listener(1), near = connected_to(listening), far = accept(listening, 0, 0);
        reads("stream", near, far, 1);
        close(near), close(far), near = connected_to(listening), far = accept(listening, 0, 0);
        edges("stream", near, far);
        edges("and back", far, near), reads("and back", far, near, 1);
        close(listening), close(near), close(far);
    }
    int both[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    edges("unix", both[0], both[1]), reads("unix", both[0], both[1], 1);
    pipe(both);
    edges("pipe", both[1], both[0]), reads("pipe", both[1], both[0], 0);
    return 0;
}
