// Events that come while a thread goes to sleep over them: answers on a netlink socket, the end of a half of a connection.
// The moments sweep over the thread's way to its sleep, and nothing else wakes it. One line for each part.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { LONGEST = 4000, STEP = 7, PATIENCE = 10 };

static _Atomic int rounds_begun, rounds_done;

static void wait_for(_Atomic int *count, int wanted) {
    time_t begin = time(NULL);
    while (atomic_load(count) < wanted) {
        CHECK(time(NULL) - begin < PATIENCE);
        sched_yield();
    }
}

static void spin(int round) {
    for (volatile int left = round * STEP % LONGEST; left > 0; left--) {}
}

static int netlink;

// Receives the answers to one question after another, up to the end of each.
static void *receive_answers(void *rounds) {
    for (int round = 0; round < *(int *)rounds; round++) {
        int ended = 0;
        while (!ended) {
            char got[8192];
            ssize_t bytes = recv(netlink, got, sizeof got, 0);
            CHECK(bytes > 0);
            struct nlmsghdr *one = (struct nlmsghdr *)got;
            for (size_t left = bytes; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) ended |= one->nlmsg_type == NLMSG_DONE;
        }
        atomic_fetch_add(&rounds_done, 1);
    }
    return NULL;
}

static void answers(int rounds) {
    pthread_t reader;
    struct { struct nlmsghdr head; struct rtgenmsg body; } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
    };
    netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    CHECK(netlink >= 0 && !pthread_create(&reader, NULL, receive_answers, &rounds));
    for (int round = 0; round < rounds; round++) {
        wait_for(&rounds_done, round);
        spin(round);
        CHECK(send(netlink, &question, sizeof question, 0) == sizeof question);
    }
    CHECK(!pthread_join(reader, NULL) && !close(netlink));
    puts("answers for threads about to sleep");
}

static int connection;

static void *read_to_end(void *rounds) {
    for (int round = 0; round < *(int *)rounds; round++) {
        char c;
        wait_for(&rounds_begun, round + 1);
        CHECK(recv(connection, &c, 1, 0) == 0);
        atomic_fetch_add(&rounds_done, 1);
    }
    return NULL;
}

static void ends(int rounds) {
    pthread_t reader;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && !bind(listener, (struct sockaddr *)&name, sizeof name) && !listen(listener, 1));
    CHECK(!getsockname(listener, (struct sockaddr *)&name, &bytes));
    atomic_store(&rounds_done, 0);
    CHECK(!pthread_create(&reader, NULL, read_to_end, &rounds));
    for (int round = 0; round < rounds; round++) {
        int other = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(other >= 0 && !connect(other, (struct sockaddr *)&name, sizeof name));
        connection = accept(listener, NULL, NULL);
        CHECK(connection >= 0);
        atomic_fetch_add(&rounds_begun, 1);
        spin(round);
        CHECK(!shutdown(connection, SHUT_RD));
        wait_for(&rounds_done, round + 1);
        CHECK(!close(connection) && !close(other));
    }
    CHECK(!pthread_join(reader, NULL) && !close(listener));
    puts("ends for threads about to sleep");
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(200);
    answers(atoi(arguments[1]));
    ends(atoi(arguments[2]));
    return 0;
}
