// Times of files are those of the last tick of the clock: of many pairs of new files some have the same time.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void make(const char *name) {
    int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (file < 0 || write(file, "x", 1) != 1 || close(file)) perror(name);
}

int main(void) {
    struct timespec now;
    int same = 0, ahead = 0;
    for (int turn = 0; turn < 200 && !same; turn++) {
        struct stat first, second;
        make("first");
        make("second");
        if (stat("first", &first) || stat("second", &second)) perror("stat");
        clock_gettime(CLOCK_REALTIME, &now);
        same = first.st_mtim.tv_sec == second.st_mtim.tv_sec && first.st_mtim.tv_nsec == second.st_mtim.tv_nsec;
        ahead |= second.st_mtim.tv_sec > now.tv_sec ||
            (second.st_mtim.tv_sec == now.tv_sec && second.st_mtim.tv_nsec > now.tv_nsec);
        unlink("first");
        unlink("second");
    }
    printf("two files with one time: %d\nahead of the clock: %d\n", same, ahead);
    return 0;
}
