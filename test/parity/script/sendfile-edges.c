// sendfile at its edges: counts and offsets beyond numbers, a file copied onto itself, and what has places without being a file.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <unistd.h>

static void say(const char *what, long result) {
    printf("%s %ld %d\n", what, result, result < 0 ? errno : 0);
}

static int fresh(const char *name) {
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    unlink(name);
    return file;
}

int main(void) {
    int from = fresh("from"), to = fresh("to"), same = fresh("same"), ends[2];
    off_t offset = 0;
    if (write(from, "0123456789", 10) != 10 || write(same, "a", 1) != 1 || pipe(ends)) return 1;
    lseek(from, 0, SEEK_SET);
    say("negative", sendfile(to, from, 0, -1L));
    say("to itself", sendfile(same, same, &offset, 65536));
    printf("offset %ld, size %ld\n", (long)offset, (long)lseek(same, 0, SEEK_END));
    offset = 0x7ffffffffffffffeL;
    say("overflow", sendfile(to, from, &offset, 1 << 30));
    offset = -1;
    say("negative offset", sendfile(to, from, &offset, 1));
    say("offset at no memory", sendfile(to, from, (off_t *)8, 1));
    say("offset before descriptors", sendfile(-1, -1, (off_t *)8, 1));
    say("negative before output", sendfile(-1, from, 0, -1L));
    say("no output", sendfile(-1, from, 0, 1));
    offset = 100;
    say("beyond the end", sendfile(to, from, &offset, 10));
    say("from a pipe", sendfile(to, ends[0], 0, 1));
    say("from zeros", sendfile(to, open("/dev/zero", O_RDONLY), 0, 100000));
    say("whole", sendfile(to, from, 0, 100));
    printf("places %ld %ld\n", (long)lseek(from, 0, SEEK_CUR), (long)lseek(to, 0, SEEK_CUR));
    return 0;
}
