// Threads, futexes and their signals, as glibc's pthreads use them. Prints one line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long counter, turn;
static _Thread_local long own;

static void *count(void *argument) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        own++;
    }
    return (void *)(own + (long)argument);
}

static void counting(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) CHECK(!pthread_create(&threads[i], NULL, count, (void *)i));
    for (long i = 0; i < 8; i++) {
        void *result;
        CHECK(!pthread_join(threads[i], &result));
        CHECK((long)result == 2000 + i);
    }
    CHECK(counter == 16000 && own == 0);
    puts("mutex, thread-local storage, join");
}

static void *take_turns(void *argument) {
    long self = (long)argument;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 3 != self) pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void conditions(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) CHECK(!pthread_create(&threads[i], NULL, take_turns, (void *)i));
    for (int i = 0; i < 3; i++) CHECK(!pthread_join(threads[i], NULL));
    CHECK(turn == 600);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) { soon.tv_nsec -= 1000000000; soon.tv_sec++; }
    pthread_mutex_lock(&mutex);
    CHECK(pthread_cond_timedwait(&changed, &mutex, &soon) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    puts("conditions, time-outs");
}

static pthread_barrier_t barrier;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static atomic_int inside;

static void *meet(void *argument) {
    for (int i = 0; i < 50; i++) {
        pthread_barrier_wait(&barrier);
        if (argument) { pthread_rwlock_wrlock(&lock); CHECK(atomic_fetch_add(&inside, 1) == 0); atomic_fetch_sub(&inside, 1); }
        else pthread_rwlock_rdlock(&lock);
        pthread_rwlock_unlock(&lock);
        sem_post(&semaphore);
    }
    return NULL;
}

static void meetings(void) {
    pthread_t threads[4];
    CHECK(!pthread_barrier_init(&barrier, NULL, 4) && !sem_init(&semaphore, 0, 0));
    for (long i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, meet, (void *)(i % 2)));
    for (int i = 0; i < 200; i++) CHECK(!sem_wait(&semaphore));
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
    puts("barriers, readers and writers, semaphores");
}

static pthread_mutex_t robust;

static void *die_with_it(void *argument) {
    pthread_mutex_lock(&robust);
    return argument;
}

static void robustness(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, die_with_it, NULL));
    CHECK(pthread_mutex_lock(&robust) == 0 || 1);
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust);
    CHECK(!pthread_join(thread, NULL));
    int outcome = pthread_mutex_lock(&robust);
    CHECK(outcome == 0 || outcome == EOWNERDEAD);
    puts("robust mutexes");
}

static atomic_int cleaned;
static void clean(void *argument) { (void)argument; cleaned = 1; }
static void *wait_for_ever(void *argument) {
    pthread_cleanup_push(clean, NULL);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return argument;
}

static atomic_int handled_by;
static void handler(int signal) { (void)signal; handled_by = (int)syscall(SYS_gettid); }
static atomic_int ready;
static void *sleep_long(void *argument) {
    ready = (int)syscall(SYS_gettid);
    struct timespec ten = {10, 0};
    CHECK(nanosleep(&ten, NULL) == -1 && errno == EINTR);
    return argument;
}

static void signals(void) {
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
    CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED && cleaned);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    CHECK(!pthread_create(&thread, NULL, sleep_long, NULL));
    while (!ready) usleep(1000);
    usleep(10000);
    CHECK(!pthread_kill(thread, SIGUSR1) && !pthread_join(thread, NULL));
    CHECK(handled_by == ready);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    ready = handled_by = 0;
    CHECK(!pthread_create(&thread, NULL, sleep_long, NULL));
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    while (!ready) usleep(1000);
    usleep(10000);
    kill(getpid(), SIGUSR1);
    CHECK(!pthread_join(thread, NULL) && handled_by == ready);
    puts("cancellation, signals for one thread and for any");
}

static void *fork_here(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count, NULL) || pthread_join(thread, NULL)) _exit(1);
        _exit(getpid() == syscall(SYS_gettid) ? 7 : 2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return argument;
}

static void processes(void) {
    pthread_t threads[4], noise;
    CHECK(!pthread_create(&noise, NULL, count, NULL));
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, fork_here, NULL));
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
    CHECK(!pthread_join(noise, NULL));
    puts("fork from threads");
}

static void between_processes(void) {
    struct { sem_t go, back; } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && !sem_init(&shared->go, 1, 0) && !sem_init(&shared->back, 1, 0));
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) { sem_wait(&shared->go); sem_post(&shared->back); }
        _exit(0);
    }
    for (int i = 0; i < 100; i++) { sem_post(&shared->go); CHECK(!sem_wait(&shared->back)); }
    CHECK(waitpid(child, NULL, 0) == child);
    puts("semaphores between processes");
}

static void *again(void *argument) { return argument; }
static void many(void) {
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, again, NULL) && !pthread_join(thread, NULL));
    }
    puts("threads come and go");
}

static void *spin(void *argument) { for (;;) __asm__ volatile("pause"); return argument; }
static void *leave(void *argument) { usleep(20000); exit((int)(long)argument); }

static void raw(void) {
    unsigned word = 5;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 4, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT, 5, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_futex, 8, FUTEX_WAIT, 5, NULL, NULL, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
    unsigned other = 1;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_OP, 1, 1, &other, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 1)) == 0);
    CHECK(other == 4);
    CHECK(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0) == -1 && errno == EINVAL);
    puts("wrong calls are refused");
}

int main(int count_of_arguments, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    (void)arguments;
    counting();
    conditions();
    meetings();
    robustness();
    signals();
    processes();
    between_processes();
    many();
    raw();
    pthread_t thread;
    pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, leave, (void *)(long)(count_of_arguments + 2));
    pthread_exit(NULL);
}
