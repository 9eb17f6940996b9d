// Mutexes with priority inheritance whose owner ends without unlocking, and waiters that are moved to such a mutex.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic unsigned *words;
static int flag;

static long call(_Atomic unsigned *word, int operation, unsigned value, const void *fourth, _Atomic unsigned *second, unsigned third) {
    long outcome = syscall(SYS_futex, word, operation | flag, value, fourth, second, third);
    return outcome < 0 ? -errno : outcome;
}

static const char *name_of(long outcome) {
    static char number[32];
    if (outcome < 0) return strerrorname_np(-outcome);
    sprintf(number, "%ld", outcome);
    return number;
}

// The word of a mutex with the owner's number replaced: 1 for the caller, 2 for another one.
static unsigned shown(unsigned word) {
    unsigned owner = word & FUTEX_TID_MASK;
    return (word & ~FUTEX_TID_MASK) | (owner ? owner == (unsigned)gettid() ? 1 : 2 : 0);
}

static void wait_for_bit(_Atomic unsigned *word, unsigned bit) { while (!(*word & bit)) usleep(1000); }

static void *own_and_end(void *unused) {
    call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    words[1] = 1;
    wait_for_bit(words, FUTEX_WAITERS);
    usleep(20000);
    return unused;
}

static void *take(void *index) {
    long outcome = call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    unsigned word = words[0];
    call(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    return (void *)(outcome < 0 ? outcome : (long)(word & (FUTEX_OWNER_DIED | FUTEX_WAITERS)) | (long)index << 40);
}

static void owner_ends(void) {
    pthread_t owner, second;
    words[0] = 0;
    words[1] = 0;
    pthread_create(&owner, NULL, own_and_end, NULL);
    while (!words[1]) usleep(1000);
    long outcome = call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    printf("owner ended: %s, %#x\n", name_of(outcome), shown(words[0]));
    void *taken;
    pthread_create(&second, NULL, take, (void *)1L);
    usleep(20000);
    outcome = call(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    pthread_join(second, &taken);
    pthread_join(owner, NULL);
    printf("unlocked: %s, the next has %#lx\n", name_of(outcome), (long)taken & ~(long)(FUTEX_OWNER_DIED | FUTEX_WAITERS));
}

static void *own_and_end_at_once(void *unused) {
    call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    return unused;
}

static void owner_has_ended(void) {
    pthread_t owner;
    words[0] = 0;
    pthread_create(&owner, NULL, own_and_end_at_once, NULL);
    pthread_join(owner, NULL);
    usleep(50000);
    printf("its owner ended before: %s\n", name_of(call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0)));
    words[0] = FUTEX_OWNER_DIED;
    long outcome = call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    printf("left before: %s, %#x\n", name_of(outcome), shown(words[0]));
}

static void owner_in_another_process(void) {
    int status;
    words[0] = 0;
    words[1] = 0;
    pid_t child = fork();
    if (!child) {
        own_and_end(NULL);
        _exit(0);
    }
    while (!words[1]) usleep(1000);
    long outcome = call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    printf("process ended: %s, %#x\n", name_of(outcome), shown(words[0]));
    waitpid(child, &status, 0);
}

static _Atomic int waiting, done;
static long outcomes[4];

static void *wait_and_own(void *index) {
    waiting++;
    long outcome = call(words + 2, FUTEX_WAIT_REQUEUE_PI, 7, NULL, words, 0);
    outcomes[(long)index] = outcome < 0 ? outcome : shown(words[0]) & ~FUTEX_WAITERS;
    done++;
    usleep(5000);
    if (outcome == 0 && call(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0)) outcomes[(long)index] = 99;
    return NULL;
}

static void *plain_wait(void *unused) {
    waiting++;
    call(words + 2, FUTEX_WAIT, 7, NULL, NULL, 0);
    return unused;
}

static void moved(void) {
    pthread_t threads[4];
    words[0] = 0;
    words[2] = 7;
    waiting = done = 0;
    printf("held: %s\n", name_of(call(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0)));
    for (long index = 0; index < 4; index++) pthread_create(&threads[index], NULL, wait_and_own, (void *)index);
    while (waiting < 4) usleep(1000);
    usleep(50000);
    printf("another value: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words, 8)));
    printf("two woken: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 2, (void *)100L, words, 7)));
    printf("another mutex: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words + 3, 7)));
    printf("the same word: %s\n", name_of(call(words, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words, 7)));
    printf("moved: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words, 7)));
    usleep(50000);
    printf("%d own it before it is unlocked\n", done);
    printf("unlocked: %s\n", name_of(call(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0)));
    for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
    for (int index = 0; index < 4; index++) printf("owned as %s\n", name_of(outcomes[index]));
}

static void moved_to_a_free_one(void) {
    pthread_t threads[3];
    words[0] = 0;
    waiting = done = 0;
    for (long index = 0; index < 3; index++) pthread_create(&threads[index], NULL, wait_and_own, (void *)index);
    while (waiting < 3) usleep(1000);
    usleep(50000);
    printf("moved: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words, 7)));
    for (int index = 0; index < 3; index++) pthread_join(threads[index], NULL);
    for (int index = 0; index < 3; index++) printf("owned as %s\n", name_of(outcomes[index]));
}

static void not_moved(void) {
    pthread_t plain;
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    printf("in time: %s\n", name_of(call(words + 2, FUTEX_WAIT_REQUEUE_PI, 7, &soon, words, 0)));
    printf("another value: %s\n", name_of(call(words + 2, FUTEX_WAIT_REQUEUE_PI, 8, NULL, words, 0)));
    printf("the same word: %s\n", name_of(call(words, FUTEX_WAIT_REQUEUE_PI, 0, NULL, words, 0)));
    waiting = 0;
    pthread_create(&plain, NULL, plain_wait, NULL);
    while (!waiting) usleep(1000);
    usleep(50000);
    printf("waits otherwise: %s\n", name_of(call(words + 2, FUTEX_CMP_REQUEUE_PI, 1, (void *)100L, words, 7)));
    printf("woken: %s\n", name_of(call(words + 2, FUTEX_WAKE, 1, NULL, NULL, 0)));
    pthread_join(plain, NULL);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    flag = FUTEX_PRIVATE_FLAG;
    owner_ends(), owner_has_ended(), moved(), moved_to_a_free_one(), not_moved();
    words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    flag = 0;
    owner_ends(), owner_in_another_process();
    return 0;
}
