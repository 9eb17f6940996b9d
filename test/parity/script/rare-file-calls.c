// Calls on descriptors and room in files that few programs make, right and wrong: close_range, dup3, fallocate in its modes,
// copy_file_range, sendfile, SEEK_HOLE and SEEK_DATA, statfs, descriptors of processes, memfd_create, preadv2, sched_getattr.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
static void tell_open(const char *what, int first, int last) {
    printf("%s", what);
    for (int i = first; i <= last; i++) printf(" %d", fcntl(i, F_GETFD));
    puts("");
}
static void open_some(void) {
    for (int i = 20; i < 30; i++) dup2(0, i);
}
static void tell_file(const char *what, int file) {
    struct stat status;
    unsigned char bytes[4096], sum = 0;
    fstat(file, &status);
    long data = 0;
    for (off_t at = 0; at < status.st_size; at += sizeof bytes) {
        ssize_t some = pread(file, bytes, sizeof bytes, at);
        for (ssize_t i = 0; i < some; i++) sum = sum * 31 + bytes[i], data += bytes[i] != 0;
    }
    printf("%s: %ld bytes, %ld blocks, %ld not zero, sum %d\n", what, (long)status.st_size, (long)status.st_blocks, data, sum);
}

static void ranges(void) {
    open_some();
    tell("close_range reversed", syscall(SYS_close_range, 25, 20, 0));
    tell("close_range with a wrong flag", syscall(SYS_close_range, 20, 25, 1));
    tell("close_range", syscall(SYS_close_range, 22, 24, 0));
    tell_open("left", 20, 29);
    tell("close_range on exec", syscall(SYS_close_range, 25, ~0u, CLOSE_RANGE_CLOEXEC));
    tell_open("left", 20, 29);
    tell("close_range unshared", syscall(SYS_close_range, 27, 28, CLOSE_RANGE_UNSHARE));
    tell_open("left", 20, 29);
    tell("close_range of nothing", syscall(SYS_close_range, 1000000, ~0u, 0));
    tell("close_range unshared, on exec", syscall(SYS_close_range, 20, ~0u, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC));
    tell_open("left", 20, 29);
    tell("closefrom", (closefrom(20), 0));
    tell_open("left", 20, 29);
    tell("dup3 onto itself", dup3(0, 0, 0));
    tell("dup3 with a wrong flag", dup3(0, 20, O_NONBLOCK));
    tell("dup3 of nothing", dup3(99, 20, 0));
    tell("dup3 beyond", dup3(0, 1 << 24, 0));
    tell("dup2 of nothing onto itself", dup2(99, 99));
    tell("dup3", dup3(0, 20, O_CLOEXEC));
    tell("its flags", fcntl(20, F_GETFD));
    tell("F_DUPFD beyond", fcntl(0, F_DUPFD, 1 << 24));
    tell("F_DUPFD below nothing", fcntl(0, F_DUPFD, -1));
    tell("an odd command", fcntl(0, 9999, 0));
    closefrom(20);
}

static int fresh(void) {
    char name[] = "/tmp/rare-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    for (int i = 0; i < 5; i++) {
        char page[4096];
        memset(page, 'a' + i, sizeof page);
        pwrite(file, page, sizeof page, i * 4096);
    }
    return file;
}

static void room(void) {
    int file = fresh();
    tell("fallocate", fallocate(file, 0, 0, 6 * 4096));
    tell_file("grown", file);
    tell("keeping the size", fallocate(file, FALLOC_FL_KEEP_SIZE, 6 * 4096, 2 * 4096));
    tell_file("kept", file);
    tell("punch without keep", fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 4096));
    tell("punch", fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
    tell_file("punched", file);
    tell("punch a part", fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * 4096 + 100, 4096));
    tell_file("punched", file);
    tell("hole", lseek(file, 0, SEEK_HOLE));
    tell("data behind it", lseek(file, 4096, SEEK_DATA));
    tell("data beyond", lseek(file, 100 * 4096, SEEK_DATA));
    tell("hole beyond", lseek(file, 100 * 4096, SEEK_HOLE));
    tell("nothing", fallocate(file, 0, 0, 0));
    tell("before", fallocate(file, 0, -1, 10));
    tell("too far", fallocate(file, 0, 1l << 62, 1l << 62));
    tell("collapse", fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    tell("insert", fallocate(file, FALLOC_FL_INSERT_RANGE, 0, 4096));
    tell("unknown", fallocate(file, 0x1000, 0, 4096));
    int ends[2];
    tell("pipe", pipe(ends));
    tell("of a pipe to read", fallocate(ends[0], 0, 0, 4096));
    tell("of a pipe", fallocate(ends[1], 0, 0, 4096));
    tell("of an eventfd", fallocate(eventfd(0, 0), 0, 0, 4096));
    tell("of a folder", fallocate(open("/tmp", O_RDONLY), 0, 0, 4096));
    tell("posix_fallocate", posix_fallocate(file, 0, 9 * 4096));
    tell_file("grown", file);
    tell("ftruncate", ftruncate(file, 100));
    tell_file("cut", file);
    struct rlimit limit = {8192, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    tell("beyond the limit", fallocate(file, 0, 0, 9000));
    tell("ftruncate beyond", ftruncate(file, 9000));
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    close(file);
}

static void copies(void) {
    int from = fresh(), to = fresh(), ends[2], reading = open("/proc/self/comm", O_RDONLY);
    loff_t at = 100, there = 5 * 4096;
    if (pipe(ends)) return;
    tell("copy_file_range", copy_file_range(from, &at, to, &there, 5000, 0));
    printf("%ld %ld %ld\n", (long)at, (long)there, (long)lseek(from, 0, SEEK_CUR));
    tell_file("copied", to);
    tell("at the offsets", copy_file_range(from, 0, to, 0, 10, 0));
    printf("%ld %ld\n", (long)lseek(from, 0, SEEK_CUR), (long)lseek(to, 0, SEEK_CUR));
    at = 1 << 20;
    tell("from beyond the end", copy_file_range(from, &at, to, 0, 10, 0));
    at = 0, there = 50;
    tell("onto itself", copy_file_range(from, &at, from, &there, 100, 0));
    tell("with a flag", copy_file_range(from, 0, to, 0, 10, 1));
    tell("from a pipe", copy_file_range(ends[0], 0, to, 0, 10, 0));
    tell("to what is read", copy_file_range(from, 0, open("/proc/self/exe", O_RDONLY), 0, 10, 0));
    at = -1;
    tell("from before", copy_file_range(from, &at, to, 0, 10, 0));
    lseek(from, 0, SEEK_SET);
    tell("sendfile to a pipe", sendfile(ends[1], from, 0, 100));
    off_t place = 4090;
    tell("sendfile from a place", sendfile(ends[1], from, &place, 100));
    printf("%ld %ld\n", (long)place, (long)lseek(from, 0, SEEK_CUR));
    char text[300];
    tell("what came", read(ends[0], text, sizeof text));
    tell("sendfile from a pipe", sendfile(to, ends[0], 0, 100));
    tell("sendfile to what is read", sendfile(ends[0], from, 0, 100));
    tell("sendfile of a text", sendfile(to, reading, 0, 3));
    place = -5;
    tell("sendfile from before", sendfile(ends[1], from, &place, 100));
    int pair[2];
    tell("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    tell("sendfile to a socket", sendfile(pair[0], from, 0, 50));
    tell("what came", read(pair[1], text, sizeof text));
    struct iovec vector = {text, 10};
    tell("preadv2 at the offset", preadv2(from, &vector, 1, -1, 0));
    tell("preadv2 at a place", preadv2(from, &vector, 1, 0, 0));
    tell("preadv2 before", preadv2(from, &vector, 1, -2, 0));
    tell("preadv2 with a wrong flag", preadv2(from, &vector, 1, 0, 0x1000));
    tell("preadv of a pipe", preadv(ends[0], &vector, 1, 0));
    tell("pwrite to a pipe", pwrite(ends[1], text, 1, 0));
    tell("readv of nothing", syscall(SYS_readv, from, &vector, 0));
    tell("readv of too many", syscall(SYS_readv, from, &vector, 1025));
    tell("readv of less than nothing", syscall(SYS_readv, from, &vector, -1));
    tell("pipe size", fcntl(ends[1], F_GETPIPE_SZ));
    tell("pipe size of a file", fcntl(from, F_GETPIPE_SZ));
    tell("F_SETPIPE_SZ small", fcntl(ends[1], F_SETPIPE_SZ, 65536));
    tell("F_GETLEASE", fcntl(from, F_GETLEASE));
}

static void processes(void) {
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    int descriptor = syscall(SYS_pidfd_open, child, 0);
    tell("pidfd_open", descriptor < 0 ? -1 : 0);
    tell("pidfd_open with a wrong flag", syscall(SYS_pidfd_open, child, 1));
    tell("pidfd_open of nobody", syscall(SYS_pidfd_open, 4000000, 0));
    tell("pidfd_open of less", syscall(SYS_pidfd_open, -1, 0));
    tell("pidfd_send_signal 0", syscall(SYS_pidfd_send_signal, descriptor, 0, 0, 0));
    tell("pidfd_send_signal with a flag", syscall(SYS_pidfd_send_signal, descriptor, 0, 0, 8));
    tell("pidfd_send_signal to a file", syscall(SYS_pidfd_send_signal, 0, 0, 0, 0));
    tell("pidfd_send_signal too high", syscall(SYS_pidfd_send_signal, descriptor, 65, 0, 0));
    tell("pidfd_getfd with a flag", syscall(SYS_pidfd_getfd, descriptor, 1, 1));
    tell("pidfd_getfd of no process", syscall(SYS_pidfd_getfd, 0, 1, 0));
    int own = syscall(SYS_pidfd_open, getpid(), 0), ends[2];
    if (pipe(ends)) return;
    int more = syscall(SYS_pidfd_getfd, own, ends[1], 0);
    char byte = 0;
    tell("pidfd_getfd of one's own", more < 0 ? -1 : fcntl(more, F_GETFD));
    tell("written", write(more, "x", 1));
    tell("read", read(ends[0], &byte, 1));
    tell("pidfd_getfd of nothing", syscall(SYS_pidfd_getfd, own, 99, 0));
    unsigned attributes[16];
    memset(attributes, 0xee, sizeof attributes);
    tell("sched_getattr", syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0));
    printf("%u %u %u %u\n", attributes[0], attributes[1], attributes[12], attributes[13]);
    tell("read of one", read(descriptor, &child, 0));
    tell("pidfd_send_signal", syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, 0, 0));
    siginfo_t information;
    tell("waitid", waitid(P_PIDFD, descriptor, &information, WEXITED));
    printf("%d %d\n", information.si_code, information.si_status);
    tell("once more", waitid(P_PIDFD, descriptor, &information, WEXITED));
    tell("pidfd_getfd of the dead", syscall(SYS_pidfd_getfd, descriptor, 0, 0));
    tell("signal to the dead", syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, 0, 0));
    tell("memfd_create", memfd_create("x", 0) < 0 ? -1 : 0);
    tell("memfd_create with a wrong flag", memfd_create("x", 0x1000));
    char name[300];
    memset(name, 'n', 299), name[299] = 0;
    tell("memfd_create with a long name", memfd_create(name, 0));
    struct statfs told;
    tell("statfs of nothing", statfs("/nothing", &told));
    tell("fstatfs of nothing", fstatfs(99, &told));
    tell("fstatfs of a pipe", fstatfs(ends[0], &told));
    printf("%lx %ld\n", (long)told.f_type, (long)told.f_bsize);
    tell("statfs of proc", statfs("/proc/self", &told));
    printf("%lx %ld\n", (long)told.f_type, (long)told.f_namelen);
}

// The first lock in the way is the one that lies first, whatever was locked first; advice that is none.
static void locks(void) {
    int file = fresh();
    for (int first = 40; first > 0; first -= 10) {
        struct flock lock = {.l_type = first % 20 ? F_RDLCK : F_WRLCK, .l_start = first, .l_len = 5};
        tell("lock", fcntl(file, F_SETLK, &lock));
    }
    if (fork() == 0) {
        for (int from = 0; from < 50; from += 7) {
            struct flock lock = {.l_type = F_WRLCK, .l_start = from};
            tell("in the way", fcntl(file, F_GETLK, &lock));
            printf("%d %ld %ld %d\n", lock.l_type, (long)lock.l_start, (long)lock.l_len, lock.l_pid == (lock.l_type == F_UNLCK ? 0 : getppid()));
        }
        _exit(0);
    }
    wait(NULL);
    for (int advice = -1; advice < 8; advice++) printf("%s ", strerrorname_np(posix_fadvise(file, 0, 0, advice)));
    printf("%s\n", strerrorname_np(posix_fadvise(file, 0, -1, POSIX_FADV_NORMAL)));
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    int number = open("/dev/null", O_RDWR);
    dup2(number, 0);
    ranges();
    room();
    copies();
    processes();
    locks();
}
