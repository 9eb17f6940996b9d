// Stress of shared descriptors: threads read, write, poll and pass what other threads close, replace and open again.
// Arguments: seconds, and a seed (default: from the clock). It prints the seed on standard error, where a failure is found by it.
//
// Each worker also has a pipe and a pair of sockets of its own, at numbers that no other worker touches: what it reads there is what
// it wrote. No call may kill a thread or hang: every wait has an end, and the first thread sees that each worker goes on.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 24
#define WORKERS 8
#define PATIENCE 60
/* From here on lie numbers that no worker closes but its own. */
#define OWN_NUMBERS 500

/* A slot: two descriptors of one object, or -1. Nobody locks them: that is the test. */
static _Atomic int slots[SLOTS][2];
static _Atomic unsigned long steps[WORKERS];
static _Atomic int stop, listener = -1;
static int listener_name, internet_listener;
static struct sockaddr_in internet_name = { .sin_family = AF_INET };
static unsigned long seed;

static unsigned next(unsigned long *state) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return *state >> 33;
}

static _Noreturn void fail(const char *what, long value) {
    printf("failed: %s (%ld), errno %d, seed %lu\n", what, value, errno, seed);
    fflush(stdout);
    _exit(1);
}

static void connect_to_listener(int own[2]) {
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t length = sizeof(sa_family_t) + 1 + snprintf(name.sun_path + 1, 60, "shared-%d", listener_name);
    own[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(own[0], (void *)&name, length);
    own[1] = accept4(atomic_load(&listener), NULL, NULL, SOCK_NONBLOCK);
}

/* A connection by TCP over loopback; both ends, where the listener's queue has room. */
static void connect_by_internet(int own[2]) {
    own[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(own[0], (void *)&internet_name, sizeof internet_name);
    own[1] = accept4(internet_listener, NULL, NULL, SOCK_NONBLOCK);
}

/* Two sockets for datagrams, each of which sends to the other. */
static void make_datagrams(int own[2]) {
    struct sockaddr_in names[2] = { { .sin_family = AF_INET }, { .sin_family = AF_INET } };
    socklen_t length = sizeof names[0];
    for (int i = 0; i < 2; i++) {
        own[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        names[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bind(own[i], (void *)&names[i], length);
        getsockname(own[i], (void *)&names[i], &length);
    }
    for (int i = 0; i < 2; i++) connect(own[i], (void *)&names[1 - i], length);
}

/* Opens an object of a kind. */
static void make(unsigned kind, unsigned slot, int own[2]) {
    char path[64];
    own[0] = own[1] = -1;
    switch (kind % 22) {
    case 0: case 1: if (pipe2(own, O_NONBLOCK)) own[0] = own[1] = -1; break;
    case 2: socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, own); break;
    case 3: socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, own); break;
    case 4: socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, own); break;
    case 5: own[0] = eventfd(1, EFD_NONBLOCK); break;
    case 6: {
        struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
        own[0] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        timerfd_settime(own[0], 0, &often, NULL);
        break;
    }
    case 7: {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        own[0] = signalfd(-1, &set, SFD_NONBLOCK);
        break;
    }
    case 8: own[0] = inotify_init1(IN_NONBLOCK); inotify_add_watch(own[0], "/tmp", IN_ALL_EVENTS); break;
    case 9: own[0] = syscall(SYS_pidfd_open, getpid(), 0); break;
    case 10: own[0] = epoll_create1(0); break;
    case 11:
        snprintf(path, sizeof path, "/tmp/shared-%u", slot);
        own[0] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        own[1] = open(path, O_RDWR);
        break;
    case 12: own[0] = memfd_create("shared", 0); break;
    case 13: own[0] = open("/tmp", O_RDONLY | O_DIRECTORY); break;
    case 14: own[0] = open("/proc/self/status", O_RDONLY); break;
    case 15:
        snprintf(path, sizeof path, "/tmp/fifo-%u", slot);
        mkfifo(path, 0600);
        own[0] = open(path, O_RDWR | O_NONBLOCK);
        own[1] = open(path, O_RDWR | O_NONBLOCK);
        break;
    case 16:
        if (openpty(&own[0], &own[1], NULL, NULL, NULL)) { own[0] = own[1] = -1; break; }
        fcntl(own[0], F_SETFL, O_RDWR | O_NONBLOCK);
        fcntl(own[1], F_SETFL, O_RDWR | O_NONBLOCK);
        break;
    case 17: connect_by_internet(own); break;
    case 18: make_datagrams(own); break;
    case 19: {
        struct mq_attr small = { .mq_maxmsg = 4, .mq_msgsize = 256 };
        snprintf(path, sizeof path, "/shared-%u", slot);
        own[0] = mq_open(path, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &small);
        own[1] = mq_open(path, O_RDWR | O_NONBLOCK);
        break;
    }
    case 20:
        /* On a machine with a disk: else nothing. */
        snprintf(path, sizeof path, "/disk/shared-%u", slot);
        own[0] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        own[1] = open(path, O_RDWR);
        break;
    default: connect_to_listener(own); break;
    }
}

static void pass(int through, int descriptor, int back) {
    char byte = 0x40, control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec piece = { &byte, 1 };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    sendmsg(through, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    memset(control, 0, sizeof control);
    message.msg_controllen = sizeof control;
    if (recvmsg(back, &message, MSG_DONTWAIT) > 0)
        for (header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
            if (header->cmsg_type == SCM_RIGHTS) {
                int come;
                memcpy(&come, CMSG_DATA(header), sizeof come);
                close(come);
            }
}

static void put(unsigned slot, unsigned kind) {
    int own[2];
    make(kind, slot, own);
    for (int side = 0; side < 2; side++) {
        int before = atomic_exchange(&slots[slot][side], own[side]);
        if (before >= 0) close(before);
    }
}

static void replace(unsigned from, unsigned to) {
    int old = atomic_load(&slots[from][0]), new = atomic_load(&slots[to][0]);
    if (old >= 0 && new >= 0) dup2(old, new);
}

static void wait_for(unsigned how, unsigned long *state) {
    struct pollfd polled[6];
    struct epoll_event events[4], wanted = { .events = EPOLLIN | EPOLLOUT | (how & 8 ? EPOLLET : 0) };
    struct timespec soon = { 0, 1000000 };
    int set = -1;
    for (int i = 0; i < 6; i++) polled[i] = (struct pollfd){ slots[next(state) % SLOTS][i & 1], POLLIN, 0 };
    switch (how % 4) {
    case 0: poll(polled, 6, 1); break;
    case 1: ppoll(polled, 6, &soon, NULL); break;
    case 2: {
        fd_set reads;
        FD_ZERO(&reads);
        for (int i = 0; i < 6; i++) if (polled[i].fd >= 0 && polled[i].fd < FD_SETSIZE) FD_SET(polled[i].fd, &reads);
        struct timeval little = { 0, 1000 };
        select(FD_SETSIZE, &reads, NULL, NULL, &little);
        break;
    }
    default:
        set = epoll_create1(0);
        for (int i = 0; i < 6; i++) {
            wanted.events = polled[i].fd & 1 ? EPOLLIN : EPOLLIN | EPOLLET;
            epoll_ctl(set, EPOLL_CTL_ADD, polled[i].fd, &wanted);
        }
        for (int i = 0; i < 3; i++) epoll_wait(set, events, 4, 1);
        close(set);
    }
}

static void move(unsigned how, int from, int to) {
    loff_t place = 0;
    switch (how % 5) {
    case 0: splice(from, NULL, to, NULL, 64, SPLICE_F_NONBLOCK); break;
    case 1: tee(from, to, 64, SPLICE_F_NONBLOCK); break;
    case 2: sendfile(to, from, NULL, 64); break;
    case 3: copy_file_range(from, &place, to, NULL, 64, 0); break;
    default: {
        char bytes[32];
        memset(bytes, 0x41, sizeof bytes);
        struct iovec piece = { bytes, sizeof bytes };
        vmsplice(to, &piece, 1, SPLICE_F_NONBLOCK);
    }
    }
}

static void ask(unsigned how, int descriptor, int other) {
    char buffer[512] = { 0 };
    struct flock lock = { .l_type = how & 16 ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_len = 8 };
    struct stat status;
    int number;
    switch (how % 13) {
    case 9: mq_send(descriptor, buffer, how % 256, how % 4); break;
    case 10: mq_receive(descriptor, buffer, sizeof buffer, NULL); break;
    case 11: shutdown(descriptor, how % 3); break;
    case 12: send(descriptor, buffer, 1 + how % 300, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case 0: fcntl(descriptor, F_SETLK, &lock); break;
    case 1: flock(descriptor, LOCK_SH | LOCK_NB); break;
    case 2: ioctl(descriptor, FIONREAD, &number); break;
    case 3: close(dup(descriptor)); break;
    case 4: fstat(descriptor, &status); break;
    case 5: if (!fstat(descriptor, &status) && S_ISREG(status.st_mode)) ftruncate(descriptor, how % 8192); break;
    case 6: syscall(SYS_getdents64, descriptor, buffer, sizeof buffer); break;
    case 7: {
        void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
        if (mapped != MAP_FAILED) munmap(mapped, 4096);
        break;
    }
    default:
        if (other >= 0) pass(descriptor, other, other);
    }
}

static void transfer(unsigned how, unsigned slot, int from, int to) {
    unsigned char bytes[300];
    memset(bytes, 0x40 + slot, sizeof bytes);
    struct iovec pieces[2] = { { bytes, 20 }, { bytes + 20, 40 } };
    if (how & 1) {
        if (how & 2) write(to, bytes, 1 + how % 299); else if (how & 4) writev(to, pieces, 2); else pwrite(to, bytes, 64, how % 4096);
        return;
    }
    if (how & 2) read(from, bytes, sizeof bytes); else if (how & 4) readv(from, pieces, 2); else pread(from, bytes, 64, how % 4096);
}

/* What a worker alone has: bytes of it are in order, whatever the others do. */
struct own { int pipe[2], sockets[2]; };

static int high(int low) {
    int number = fcntl(low, F_DUPFD, OWN_NUMBERS);
    if (number < 0) fail("a high number", low);
    close(low);
    return number;
}

static void make_own(struct own *own) {
    if (pipe(own->pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, own->sockets)) fail("a pipe of its own", 0);
    for (int i = 0; i < 2; i++) own->pipe[i] = high(own->pipe[i]), own->sockets[i] = high(own->sockets[i]);
}

static void use_own(const int ends[2], unsigned salt, unsigned long *state) {
    unsigned char bytes[200], come[200];
    unsigned count = 1 + next(state) % 199;
    for (unsigned at = 0; at < count; at++) bytes[at] = salt + at * 3;
    if (write(ends[1], bytes, count) != (long)count) fail("a write to its own", count);
    long got = read(ends[0], come, sizeof come);
    if (got != (long)count || memcmp(bytes, come, count)) fail("a read of its own", got);
}

static void *work(void *argument) {
    struct { unsigned number; struct own own; } *self = argument;
    unsigned long state = seed + self->number * 7919;
    while (!stop) {
        unsigned what = next(&state), how = next(&state), slot = next(&state) % SLOTS, other = next(&state) % SLOTS;
        int from = slots[slot][0], to = slots[other][1];
        switch (what % 10) {
        case 0: case 1: put(slot, how); break;
        case 2: replace(slot, other); break;
        case 3: case 4: wait_for(how, &state); break;
        case 5: move(how, from, to); break;
        case 6: ask(how, from, to); break;
        case 7: use_own(how & 1 ? self->own.pipe : self->own.sockets, how, &state); break;
        default: transfer(how, slot, from, to);
        }
        steps[self->number]++;
    }
    return NULL;
}

/* Blocked reads: a thread sleeps in a read, or in epoll_wait, of what another one closes. The close of the last writer ends the
   read; the close of what a set watches is seen at once at the other end, though a thread sleeps over it. */
static void *sleep_in_set(void *set) {
    struct epoll_event event;
    while (!stop) epoll_wait(*(int *)set, &event, 1, -1);
    return NULL;
}

static void *sleep_in_read(void *end) {
    char byte;
    return (void *)read(*(int *)end, &byte, 1);
}

static void close_under_sleepers(void) {
    int set = epoll_create1(0), wake = eventfd(0, 0);
    struct epoll_event event = { .events = EPOLLIN };
    epoll_ctl(set, EPOLL_CTL_ADD, wake, &event);
    pthread_t sleeper, reader;
    pthread_create(&sleeper, NULL, sleep_in_set, &set);
    for (int i = 0; i < 50; i++) {
        int own[2], pair[2];
        if (pipe(own) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) fail("a pipe to close", i);
        epoll_ctl(set, EPOLL_CTL_ADD, own[0], &event);
        epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
        if (i & 1) usleep(500);
        close(own[0]);
        close(pair[0]);
        if (write(own[1], "x", 1) != -1 || errno != EPIPE) fail("a pipe whose reader was closed takes bytes", i);
        if (read(pair[1], own, 1) != 0) fail("a socket whose peer was closed", i);
        close(own[1]);
        close(pair[1]);
        if (pipe(own)) fail("a pipe to read", i);
        pthread_create(&reader, NULL, sleep_in_read, &own[0]);
        if (i & 1) usleep(500);
        close(own[1]);
        void *come;
        pthread_join(reader, &come);
        if (come) fail("the end of a pipe", (long)come);
        close(own[0]);
    }
    stop = 1;
    if (write(wake, &(unsigned long){ 1 }, 8) != 8) fail("waking the sleeper", 0);
    pthread_join(sleeper, NULL);
    stop = 0;
    close(set);
    close(wake);
}

static void listen_for_all(void) {
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    listener_name = getpid();
    socklen_t length = sizeof(sa_family_t) + 1 + snprintf(name.sun_path + 1, 60, "shared-%d", listener_name);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(made, (void *)&name, length) || listen(made, 64)) fail("a socket that listens", 0);
    listener = high(made);
    length = sizeof internet_name;
    internet_name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(made, (void *)&internet_name, length) || listen(made, 64)) fail("a socket of the Internet that listens", 0);
    if (getsockname(made, (void *)&internet_name, &length)) fail("its name", 0);
    internet_listener = high(made);
}

int main(int count, char **arguments) {
    struct { unsigned number; struct own own; } workers[WORKERS];
    pthread_t threads[WORKERS];
    unsigned long before[WORKERS] = { 0 };
    unsigned seconds = count > 1 ? atoi(arguments[1]) : 5;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = count > 2 ? strtoul(arguments[2], NULL, 0) : (unsigned long)now.tv_nsec;
    fprintf(stderr, "seed %lu\n", seed);
    signal(SIGPIPE, SIG_IGN);
    close_under_sleepers();
    puts("closed under sleepers");
    listen_for_all();
    memset(slots, 0xff, sizeof slots);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        make_own(&workers[i].own);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i])) fail("a thread", i);
    for (unsigned second = 0, still = 0; second < seconds; second++) {
        sleep(1);
        int goes_on = 1;
        for (int i = 0; i < WORKERS; i++) {
            goes_on &= steps[i] != before[i];
            before[i] = steps[i];
        }
        still = goes_on ? 0 : still + 1;
        if (still > PATIENCE) fail("a worker hangs", second);
    }
    stop = 1;
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    puts("done");
}
