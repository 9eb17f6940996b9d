// Futexes: a wake of 0 or fewer waiters wakes one, by each call that wakes; a requeue of 0 wakes none.
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int *words;
static int private_flag;

static void *await(void *unused) {
    while (__atomic_load_n(words, __ATOMIC_SEQ_CST) == 1)
        syscall(SYS_futex, words, FUTEX_WAIT | private_flag, 1, 0, 0, 0);
    return unused;
}

static void try(const char *what, int operation, long count, unsigned third) {
    pthread_t thread;
    long woken = 0;
    *words = 1;
    pthread_create(&thread, 0, await, 0);
    usleep(200000);
    __atomic_store_n(words, 2, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 20 && woken == 0; i++, usleep(10000))
        woken = syscall(SYS_futex, words, operation | private_flag, count, 0L, words + 1, third);
    printf("%s %s: %ld\n", private_flag ? "private" : "shared", what, woken);
    syscall(SYS_futex, words, FUTEX_WAKE | private_flag, 100, 0, 0, 0);
    pthread_join(thread, 0);
}

static void all(void) {
    try("wake of 0", FUTEX_WAKE, 0, 0);
    try("wake of -1", FUTEX_WAKE, -1, 0);
    try("wake of bits", FUTEX_WAKE_BITSET, 0, FUTEX_BITSET_MATCH_ANY);
    try("wake and change", FUTEX_WAKE_OP, 0, FUTEX_OP(FUTEX_OP_SET, 0, FUTEX_OP_CMP_EQ, 7));
    try("requeue", FUTEX_REQUEUE, 0, 0);
}

int main(void) {
    words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    all();
    private_flag = FUTEX_PRIVATE_FLAG;
    all();
    private_flag = 0;
    words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    all();
    return 0;
}
