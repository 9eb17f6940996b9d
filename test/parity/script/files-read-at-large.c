// Large reads of files with holes, at odd places and sizes, by user 0 and another user: again and again, after the pages
// were given up, while another thread cuts the file and writes it again, and into memory that ends.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (600 * 1024 + 77)
static unsigned char model[SIZE], got[SIZE + 4096];
static int file;
static atomic_int ended;

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static unsigned char value_at(long at) {
    return at % 251 + 1;
}
// Reads of many sizes at many places: how many bytes in all, and whether they are those of the model.
static void compare(const char *what) {
    static const long sizes[] = {1, 4095, 12288, 32768, 32769, 65536, 131072, 131073, 300001, SIZE};
    long all = 0, wrong = 0;
    for (unsigned size = 0; size < sizeof sizes / sizeof *sizes; size++)
        for (long at = 0; at <= SIZE + 4096; at += 40961) {
            long wanted = at >= SIZE ? 0 : SIZE - at < sizes[size] ? SIZE - at : sizes[size];
            memset(got, 0xee, sizeof got);
            long count = pread(file, got, sizes[size], at);
            all += count, wrong += count != wanted || memcmp(got, model + (at < SIZE ? at : 0), wanted) || got[wanted] != 0xee;
        }
    tell(what, all), tell("wrong", wrong);
}
// Cuts the file and writes it again, always with the bytes that belong at each place.
static void *change(void *unused) {
    for (int turn = 0; turn < 60; turn++) {
        long at = turn * 4099L % (SIZE / 2);
        if (ftruncate(file, at) || pwrite(file, model + at, SIZE - at, at) != SIZE - at)
            tell("not changed", turn);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    }
    ended = 1;
    return unused;
}

int main(void) {
    for (long at = 0; at < SIZE; at++)
        model[at] = value_at(at);
    memset(model + 200000, 0, 90000);
    file = open("large", O_CREAT | O_RDWR | O_TRUNC, 0644);
    tell("written", pwrite(file, model, 200000, 0) + pwrite(file, model + 290000, SIZE - 290000, 290000));
    compare("with a hole");
    tell("synced", fsync(file)), tell("given up", posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    compare("read again");
    if (!fork()) {
        // Where the name space has no such user, by the same one.
        if (setuid(12345) && errno != EINVAL)
            tell("another user", -1);
        compare("by another user"), _exit(0);
    }
    wait(NULL);
    // The last page that may be written is followed by none.
    unsigned char *memory = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(memory + 40 * 4096, 24 * 4096);
    tell("memory that ends", pread(file, memory, 64 * 4096, 5) == 40 * 4096 && !memcmp(memory, model + 5, 40 * 4096));
    tell("no memory", pread(file, memory + 40 * 4096, 20 * 4096, 0));
    for (long at = 200000; at < 290000; at++)
        model[at] = value_at(at);
    tell("filled", pwrite(file, model + 200000, 90000, 200000));
    pthread_t thread;
    pthread_create(&thread, NULL, change, NULL);
    long wrong = 0;
    // Bytes that are there are those of their place, or zeros of what grew before it was written.
    while (!ended) {
        long count = pread(file, got, 200000, 100001);
        for (long at = 0; at < count; at++)
            wrong += got[at] != model[100001 + at] && got[at] != 0;
    }
    pthread_join(thread, NULL);
    tell("wrong", wrong);
    compare("in the end");
    return 0;
}
