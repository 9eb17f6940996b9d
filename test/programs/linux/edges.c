// Edge-triggered sets while another process writes at the very moment of the first look after an interest was changed:
// each write is told once, and none twice (epoll(7)).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE = 5000 };

static void pair_of(const char *kind, int ends[2]) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    switch (kind[0]) {
    case 'p': pipe(ends); return;
    case 'u': socketpair(AF_UNIX, SOCK_STREAM, 0, ends); return;
    case 'e': ends[0] = ends[1] = eventfd(0, 0); return;
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name);
    listen(listener, 1);
    getsockname(listener, (void *)&name, &size);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[1], (void *)&name, sizeof name);
    ends[0] = accept(listener, NULL, NULL);
    close(listener);
}

// The child writes once for each number that the parent sets, a little later each time.
static void write_when_asked(int end, int rounds, atomic_int *asked) {
    const long one = 1;
    for (int round = 1; round <= rounds; round++) {
        while (atomic_load(asked) < round)
            ;
        for (volatile int delay = round % 600; delay > 0; delay--)
            ;
        write(end, &one, sizeof one);
    }
    _exit(0);
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 2000;
    atomic_int *asked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *kinds[] = {"pipe", "unix", "eventfd", "tcp"};
    for (int which = 0; which < 4; which++) {
        int ends[2], lost = 0, twice = 0, set = epoll_create1(0);
        char bytes[64];
        pair_of(kinds[which], ends);
        struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, come;
        epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &wanted);
        atomic_store(asked, 0);
        if (fork() == 0)
            write_when_asked(ends[1], rounds, asked);
        for (int round = 1; round <= rounds; round++) {
            epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &wanted);
            atomic_store(asked, round);
            lost += epoll_wait(set, &come, 1, PATIENCE) != 1;
            twice += epoll_wait(set, &come, 1, 0) != 0;
            read(ends[0], bytes, sizeof bytes);
        }
        wait(NULL);
        printf("%s: %d lost, %d twice\n", kinds[which], lost, twice);
        fflush(stdout);
    }
    return 0;
}
