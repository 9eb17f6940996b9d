// A program in C, compiled by the host's compiler, and the same on both sides.
// One thread makes calls that read or write its memory while another one forks. None of them fails or is short.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 16 * PAGE, ROUNDS = 300 };

static volatile int done;
static char memory[2 * PIECE] __attribute__((aligned(4096)));
static int file, folder, zero, ends[2], pair[2];

static void *forks(void *unused)
{
    (void)unused;
    while (!done) {
        int child = fork(), status;
        if (child == 0)
            _exit(0);
        waitpid(child, &status, 0);
    }
    return NULL;
}

static struct iovec pieces[4];

static int read_page(void) { return pread(file, memory, PAGE, 0) == PAGE; }
static int read_piece(void) { return pread(file, memory, PIECE, 0) == PIECE; }
static int write_piece(void) { return pwrite(file, memory, PIECE, 0) == PIECE; }
static int read_pieces(void) { return preadv(file, pieces, 4, 0) == PIECE; }
static int write_pieces(void) { return pwritev(file, pieces, 4, 0) == PIECE; }
static int own_memory(void) { return process_vm_readv(getpid(), pieces, 1, pieces + 1, 1, 0) == PIECE / 4; }
static int zeros(void) { return read(zero, memory, PAGE) == PAGE; }
static int status(void) { return fstat(file, (struct stat *)(memory + PAGE)) == 0; }
static int resolution(void) { return clock_getres(CLOCK_REALTIME, (struct timespec *)memory) == 0; }
static int working_folder(void) { return getcwd(memory, PAGE) != NULL; }
static int cpus(void) { return sched_getaffinity(0, sizeof(cpu_set_t), (cpu_set_t *)memory) == 0; }

static int names(void)
{
    lseek(folder, 0, SEEK_SET);
    return syscall(SYS_getdents64, folder, memory + PAGE, PAGE) > 0;
}

static int through_pipe(void)
{
    return write(ends[1], memory, PAGE) == PAGE && read(ends[0], memory + PAGE, PAGE) == PAGE;
}

static int message(void)
{
    struct msghdr *head = (struct msghdr *)(memory + PAGE);
    *head = (struct msghdr){.msg_iov = pieces, .msg_iovlen = 1};
    return send(pair[0], memory, 100, 0) == 100 && recvmsg(pair[1], head, 0) == 100;
}

static int polled(void)
{
    struct pollfd *wanted = (struct pollfd *)memory;
    *wanted = (struct pollfd){.fd = ends[1], .events = POLLOUT};
    return poll(wanted, 1, 1000) == 1 && wanted->revents == POLLOUT;
}

static const struct {
    const char *name;
    int (*call)(void);
} calls[] = {
    {"pread of a page", read_page},      {"pread of 64 KiB", read_piece},  {"pwrite of 64 KiB", write_piece},
    {"preadv", read_pieces},             {"pwritev", write_pieces},        {"process_vm_readv", own_memory},
    {"/dev/zero", zeros},                {"fstat", status},                {"clock_getres", resolution},
    {"getcwd", working_folder},          {"sched_getaffinity", cpus},      {"getdents64", names},
    {"a pipe", through_pipe},            {"a message", message},           {"poll", polled},
};

int main(void)
{
    char name[] = "/tmp/calls-while-forking-XXXXXX";
    pthread_t forking;
    file = mkstemp(name);
    folder = open("/", O_RDONLY | O_DIRECTORY);
    zero = open("/dev/zero", O_RDONLY);
    if (file < 0 || folder < 0 || zero < 0 || pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)
        || ftruncate(file, PIECE))
        return 1;
    unlink(name);
    for (int index = 0; index < 4; index++)
        pieces[index] = (struct iovec){memory + PIECE + index * PIECE / 4, PIECE / 4};
    pthread_create(&forking, NULL, forks, NULL);
    for (unsigned index = 0; index < sizeof calls / sizeof *calls; index++) {
        int failed = 0;
        for (int round = 0; round < ROUNDS; round++)
            failed += !calls[index].call();
        printf("%s: %d failed\n", calls[index].name, failed);
        fflush(stdout);
    }
    done = 1;
    pthread_join(forking, NULL);
    return 0;
}
