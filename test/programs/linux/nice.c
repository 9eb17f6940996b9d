// Who is nice leaves the CPU to others, by as much as it is nice, and has it where nobody else wants it. What is counted is work: no
// clock is looked at. By the counting clock the host's load is not in it.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)
// A stretch of work is much shorter than a slice, and a round as long as some ten.
enum { STRETCH = 20000, ROUND = 2000 };
// As a nice value: the one of who makes the process.
enum { KEPT = 100 };

static struct shared {
    atomic_int begun, ends, work[2];
} *shared;

// The user that they become first, which may be any nice value by its limit.
static uid_t becomes;

static pid_t make(int own, int nice, int policy) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child) return child;
    if (becomes) CHECK(!setrlimit(RLIMIT_NICE, &(struct rlimit){40, 40}) && !setresuid(becomes, becomes, becomes));
    if (nice != KEPT) CHECK(!setpriority(PRIO_PROCESS, 0, nice) && (errno = 0, getpriority(PRIO_PROCESS, 0)) == nice && !errno);
    int is_real_time = policy == SCHED_RR || policy == SCHED_FIFO;
    CHECK(!sched_setscheduler(0, policy, &(struct sched_param){is_real_time ? 10 : 0}));
    atomic_fetch_add(&shared->begun, 1);
    while (atomic_load(&shared->begun) < 2) usleep(1000);
    while (!atomic_load(&shared->ends)) {
        for (volatile int i = 0; i < STRETCH; i++) {}
        if (atomic_fetch_add(&shared->work[own], 1) == ROUND) atomic_store(&shared->ends, 1);
    }
    _exit(0);
}

static void bury(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// How much the first did while the second did a hundred times as much as is said, or the other way round.
static int percent(int first, int first_policy, int second, int second_policy) {
    memset(shared, 0, sizeof *shared);
    pid_t children[] = {make(0, first, first_policy), make(1, second, second_policy)};
    for (int index = 0; index < 2; index++) bury(children[index]);
    return (long)shared->work[1] * 100 / shared->work[0];
}

enum { ANY = 1 << 30 };

// That lies between two values.
static void expect(const char *what, int low, int high, int first, int first_policy, int second, int second_policy) {
    int seen = percent(first, first_policy, second, second_policy);
    if (seen < low || seen > high) printf("%s: %d percent\n", what, seen);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && !sched_setaffinity(0, sizeof one, &one));

    expect("two that are alike", 70, 140, 0, SCHED_OTHER, 0, SCHED_OTHER);
    expect("one with a nice value of 5, some 33", 20, 50, 0, SCHED_OTHER, 5, SCHED_OTHER);
    expect("one with a nice value of 19, some 2", 0, 9, 0, SCHED_OTHER, 19, SCHED_OTHER);
    expect("two that are as nice", 60, 165, 10, SCHED_OTHER, 10, SCHED_OTHER);
    expect("one that wants what is left", 0, 9, 0, SCHED_OTHER, 0, SCHED_IDLE);
    puts("who is nice leaves the CPU to others");

    expect("one with a nice value of -5, some 305", 200, 500, 0, SCHED_OTHER, -5, SCHED_OTHER);
    expect("two with a nice value of -20", 60, 165, -20, SCHED_OTHER, -20, SCHED_OTHER);
    expect("one with a real-time policy, some 2000", 900, ANY, 0, SCHED_OTHER, 0, SCHED_RR);
    expect("two with real-time policies", 60, 165, 0, SCHED_FIFO, 0, SCHED_RR);
    puts("who is less nice goes before others");

    // Children are as nice as who makes them.
    CHECK(!setpriority(PRIO_PROCESS, 0, -5));
    expect("a child, some 305", 200, 500, 0, SCHED_OTHER, KEPT, SCHED_OTHER);
    CHECK(!setpriority(PRIO_PROCESS, 0, 0));
    // Another process's nice value.
    memset(shared, 0, sizeof *shared);
    pid_t changed = make(0, KEPT, SCHED_OTHER), other = make(1, KEPT, SCHED_OTHER);
    CHECK(!setpriority(PRIO_PROCESS, changed, -10) && getpriority(PRIO_PROCESS, changed) == -10);
    bury(changed), bury(other);
    if (shared->work[0] < 4 * shared->work[1]) printf("another process: %d to %d\n", shared->work[0], shared->work[1]);
    puts("so do a child and whom user 0 lets");

    // Of users the server knows better: nobody believes who is not user 0.
    becomes = 1000;
    expect("a user", 60, 165, 0, SCHED_OTHER, -20, SCHED_OTHER);
    becomes = 0;
    puts("a user has an ordinary share at most");

    // The signal comes to who is nice while the other one goes on.
    memset(shared, 0, sizeof *shared);
    pid_t hog = make(0, 0, SCHED_OTHER), killed = make(1, 19, SCHED_OTHER);
    while (shared->work[0] < ROUND / 20) usleep(1000);
    int status;
    CHECK(!kill(killed, SIGTERM) && waitpid(killed, &status, 0) == killed && WIFSIGNALED(status));
    CHECK(!shared->ends);
    atomic_store(&shared->ends, 1);
    bury(hog);
    puts("it is killed while it leaves the CPU");
}
