/*
 * What makes one file durable writes that file, and not another one with much unwritten data on the same disk: counted
 * by the requests of the disk in /proc/diskstats. syncfs writes all of its own volume and nothing else.
 *
 * Usage: disk_sync DIRECTORY OTHER: OTHER lies on another disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 4 << 20, PAGE = 4096, FEW = 24, MANY = 64 };

static void check(int is_right, const char *what) {
    if (!is_right) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Requests of the first two disks. */
static void requests(long count[2]) {
    FILE *file = fopen("/proc/diskstats", "r");
    char name[8];
    for (int disk = 0; disk < 2; disk++)
        check(fscanf(file, "%*d %*d %7s %ld %*[^\n]", name, &count[disk]) == 2, "diskstats");
    fclose(file);
}

static long before[2];

static void expect(const char *what, long least, long most, long least_other, long most_other) {
    long after[2];
    requests(after);
    long one = after[0] - before[0], other = after[1] - before[1];
    if (one < least || one > most || other < least_other || other > most_other)
        printf("%s: %ld and %ld requests\n", what, one, other);
    requests(before);
}

static void fill(int file, int value) {
    static char bytes[LARGE];
    memset(bytes, value, sizeof bytes);
    check(pwrite(file, bytes, sizeof bytes, 0) == LARGE, "large file");
}

static int open_in(const char *directory, const char *name, int flags) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, O_RDWR | O_CREAT | flags, 0644);
    check(file >= 0, path);
    return file;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    int large = open_in(arguments[1], "large", 0), other = open_in(arguments[2], "other", 0);
    int small = open_in(arguments[1], "small", 0), steady = open_in(arguments[1], "small", O_DSYNC);
    int memory = open("/", O_RDONLY);
    char page[PAGE];
    memset(page, 7, sizeof page);
    struct iovec piece = {page, sizeof page};
    check(pwrite(small, page, PAGE, 0) == PAGE, "small file");
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, small, 0);
    char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, small, 0);
    check(shared != MAP_FAILED && private != MAP_FAILED, "mmap");
    sync();
    fill(large, 1);
    fill(other, 2);
    requests(before);
    check(pwrite(small, page, PAGE, 0) == PAGE && fsync(small) == 0, "fsync");
    expect("fsync", 1, FEW, 0, 0);
    check(pwrite(small, page, PAGE, 0) == PAGE && fdatasync(small) == 0, "fdatasync");
    expect("fdatasync", 1, FEW, 0, 0);
    check(pwrite(steady, page, PAGE, 0) == PAGE, "O_DSYNC");
    expect("write with O_DSYNC", 1, FEW, 0, 0);
    check(write(steady, page, PAGE) == PAGE, "O_DSYNC");
    expect("write at the offset with O_DSYNC", 1, FEW, 0, 0);
    int ends[2];
    loff_t from = 0, to = 0;
    check(pipe(ends) == 0 && write(ends[1], page, PAGE) == PAGE, "pipe");
    check(splice(ends[0], NULL, steady, &to, PAGE, 0) == PAGE, "splice");
    expect("splice with O_DSYNC", 1, FEW, 0, 0);
    to = 0;
    check(copy_file_range(large, &from, steady, &to, PAGE, 0) == PAGE, "copy_file_range");
    expect("copy_file_range with O_DSYNC", 1, FEW, 0, 0);
    from = 0;
    check(sendfile(steady, large, &from, PAGE) == PAGE, "sendfile");
    expect("sendfile with O_DSYNC", 1, FEW, 0, 0);
    check(pwritev2(small, &piece, 1, 0, RWF_DSYNC) == PAGE, "RWF_DSYNC");
    expect("pwritev2 with RWF_DSYNC", 1, FEW, 0, 0);
    check(pwritev2(small, &piece, 1, 0, 0) == PAGE, "pwritev2");
    expect("pwritev2", 0, 0, 0, 0);
    shared[0] = 9;
    check(msync(shared, PAGE, MS_SYNC) == 0, "msync");
    expect("msync", 1, FEW, 0, 0);
    shared[0] = 10;
    check(msync(shared, PAGE, MS_ASYNC) == 0, "msync");
    expect("msync with MS_ASYNC", 0, 0, 0, 0);
    private[0] = 11;
    check(msync(private, PAGE, MS_SYNC) == 0, "msync");
    expect("msync of a private mapping", 0, 0, 0, 0);
    /* The mapping outlives its file descriptors, and a child has it, too. */
    close(small);
    close(steady);
    shared[0] = 12;
    check(msync(shared, PAGE, MS_SYNC) == 0, "msync");
    expect("msync of a closed file", 1, FEW, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        shared[0] = 13;
        _exit(msync(shared, PAGE, MS_SYNC) != 0);
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "child");
    expect("msync in a child", 1, FEW, 0, 0);
    check(syncfs(memory) == 0, "syncfs");
    expect("syncfs of a volume in memory", 0, 0, 0, 0);
    check(syncfs(large) == 0, "syncfs");
    expect("syncfs", MANY, 1L << 20, 0, 0);
    sync();
    expect("sync", 0, FEW, MANY, 1L << 20);
    printf("measured\n");
    return 0;
}
