// CPUs that a thread may run on (sched_setaffinity(2)): it runs there at once, each thread on its own, and so do children; another
// process is moved, too, while it runs.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)
enum { CPUS = 2 };

static cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

// Its CPU, by both ways that there are to know it.
static int here(void) {
    unsigned told;
    CHECK(!syscall(SYS_getcpu, &told, NULL, NULL));
    return sched_getcpu() == (int)told ? (int)told : -1;
}

static void *stay(void *cpu) {
    cpu_set_t set = only((long)cpu), found;
    CHECK(!pthread_setaffinity_np(pthread_self(), sizeof set, &set));
    for (int round = 0; round < 200; round++) CHECK(here() == (long)cpu);
    CHECK(!pthread_getaffinity_np(pthread_self(), sizeof found, &found) && CPU_EQUAL(&set, &found));
    return NULL;
}

// A process that notes where it runs, and is sent from CPU to CPU.
static void move_another(void) {
    volatile int *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) for (;;) *place = sched_getcpu() + 1;
    for (int round = 0; round < 10; round++) {
        cpu_set_t set = only(round % CPUS);
        CHECK(!sched_setaffinity(child, sizeof set, &set));
        while (*place != round % CPUS + 1) usleep(1000);
    }
    int status;
    CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child && status == SIGKILL);
}

int main(void) {
    cpu_set_t all, set, none = only(63);
    CHECK(!sched_getaffinity(0, sizeof all, &all) && CPU_COUNT(&all) >= CPUS);
    CHECK(sched_setaffinity(0, sizeof none, &none) == -1 && errno == EINVAL);
    for (int round = 0; round < 100; round++) {
        set = only(round % CPUS);
        CHECK(!sched_setaffinity(0, sizeof set, &set) && here() == round % CPUS);
    }
    puts("a thread runs where it says at once");
    pid_t child = fork();
    if (!child) _exit(!sched_getaffinity(0, sizeof all, &all) && CPU_EQUAL(&all, &set) ? 7 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 7 << 8);
    CHECK(!sched_setaffinity(0, sizeof all, &all));
    pthread_t threads[CPUS];
    for (long cpu = 0; cpu < CPUS; cpu++) CHECK(!pthread_create(&threads[cpu], NULL, stay, (void *)cpu));
    for (int cpu = 0; cpu < CPUS; cpu++) CHECK(!pthread_join(threads[cpu], NULL));
    CHECK(!sched_getaffinity(0, sizeof set, &set) && CPU_EQUAL(&set, &all));
    puts("each thread has its own");
    move_another();
    puts("another process is moved");
}
