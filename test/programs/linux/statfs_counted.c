// statfs(2) costs as much in a file system of many files as in one of few. The server counted them for each call: with
// 16,000 on a disk it computed so long that the kernel destroyed it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

static struct statfs said;

// Nanoseconds, which are instructions by the counting clock.
static long cost(const char *path) {
    long least = 1L << 60;
    for (int i = 0; i < 8; i++) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        if (statfs(path, &said)) exit(2);
        clock_gettime(CLOCK_MONOTONIC, &after);
        long took = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
        if (took < least) least = took;
    }
    return least;
}

int main(int count, char **arguments) {
    const char *folder = count > 1 ? arguments[1] : "/tmp/many";
    if (mkdir(folder, 0755) || chdir(folder)) return 2;
    long few = cost("."), all_before = said.f_files - said.f_ffree;
    for (int i = 0; i < 4000; i++) {
        char name[16];
        sprintf(name, "%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    long many = cost("."), made = said.f_files - said.f_ffree - all_before;
    for (int i = 0; i < 4000; i++) {
        char name[16];
        sprintf(name, "%d", i);
        unlink(name);
    }
    cost(".");
    printf("%ld files more, then %ld\n", made, (long)(said.f_files - said.f_ffree - all_before));
    printf("%s\n", many <= 2 * few ? "as dear as among few" : "dearer among many");
    if (many > 2 * few) printf("%ld, %ld\n", few, many);
    return 0;
}
