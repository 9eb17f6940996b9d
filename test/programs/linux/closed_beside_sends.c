// Sockets for datagrams that one thread closes while another one sends to their name: the sender looks through the
// pages of the receiver for a moment. Meanwhile other threads fill pipes and fresh memory, and look whether what
// they wrote is there: a page that was given up twice would be two of theirs. Argument: seconds.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); fflush(stdout); _exit(1); } } while (0)

enum { NAMES = 2, BYTES = 32768, PAGE = 4096 };

static _Atomic int stop, sent, received;

static socklen_t name_of(long number, struct sockaddr_un *name) {
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    return offsetof(struct sockaddr_un, sun_path) + 1 + snprintf(name->sun_path + 1, 60, "beside-%ld", number);
}

static void *open_and_close(void *number) {
    struct sockaddr_un name;
    socklen_t length = name_of((long)number, &name);
    while (!stop) {
        char byte;
        int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        CHECK(receiver >= 0 && !bind(receiver, (void *)&name, length));
        if (recv(receiver, &byte, 1, 0) == 1) atomic_fetch_add(&received, 1);
        CHECK(!close(receiver));
    }
    return NULL;
}

static void *send_to_names(void *number) {
    int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK(sender >= 0);
    for (long turn = (long)number; !stop; turn++) {
        struct sockaddr_un name;
        socklen_t length = name_of(turn % NAMES, &name);
        if (sendto(sender, "x", 1, 0, (void *)&name, length) == 1) atomic_fetch_add(&sent, 1);
        else CHECK(errno == ECONNREFUSED || errno == EAGAIN);
    }
    return NULL;
}

static void fill(unsigned char *bytes, unsigned seed) {
    for (unsigned at = 0; at < BYTES; at++) bytes[at] = seed + at / 7;
}

static void *use_pipes(void *number) {
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    for (unsigned turn = (long)number; !stop; turn += 2) {
        int ends[2];
        CHECK(!pipe(ends));
        fill(out, turn);
        memset(in, 0, BYTES);
        CHECK(write(ends[1], out, BYTES) == BYTES);
        CHECK(read(ends[0], in, BYTES) == BYTES && !memcmp(in, out, BYTES));
        close(ends[0]);
        close(ends[1]);
    }
    return NULL;
}

static void *use_memory(void *number) {
    unsigned char *out = malloc(BYTES);
    for (unsigned turn = (long)number; !stop; turn += 2) {
        unsigned char *fresh = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(fresh != MAP_FAILED);
        for (unsigned at = 0; at < BYTES; at += PAGE / 8) CHECK(!fresh[at]);
        fill(out, turn);
        memcpy(fresh, out, BYTES);
        for (int look = 0; look < 20; look++) CHECK(!memcmp(fresh, out, BYTES));
        munmap(fresh, BYTES);
    }
    return NULL;
}

int main(int count, char **arguments) {
    void *(*const works[])(void *) = {open_and_close, send_to_names, use_pipes, use_memory};
    enum { WORKS = sizeof works / sizeof *works };
    pthread_t threads[WORKS * NAMES];
    for (long at = 0; at < WORKS * NAMES; at++) CHECK(!pthread_create(&threads[at], NULL, works[at / NAMES], (void *)(at % NAMES)));
    sleep(count > 1 ? atoi(arguments[1]) : 3);
    // Where the host has little time, nothing may have come about by then.
    for (int tries = 0; tries < 60 && !(sent > 0 && received > 0); tries++) sleep(1);
    stop = 1;
    for (int at = 0; at < WORKS * NAMES; at++) pthread_join(threads[at], NULL);
    CHECK(sent > 0 && received > 0);
    puts("every page was one thread's alone");
    return 0;
}
