// Times of files are those of the last tick of the clock: of many writes in a row some two give a file the same time.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct stat written(int file) {
    struct stat status;
    if (pwrite(file, "x", 1, 0) != 1 || fstat(file, &status)) perror("file");
    return status;
}

int main(void) {
    struct timespec now;
    int file = open("written", O_CREAT | O_RDWR, 0644), same = 0;
    for (int turn = 0; turn < 1000 && !same; turn++) {
        struct stat first = written(file), second = written(file);
        same = first.st_mtim.tv_sec == second.st_mtim.tv_sec && first.st_mtim.tv_nsec == second.st_mtim.tv_nsec;
    }
    printf("two writes with one time: %d\n", same);
    // A time is never ahead of the clock.
    struct stat last = written(file);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("not ahead: %d\n", last.st_mtim.tv_sec < now.tv_sec || last.st_mtim.tv_nsec <= now.tv_nsec);
    return 0;
}
