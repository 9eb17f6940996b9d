// Many ask the same processes at the same time what only these know: each answer comes, and nobody who is asked ends by it,
// whatever signals wait there, blocked, with a full queue, or by the number that the C library keeps for itself.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TARGETS = 5, ASKERS = 3, ROUNDS = 60 };
static pid_t targets[TARGETS];
static volatile sig_atomic_t taken;

static void check(int holds, const char *what, long detail) {
    if (holds) return;
    printf("wrong: %s %ld errno %d\n", what, detail, errno);
    fflush(stdout);
    _exit(1);
}

static void take(int signal) { (void)signal; taken++; }

// The raw calls, because the C library keeps the first of these signals to itself.
static void block_all(void) {
    unsigned long all = ~0ul;
    check(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8) == 0, "mask", 0);
}

// What each target does: waits; waits with all signals blocked; computes; handles signals; is stopped by its parent.
static void live(int kind) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kind == 1) block_all();
    if (kind == 3) signal(SIGRTMIN + 3, take);
    volatile unsigned long sum = 0;
    for (;;) {
        if (kind == 2) for (int i = 0; i < 1000; i++) sum += i;
        else usleep(20000);
    }
}

static void *ask(void *from) {
    unsigned long start = (unsigned long)from;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t target = targets[(start + round) % TARGETS];
        char path[64], text[4096];
        snprintf(path, sizeof path, "/proc/%d/%s", target, round & 1 ? "environ" : "limits");
        int file = open(path, O_RDONLY);
        check(file >= 0, path, target);
        check(read(file, text, sizeof text) > 3, path, target);
        close(file);
        struct rlimit limit;
        check(prlimit(target, RLIMIT_NOFILE, 0, &limit) == 0, "prlimit", target);
        errno = 0;
        check(getpriority(PRIO_PROCESS, target) == 0 && errno == 0, "getpriority", target);
        cpu_set_t set;
        check(sched_getaffinity(target, sizeof set, &set) == 0, "affinity", target);
    }
    return 0;
}

static void ask_with_threads(unsigned long number) {
    pthread_t other;
    check(pthread_create(&other, 0, ask, (void *)(number + 1)) == 0, "thread", 0);
    ask((void *)number);
    pthread_join(other, 0);
    _exit(0);
}

int main(void) {
    for (int kind = 0; kind < TARGETS; kind++) {
        targets[kind] = fork();
        if (targets[kind] == 0) live(kind);
    }
    usleep(50000);
    // More than the queue of the one that blocks them takes, and the number that the C library keeps for itself.
    for (int i = 0; i < 200; i++) check(syscall(SYS_kill, targets[1], SIGRTMIN + 1) == 0, "kill", i);
    check(syscall(SYS_kill, targets[1], 32) == 0, "kill", 32);
    kill(targets[4], SIGSTOP);
    pid_t askers[ASKERS];
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = fork();
        if (askers[i] == 0) ask_with_threads(i * 2);
    }
    int left = ASKERS, status;
    while (left > 0) {
        // What is queued comes in between, once for each.
        union sigval none = {0};
        if (sigqueue(targets[3], SIGRTMIN + 3, none)) check(errno == EAGAIN, "sigqueue", 0);
        pid_t ended = waitpid(-1, &status, WNOHANG);
        check(ended >= 0, "wait", ended);
        if (ended == 0) { usleep(2000); continue; }
        int is_asker = 0;
        for (int i = 0; i < ASKERS; i++) is_asker |= ended == askers[i];
        check(is_asker && status == 0, "who ended, and how", status);
        left--;
    }
    puts("everybody was answered");
    for (int kind = 0; kind < TARGETS; kind++) {
        check(waitpid(targets[kind], &status, WNOHANG) == 0, "a target ended", kind);
        kill(targets[kind], SIGKILL);
        check(waitpid(targets[kind], &status, 0) == targets[kind] && WTERMSIG(status) == SIGKILL, "its end", status);
    }
    puts("nobody ended by it");
}
