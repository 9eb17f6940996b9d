// A process that makes children which execute programs is killed at many moments, destroyed by the kernel at others: each child
// that had begun comes to its end with its program's data whole, fresh pages are zero, and all memory comes back. What a child
// begins with, and what its program begins with, are pages of its parent's (ExOS's process/spawn_cache/spare_environment.rs).
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel_rows.h"

#include "census.h"

// Where ExOS detail the areas of environments, by its address_map.rs, and its keys.
static char *const AREA = (char *)0x7d8000000000;
enum { SESSION = 3, GATE_END = 4096 + 11 * 8 };
enum { ROUNDS = 96, WORDS = 4096, CLEAR = 3 * 4096 };
enum { STARTED, ENDED, WRONG, LOST, COUNTS };

static uint64_t data[WORDS] = {[0] = 0x1234, [511] = 511, [512] = 512, [4095] = 4095};
static unsigned char clear[CLEAR];
static atomic_long *counts;

static void fail(const char *what, long detail) {
    printf("%s %ld: %s\n", what, detail, strerror(errno));
    exit(1);
}

// What a child executes: a look at what the program has in memory, and at memory that it gets, through the shared page.
static int look(int descriptor) {
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (counts == MAP_FAILED) return 3;
    uint64_t sum = 0;
    int is_clear = 1;
    for (int i = 0; i < WORDS; i++) sum += data[i];
    for (int i = 0; i < CLEAR; i++) is_clear &= clear[i] == 0;
    unsigned char *heap = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5 * 4096; i += 64) is_clear &= heap[i] == 0, heap[i] = 0xee;
    memset(clear, 0xdd, CLEAR);
    for (int i = 0; i < WORDS; i++) data[i] = ~0ull;
    counts[sum == 0x1234 + 511 + 512 + 4095 && is_clear ? ENDED : WRONG]++;
    return 0;
}

static void child(char *descriptor, char filler) {
    memset(clear, filler, CLEAR);
    execl("/proc/self/exe", "parents_killed", "look", descriptor, (char *)0);
    counts[LOST]++;
    _exit(2);
}

// Makes children until it is killed: one, or two at a time, with memory of its own or its parent's.
static void make_children(char *descriptor, int way) {
    for (int i = 0;; i++) {
        pid_t one;
        if (way & 1) {
            // One that dies with its parent before it begins is no child that had begun: these are not counted.
            one = vfork();
            if (one == 0) {
                execl("/proc/self/exe", "parents_killed", "look", descriptor, (char *)0);
                _exit(2);
            }
        } else {
            one = fork();
            if (one == 0) {
                counts[STARTED]++;
                child(descriptor, (char)i);
            }
        }
        if (way & 2 && fork() == 0) {
            counts[STARTED]++;
            child(descriptor, (char)~i);
        }
        while (waitpid(one, 0, 0) < 0 && errno == EINTR) {}
        while (waitpid(-1, 0, WNOHANG) > 0) {}
    }
}

// The kernel destroys a process at once, wherever it is: a call of the kernel itself, with the key of the session, which the own
// library does not see.
static void destroy(pid_t number) {
    volatile uint64_t *gate_end = (volatile uint64_t *)(AREA + GATE_END);
    uint64_t before = *gate_end, result, detail = 0;
    *gate_end = 0;
    __asm__ volatile("syscall" : "=a"(result), "+d"(detail) : "a"((uint64_t)ROW_ENVIRONMENT_DESTROY), "D"((uint64_t)SESSION), "S"((uint64_t)number)
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
    *gate_end = before;
}

// How much is free once nobody else is left.
static long free_afterwards(void) {
    long free = free_when_quiet();
    if (processes() != 1) fail("processes are left", processes());
    return free;
}

// Parents that make children in each of four ways are ended in two ways, sooner or later.
static void pass(char *descriptor, unsigned seed) {
    for (int round = 0; round < ROUNDS; round++) {
        pid_t parent = fork();
        if (parent == 0) make_children(descriptor, round & 3);
        seed = seed * 1103515245 + 12345;
        usleep(1000 + (seed >> 16) % 40000);
        if (round & 4) destroy(parent); else kill(parent, SIGKILL);
        int status;
        if (waitpid(parent, &status, 0) != parent || !WIFSIGNALED(status)) fail("the end of a parent", status);
    }
}

int main(int count, char **arguments) {
    const long SLACK = 512;
    if (count > 2) return look(atoi(arguments[2]));
    int file = memfd_create("counts", 0);
    if (file < 0 || ftruncate(file, 4096)) fail("file", file);
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) fail("map", 0);
    char descriptor[16];
    snprintf(descriptor, sizeof descriptor, "%d", file);
    pass(descriptor, 1);
    long before = free_afterwards();
    pass(descriptor, 2);
    long after = free_afterwards();
    long started = counts[STARTED], ended = counts[ENDED];
    if (started < ROUNDS) fail("few children", started);
    if (ended < started || counts[WRONG] || counts[LOST])
        printf("%ld began, %ld ended, %ld with wrong memory, %ld without a program\n", started, ended, counts[WRONG],
               counts[LOST]);
    if (before - after > SLACK) printf("%ld KiB were free, %ld are\n", before, after);
    puts("done");
}
