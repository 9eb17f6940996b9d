// Edge-triggered sets whose descriptors become readable while the set reports that they are writable: no event is lost.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)
enum { ROUNDS = 1500, PATIENCE_MS = 3000 };

static atomic_int turn;
static int far_end;

static long deadline(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000 + PATIENCE_MS;
}

// Waits until the set has reported that something can be read.
static int comes(int set) {
    struct epoll_event event;
    for (long end = deadline(); deadline() - PATIENCE_MS < end;) {
        int count = epoll_wait(set, &event, 1, PATIENCE_MS);
        CHECK(count >= 0);
        if (count == 1 && event.events & EPOLLIN) return 1;
    }
    return 0;
}

static int new_set(int watched) {
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    int set = epoll_create1(0);
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, watched, &wanted) == 0);
    return set;
}

static void *answer(void *unused) {
    char byte;
    while (read(far_end, &byte, 1) == 1)
        if (write(far_end, &byte, 1) != 1) break;
    return unused;
}

// The peer takes what was written, which makes room, and answers at once.
static void questions(const char *name, int kind) {
    pthread_t thread;
    char byte = 1;
    int ends[2], come = 0;
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    far_end = ends[1];
    CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);
    int set = new_set(ends[0]);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(write(ends[0], &byte, 1) == 1);
        if (!comes(set)) break;
        while (read(ends[0], &byte, 1) == 1) {}
        come++;
    }
    shutdown(ends[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    close(ends[0]), close(ends[1]), close(set);
    printf("%s: %d of %d\n", name, come, ROUNDS);
}

static void *write_in_turn(void *own) {
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&turn) < round) {}
        uint64_t one = 1;
        CHECK(write(*(int *)own, &one, sizeof one) == sizeof one);
    }
    return NULL;
}

// The first look, which reports that one can write, meets the first write.
static void first_looks(const char *name, int is_counter) {
    pthread_t thread;
    uint64_t bytes;
    int ends[2], come = 0;
    turn = 0;
    if (is_counter) ends[0] = ends[1] = eventfd(0, EFD_NONBLOCK);
    else CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    CHECK(pthread_create(&thread, NULL, write_in_turn, &ends[1]) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        int set = new_set(ends[0]);
        turn = round;
        come += comes(set);
        while (read(ends[0], &bytes, sizeof bytes) != sizeof bytes) {}
        close(set);
    }
    pthread_join(thread, NULL);
    printf("%s: %d of %d\n", name, come, ROUNDS);
}

int main(void) {
    questions("answers on streams", SOCK_STREAM);
    questions("answers in packets", SOCK_SEQPACKET);
    first_looks("first looks at a socket", 0);
    first_looks("first looks at a counter", 1);
    return 0;
}
