// Threads keep their slices while all of a process move between CPUs: each one computes, sleeps and makes calls for ever,
// and must get on. A thread that read its slice before it waited to move freed that of another thread later, which then
// never ran again.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 20, PATIENCE = 60 };

static atomic_ulong turns[THREADS];
static atomic_int over;

static void *work(void *argument) {
    atomic_ulong *own = argument;
    unsigned seed = own - turns;
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int cpu = 0; cpu < 4; cpu++) CPU_SET(cpu, &all);
    while (!over) {
        // Some sleep while others compute, so that there is a CPU to move to.
        if (rand_r(&seed) % 4 == 0) usleep(rand_r(&seed) % 30000);
        for (volatile unsigned i = 0, some = rand_r(&seed) % 400000; i < some; i++) {}
        for (int call = 0; call < 20; call++) sched_setaffinity(0, sizeof all, &all);
        atomic_fetch_add(own, 1);
    }
    return NULL;
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 10;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &turns[i]);
    for (int round = 0; round < rounds; round++) {
        unsigned long before[THREADS];
        for (int i = 0; i < THREADS; i++) before[i] = turns[i];
        for (int i = 0; i < THREADS; i++) {
            time_t end = time(NULL) + PATIENCE;
            while (turns[i] < before[i] + 20 && time(NULL) < end) usleep(10000);
            if (turns[i] == before[i]) {
                printf("round %d: thread %d does not run\n", round, i);
                return 1;
            }
        }
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    puts("all threads get on");
    return 0;
}
