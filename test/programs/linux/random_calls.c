// Random calls of the whole table, as user 1000, from several processes and threads: the machine and its other processes live on.
// A caller has descriptors, addresses and sizes that are right, and odd ones. Two victims check what they compute and what
// a pipe and a file carry. It says nothing of results: a victim that dies or finds wrong data, or a hang, fails the test.
// The harness finds a panic of any library in what the machine says, and a process whose library did not answer SIGKILL,
// which is what a hang in a call looks like (`unharmed` in guests.toml).
// Arguments: how many calls, and the seed, which is printed to the error output.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, ROOM = 16 * PAGE, CALLERS = 3, A_CHILD = 50, CALLS = 470, LIBRARY_PANICKED = 101, SECONDS_OF_A_CHILD = 3,
    SECONDS_OF_A_HANG = 120 };

static _Thread_local uint64_t state;

static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t bound) { return (next() >> 16) % bound; }

// Memory that may be written, and a page behind it that is not there.
static char *room;
static int descriptors[32], descriptor_count;

// The port of the child's own listener, in the network's order.
static uint16_t inet_port;

static int64_t odd_number(void) {
    static const int64_t odd[] = {0, -1, 1, 2, 7, 8, 64, 4095, PAGE, PAGE + 1, 65535, 65536, INT_MAX, INT_MIN, UINT_MAX, 1L << 32,
        (1L << 32) + 1, 1L << 35, LONG_MAX, LONG_MIN, LONG_MAX - PAGE, -PAGE, -16, -8, 1000000000, 999999999, -100, 1L << 62};
    int64_t number = odd[below(sizeof odd / sizeof *odd)];
    return below(4) ? number : number + (int64_t)below(17) - 8;
}

static uint64_t odd_address(void) {
    const uint64_t odd[] = {0, 1, 8, PAGE, (uint64_t)room + ROOM, (uint64_t)room + ROOM - 8, (uint64_t)room + ROOM - 1,
        (uint64_t)room + PAGE - 4, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000, 0x7d8000000000, 0x7d8000080000,
        0xffff800000000000, 0xffffffff80000000, -4096, -64, -16, -8, -1};
    return odd[below(sizeof odd / sizeof *odd)];
}

static uint64_t any_descriptor(void) {
    return below(8) ? (uint64_t)descriptors[below(descriptor_count)] : (uint64_t)odd_number();
}

static uint64_t any_time(void) { return below(2) ? below(1000000) : (uint64_t)odd_number(); }

// A pointer that a structure holds.
static uint64_t inner(void) { return below(4) ? (uint64_t)room + below(ROOM / 8) * 8 : odd_address(); }

static uint64_t any_size(void) { return below(3) ? below(300) : (uint64_t)odd_number(); }

// Fills a place of the room with one of the structures that calls read.
static uint64_t structure(void) {
    uint64_t *words = (uint64_t *)(room + below(ROOM / PAGE) * PAGE + below(PAGE - 256) / 8 * 8);
    switch (below(11)) {
    case 10: // sockaddr of the Internet
        if (below(2)) *(struct sockaddr_in *)words = (struct sockaddr_in){AF_INET, below(2) ? inet_port : (uint16_t)next(), {htonl(INADDR_LOOPBACK)}, {0}};
        else *(struct sockaddr_in6 *)words = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = inet_port, .sin6_addr = in6addr_loopback};
        break;
    case 0: // timespec, itimerspec, timeval
        for (int word = 0; word < 4; word++) words[word] = any_time();
        break;
    case 1: // iovec
        for (int word = 0; word < 16; word += 2) words[word] = inner(), words[word + 1] = any_size();
        break;
    case 2: // msghdr, and a control message
        words[0] = inner(), words[1] = any_size(), words[2] = inner(), words[3] = any_size() % 9, words[4] = (uint64_t)(words + 8);
        words[5] = any_size(), words[8] = any_size(), words[9] = (uint64_t)SOL_SOCKET | (1 + below(2)) << 32, words[10] = any_descriptor();
        break;
    case 3: // sockaddr
        *(struct sockaddr_un *)words = (struct sockaddr_un){.sun_family = below(4) ? AF_UNIX : below(40), .sun_path = "/tmp/random-calls"};
        break;
    case 4: // sigevent
        words[0] = next(), words[1] = below(70) | below(6) << 32, words[2] = any_time();
        break;
    case 5: // open_how
        words[0] = below(2) ? O_RDONLY : next() & 077777777, words[1] = below(4) ? 0 : odd_number(), words[2] = below(64);
        break;
    case 6: // sigaction, set of signals
        words[0] = below(2), words[1] = 0x04000000 | below(2) << 28, words[2] = inner(), words[3] = next();
        break;
    case 7: // epoll_event, pollfd
        for (int word = 0; word < 8; word++) words[word] = (any_descriptor() & 0xffffffff) | next() << 32;
        break;
    case 8: // flock, rlimit, sembuf
        words[0] = below(4) | below(4) << 16, words[1] = any_size(), words[2] = any_size(), words[3] = any_time();
        break;
    default: // a path
        strcpy((char *)words, ((const char *[]){"/tmp", "/tmp/random-calls", "/proc/self/maps", "", "/dev/zero", "/nowhere/x"})[below(6)]);
    }
    return (uint64_t)words;
}

static uint64_t argument(void) {
    switch (below(12)) {
    case 0: case 1: case 2: return any_descriptor();
    case 3: case 4: case 5: case 6: return structure();
    case 7: return inner();
    case 8: return any_size();
    case 9: return odd_address();
    case 10: return below(64);
    default: return odd_number();
    }
}

// Calls that may end the caller, or reach other processes of its user, are made with itself as their object.
static uint64_t own_process(void) {
    switch (below(5)) {
    case 0: return (uint64_t)getpid();
    case 1: return (uint64_t)syscall(SYS_gettid);
    case 2: return INT_MAX - below(9);
    default: return 0;
    }
}

static uint64_t any_signal(void) { return below(4) ? (uint64_t)SIGRTMIN + below(20) : below(70); }

// A frame of a signal handler that no kernel made, and random registers in it.
static void return_from_no_handler(void) {
    uint64_t *frame = (uint64_t *)(room + below(8) * PAGE + below(64) * 8);
    for (int word = 0; word < 120; word++) frame[word] = below(2) ? next() : argument();
    __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall; ud2" ::"r"(frame) : "rax", "rcx", "r11", "memory");
}

// Makes such a call. Those that mostly end the caller are made one time in four.
static void make_call_on_itself(long number, uint64_t *given) {
    switch (number) {
    case SYS_kill: case SYS_tkill: case SYS_rt_sigqueueinfo:
        given[0] = own_process(), given[1] = any_signal();
        break;
    case SYS_tgkill: case SYS_rt_tgsigqueueinfo:
        given[0] = own_process(), given[1] = own_process(), given[2] = any_signal();
        break;
    case SYS_pidfd_send_signal:
        given[1] = 0;
        break;
    case SYS_setpriority: case SYS_ioprio_set:
        // Not all processes of a user.
        given[0] = below(3) ? below(2) : 4 + below(9), given[1] = own_process();
        break;
    case SYS_ptrace:
        given[1] = own_process();
        break;
    case SYS_prlimit64: case SYS_sched_setscheduler: case SYS_sched_setparam: case SYS_sched_setattr:
    case SYS_sched_setaffinity: case SYS_process_vm_writev:
        given[0] = own_process();
        break;
    case SYS_fork: case SYS_clone:
        // Not in the memory of the caller, which still uses the stack.
        given[0] &= ~(uint64_t)(CLONE_VM | CLONE_VFORK), given[1] = 0;
        if (syscall(number, given[0], given[1], given[2], given[3], given[4]) == 0) _exit(0);
        return;
    case SYS_vfork:
        if (vfork() == 0) _exit(0);
        return;
    case SYS_pause:
        if (below(4)) return;
        ualarm(1000, 0);
        break;
    case SYS_exit: case SYS_exit_group:
        if (below(4)) return;
        given[0] = below(100);
        break;
    case SYS_rt_sigreturn:
        if (below(4) == 0) return_from_no_handler();
        return;
    }
    syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

static int is_on_itself(long number) {
    static const int all[] = {SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal,
        SYS_exit, SYS_exit_group, SYS_fork, SYS_vfork, SYS_pause, SYS_rt_sigreturn, SYS_setpriority, SYS_ptrace,
        SYS_prlimit64, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity, SYS_ioprio_set,
        SYS_process_vm_writev, SYS_clone};
    for (unsigned index = 0; index < sizeof all / sizeof *all; index++)
        if (all[index] == number) return 1;
    return 0;
}

static void make_call(void) {
    uint64_t given[6];
    long number = below(50) ? (long)below(CALLS) : odd_number();
    for (int index = 0; index < 6; index++) given[index] = argument();
    if (getenv("RANDOM_CALLS_SHOWN"))
        dprintf(2, "%d: %ld %#lx %#lx %#lx %#lx %#lx %#lx\n", (int)syscall(SYS_gettid), number, given[0], given[1], given[2], given[3], given[4], given[5]);
    if (is_on_itself(number)) make_call_on_itself(number, given);
    else syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

static void *call_beside(void *seed) {
    state = (uint64_t)seed;
    for (int call = 0; call < A_CHILD / 2; call++) make_call();
    return NULL;
}

// A listener of the Internet at a port of the machine's choice, both ends of a connection to it, and a socket for datagrams.
static void make_internet(int made[4]) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof name;
    made[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    bind(made[0], (struct sockaddr *)&name, length), listen(made[0], 8);
    getsockname(made[0], (struct sockaddr *)&name, &length);
    inet_port = name.sin_port;
    made[1] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(made[1], (struct sockaddr *)&name, length);
    made[2] = accept4(made[0], 0, 0, SOCK_NONBLOCK);
    made[3] = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
}

// What a child begins with: memory, a descriptor of each kind, and a limit of its time, by a clock that calls cannot stop.
static void prepare(void) {
    int ends[2], pair[2], internet[4];
    sigset_t some;
    sigemptyset(&some), sigaddset(&some, SIGUSR1);
    signal(SIGALRM, SIG_DFL);
    room = mmap(0, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room + ROOM, PAGE);
    if (pipe2(ends, O_NONBLOCK) || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair)) _exit(0);
    make_internet(internet);
    int all[] = {ends[0], ends[1], pair[0], pair[1], open("/tmp/random-calls", O_RDWR | O_CREAT, 0600), open("/tmp", O_RDONLY),
        open("/dev/zero", O_RDWR), eventfd(0, EFD_NONBLOCK), epoll_create1(0), timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK),
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), open("/proc/self/status", O_RDONLY),
        internet[0], internet[1], internet[2], internet[3], memfd_create("random", MFD_ALLOW_SEALING), inotify_init1(IN_NONBLOCK),
        signalfd(-1, &some, SFD_NONBLOCK), (int)syscall(SYS_pidfd_open, getpid(), 0), open("/dev/ptmx", O_RDWR | O_NONBLOCK | O_NOCTTY),
        socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0), mq_open("/random-calls", O_RDWR | O_CREAT | O_NONBLOCK, 0600, 0),
        open("/disk", O_RDONLY), open("/tmp", O_RDWR | O_TMPFILE, 0600)};
    descriptor_count = sizeof all / sizeof *all;
    memcpy(descriptors, all, sizeof all);
}

static void child_calls(uint64_t seed, int with_thread) {
    pthread_t thread;
    state = seed;
    setpgid(0, 0);
    prepare();
    if (with_thread && !pthread_create(&thread, NULL, call_beside, (void *)(seed * 3 | 1))) pthread_detach(thread);
    for (int call = 0; call < (with_thread ? A_CHILD / 2 : A_CHILD); call++) make_call();
    _exit(0);
}

// Whether a child ends in so many seconds, by a clock that does not depend on its calls.
static int ends(pid_t child, time_t seconds, int *status) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (waitpid(child, status, WNOHANG) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begin.tv_sec >= seconds) return 0;
        usleep(1000);
    }
    return 1;
}

// Children in a row, each of which makes some calls; one that waits too long is killed, and must end of that. Whether the
// library panicked in one, or one hung. Many calls wait for good, so a child that waits is no hang: one is a child that
// SIGKILL does not end in a time which no loaded host takes for that.
static int caller(uint64_t seed, long calls) {
    int panics = 0, hangs = 0;
    state = seed;
    for (long done = 0; done < calls; done += A_CHILD) {
        uint64_t child_seed = next() | 1;
        int status, with_thread = below(4) == 0;
        pid_t child = fork();
        if (child < 0) {
            usleep(10000);
            continue;
        }
        if (child == 0) child_calls(child_seed, with_thread);
        if (!ends(child, SECONDS_OF_A_CHILD, &status)) {
            kill(child, SIGKILL);
            if (!ends(child, SECONDS_OF_A_HANG, &status)) {
                hangs++, dprintf(2, "SIGKILL does not end child %lu, thread %d\n", child_seed, with_thread);
                continue;
            }
        }
        // What it has made itself, which is of its group.
        kill(-child, SIGKILL);
        while (waitpid(-child, NULL, WNOHANG) > 0) {}
        if (WIFEXITED(status) && WEXITSTATUS(status) == LIBRARY_PANICKED)
            panics++, dprintf(2, "the library panicked: child %lu, thread %d\n", child_seed, with_thread);
    }
    return (panics != 0) | (hangs != 0) << 1;
}

static volatile int *stopped;

static void victim_computes(void) {
    static uint64_t data[8 * 512];
    for (uint64_t round = 1; !*stopped; round++) {
        for (uint64_t index = 0; index < 8 * 512; index++) data[index] = index * round;
        sched_yield();
        for (uint64_t index = 0; index < 8 * 512; index++)
            if (data[index] != index * round) _exit(1);
        usleep(1000);
    }
    _exit(0);
}

static void victim_carries(void) {
    char out[300], in[300];
    char name[] = "/tmp/victim-XXXXXX";
    int ends[2], file = mkstemp(name);
    if (pipe(ends) || file < 0) _exit(2);
    for (int round = 0; !*stopped; round++) {
        memset(out, round, sizeof out);
        if (write(ends[1], out, sizeof out) != sizeof out || read(ends[0], in, sizeof in) != sizeof in || memcmp(out, in, sizeof out)) _exit(3);
        if (pwrite(file, out, sizeof out, round % 9000) != sizeof out || pread(file, in, sizeof in, round % 9000) != sizeof in
            || memcmp(out, in, sizeof out)) _exit(4);
        usleep(1000);
    }
    unlink(name);
    _exit(0);
}

int main(int count, char **given) {
    long calls = count > 1 ? atol(given[1]) : 100000;
    uint64_t seed = count > 2 ? strtoull(given[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
    int status, wrong = 0;
    pid_t victims[2], callers[CALLERS];
    dprintf(2, "random_calls %ld %lu\n", calls, seed);
    stopped = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    // The victims are user 1001, whom the callers may not signal.
    for (int index = 0; index < 2; index++)
        if ((victims[index] = fork()) == 0) {
            if (setgroups(0, 0) || setgid(1001) || setuid(1001)) _exit(5);
            index ? victim_carries() : victim_computes();
        }
    for (int index = 0; index < CALLERS; index++)
        if ((callers[index] = fork()) == 0) {
            if (setgroups(0, 0) || setgid(1000) || setuid(1000)) _exit(5);
            // No page of the shared memory is theirs to write.
            munmap((void *)stopped, PAGE);
            int silent = open("/dev/null", O_RDWR);
            dup2(silent, 0), dup2(silent, 1);
            _exit(caller(seed + index * 7919, calls / CALLERS));
        }
    for (int index = 0; index < CALLERS; index++)
        if (waitpid(callers[index], &status, 0) != callers[index] || status) wrong++, printf("caller %d: status %#x\n", index, status);
    *stopped = 1;
    for (int index = 0; index < 2; index++)
        if (waitpid(victims[index], &status, 0) != victims[index] || status) wrong++, printf("victim %d: status %#x\n", index, status);
    puts(wrong ? "something is wrong" : "all is well");
    return wrong != 0;
}
