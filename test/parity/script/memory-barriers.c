// membarrier: what has to be registered, what is refused, and a barrier that one thread makes for both.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3000 };

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static long barrier(int command, unsigned flags) { return syscall(SYS_membarrier, command, flags, 0); }

static atomic_int turn, done, mine, yours, seen_mine, seen_yours;

static void *cheap(void *nothing) {
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&turn) < round) sched_yield();
        atomic_store_explicit(&mine, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(&seen_yours, atomic_load_explicit(&yours, memory_order_relaxed), memory_order_relaxed);
        atomic_store(&done, round);
    }
    return nothing;
}

int main(void) {
    long all = barrier(MEMBARRIER_CMD_QUERY, 0);
    tell("there are", all & (MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
    int global = MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    tell("for all", all & global), tell("of all", barrier(MEMBARRIER_CMD_GLOBAL, 0)), tell("flags", barrier(MEMBARRIER_CMD_GLOBAL, 1));
    tell("of the registered", barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0)), tell("register", barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0));
    tell("unregistered", barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
    tell("flags", barrier(MEMBARRIER_CMD_QUERY, 2)), tell("unknown", barrier(1 << 20, 0));
    tell("register", barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
    tell("again", barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
    tell("alone", barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
    pid_t child = fork();
    if (child == 0) return barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) ? errno : 0;
    int status, missed = 0, failed = 0;
    waitpid(child, &status, 0), tell("a child", status);
    pthread_t other;
    pthread_create(&other, NULL, cheap, NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        atomic_store(&mine, 0), atomic_store(&yours, 0), atomic_store(&turn, round);
        atomic_store_explicit(&yours, 1, memory_order_relaxed);
        failed += barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0;
        atomic_store(&seen_mine, atomic_load_explicit(&mine, memory_order_relaxed));
        while (atomic_load(&done) < round) sched_yield();
        missed += !atomic_load(&seen_mine) && !atomic_load(&seen_yours);
    }
    pthread_join(other, NULL);
    tell("failed", failed), tell("missed by both", missed);
    return 0;
}
