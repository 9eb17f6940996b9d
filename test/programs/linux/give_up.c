// Fills the machine. A quarter are files and memory that it checks all the time, the rest is memory that it gives up by
// MADV_FREE. Once half of the machine was taken and is free again, it fills that with memory it needs. At the end it
// says whether a byte that it needs has changed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { PAGE = 4096, PART = 1 << 20, LEFT = 14 << 20, ROUNDS = 12, PARTS = 1024 };

static char *parts[PARTS];
static int part_count;

static unsigned long free_bytes(void) {
    struct sysinfo info;
    return sysinfo(&info) ? 0 : info.freeram;
}

// Pages of this process that are in memory.
static unsigned long resident(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1) _exit(3);
    fclose(file);
    return pages;
}

static void fill(char *at, size_t bytes, uint64_t seed) {
    for (size_t index = 0; index < bytes; index += 64) *(uint64_t *)(at + index) = seed ^ index;
}

static int is_filled(const char *at, size_t bytes, uint64_t seed) {
    for (size_t index = 0; index < bytes; index += 64)
        if (*(const uint64_t *)(at + index) != (seed ^ index)) return 0;
    return 1;
}

// Parts of memory that are given up at once, until little is left.
static void fill_the_rest(void) {
    while (part_count < PARTS && free_bytes() > LEFT) {
        char *part = mmap(0, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (part == MAP_FAILED) break;
        fill(part, PART, 7);
        if (madvise(part, PART, MADV_FREE)) _exit(2);
        parts[part_count++] = part;
    }
}

int main(void) {
    struct sysinfo info;
    if (sysinfo(&info)) return 1;
    size_t kept = info.totalram / 8 / PART * PART;
    char *memory = mmap(0, kept, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *copy = malloc(PART);
    int file = open("/tmp/kept", O_RDWR | O_CREAT, 0600), wrong = 0, needed = PARTS, pipes[2];
    if (memory == MAP_FAILED || !copy || file < 0 || pipe(pipes)) return 1;
    fill(memory, kept, 1);
    for (size_t at = 0; at < kept; at += PART) {
        fill(copy, PART, at);
        if (write(file, copy, PART) != PART) return 1;
    }
    fill_the_rest();
    puts("the machine is full"), fflush(stdout);
    unsigned long had = resident(), quarter = info.totalram / 4;
    for (int rounds = 0, is_full_again = 0, is_taken = 0; rounds < ROUNDS;) {
        char word = 'x';
        wrong += !is_filled(memory, kept, 1);
        for (size_t at = 0; at < kept; at += PART)
            wrong += pread(file, copy, PART, at) != PART || !is_filled(copy, PART, at);
        wrong += write(pipes[1], &word, 1) != 1 || read(pipes[0], &word, 1) != 1 || word != 'x';
        usleep(50000);
        // The other system holds what was given up, and later has ended.
        is_taken |= resident() + quarter / PAGE < had && free_bytes() < quarter;
        if (is_full_again) rounds++;
        else if (is_taken && free_bytes() > info.totalram / 3) {
            // The latest are still there; those that were taken come back as far as there is memory.
            for (needed = part_count; needed > 0 && free_bytes() > LEFT; needed--) fill(parts[needed - 1], PART, 9);
            puts("the machine is full again"), fflush(stdout);
            is_full_again = 1;
        }
    }
    for (int part = needed; part < part_count; part++) wrong += !is_filled(parts[part], PART, 9);
    puts(wrong ? "bytes have changed" : "no program noticed");
    return wrong != 0;
}
