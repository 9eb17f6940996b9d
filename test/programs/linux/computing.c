// Threads that do nothing but compute, one for each CPU, by a clock that counts instructions: how many of them are the threads' own, and
// whose. What is left is the kernel's and the library's.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed\n", __LINE__, #what); exit(1); } } while (0)
// Instructions of a stretch of work: few, for which turns are cut by timers is the emulator's affair. How long all work, in nanoseconds,
// of which each is one instruction.
enum { STRETCH = 10000, MOST = 8 };
static const uint64_t LENGTH = 1000000000;

// What a thread has done. Each has a cache line of its own.
static struct worker { _Alignas(64) uint64_t stretches; } workers[MOST];
static pthread_barrier_t barrier;
// When all are done: what the first one that begins says.
static _Atomic uint64_t end;
// The emulator runs one CPU after the other, as long as it likes. PAUSE gives the turn to the next one: with it all turns are alike.
static int pauses;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void stretch(void) {
    long rounds = STRETCH / 2;
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds));
    if (pauses) __asm__ volatile("pause");
}

static void *work(void *own) {
    struct worker *worker = own;
    pthread_barrier_wait(&barrier);
    uint64_t unsaid = 0;
    atomic_compare_exchange_strong(&end, &unsaid, now() + LENGTH);
    for (; now() < end; worker->stretches++) stretch();
    return NULL;
}

// Thousandths of all instructions that were the threads' own, as many as there are CPUs.
static uint64_t compute(int count) {
    pthread_t threads[MOST];
    uint64_t sum = 0;
    end = 0;
    CHECK(pthread_barrier_init(&barrier, NULL, count) == 0);
    for (int i = 0; i < count; i++) {
        workers[i].stretches = 0;
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        sum += workers[i].stretches;
    }
    return sum * STRETCH / (LENGTH / 1000);
}

// Whether each has done its part of all, within two hundredths of all.
static int is_even(int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += workers[i].stretches;
    for (int i = 0; i < count; i++) {
        double part = (double)workers[i].stretches / sum - 1.0 / count;
        if (part > 0.02 || part < -0.02) return printf("thread %d does %.4f of the work\n", i, part + 1.0 / count), 0;
    }
    return 1;
}

int main(int argument_count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    int count = sysconf(_SC_NPROCESSORS_ONLN), tells = argument_count > 1 && arguments[1][0] == 't';
    CHECK(count <= MOST);
    uint64_t own = compute(count);
    if (tells) printf("%lu thousandths\n", own);
    CHECK(own >= 950);
    puts("nearly all is the program's");
    pauses = 1;
    own = compute(count);
    for (int i = 0; tells && i < count; i++) printf("thread %d: %lu stretches\n", i, workers[i].stretches);
    if (tells) printf("%lu thousandths\n", own);
    CHECK(own >= 950 && is_even(count));
    puts("each does its part");
    return 0;
}
