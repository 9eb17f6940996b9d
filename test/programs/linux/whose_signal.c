// Which thread has a signal: one for the process goes to the first thread unless that blocks it, and to one that does not otherwise; what a
// thread did itself goes to that one; timers of the time that a program computes go to who computes. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { ROUNDS = 20, TOGGLES = 400, PATIENCE = 20 };

// On Linux another one has what comes while a signal still waits for the first thread.
#define MOSTLY(one, other) ((one) > 3 * (other))

static atomic_int by_first, by_others, over;
static pid_t last;

static void note(int signal) {
    (void)signal;
    last = syscall(SYS_gettid);
    ++*(last == getpid() ? &by_first : &by_others);
}

static void *computes(void *unused) {
    while (!over) __asm__ volatile("pause");
    return unused;
}

static void *calls(void *unused) {
    while (!over) getppid();
    return unused;
}

// Sleeps, and wakes up now and then to see whether that is over.
static void *sleeps(void *unused) {
    while (!over) usleep(50000);
    return unused;
}

static void *(*const OTHERS[])(void *) = {computes, calls, sleeps};
static pthread_t others[3];

static void begin_others(void) {
    over = by_first = by_others = 0;
    for (int i = 0; i < 3; i++) CHECK(!pthread_create(&others[i], NULL, OTHERS[i], NULL));
}

static void end_others(void) {
    over = 1;
    for (int i = 0; i < 3; i++) CHECK(!pthread_join(others[i], NULL));
}

static time_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void wait_for(int handled) {
    for (time_t end = seconds() + PATIENCE; by_first + by_others < handled;) {
        CHECK(seconds() < end);
        usleep(1000);
    }
}

static void set(int which, long interval) {
    struct itimerval value = {{0, interval}, {0, interval}};
    CHECK(!setitimer(which, &value, NULL));
}

static void block(int how, int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    CHECK(!pthread_sigmask(how, &one, NULL));
}

static void timers(void) {
    begin_others();
    set(ITIMER_REAL, 5000);
    wait_for(ROUNDS);
    CHECK(MOSTLY(by_first, by_others));
    block(SIG_BLOCK, SIGALRM);
    by_first = by_others = 0;
    wait_for(ROUNDS);
    CHECK(by_first == 0);
    set(ITIMER_REAL, 0);
    end_others();
    block(SIG_UNBLOCK, SIGALRM);
    begin_others();
    set(ITIMER_VIRTUAL, 5000);
    // The first thread does not compute meanwhile.
    for (time_t end = seconds() + PATIENCE; by_first + by_others < ROUNDS;) {
        CHECK(seconds() < end);
        usleep(500000);
    }
    CHECK(MOSTLY(by_others, by_first));
    set(ITIMER_VIRTUAL, 0);
    end_others();
    puts("timers");
}

static void *kills(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        kill(getpid(), SIGUSR1);
        while (by_first + by_others == i) sched_yield();
        usleep(1000);
    }
    return unused;
}

static void *harms_itself(void *unused) {
    int ends[2];
    CHECK(!pipe(ends));
    close(ends[0]);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE && last == syscall(SYS_gettid));
        last = 0;
    }
    close(ends[1]);
    return unused;
}

static void in_thread(void *(*what)(void *)) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, what, NULL) && !pthread_join(thread, NULL));
}

static void kills_of_its_own(void) {
    by_first = by_others = 0;
    in_thread(kills);
    CHECK(MOSTLY(by_first, by_others));
    by_first = by_others = 0;
    in_thread(harms_itself);
    CHECK(by_first == 0 && by_others == ROUNDS);
    puts("signals of its own");
}

static void kills_of_a_child(void) {
    begin_others();
    int ends[2];
    char byte;
    CHECK(!pipe(ends));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        close(ends[1]);
        while (read(ends[0], &byte, 1) == 1) kill(getppid(), SIGUSR1);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(write(ends[1], "x", 1) == 1);
        wait_for(i + 1);
    }
    CHECK(MOSTLY(by_first, by_others));
    // Whatever the first thread does about it meanwhile, one of them has it.
    by_first = by_others = 0;
    for (int i = 0; i < TOGGLES; i++) {
        CHECK(write(ends[1], "x", 1) == 1);
        time_t end = seconds() + PATIENCE;
        while (by_first + by_others == i) {
            block(SIG_BLOCK, SIGUSR1);
            if (i % 2) sched_yield();
            block(SIG_UNBLOCK, SIGUSR1);
            CHECK(seconds() < end);
        }
    }
    // The last round's may be blocked when it comes: the others sleep or compute, and have it.
    by_first = by_others = 0;
    block(SIG_BLOCK, SIGUSR1);
    CHECK(write(ends[1], "x", 1) == 1);
    wait_for(1);
    CHECK(by_others == 1);
    block(SIG_UNBLOCK, SIGUSR1);
    close(ends[1]);
    close(ends[0]);
    CHECK(waitpid(child, NULL, 0) == child);
    end_others();
    puts("signals of a child");
}

static void *pauses(void *unused) {
    pause();
    return unused;
}

static void blocked_since(void) {
    by_first = by_others = 0;
    pthread_t thread;
    // It sleeps when the first thread begins to block the signal.
    CHECK(!pthread_create(&thread, NULL, pauses, NULL));
    usleep(20000);
    block(SIG_BLOCK, SIGUSR1);
    CHECK(!kill(getpid(), SIGUSR1));
    CHECK(!pthread_join(thread, NULL) && by_others == 1 && by_first == 0);
    block(SIG_UNBLOCK, SIGUSR1);
    puts("a sleeper has what the first thread blocks");
}

static pid_t process;

static void *ends_later(void *unused) {
    (void)unused;
    // The first thread has ended: whoever is left has the signal.
    usleep(50000);
    CHECK(!kill(process, SIGUSR1));
    CHECK(by_others == 1);
    puts("a first thread that has ended has none");
    exit(0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    // What comes while the first thread is in the handler is to be its own, too.
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_NODEFER | SA_RESTART};
    for (int i = 0; i < 4; i++) CHECK(!sigaction((int[]){SIGALRM, SIGVTALRM, SIGUSR1, SIGPIPE}[i], &action, NULL));
    timers();
    kills_of_its_own();
    kills_of_a_child();
    blocked_since();
    by_first = by_others = 0;
    process = getpid();
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, ends_later, NULL));
    pthread_exit(NULL);
}
