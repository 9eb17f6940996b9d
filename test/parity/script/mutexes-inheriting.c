// Priority-inheriting mutexes: contention of threads and of processes, timeouts, and the errors of the calls on their word.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared { pthread_mutex_t mutex; int count; };
static struct shared *all;
static unsigned word;

static void handle(int signal) { (void)signal; }

static void *count(void *unused) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&all->mutex);
        all->count++;
        if (i % 500 == 0) usleep(1000);
        pthread_mutex_unlock(&all->mutex);
    }
    return unused;
}

static void *lock_in_time(void *unused) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    printf("timed %s\n", strerror(pthread_mutex_timedlock(&all->mutex, &until)));
    printf("try %s\n", strerror(pthread_mutex_trylock(&all->mutex)));
    return unused;
}

static void *lock_and_unlock(void *unused) {
    printf("interrupted %s\n", strerror(pthread_mutex_lock(&all->mutex)));
    pthread_mutex_unlock(&all->mutex);
    return unused;
}

static void call(const char *what, int operation, unsigned value) {
    word = value;
    long result = syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, 0, 0, 0, 0);
    printf("%s: %s, own %d\n", what, result ? strerror(errno) : "0", (word & FUTEX_TID_MASK) == (unsigned)syscall(SYS_gettid));
}

int main(void) {
    pthread_mutexattr_t kind;
    pthread_t threads[4], thread;
    all = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, 0, _IONBF, 0);
    for (int shared = 0; shared < 2; shared++) {
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
        pthread_mutexattr_setpshared(&kind, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
        printf("init %d\n", pthread_mutex_init(&all->mutex, &kind));
        all->count = 0;
        for (int i = 0; i < 4; i++)
            if (!shared) pthread_create(threads + i, 0, count, 0);
            else if (!fork()) { count(0); _exit(0); }
        for (int i = 0; i < 4; i++)
            if (!shared) pthread_join(threads[i], 0);
            else wait(0);
        printf("count %d\n", all->count);
        pthread_mutex_lock(&all->mutex);
        pthread_create(&thread, 0, lock_in_time, 0);
        pthread_join(thread, 0);
        struct sigaction action = { .sa_handler = handle };
        sigaction(SIGUSR1, &action, 0);
        pthread_create(&thread, 0, lock_and_unlock, 0);
        usleep(200000);
        pthread_kill(thread, SIGUSR1);
        usleep(200000);
        pthread_mutex_unlock(&all->mutex);
        pthread_join(thread, 0);
    }
    call("lock of a free word", FUTEX_LOCK_PI, 0);
    call("lock of an own word", FUTEX_LOCK_PI, (unsigned)syscall(SYS_gettid));
    call("lock of a word of no thread", FUTEX_LOCK_PI, 0x3ffffffe);
    call("try", FUTEX_TRYLOCK_PI, 0);
    call("unlock", FUTEX_UNLOCK_PI, (unsigned)syscall(SYS_gettid));
    call("unlock with waiters", FUTEX_UNLOCK_PI, (unsigned)syscall(SYS_gettid) | FUTEX_WAITERS);
    printf("word %x\n", word);
    call("unlock of another's", FUTEX_UNLOCK_PI, 1);
    call("unlock of a free word", FUTEX_UNLOCK_PI, 0);
    return 0;
}
