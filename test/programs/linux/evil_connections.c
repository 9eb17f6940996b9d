// A process that writes what it likes into the pages of its own Internet sockets, while user 0 is at the other end. Its
// own connections break, all others continue, no process waits for it, and its ports are free when it has ended.
// One line for each part.
#define _GNU_SOURCE
#include "evil.h"
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { USER = 1000, GROUP = 100, ROUNDS = 60, COUNT_WORDS = 256 };
#define MARK "these bytes tell my own page"

static sigjmp_buf way_back;
static void at_fault(int signal) { (void)signal, siglongjmp(way_back, 1); }
static uint64_t seed = 88172645463325252ull;
static uint64_t draw(void) { return seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17; }

// Pages that this process may write and that hold the mark: those of its sockets.
static int find_pages(volatile uint64_t **found, int most) {
    volatile int count = 0;
    signal(SIGSEGV, at_fault);
    for (char *volatile page = windows; page < windows + WINDOW_BYTES && count < most; page += 4096) {
        if (sigsetjmp(way_back, 1)) continue;
        *(volatile char *)page = *(volatile char *)page;
        for (char *at = page; at + sizeof MARK <= page + 4096; at++)
            if (!memcmp(at, MARK, sizeof MARK - 1)) { found[count++] = (void *)page; break; }
    }
    signal(SIGSEGV, SIG_DFL);
    return count;
}

static struct sockaddr_in place;

static int listener(void) {
    socklen_t bytes = sizeof place;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    place = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(made >= 0 && !bind(made, (void *)&place, bytes) && !listen(made, 50) && !getsockname(made, (void *)&place, &bytes));
    return made;
}

static int connected(void) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made >= 0 && !connect(made, (void *)&place, sizeof place));
    return made;
}

// Writes words at random, and ones that mean something at the edges, into its own page: then uses the socket.
static void scribble(void) {
    static const uint64_t edges[] = {0, 1, ~0ull, 1ull << 62, 1ull << 63, 3ull << 62, 2047, 2048, 2049, 131072, 131073, 256, 257, 258, 259, 1ull << 32};
    CHECK(!setgroups(0, 0) && !setgid(GROUP) && !setuid(USER));
    for (int round = 0; round < ROUNDS; round++) {
        int own = connected();
        CHECK(write(own, MARK, sizeof MARK) == sizeof MARK);
        volatile uint64_t *pages[4];
        int count = find_pages(pages, 4);
        CHECK(count > 0);
        for (int page = 0; page < count; page++)
            for (int turn = 0; turn < 8; turn++) {
                uint64_t word = draw() % 3 ? edges[draw() % (sizeof edges / sizeof *edges)] : draw();
                pages[page][draw() % (turn % 2 ? 26 : COUNT_WORDS)] = word;
            }
        // What it gets of its own socket now is its own affair.
        char text[64];
        (void)send(own, text, sizeof text, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)recv(own, text, sizeof text, MSG_DONTWAIT);
        if (round % 2) close(own);
    }
    _exit(0);
}

static void serve_beside(int listening) {
    int good_pipe[2], served = 0, status;
    pid_t good, evil;
    CHECK(!pipe(good_pipe));
    // One that means well: its bytes come back for as long as the other one is there.
    if (!(good = fork())) {
        close(listening), close(good_pipe[1]);
        int own = connected(), turns = 0;
        char text[8];
        CHECK(write(own, "good", 4) == 4);
        while (recv(own, text, 4, MSG_WAITALL) == 4 && !memcmp(text, "good", 4) && turns++ < 1000000) {
            struct pollfd end = {good_pipe[0], POLLIN, 0};
            if (poll(&end, 1, 0)) _exit(turns > 10 ? 0 : 2);
            if (write(own, "good", 4) != 4) break;
        }
        _exit(3);
    }
    if (!(evil = fork())) close(listening), close(good_pipe[1]), scribble();
    close(good_pipe[0]);
    struct pollfd all[ROUNDS + 3] = {{listening, POLLIN, 0}};
    int many = 1, ended = 0, after = 0, good_ended = 0;
    // The one that means well may wait for an answer when it is told to end: it is served up to its end.
    while (!good_ended) {
        if (ended && after++ == 20) close(good_pipe[1]);
        CHECK(poll(all, many, 200) >= 0);
        if (all[0].revents & POLLIN && many < ROUNDS + 3) {
            int one = accept4(listening, 0, 0, SOCK_NONBLOCK);
            if (one >= 0) all[many++] = (struct pollfd){one, POLLIN, 0};
        }
        for (int at = 1; at < many; at++) {
            char text[4096];
            int waiting = 0;
            if (!all[at].revents) continue;
            (void)ioctl(all[at].fd, FIONREAD, &waiting);
            ssize_t got = recv(all[at].fd, text, sizeof text, 0);
            CHECK(got <= (ssize_t)sizeof text);
            if (got == 4 && !memcmp(text, "good", 4)) served++;
            if (got > 0) (void)send(all[at].fd, text, got == 4 ? 4 : 1, MSG_NOSIGNAL);
            else if (got == 0 || errno != EAGAIN) { close(all[at].fd), all[at--] = all[--many]; }
        }
        if (!ended && waitpid(evil, &status, WNOHANG) == evil) { CHECK(status == 0); ended = 1; }
        if (waitpid(good, &status, WNOHANG) == good) { CHECK(status == 0); good_ended = 1; }
    }
    CHECK(served > 10);
    for (int at = 1; at < many; at++) close(all[at].fd);
    puts("who writes into the pages of its sockets breaks its own connections only");
}

static void everything_is_free(int listening) {
    char text[8];
    int near = connected(), far = -1;
    // What the other one left in the queue comes first.
    for (int tries = 0; tries < ROUNDS + 5; tries++) {
        far = accept(listening, 0, 0);
        struct sockaddr_in name, own;
        socklen_t bytes = sizeof name, size = sizeof own;
        if (!getpeername(far, (void *)&name, &bytes) && !getsockname(near, (void *)&own, &size) && name.sin_port == own.sin_port) break;
        close(far);
    }
    CHECK(write(near, "works", 5) == 5 && recv(far, text, 5, MSG_WAITALL) == 5);
    close(near), close(far), close(listening);
    int again = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    CHECK(!setsockopt(again, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) && !bind(again, (void *)&place, sizeof place) && !listen(again, 1));
    puts("connections come about as before, and the port is free again");
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    alarm(100);
    int listening = listener();
    serve_beside(listening);
    everything_is_free(listening);
    return 0;
}
