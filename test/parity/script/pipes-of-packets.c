// Pipes that keep packets (O_DIRECT): what one read takes of them, how long one is, how many wait, and how it is with bytes beside them; told to be
// packets from the beginning or later, in one process and between two.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[200000];
static int ends[2];

#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result, result < 0 ? strerrorname_np(errno) : "");
}
static void taken(long most) {
    memset(bytes, 0, sizeof bytes);
    errno = 0;
    long got = read(ends[0], bytes, most);
    printf("  read of %ld: %ld %.20s\n", most, got, got < 0 ? strerrorname_np(errno) : bytes);
}
static void waiting(const char *when) {
    int count = -1;
    struct pollfd polled[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    ioctl(ends[0], FIONREAD, &count);
    poll(polled, 2, 0);
    printf("  %s: %d bytes wait, poll %x %x\n", when, count, polled[0].revents, polled[1].revents);
}
static int filled(void) {
    int count = 0;
    while (write(ends[1], "x", 1) == 1) count++;
    return count;
}
static int emptied(void) {
    int count = 0;
    while (read(ends[0], bytes, 9) > 0) count++;
    return count;
}

static void alone(void) {
    puts("alone");
    printf("  flags %x %x\n", fcntl(ends[0], F_GETFL), fcntl(ends[1], F_GETFL));
    TELL(write(ends[1], "hello", 5));
    TELL(write(ends[1], "world!", 6));
    waiting("two");
    taken(3), taken(100), taken(100);
    TELL(write(ends[1], "", 0));
    taken(9);
    memset(bytes, 'l', sizeof bytes);
    TELL(write(ends[1], bytes, 10000));
    taken(20000), taken(20000), taken(20000), taken(20000);
    struct iovec pieces[] = {{"ab", 2}, {"cde", 3}, {"f", 1}};
    TELL(writev(ends[1], pieces, 3));
    taken(20);
    struct iovec long_pieces[] = {{bytes, 3000}, {bytes + 3000, 3000}, {bytes + 6000, 10}};
    TELL(writev(ends[1], long_pieces, 3));
    taken(5000), taken(5000), taken(5000);
    TELL(write(ends[1], "scattered", 9));
    TELL(write(ends[1], "short", 5));
    char first[4] = "", second[5] = "";
    struct iovec rooms[] = {{first, 3}, {second, 4}};
    TELL(readv(ends[0], rooms, 2));
    printf("  %s %s\n", first, second);
    TELL(readv(ends[0], rooms, 2));
    TELL(readv(ends[0], rooms, 2));
    printf("  %d fill it\n", filled());
    waiting("full");
    TELL(write(ends[1], "yy", 2));
    taken(9);
    waiting("not full");
    TELL(write(ends[1], "yy", 2));
    printf("  %d are taken\n", emptied());
    TELL(write(ends[1], bytes, 70000));
    TELL(write(ends[1], bytes, 1));
    waiting("full of pages");
    printf("  %d are taken\n", emptied());
}

static void sizes(void) {
    puts("sizes");
    TELL(fcntl(ends[0], F_GETPIPE_SZ));
    TELL(fcntl(ends[0], F_SETPIPE_SZ, 131072));
    printf("  %d fill it\n", filled());
    TELL(fcntl(ends[0], F_SETPIPE_SZ, 65536));
    printf("  %d are taken\n", emptied());
    TELL(fcntl(ends[0], F_SETPIPE_SZ, 4096));
    printf("  %d fill it\n", filled());
    printf("  %d are taken\n", emptied());
    TELL(fcntl(ends[0], F_SETPIPE_SZ, 65536));
}

// Bytes that were written before, or come behind, are of no packet.
static void mixed(void) {
    puts("mixed");
    TELL(write(ends[1], "packet", 6));
    TELL(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    TELL(write(ends[1], "bytes", 5));
    TELL(write(ends[1], "more", 4));
    taken(3), taken(6), taken(100), taken(100);
    memset(bytes, 'b', sizeof bytes);
    TELL(write(ends[1], bytes, 4096));
    TELL(fcntl(ends[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    TELL(write(ends[1], "packet", 6));
    TELL(write(ends[1], "another", 7));
    taken(4000), taken(100), taken(100), taken(100);
}

static void spliced(void) {
    puts("spliced");
    int other[2];
    pipe2(other, O_NONBLOCK);
    TELL(write(ends[1], "spliced", 7));
    TELL(write(ends[1], "again", 5));
    TELL(splice(ends[0], NULL, other[1], NULL, 3, 0));
    taken(20), taken(20), taken(20);
    TELL(read(other[0], bytes, 20));
    TELL(write(ends[1], "teed", 4));
    TELL(tee(ends[0], other[1], 20, 0));
    TELL(read(other[0], bytes, 20));
    taken(2), taken(20);
    close(other[0]), close(other[1]);
}

// More than a pipe holds goes from one process to another, which takes packet after packet.
static void between_two(void) {
    puts("between two");
    fcntl(ends[0], F_SETFL, 0), fcntl(ends[1], F_SETFL, O_DIRECT);
    fflush(stdout);
    if (fork() == 0) {
        close(ends[0]);
        for (int length = 1; length <= 4096; length += 37) {
            memset(bytes, length % 251, length);
            if (write(ends[1], bytes, length) != length) _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    int count = 0, wrong = 0;
    long got, sum = 0;
    while ((got = read(ends[0], bytes, sizeof bytes)) > 0) {
        int length = 1 + 37 * count++;
        sum += got;
        if (got != length || (unsigned char)bytes[0] != length % 251 || (unsigned char)bytes[got - 1] != length % 251) wrong++;
    }
    int status;
    wait(&status);
    printf("  %d packets, %ld bytes, %d wrong, status %d\n", count, sum, wrong, status);
}

int main(void) {
    pipe2(ends, O_DIRECT | O_NONBLOCK);
    alone(), sizes(), mixed(), spliced();
    close(ends[0]), close(ends[1]);
    puts("later");
    pipe2(ends, O_NONBLOCK);
    TELL(fcntl(ends[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    alone(), between_two();
    mkfifo("fifo", 0600);
    TELL(open("fifo", O_RDWR | O_DIRECT | O_NONBLOCK));
    int fifo = open("fifo", O_RDWR | O_NONBLOCK);
    TELL(fcntl(fifo, F_SETFL, O_NONBLOCK | O_DIRECT));
    return 0;
}
