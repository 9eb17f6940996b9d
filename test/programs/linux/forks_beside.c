// A process makes children while its other threads work on open descriptions that a child has, too: sets of epoll, whose interests come and
// go, and sockets. Whatever they are just doing, the child can close and use all of them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

#define INTERESTS 24

static atomic_bool ends;
static int set, ready[INTERESTS], ends_of_pair[2];

static void change(int set, int operation, int index) {
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = (unsigned)index };
    CHECK(epoll_ctl(set, operation, ready[index], &event) == 0 || errno == EEXIST || errno == ENOENT);
}

static void *changes(void *unused) {
    for (unsigned round = 0; !ends; round++) change(set, round % 3 ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, (int)(round % INTERESTS));
    return unused;
}

static void *waits(void *unused) {
    struct epoll_event events[INTERESTS];
    while (!ends) CHECK(epoll_wait(set, events, INTERESTS, 1) >= 0 || errno == EINTR);
    return unused;
}

static void *sends(void *unused) {
    char bytes[64] = { 0 };
    while (!ends) {
        CHECK(send(ends_of_pair[0], bytes, sizeof bytes, 0) == sizeof bytes);
        CHECK(recv(ends_of_pair[1], bytes, sizeof bytes, 0) > 0);
        int size;
        socklen_t length = sizeof size;
        CHECK(getsockopt(ends_of_pair[0], SOL_SOCKET, SO_TYPE, &size, &length) == 0);
    }
    return unused;
}

// All that a child has works for it: everything can be taken out of the set and put into it, looked for, and closed.
static void use_all(void) {
    struct epoll_event events[INTERESTS];
    for (int i = 0; i < INTERESTS; i++) change(set, EPOLL_CTL_DEL, i), change(set, EPOLL_CTL_ADD, i);
    CHECK(epoll_wait(set, events, INTERESTS, 0) >= 0);
    CHECK(close(set) == 0 && close(ends_of_pair[0]) == 0 && close(ends_of_pair[1]) == 0);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 100;
    alarm(300);
    set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of_pair) == 0);
    for (int i = 0; i < INTERESTS; i++) CHECK((ready[i] = eventfd(1, EFD_CLOEXEC)) >= 0);
    void *(*works[])(void *) = { changes, waits, sends };
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, works[i], NULL) == 0);
    for (int round = 0; round < rounds; round++) {
        pid_t child = round % 2 ? fork() : vfork();
        CHECK(child >= 0);
        if (child == 0 && round % 2 == 0) {
            execl("/proc/self/exe", arguments[0], "0", NULL);
            _exit(1);
        }
        if (child == 0) {
            use_all();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0) {
            printf("round %d: status %x\n", round, status);
            return 1;
        }
    }
    ends = true;
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    if (rounds > 0) printf("%d children\n", rounds);
    return 0;
}
