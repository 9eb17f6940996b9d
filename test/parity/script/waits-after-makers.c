// Who waits for what a process or a thread made that has ended takes no CPU time meanwhile, and gets what comes:
// pipes, pairs, counters, timers, listeners and connections, those too that were on their way in a message when their maker ended.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIPE, PAIR, COUNTER, TIMER, LISTENER, CONNECTION, KINDS };
static const char *const NAMES[] = {"pipe", "pair", "counter", "timer", "listener", "connection"};
enum { ENDS, IS_KILLED, EXECUTES, GRANDPARENT, HOWS };
static const char *const WAYS[] = {"ended", "was killed", "executed another program", "ended after its child"};

static struct sockaddr_un name = {.sun_family = AF_UNIX};

static long used(int whom) {
    struct rusage now;
    getrusage(whom, &now);
    return (now.ru_utime.tv_sec + now.ru_stime.tv_sec) * 1000000 + now.ru_utime.tv_usec + now.ru_stime.tv_usec;
}
static int joined(void) {
    int fresh = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fresh, (void *)&name, offsetof(struct sockaddr_un, sun_path) + 30)) exit(1);
    return fresh;
}
// Ends to wait at (0), and to make it ready (1).
static void make(int kind, int *ends) {
    if (kind == PIPE && pipe(ends)) exit(1);
    if (kind == PAIR && socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(1);
    if (kind == COUNTER) ends[0] = ends[1] = eventfd(0, 0);
    if (kind == TIMER) ends[0] = ends[1] = timerfd_create(CLOCK_MONOTONIC, 0);
    if (kind != LISTENER && kind != CONNECTION) return;
    snprintf(name.sun_path + 1, 28, "chitin-waits-%d-%d", getpid(), kind);
    ends[0] = socket(AF_UNIX, SOCK_STREAM, 0), ends[1] = -1;
    if (bind(ends[0], (void *)&name, offsetof(struct sockaddr_un, sun_path) + 30) || listen(ends[0], 5)) exit(1);
    if (kind == LISTENER) return;
    int listening = ends[0];
    ends[1] = joined(), ends[0] = accept(listening, NULL, NULL);
    close(listening);
}
static void fire(int kind, int end) {
    uint64_t one = 1;
    struct itimerspec soon = {.it_value.tv_nsec = 1};
    if (kind == TIMER) timerfd_settime(end, 0, &soon, NULL);
    else if (kind == LISTENER) joined();
    else if (write(end, &one, 8) != 8) puts("not written");
}
// Whether waiting took next to nothing, at least once of some times: the host may have had no time for us.
static void wait_and_tell(const char *what, const char *how, int kind, int *ends) {
    long least = 1000000;
    int got = 0;
    for (int i = 0; i < 4; i++) {
        struct pollfd one = {ends[0], POLLIN, 0};
        long before = used(RUSAGE_SELF);
        got += poll(&one, 1, 40);
        long now = used(RUSAGE_SELF) - before;
        if (now < least) least = now;
    }
    printf("%s whose maker %s: %d ready, idle %d", what, how, got, least < 15000);
    fire(kind, ends[1]);
    struct pollfd one = {ends[0], POLLIN, 0};
    got = poll(&one, 1, 5000);
    printf(", then ready %d\n", got);
    fflush(stdout);
}

static void end_so(int how) {
    if (how == IS_KILLED) kill(getpid(), SIGKILL);
    if (how == EXECUTES) execl("/bin/true", "true", NULL);
    _exit(0);
}
static void trial(int kind, int how) {
    fflush(stdout);
    pid_t maker = fork();
    if (maker == 0) {
        int ends[2], gone[2];
        make(kind, ends);
        if (pipe(gone)) _exit(1);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            if (how == GRANDPARENT && fork() > 0) _exit(0);
            close(gone[1]);
            // The maker has ended when this is over, and a while later it is buried.
            if (read(gone[0], &byte, 1) != 0) _exit(1);
            close(gone[0]);
            usleep(50000);
            wait_and_tell(NAMES[kind], WAYS[how], kind, ends);
            _exit(0);
        }
        if (how == GRANDPARENT) waitpid(child, NULL, 0);
        end_so(how);
    }
    waitpid(maker, NULL, 0);
    while (wait(NULL) > 0) {}
}

static int made[2];
static void *make_in_thread(void *kind) {
    make((int)(intptr_t)kind, made);
    return NULL;
}
static void *fork_in_thread(void *kind) {
    fflush(stdout);
    if (fork() == 0) {
        int ends[2];
        usleep(50000);
        make((int)(intptr_t)kind, ends);
        wait_and_tell(NAMES[(intptr_t)kind], "was made by a thread that ended", (int)(intptr_t)kind, ends);
        _exit(0);
    }
    return NULL;
}
static void *nothing(void *argument) { return argument; }
// What a thread was made of is taken back when the next one begins.
static void in_thread(void *(*what)(void *), int kind) {
    pthread_t one;
    if (pthread_create(&one, NULL, what, (void *)(intptr_t)kind) || pthread_join(one, NULL)) exit(1);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&one, NULL, nothing, NULL) || pthread_join(one, NULL)) exit(1);
}

// A message with an end whose maker has ended before it is received.
static void send_end(int to, int end) {
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &end, sizeof end);
    if (sendmsg(to, &message, 0) != 1) puts("not sent");
}
static int take_end(int from) {
    char room[CMSG_SPACE(sizeof(int))] = {0}, got;
    struct iovec byte = {&got, 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int end = -1;
    if (recvmsg(from, &message, 0) != 1) puts("not received");
    if (CMSG_FIRSTHDR(&message)) memcpy(&end, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof end);
    return end;
}
static void by_message(int kind, int how) {
    int way[2];
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, way)) exit(1);
    pid_t maker = fork();
    if (maker == 0) {
        int ends[2];
        make(kind, ends);
        send_end(way[1], ends[0]);
        send_end(way[1], ends[1] < 0 ? ends[0] : ends[1]);
        end_so(how);
    }
    waitpid(maker, NULL, 0);
    usleep(100000);
    snprintf(name.sun_path + 1, 28, "chitin-waits-%d-%d", maker, kind);
    int ends[2] = {take_end(way[0]), take_end(way[0])};
    if (ends[0] < 0 || ends[1] < 0) printf("%s did not come\n", NAMES[kind]);
    else wait_and_tell(NAMES[kind], "has sent it and ended", kind, ends);
    for (int i = 0; i < 2; i++) close(way[i]), close(ends[i]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int kind = 0; kind < KINDS; kind++)
        for (int how = 0; how < HOWS; how++) trial(kind, how);
    for (int kind = 0; kind < KINDS; kind++) {
        in_thread(make_in_thread, kind);
        wait_and_tell(NAMES[kind], "was a thread", kind, made);
        close(made[0]);
        if (made[1] != made[0]) close(made[1]);
        in_thread(fork_in_thread, kind);
        while (wait(NULL) > 0) {}
    }
    for (int kind = 0; kind < KINDS; kind++) by_message(kind, ENDS);
    by_message(PAIR, IS_KILLED);
    return 0;
}
