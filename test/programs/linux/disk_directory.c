/*
 * A directory of many names costs no more than one of 1,000: to create, look up and remove a name takes at most twice
 * the time. By the counting clock that is instructions.
 *
 * Usage: disk_directory DIRECTORY NAMES
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The best of so many batches counts: a write-back may fall into the others. */
enum { SMALL = 1000, BATCHES = 20, BATCH = 20, KINDS = 4 };
static const char *const kinds[KINDS] = {"create", "look up a new name", "look up an old name", "unlink"};

static void check(int outcome, const char *what) {
    if (outcome != 0) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void one(int kind, const char *base, long names, long index) {
    char name[256];
    struct stat found;
    if (kind == 2)
        snprintf(name, sizeof name, "%s/%ld", base, index * 7919 % names);
    else
        snprintf(name, sizeof name, "%s/probe-%ld", base, index);
    if (kind == 0)
        check(mknod(name, S_IFREG | 0644, 0), "mknod");
    else if (kind == 3)
        check(unlink(name), "unlink");
    else
        check(stat(name, &found), "stat");
}

static void measure(const char *base, long names, long long best[KINDS]) {
    for (int kind = 0; kind < KINDS; kind++) {
        best[kind] = 1LL << 60;
        for (long batch = 0; batch < BATCHES; batch++) {
            long long before = now();
            for (long index = 0; index < BATCH; index++)
                one(kind, base, names, batch * BATCH + index);
            long long taken = now() - before;
            if (taken < best[kind])
                best[kind] = taken;
        }
    }
}

static void grow(const char *base, long from, long to) {
    char name[256];
    for (long index = from; index < to; index++) {
        snprintf(name, sizeof name, "%s/%ld", base, index);
        check(mknod(name, S_IFREG | 0644, 0), "mknod");
    }
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    long names = atol(arguments[2]);
    long long few[KINDS], many[KINDS];
    grow(arguments[1], 0, SMALL);
    measure(arguments[1], SMALL, few);
    grow(arguments[1], SMALL, names);
    measure(arguments[1], names, many);
    for (int kind = 0; kind < KINDS; kind++)
        if (many[kind] > 2 * few[kind])
            printf("%s: %lld of %d, %lld of %ld\n", kinds[kind], few[kind] / BATCH, SMALL, many[kind] / BATCH, names);
    printf("measured\n");
    return 0;
}
