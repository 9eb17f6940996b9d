// Threads that compute and call at the same time: registers, fresh pages, places of maps, files, stacks. What one of them
// does must never show in another. Prints one line for each part that works.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed\n", __LINE__, #what); exit(1); } } while (0)
#define THREADS 3
#define WORDS 16384

static int rounds;
static pthread_barrier_t barrier;

#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15)
#define LOAD(n) "movdqu 16*" #n "(%[in]), %%xmm" #n ";"
#define STORE(n) "movdqu %%xmm" #n ", 16*" #n "(%[out]);"
#define NAME(n) "xmm" #n,

// A call with all vector registers in use: what they hold before and after it.
static long call(const uint64_t in[32], uint64_t out[32], long number, long first, long second, long third, long fourth) {
    register long r10 asm("r10") = fourth, r8 asm("r8") = -1, r9 asm("r9") = 0;
    long result;
    asm volatile(EACH(LOAD) "syscall;" EACH(STORE)
                 : "=a"(result)
                 : [in] "r"(in), [out] "r"(out), "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                 : EACH(NAME) "rcx", "r11", "memory");
    return result;
}

static void *registers(void *argument) {
    static int word;
    uint64_t in[32], out[32];
    for (int i = 0; i < 32; i++) in[i] = (uint64_t)argument << 32 | i | 0xabcd000000000000;
    for (int round = 0; round < rounds; round++) {
        struct timespec soon = {0, 1000};
        long page = 0;
        for (int which = 0; which < 6; which++) {
            memset(out, 0, sizeof out);
            switch (which) {
            case 0: call(in, out, SYS_sched_yield, 0, 0, 0, 0); break;
            case 1: page = call(in, out, SYS_mmap, 0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS); break;
            case 2: call(in, out, SYS_futex, (long)&word, FUTEX_WAKE, 1, 0); break;
            case 3: call(in, out, SYS_getpid, 0, 0, 0, 0); break;
            case 4: call(in, out, SYS_munmap, page, 65536, 0, 0); break;
            case 5: call(in, out, SYS_nanosleep, (long)&soon, 0, 0, 0); break;
            }
            CHECK(!memcmp(in, out, sizeof in));
        }
    }
    return NULL;
}

static uint64_t *map(size_t bytes) {
    uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    return words;
}

static void *places(void *argument) {
    uint64_t self = (uint64_t)argument;
    for (uint64_t round = 0; round < (uint64_t)rounds; round++) {
        size_t count = 512 * (1 + (round * 7 + self) % 40), bytes = count * 8;
        uint64_t *words = map(bytes);
        for (size_t i = 0; i < count; i++) {
            CHECK(words[i] == 0);
            words[i] = self << 48 | round << 24 | i;
        }
        if (round & 1) CHECK(!mprotect(words, bytes, PROT_READ) && !mprotect(words, bytes, PROT_READ | PROT_WRITE));
        sched_yield();
        for (size_t i = 0; i < count; i++) CHECK(words[i] == (self << 48 | round << 24 | i));
        CHECK(round % 5 || (!madvise(words, bytes, MADV_DONTNEED) && words[count - 1] == 0));
        CHECK(!munmap(words, bytes));
    }
    return NULL;
}

static void *fresh_pages(void *argument) {
    static uint32_t *shared;
    long self = (long)argument;
    for (int round = 0; round < rounds / 4; round++) {
        if (self == 0) shared = (uint32_t *)map(WORDS * 4);
        pthread_barrier_wait(&barrier);
        for (int i = self; i < WORDS; i += THREADS) shared[i] = i ^ round;
        pthread_barrier_wait(&barrier);
        for (int i = self; i < WORDS; i += THREADS) CHECK(shared[i] == (uint32_t)(i ^ round));
        pthread_barrier_wait(&barrier);
        if (self == 0) CHECK(!munmap(shared, WORDS * 4));
    }
    return NULL;
}

static void *files(void *argument) {
    static uint32_t contents[THREADS][WORDS];
    long self = (long)argument;
    char name[32];
    snprintf(name, sizeof name, "/tmp/file%ld", self);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < WORDS; i++) contents[self][i] = self << 24 | i;
    CHECK(write(file, contents[self], sizeof contents[self]) == sizeof contents[self]);
    for (int round = 0; round < rounds / 4; round++) {
        uint64_t *words = map(sizeof contents[self]);
        CHECK(pread(file, words, sizeof contents[self], 0) == sizeof contents[self]);
        CHECK(!memcmp(words, contents[self], sizeof contents[self]));
        CHECK(!munmap(words, sizeof contents[self]));
    }
    CHECK(!close(file) && !unlink(name));
    return NULL;
}

static void *use_stack(void *argument) {
    volatile char bytes[20000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(long)argument;
    for (size_t i = 0; i < sizeof bytes; i++) CHECK(bytes[i] == (char)(long)argument);
    return argument;
}

static void *nothing(void *argument) { return argument; }

static void *stacks(void *argument) {
    (void)argument;
    for (long round = 0; round < rounds / 4; round++) {
        pthread_t thread;
        void *result, *memory = malloc(round * 50);
        CHECK(!pthread_create(&thread, NULL, use_stack, (void *)round));
        memset(memory, 1, round * 50);
        CHECK(!pthread_join(thread, &result) && result == (void *)round);
        free(memory);
    }
    return NULL;
}

// What threads were given when they were made is there for the next ones.
static void *makers(void *argument) {
    for (int round = 0; round < rounds * 10; round++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, nothing, argument));
        CHECK(!pthread_join(thread, NULL));
    }
    return NULL;
}

static pthread_barrier_t pair;
static int ends[2];
static atomic_int reader;

static void *read_one(void *argument) {
    char bytes[8];
    reader = (int)syscall(SYS_gettid);
    CHECK(read(ends[0], bytes, sizeof bytes) == (long)argument);
    return NULL;
}

// Until the reader waits in its call, as `ps` would show it.
static void wait_until_asleep(void) {
    char name[64], state = 0;
    while (state != 'S') {
        usleep(1000);
        snprintf(name, sizeof name, "/proc/self/task/%d/stat", reader);
        FILE *file = fopen(name, "r");
        if (file && fscanf(file, "%*d %*s %c", &state) != 1) state = 0;
        if (file) fclose(file);
    }
}

// A call goes on with what it found, whoever closes the descriptor meanwhile; and the other side is told only then.
static void closing(void) {
    for (int socket = 0; socket < 2; socket++)
        for (long bytes = 0; bytes <= 3; bytes += 3) {
            pthread_t thread;
            reader = 0;
            CHECK(!(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)));
            CHECK(!pthread_create(&thread, NULL, read_one, (void *)bytes));
            wait_until_asleep();
            CHECK(!close(ends[0]) && write(ends[1], "abc", bytes) == bytes && !close(ends[1]));
            CHECK(!pthread_join(thread, NULL));
        }
    puts("closing what another thread reads");
}

static void *close_one(void *argument) {
    for (int i = 0; i < rounds * 10; i++) {
        pthread_barrier_wait(&pair);
        CHECK(!close(ends[(long)argument]));
        pthread_barrier_wait(&pair);
    }
    return NULL;
}

// Two threads close the two ends at once.
static void closing_both(void) {
    pthread_t threads[2];
    CHECK(!pthread_barrier_init(&pair, NULL, 3));
    for (long i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, close_one, (void *)i));
    for (int i = 0; i < rounds * 10; i++) {
        CHECK(!(i & 1 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)));
        pthread_barrier_wait(&pair);
        pthread_barrier_wait(&pair);
    }
    for (int i = 0; i < 2; i++) CHECK(!pthread_join(threads[i], NULL));
    puts("closing both ends at once");
}

// Processes with one offset write one after the other, each line whole.
static void one_offset(void) {
    char line[32];
    long all = 0;
    int file = open("/tmp/lines", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int child = 0; child < THREADS; child++) {
        int is_child = fork() == 0;
        for (int i = 0; i < rounds * 10; i++) {
            int length = snprintf(line, sizeof line, "%d %d\n", child, i);
            if (is_child) CHECK(write(file, line, length) == length);
            all += length;
        }
        if (is_child) _exit(0);
    }
    for (int child = 0, status; child < THREADS; child++) CHECK(wait(&status) > 0 && status == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == all && lseek(file, 0, SEEK_END) == all);
    puts("one offset for several processes");
}

int main(int count, char **arguments) {
    const struct { const char *what; void *(*run)(void *); } parts[] = {
        {"vector registers over calls", registers}, {"places of maps", places}, {"fresh pages", fresh_pages},
        {"files", files}, {"stacks and heap", stacks}, {"one thread after the other", makers},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    rounds = count > 1 ? atoi(arguments[1]) : 40;
    CHECK(!pthread_barrier_init(&barrier, NULL, THREADS));
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, parts[part].run, (void *)i));
        for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
        puts(parts[part].what);
    }
    closing();
    closing_both();
    one_offset();
}
