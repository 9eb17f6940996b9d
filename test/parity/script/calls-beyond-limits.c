// FAULTS.md row 83: arguments at and beyond the limits that Linux has: strings, paths, links, descriptors, vectors, flags of clone, words of
// futexes, times.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_STRING = 128 * 1024, BEYOND = 1 << 21 };

static void *const KERNEL = (void *)0xffff800000000000, *const NOWHERE = (void *)0x1000;

static void say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "done");
}

// Strings of arguments -----------------------------------------------------------------------------------------

static char *text(size_t length) {
    char *made = malloc(length + 1);
    memset(made, 'x', length);
    made[length] = 0;
    return made;
}

// Executes this program with these words; it tells how many came, and how long they are.
static void execute(const char *what, char **arguments, char **environment) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        execve("/proc/self/exe", arguments, environment);
        say(what, -1);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static int be_executed(int count, char **arguments, char **environment) {
    size_t length = 0, variables = 0;
    for (int i = 0; i < count; i++) length += strlen(arguments[i]);
    for (; environment[variables]; variables++) length += strlen(environment[variables]);
    printf("executed with %d and %zu, %zu bytes\n", count, variables, length);
    return 0;
}

static void long_strings(void) {
    char *none[] = { NULL };
    for (int more = -2; more < 2; more++) {
        char *one[] = { "itself", text(LONGEST_STRING + more), NULL };
        execute("one string", one, none);
        execute("one variable", (char *[]){ "itself", "x", NULL }, &one[1]);
    }
    // All of them: a quarter of what the stack may be, pointers with them, not less than 128 KiB and not more than 6 MiB.
    for (long stack = 64 << 20; stack >= 64 << 10; stack /= 8) {
        struct rlimit usual, limit;
        getrlimit(RLIMIT_STACK, &usual);
        limit = usual;
        limit.rlim_cur = stack;
        setrlimit(RLIMIT_STACK, &limit);
        for (int each = 10; each <= 100000; each *= 100)
            for (int eighths = 4; eighths <= 10; eighths++) {
                long most = stack / 4 > 6 << 20 ? 6 << 20 : stack / 4 > 128 << 10 ? stack / 4 : 128 << 10;
                long count = most / 8 * eighths / (each + 9);
                char **many = calloc(count + 3, sizeof *many), *same = text(each);
                many[0] = "itself", many[1] = "y";
                for (long i = 2; i < count; i++) many[i] = same;
                char what[80];
                snprintf(what, sizeof what, "stack of %ld, strings of %d, %d eighths", stack, each, eighths);
                if (eighths != 8) execute(what, many, none);
                free(many), free(same);
            }
        setrlimit(RLIMIT_STACK, &usual);
    }
    execute("arguments nowhere", NOWHERE, none);
    execute("arguments in the kernel", KERNEL, none);
    execute("variables nowhere", (char *[]){ "itself", "y", NULL }, NOWHERE);
    execute("one argument nowhere", (char *[]){ "itself", NOWHERE, NULL }, none);
    execute("one variable in the kernel", (char *[]){ "itself", "y", NULL }, (char *[]){ KERNEL, NULL });
}

// Paths and links ----------------------------------------------------------------------------------------------

// A path to "file" of exactly so many bytes.
static char *path_of(size_t length) {
    static char path[BEYOND];
    memset(path, '/', length);
    path[0] = '.';
    memcpy(path + length - 4, "file", 5);
    return path;
}

static void long_paths(void) {
    close(open("file", O_CREAT | O_WRONLY, 0755));
    struct stat status;
    char some[8], what[80];
    size_t lengths[] = { 4094, 4095, 4096, 4097, 8192, 1 << 20 };
    for (int i = 0; i < 6; i++) {
        char *path = path_of(lengths[i]);
#define TELL(name, result) snprintf(what, sizeof what, "%s of %zu bytes", name, lengths[i]), say(what, result)
        TELL("open", open(path, O_RDONLY));
        TELL("stat", stat(path, &status));
        TELL("access", access(path, R_OK));
        TELL("readlink", readlink(path, some, sizeof some));
        TELL("chmod", chmod(path, 0755));
        TELL("truncate", truncate(path, 0));
        TELL("execve", execve(path, (char *[]){ "x", NULL }, NULL));
        TELL("chdir", chdir(path));
        TELL("mkdir", mkdir(path, 0755));
        TELL("rename", rename(path, "file"));
        TELL("rename to", rename("file", path));
        TELL("link", link(path, "linked"));
        TELL("symlink to", symlink(path, "symbolic"));
        TELL("stat of that", stat("symbolic", &status));
        TELL("unlink", unlink("symbolic"));
        TELL("unlink", unlink("linked"));
        TELL("statfs", syscall(SYS_statfs, path, NULL));
        TELL("mknod", mknod(path, S_IFIFO | 0600, 0));
        TELL("utimensat", utimensat(AT_FDCWD, path, NULL, 0));
    }
    for (size_t length = 254; length < 258; length++) {
        char *name = text(length);
        printf("%zu ", length), say("a name", open(name, O_CREAT | O_RDONLY, 0600));
        printf("%zu ", length), say("a directory", mkdir(name, 0700));
        printf("%zu ", length), say("a removed name", unlink(name));
        printf("%zu ", length), say("a name that becomes that", rename("file", name));
        printf("%zu ", length), say("and back", rename(name, "file"));
        free(name);
    }
}

static void many_links(void) {
    char from[16], to[16] = "file", what[80];
    for (int i = 1; i <= 42; i++) {
        snprintf(from, sizeof from, "link%d", i);
        symlink(to, from);
        strcpy(to, from);
    }
    struct stat status;
    for (int i = 39; i <= 42; i++) {
#undef TELL
#define TELL(name, result) snprintf(what, sizeof what, "%s over %d links", name, i), say(what, result)
        snprintf(from, sizeof from, "link%d", i);
        TELL("open", open(from, O_RDONLY));
        TELL("open to create", open(from, O_RDWR | O_CREAT, 0600));
        TELL("stat", stat(from, &status));
        TELL("lstat", lstat(from, &status));
        TELL("chmod", chmod(from, 0755));
        TELL("execve", execve(from, (char *[]){ "x", NULL }, NULL));
        TELL("access", access(from, F_OK));
        TELL("link followed", linkat(AT_FDCWD, from, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW));
        TELL("unlink", unlink("linked"));
    }
    symlink("round", "around"), symlink("around", "round"), symlink("self", "self"), symlink("self/x", "deeper");
    const char *loops[] = { "round", "self", "self/", "self/x", "deeper", "./round/../file" };
    for (int i = 0; i < 6; i++) {
        printf("%s ", loops[i]), say("opened", open(loops[i], O_RDONLY));
        printf("%s ", loops[i]), say("not followed", open(loops[i], O_RDONLY | O_NOFOLLOW));
        printf("%s ", loops[i]), say("by itself", open(loops[i], O_PATH | O_NOFOLLOW));
        printf("%s ", loops[i]), say("created", open(loops[i], O_RDWR | O_CREAT | O_EXCL, 0600));
        printf("%s ", loops[i]), say("a directory", mkdir(loops[i], 0700));
        printf("%s ", loops[i]), say("chdir", chdir(loops[i]));
    }
}

// Descriptors --------------------------------------------------------------------------------------------------

static void many_descriptors(void) {
    struct rlimit limit = { 1024, 4096 };
    say("a limit", setrlimit(RLIMIT_NOFILE, &limit));
    int numbers[] = { 1022, 1023, 1024, 1025, 4095, 4096, 1 << 20, INT_MAX, -1, INT_MIN };
    for (int i = 0; i < 10; i++) {
        printf("%d ", numbers[i]), say("dup2", dup2(1, numbers[i]));
        printf("%d ", numbers[i]), say("dup3", dup3(1, numbers[i], O_CLOEXEC));
        printf("%d ", numbers[i]), say("F_DUPFD", fcntl(1, F_DUPFD, numbers[i]));
        printf("%d ", numbers[i]), say("fstat", fcntl(numbers[i], F_GETFD));
        printf("%d ", numbers[i]), say("close", close(numbers[i]));
        printf("%d ", numbers[i]), say("dup2 to itself", dup2(numbers[i], numbers[i]));
        printf("%d ", numbers[i]), say("read", read(numbers[i], NULL, 0));
    }
    limit.rlim_cur = 4096;
    say("a higher limit", setrlimit(RLIMIT_NOFILE, &limit));
    int ends[2];
    pipe(ends);
    say("a high number", dup2(ends[0], 2000));
    say("the highest", dup2(ends[1], 4095));
    say("one more", dup2(ends[1], 4096));
    write(4095, "x", 1);
    struct pollfd polled = { 2000, POLLIN, 0 };
    printf("polled: %d %x\n", poll(&polled, 1, 0), polled.revents);
    unsigned long set[64] = { 0 };
    set[2000 / 64] = 1ul << 2000 % 64;
    struct timeval none = { 0, 0 };
    printf("selected: %d\n", select(2001, (fd_set *)set, NULL, NULL, &none));
    say("select of fewer than none", select(-1, NULL, NULL, NULL, &none));
    say("select of all numbers", select(INT_MAX, NULL, NULL, NULL, &none));
    set[2000 / 64] |= 2ul << 2000 % 64;
    say("select of a closed one", select(2002, (fd_set *)set, NULL, NULL, &none));
    struct pollfd *most = calloc(5000, sizeof *most);
    for (int i = 0; i < 5000; i++) most[i].fd = -1;
    say("poll of as many as the limit", poll(most, 4096, 0));
    say("poll of more", poll(most, 4097, 0));
    say("poll nowhere", poll(NOWHERE, 1, 0));
    limit.rlim_cur = 1024;
    say("a lower limit", setrlimit(RLIMIT_NOFILE, &limit));
    char byte;
    printf("beyond it: %zd\n", read(2000, &byte, 1));
    int last = -1, made;
    while ((made = dup(1)) >= 0) last = made;
    printf("the last is %d, then ", last), say("dup", -1);
    say("open", open("file", O_RDONLY));
    say("pipe", pipe(ends));
    say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    say("epoll", epoll_create1(0));
    say("timerfd", timerfd_create(CLOCK_MONOTONIC, 0));
    say("close_range backwards", close_range(20, 10, 0));
    say("close_range with unknown flags", close_range(10, 20, 1 << 20));
    say("close_range", close_range(3, ~0u, 0));
    say("open", open("file", O_RDONLY));
    close(3);
}

// Vectors ------------------------------------------------------------------------------------------------------

static void long_vectors(void) {
    static char bytes[2048];
    static struct iovec vector[1100];
    for (int i = 0; i < 1100; i++) vector[i] = (struct iovec){ bytes + i, 1 };
    int file = open("vector", O_CREAT | O_RDWR, 0600), ends[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    int counts[] = { 0, 1, 1023, 1024, 1025, 1100, -1, INT_MAX, INT_MIN };
    for (int i = 0; i < 9; i++) {
        int count = counts[i];
        char what[80];
#undef TELL
#define TELL(name, call) do { long result = (call); snprintf(what, sizeof what, "%s of %d gives %ld", name, count, result), say(what, result); } while (0)
        TELL("writev", writev(file, vector, count));
        lseek(file, 0, SEEK_SET);
        TELL("readv", readv(file, vector, count));
        TELL("preadv", preadv(file, vector, count, 0));
        TELL("pwritev", pwritev(file, vector, count, 0));
        TELL("pwritev2", pwritev2(file, vector, count, 0, 1 << 20));
        struct msghdr message = { .msg_iov = vector, .msg_iovlen = (size_t)count };
        TELL("sendmsg", sendmsg(ends[0], &message, MSG_DONTWAIT));
        message.msg_iov = vector, message.msg_iovlen = (size_t)count;
        TELL("recvmsg", recvmsg(ends[1], &message, MSG_DONTWAIT));
        TELL("process_vm_readv", process_vm_readv(getpid(), vector, 1, vector, (unsigned long)count, 0));
        TELL("vmsplice", syscall(SYS_vmsplice, file, vector, (unsigned long)count, 0));
    }
    struct iovec odd[] = { { bytes, 1 }, { bytes, SSIZE_MAX / 2 + 2 }, { bytes, (size_t)-1 }, { NULL, 0 }, { NOWHERE, 4 }, { KERNEL, 4 } };
    for (int i = 0; i < 6; i++) {
        char what[80];
        int count = i;
        lseek(file, 0, SEEK_SET);
        // Of one piece that is too long newer kernels move what there is.
        if (i != 1) TELL("odd writev", writev(file, &odd[i], 1));
        if (i != 1) TELL("odd readv", readv(file, &odd[i], 1));
        TELL("odd readv, two", readv(file, &odd[i], i < 5 ? 2 : 1));
    }
    int count = 1;
    char what[80];
    TELL("vector nowhere", readv(file, NOWHERE, 1));
    TELL("vector in the kernel", writev(file, KERNEL, 1));
    close(file), close(ends[0]), close(ends[1]);
}

// Flags of clone -----------------------------------------------------------------------------------------------

struct arguments { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup, more[4]; };

static void bury(long child) {
    if (child == 0) _exit(3);
    int status = 0;
    if (child > 0) printf("%d, %x, ", waitpid(child, &status, __WALL) == child, status);
}

static void note(int number) { printf("signal %d, ", number); }

static void odd_clones(void) {
    signal(64, note);
    const struct { const char *name; unsigned long flags; } odd[] = {
        { "handlers without memory", CLONE_SIGHAND }, { "thread without handlers", CLONE_THREAD | CLONE_VM },
        { "thread alone", CLONE_THREAD }, { "file system and its name space", CLONE_FS | CLONE_NEWNS },
        { "signal 0", 0 }, { "signal 65", 65 }, { "signal 64", 64 }, { "signal 255", 255 },
        { "user name space and file system", CLONE_NEWUSER | CLONE_FS }, { "thread in a new user name space", CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM },
        { "descriptor and number in one place", CLONE_PIDFD | CLONE_PARENT_SETTID }, { "descriptor, detached", CLONE_PIDFD | 0x400000 },
        { "descriptor in a bad place", CLONE_PIDFD | SIGCHLD }, { "system V, shared", CLONE_NEWIPC | CLONE_SYSVSEM },
    };
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        fflush(stdout);
        long child = syscall(SYS_clone, odd[i].flags, 0, NOWHERE, NULL, 0);
        bury(child), say(odd[i].name, child);
    }
    int number = 0;
    const struct { const char *name; struct arguments arguments; size_t size; } new[] = {
        { "of no size", { 0 }, 0 }, { "too small", { .exit_signal = SIGCHLD }, 63 }, { "smallest", { .exit_signal = SIGCHLD }, 64 },
        { "of the next size", { .exit_signal = SIGCHLD }, 80 }, { "in between", { .exit_signal = SIGCHLD }, 72 },
        { "larger, with zeros", { .exit_signal = SIGCHLD }, sizeof(struct arguments) },
        { "larger, with more", { .exit_signal = SIGCHLD, .more = { 0, 0, 1 } }, sizeof(struct arguments) },
        { "a page", { .exit_signal = SIGCHLD }, 4097 }, { "a signal in the flags", { .flags = SIGCHLD }, 88 },
        { "detached", { .flags = 0x400000, .exit_signal = SIGCHLD }, 88 }, { "unknown flags", { .flags = 1ul << 60, .exit_signal = SIGCHLD }, 88 },
        { "no such signal", { .exit_signal = 65 }, 88 }, { "no signal at all", { .exit_signal = 1000 }, 88 },
        { "a stack of no size", { .exit_signal = SIGCHLD, .stack = 4096 }, 88 }, { "a size of no stack", { .exit_signal = SIGCHLD, .stack_size = 4096 }, 88 },
        { "a stack in the kernel", { .exit_signal = SIGCHLD, .stack = (uint64_t)-8192, .stack_size = 4096 }, 88 },
        { "handlers without memory", { .flags = CLONE_SIGHAND, .exit_signal = SIGCHLD }, 88 },
        { "handlers cleared and shared", { .flags = 0x100000000 | CLONE_SIGHAND | CLONE_VM, .exit_signal = SIGCHLD }, 88 },
        { "a thread with a signal", { .flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, .exit_signal = SIGCHLD }, 88 },
        { "a parent with a signal", { .flags = CLONE_PARENT, .exit_signal = SIGCHLD }, 88 },
        { "numbers without a size", { .exit_signal = SIGCHLD, .set_tid = (uint64_t)&number }, 88 },
        { "a size without numbers", { .exit_signal = SIGCHLD, .set_tid_size = 1 }, 88 },
        { "too many numbers", { .exit_signal = SIGCHLD, .set_tid = (uint64_t)&number, .set_tid_size = 33 }, 88 },
        { "no number", { .exit_signal = SIGCHLD, .set_tid = (uint64_t)&number, .set_tid_size = 1 }, 88 },
        { "a group that is none", { .flags = 0x200000000, .exit_signal = SIGCHLD, .cgroup = 1ul << 40 }, 88 },
    };
    for (unsigned i = 0; i < sizeof new / sizeof *new; i++) {
        static char page[2 * 4096] __attribute__((aligned(4096)));
        memset(page, 0, sizeof page);
        memcpy(page, &new[i].arguments, sizeof(struct arguments));
        fflush(stdout);
        long child = syscall(SYS_clone3, page, new[i].size);
        bury(child), say(new[i].name, child);
    }
    say("clone3 nowhere", syscall(SYS_clone3, NOWHERE, 88));
    say("clone3 in the kernel", syscall(SYS_clone3, KERNEL, 88));
    say("unshare of what is not known", unshare(1 << 30 | 1));
    say("unshare of signals", unshare(0x100));
}

// Futexes ------------------------------------------------------------------------------------------------------

static void odd_futexes(void) {
    static uint32_t words[4];
    void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *hidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct { const char *name; void *at; } places[] = {
        { "nowhere", NULL }, { "in page 1", NOWHERE }, { "in the kernel", KERNEL }, { "at the end", (void *)-4 }, { "odd", (char *)words + 1 },
        { "even", (char *)words + 2 }, { "hidden", hidden }, { "to be read", read_only }, { "beyond", (void *)0x800000000000 }, { "outside", (void *)(1ul << 60) },
    };
    const int operations[] = { FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET };
    struct timespec none = { 0, 0 };
    for (int shared = 0; shared < 2; shared++)
        for (int place = 0; place < 10; place++)
            for (int operation = 0; operation < 7; operation++) {
                int code = operations[operation] | (shared ? 0 : FUTEX_PRIVATE_FLAG);
                int waits = operation == 0 || operation == 5;
                printf("%d %d ", code, waits);
                say(places[place].name, syscall(SYS_futex, places[place].at, code, waits ? 1 : 0, waits ? (void *)&none : NULL, words, waits || operation == 6 ? ~0 : 1));
                if (waits || operation < 2 || operation == 6) continue;
                printf("%d second ", code);
                say(places[place].name, syscall(SYS_futex, words, code, 0, NULL, places[place].at, operation == 4 ? 1 << 24 : 0));
            }
    for (int operation = 0; operation < 20; operation++) {
        if ((operation >= FUTEX_LOCK_PI && operation <= FUTEX_TRYLOCK_PI) || operation == FUTEX_WAIT_REQUEUE_PI || operation == FUTEX_CMP_REQUEUE_PI || operation == 13) continue;
        printf("%d ", operation), say("operation", syscall(SYS_futex, words, operation, 1, operation % 9 ? NULL : &none, words + 1, 1));
    }
    printf("by the wall "), say("woken", syscall(SYS_futex, words, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
    printf("by the wall "), say("waiting", syscall(SYS_futex, words, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 1, &none, NULL, 0));
    say("no bits to wait for", syscall(SYS_futex, words, FUTEX_WAIT_BITSET, 0, &none, NULL, 0));
    say("no bits to wake", syscall(SYS_futex, words, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0));
    say("fewer than none", syscall(SYS_futex, words, FUTEX_REQUEUE, -1, NULL, words + 1, 0));
    say("fewer than none moved", syscall(SYS_futex, words, FUTEX_REQUEUE, 0, (void *)-1, words + 1, 0));
    say("moved to itself", syscall(SYS_futex, words, FUTEX_REQUEUE, 0, (void *)1, words, 0));
    say("an unknown change", syscall(SYS_futex, words, FUTEX_WAKE_OP, 0, NULL, words + 1, 7u << 28));
    say("an unknown comparison", syscall(SYS_futex, words, FUTEX_WAKE_OP, 0, NULL, words + 1, 15u << 24));
    say("a list of robust ones", syscall(SYS_set_robust_list, words, 23));
    munmap(read_only, 4096), munmap(hidden, 4096);
}

// Times --------------------------------------------------------------------------------------------------------

static void odd_times(void) {
    static uint32_t word;
    struct timespec odd[] = { { -1, 0 }, { 0, -1 }, { 0, 1000000000 }, { 0, INT64_MIN }, { INT64_MIN, 0 }, { -1, 1000000000 }, { 0, 0 } };
    int ends[2], socket[2], polled = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    int semaphore = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    pipe(ends), socketpair(AF_UNIX, SOCK_STREAM, 0, socket);
    timer_t own;
    struct sigevent event = { .sigev_notify = SIGEV_NONE };
    timer_create(CLOCK_MONOTONIC, &event, &own);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 7; i++) {
        const struct timespec *time = &odd[i];
        char what[80];
#undef TELL
#define TELL(name, call) do { errno = 0; long result = (call); snprintf(what, sizeof what, "%d %s gives %ld", i, name, result), say(what, result); } while (0)
        struct timespec left = *time;
        TELL("nanosleep", nanosleep(time, NULL));
        TELL("clock_nanosleep", syscall(SYS_clock_nanosleep, CLOCK_REALTIME, 0, time, NULL));
        TELL("until then", syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, time, NULL));
        struct pollfd one = { ends[0], POLLIN, 0 };
        TELL("ppoll", syscall(SYS_ppoll, &one, 1, &left, NULL, 8));
        struct timeval wait = { time->tv_sec, time->tv_nsec / 1000 };
        TELL("select", syscall(SYS_select, 0, NULL, NULL, NULL, &wait));
        left = *time;
        TELL("pselect", syscall(SYS_pselect6, 0, NULL, NULL, NULL, &left, NULL));
        struct epoll_event came;
        TELL("epoll_pwait2", syscall(SYS_epoll_pwait2, polled, &came, 1, time, NULL, 8));
        TELL("a futex", syscall(SYS_futex, &word, FUTEX_WAIT, 0, time, NULL, 0));
        TELL("a futex until then", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, time, NULL, ~0));
        TELL("sigtimedwait", syscall(SYS_rt_sigtimedwait, &set, NULL, time, 8));
        struct sembuf down = { 0, -1, 0 };
        TELL("semtimedop", semtimedop(semaphore, &down, 1, time));
        struct itimerspec spec = { .it_value = *time }, interval = { .it_value = { 100000, 0 }, .it_interval = *time };
        TELL("timerfd", timerfd_settime(timer, 0, &spec, NULL));
        TELL("timerfd, again", timerfd_settime(timer, 0, &interval, NULL));
        TELL("a timer", syscall(SYS_timer_settime, own, 0, &spec, NULL));
        TELL("a timer, again", syscall(SYS_timer_settime, own, 0, &interval, NULL));
        struct itimerval alarm = { .it_value = { time->tv_sec, time->tv_nsec } }, off = { 0 };
        TELL("setitimer", setitimer(ITIMER_VIRTUAL, &alarm, NULL));
        setitimer(ITIMER_VIRTUAL, &off, NULL);
        struct timeval limit = { time->tv_sec, time->tv_nsec };
        TELL("a socket's limit", setsockopt(socket[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
        struct timespec both[2] = { *time, *time };
        if (time->tv_sec >= -1 && time->tv_sec < 1) TELL("a file's times", utimensat(AT_FDCWD, "file", both, 0));
        struct mmsghdr message = { 0 };
        left = *time;
        TELL("recvmmsg", syscall(SYS_recvmmsg, socket[1], &message, 1, MSG_DONTWAIT, &left));
    }
    errno = 0;
    struct timespec *nowhere[] = { NOWHERE, KERNEL };
    for (int i = 0; i < 2; i++) {
        char what[80];
        TELL("nanosleep nowhere", syscall(SYS_nanosleep, nowhere[i], NULL));
        TELL("a futex with a time nowhere", syscall(SYS_futex, &word, FUTEX_WAIT, 0, nowhere[i], NULL, 0));
        TELL("ppoll with a time nowhere", syscall(SYS_ppoll, NULL, 0, nowhere[i], NULL, 8));
        TELL("select with a time nowhere", syscall(SYS_select, 0, NULL, NULL, NULL, nowhere[i]));
        TELL("epoll with a place nowhere", syscall(SYS_epoll_wait, polled, nowhere[i], 1, 0));
    }
    for (int count = -1; count < 2; count++) {
        struct epoll_event came;
        printf("%d ", count), say("events", epoll_wait(polled, &came, count, 0));
    }
    say("too many events", syscall(SYS_epoll_wait, polled, &word, INT_MAX / 12, 0));
    say("a clock that is none", syscall(SYS_clock_nanosleep, 77, 0, &odd[6], NULL));
    say("the clock of the thread", syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &odd[6], NULL));
    semctl(semaphore, 0, IPC_RMID);
}

int main(int count, char **arguments, char **environment) {
    if (count > 1) return be_executed(count, arguments, environment);
    setvbuf(stdout, NULL, _IOLBF, 0);
    char folder[] = "/tmp/limits-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    long_strings();
    long_paths();
    many_links();
    many_descriptors();
    long_vectors();
    odd_clones();
    odd_futexes();
    odd_times();
    return 0;
}
