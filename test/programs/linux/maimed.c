// Processes of which the kernel destroys one thread: the whole process ends, as by SIGKILL, and what it held comes back
// (row 160 of the attack matrix). One line for each kind. The thread spins in a critical section, so that it never
// gives way, or it has declared entries to which no upcall can be delivered.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "census.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

// The words of the first thread that the kernel reads, and those of the next one, by ExOS's address_map.rs.
#define FIRST ((volatile uint64_t *)0x7d8000001000ull)
#define SECOND ((volatile uint64_t *)0x7d8000001000ull - (2 << 20) / 8)
enum { ENTRIES = 7, CRITICAL = 8, SLACK = 1200 };

struct shared { pthread_mutex_t mutex; atomic_long held, orphan, orphans_parent; };
static struct shared *shared;
static const char *lock_path = "/tmp/maimed";
static volatile uint64_t *own;
static void (*action)(void);

static void never_give_way(void) {
    own[CRITICAL] = 1;
    for (;;) shared->orphan = 1;
}

static void refuse_upcalls(void) {
    for (int i = 0; i < ENTRIES; i++) own[i] = 1ull << 63;
    *(volatile int *)8 = 1;
    for (;;) shared->orphan = 1;
}

static void *act(void *unused) {
    while (!shared->held) usleep(1000);
    action();
    return unused;
}

static void *hold(void *unused) {
    pthread_mutex_lock(&shared->mutex);
    shared->held = 1;
    for (;;) pause();
    return unused;
}

// It has a lock, a pipe, a child and a robust mutex. The maimed thread is its first one, or the next.
static void be_maimed(int is_first) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = open(lock_path, O_RDWR);
    pthread_t thread;
    pid_t parent = getpid();
    CHECK(file >= 0 && fcntl(file, F_SETLK, &lock) == 0);
    if (fork() == 0) {
        shared->orphan = 1;
        for (int i = 3; i < 100; i++) close(i);
        while (getppid() == parent) usleep(1000);
        shared->orphans_parent = getppid();
        _exit(0);
    }
    while (!shared->orphan) usleep(1000);
    own = is_first ? FIRST : SECOND;
    CHECK(pthread_create(&thread, 0, is_first ? hold : act, 0) == 0);
    if (is_first) act(0);
    hold(0);
}

static int has_lock(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = open(lock_path, O_RDWR), has = fcntl(file, F_SETLK, &lock) == 0;
    close(file);
    return has;
}

static int has_other_parent(void) { return shared->orphans_parent != 0; }

static int wait_until(int (*is_true)(void)) {
    for (int i = 0; i < 2000 && !is_true(); i++) usleep(1000);
    return is_true();
}

static void make_mutex(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &kind);
}

static int is_left_locked(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    int outcome = pthread_mutex_timedlock(&shared->mutex, &until);
    if (outcome == EOWNERDEAD) pthread_mutex_consistent(&shared->mutex), pthread_mutex_unlock(&shared->mutex);
    return outcome == EOWNERDEAD;
}

// Its parent sleeps until SIGCHLD comes, or until `waitpid` returns.
static void maim(const char *name, int is_first, int sleeps_for_signal, void (*done)(void)) {
    int ends[2], status;
    char byte;
    sigset_t child_ends;
    struct timespec five = {.tv_sec = 5};
    sigemptyset(&child_ends), sigaddset(&child_ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ends, 0);
    memset(shared, 0, sizeof *shared);
    make_mutex();
    action = done;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_maimed(is_first);
    }
    close(ends[1]);
    if (sleeps_for_signal) {
        siginfo_t told;
        CHECK(sigtimedwait(&child_ends, &told, &five) == SIGCHLD);
        CHECK(told.si_pid == child && told.si_code == CLD_KILLED && told.si_status == SIGKILL);
        CHECK(is_left_locked());
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(read(ends[0], &byte, 1) == 0);
    close(ends[0]);
    CHECK(wait_until(has_lock) && wait_until(has_other_parent));
    CHECK(kill(child, 0) < 0 && errno == ESRCH);
    sigtimedwait(&child_ends, 0, &(struct timespec){0});
    puts(name);
    fflush(stdout);
}

int main(void) {
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    close(open(lock_path, O_CREAT | O_RDWR, 0666));
    maim("a thread never gives way", 0, 0, never_give_way);
    long before = free_when_quiet();
    maim("a thread never gives way, told by a signal", 0, 1, never_give_way);
    maim("a thread refuses upcalls", 0, 0, refuse_upcalls);
    maim("a thread refuses upcalls, told by a signal", 0, 1, refuse_upcalls);
    maim("the first thread never gives way", 1, 0, never_give_way);
    maim("the first thread never gives way, told by a signal", 1, 1, never_give_way);
    maim("the first thread refuses upcalls", 1, 0, refuse_upcalls);
    maim("the first thread refuses upcalls, told by a signal", 1, 1, refuse_upcalls);
    long lost = before - free_when_quiet();
    printf(lost <= SLACK ? "all memory is back\n" : "%ld KiB are lost\n", lost);
    return 0;
}
