// Processes and threads that answer each other through pipes, sockets and futexes, many at once: no wake-up is lost,
// whoever gives the CPU to whom, and whoever dies meanwhile. Prints one line for each part that works; a lost wake-up
// ends in the alarm.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

#define PAIRS 4
#define RING 6
#define READERS 3
#define PARTIES 5

static void take(int descriptor, void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t now = read(descriptor, (char *)bytes + done, size - done);
        CHECK(now > 0 || (now < 0 && errno == EINTR));
        if (now > 0) done += (size_t)now;
    }
}

static void give(int descriptor, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t now = write(descriptor, (const char *)bytes + done, size - done);
        CHECK(now > 0 || (now < 0 && errno == EINTR));
        if (now > 0) done += (size_t)now;
    }
}

static void await_all(int count) {
    for (int i = 0; i < count; i++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

// Pairs that send a number to and fro; the one that answers sometimes computes first.
static void pairs(int (*make)(int ends[2]), int rounds) {
    for (int pair = 0; pair < PAIRS; pair++) {
        int there[2], back[2];
        CHECK(make(there) == 0 && make(back) == 0);
        if (fork() == 0) {
            uint64_t number;
            for (int round = 0; round < rounds; round++) {
                take(there[0], &number, sizeof number);
                for (volatile int idle = 0; idle < (round % 16 == 0 ? 20000 : 0); idle++) {}
                number++;
                give(back[1], &number, sizeof number);
            }
            _exit(0);
        }
        if (fork() == 0) {
            uint64_t number = 0;
            for (int round = 0; round < rounds; round++) {
                give(there[1], &number, sizeof number);
                take(back[0], &number, sizeof number);
                CHECK(number == (uint64_t)round + 1);
            }
            _exit(0);
        }
        for (int end = 0; end < 2; end++) close(there[end]), close(back[end]);
    }
    await_all(2 * PAIRS);
}

static int make_sockets(int ends[2]) {
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
}

// A token goes round a ring of processes.
static void ring(int rounds) {
    int pipes[RING][2];
    for (int i = 0; i < RING; i++) CHECK(pipe(pipes[i]) == 0);
    for (int i = 0; i < RING; i++) {
        if (fork() == 0) {
            char token;
            for (int round = 0; round < rounds; round++) {
                take(pipes[i][0], &token, 1);
                if (i < RING - 1 || round < rounds - 1) give(pipes[(i + 1) % RING][1], &token, 1);
            }
            _exit(0);
        }
    }
    give(pipes[0][1], "t", 1);
    for (int i = 0; i < RING; i++) close(pipes[i][0]), close(pipes[i][1]);
    await_all(RING);
}

// Several readers of one pipe, several writers: every byte comes once. One reader is killed while it waits, and the pipe
// is full most of the time.
static void crowd(int bytes) {
    int ends[2], told[2], gate[2];
    char one;
    CHECK(pipe(ends) == 0 && pipe(told) == 0 && pipe(gate) == 0);
    pid_t victim = fork();
    if (victim == 0) {
        take(gate[0], &one, 1);
        _exit(1);
    }
    for (int reader = 0; reader < READERS; reader++) {
        if (fork() == 0) {
            char buffer[700];
            uint64_t sum = 0;
            ssize_t now;
            close(ends[1]);
            while ((now = read(ends[0], buffer, sizeof buffer - (size_t)reader)) > 0) sum += (uint64_t)now;
            give(told[1], &sum, sizeof sum);
            _exit(0);
        }
    }
    for (int writer = 0; writer < 2; writer++) {
        if (fork() == 0) {
            char buffer[5000] = { 0 };
            for (int sent = 0; sent < bytes; sent += (int)sizeof buffer) give(ends[1], buffer, sizeof buffer);
            _exit(0);
        }
    }
    CHECK(kill(victim, SIGKILL) == 0);
    CHECK(waitpid(victim, NULL, 0) == victim);
    close(ends[0]), close(ends[1]);
    // What the killed one waited for is read by another.
    give(gate[1], "g", 1);
    take(gate[0], &one, 1);
    uint64_t all = 0, sum;
    for (int reader = 0; reader < READERS; reader++) take(told[0], &sum, sizeof sum), all += sum;
    CHECK(all == 2 * (uint64_t)bytes);
    await_all(READERS + 2);
    for (int end = 0; end < 2; end++) close(told[end]), close(gate[end]);
}

// A signal comes while one waits for the other's answer.
static void interrupt(int signal) {
    (void)signal;
}

static void interrupted(int rounds) {
    int there[2], back[2];
    char one = 'x';
    struct sigaction action = { .sa_handler = interrupt };
    CHECK(pipe(there) == 0 && pipe(back) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int round = 0; round < rounds; round++) {
            take(there[0], &one, 1);
            if (round % 4 == 0) CHECK(kill(parent, SIGUSR1) == 0);
            give(back[1], &one, 1);
        }
        _exit(0);
    }
    for (int round = 0; round < rounds; round++) {
        give(there[1], &one, 1);
        if (round % 3 == 0) {
            struct pollfd wanted = { .fd = back[0], .events = POLLIN };
            int found;
            while ((found = poll(&wanted, 1, 60000)) < 0) CHECK(errno == EINTR);
            CHECK(found == 1);
        }
        take(back[0], &one, 1);
    }
    await_all(1);
    for (int end = 0; end < 2; end++) close(there[end]), close(back[end]);
}

struct turns { uint32_t turn; int rounds; };
struct side { struct turns *turns; uint32_t parity; pthread_t thread; };

static void *take_turns(void *argument) {
    struct side *side = argument;
    struct turns *turns = side->turns;
    uint32_t parity = side->parity;
    for (int round = 0; round < turns->rounds; round++) {
        uint32_t seen;
        while (((seen = __atomic_load_n(&turns->turn, __ATOMIC_SEQ_CST)) & 1) != parity)
            syscall(SYS_futex, &turns->turn, FUTEX_WAIT_PRIVATE, seen, NULL);
        __atomic_add_fetch(&turns->turn, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &turns->turn, FUTEX_WAKE_PRIVATE, 1);
    }
    return NULL;
}

static void futexes(int rounds) {
    static struct turns all[PAIRS];
    static struct side sides[2 * PAIRS];
    for (int i = 0; i < 2 * PAIRS; i++) {
        all[i / 2].rounds = rounds;
        sides[i] = (struct side) { .turns = &all[i / 2], .parity = (uint32_t)i % 2 };
        CHECK(!pthread_create(&sides[i].thread, NULL, take_turns, &sides[i]));
    }
    for (int i = 0; i < 2 * PAIRS; i++) CHECK(!pthread_join(sides[i].thread, NULL));
    for (int pair = 0; pair < PAIRS; pair++) CHECK(all[pair].turn == 2 * (uint32_t)rounds);
}

// A barrier in memory that processes share.
struct barrier { uint32_t come, round; };

static void await_others(struct barrier *barrier) {
    uint32_t round = __atomic_load_n(&barrier->round, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&barrier->come, 1, __ATOMIC_SEQ_CST) == PARTIES) {
        __atomic_store_n(&barrier->come, 0, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&barrier->round, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &barrier->round, FUTEX_WAKE, PARTIES);
    }
    while (__atomic_load_n(&barrier->round, __ATOMIC_SEQ_CST) == round)
        syscall(SYS_futex, &barrier->round, FUTEX_WAIT, round, NULL);
}

// Slices that have begun on the machine.
static long slices(void) {
    char text[4096];
    FILE *file = fopen("/proc/stat", "r");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    return atol(strstr(text, "ctxt ") + 5);
}

// Two processes in turn; the result is how many slices began meanwhile.
static long two_in_turn(uint32_t *turn, int rounds) {
    uint32_t first = *turn;
    long before = slices();
    for (uint32_t parity = 0; parity < 2; parity++) {
        if (fork() != 0) continue;
        for (int round = 0; round < 10 * rounds; round++) {
            uint32_t seen;
            while (((seen = __atomic_load_n(turn, __ATOMIC_SEQ_CST)) & 1) != parity)
                syscall(SYS_futex, turn, FUTEX_WAIT, seen, NULL);
            __atomic_add_fetch(turn, 1, __ATOMIC_SEQ_CST);
            syscall(SYS_futex, turn, FUTEX_WAKE, 1);
        }
        _exit(0);
    }
    await_all(2);
    CHECK(*turn == first + 20 * (uint32_t)rounds);
    return slices() - before;
}

// Processes in turn, two of them and then many. On one CPU the two hand each other the CPU: they need no slices for that.
// A busy host ends slices early, so the best of five tries counts.
static void shared_futexes(int rounds) {
    struct { uint32_t turn; struct barrier barrier; } *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    long begun = two_in_turn(&shared->turn, rounds);
    int is_single = sysconf(_SC_NPROCESSORS_ONLN) == 1;
    for (int more = 0; is_single && more < 4 && begun > 5 * rounds; more++) {
        long again = two_in_turn(&shared->turn, rounds);
        if (again < begun) begun = again;
    }
    if (is_single && begun > 5 * rounds) printf("%ld slices for %d turns\n", begun, 20 * rounds);
    for (int party = 0; party < PARTIES; party++) {
        if (fork() != 0) continue;
        for (int round = 0; round < rounds; round++) await_others(&shared->barrier);
        _exit(0);
    }
    await_all(PARTIES);
    CHECK(shared->barrier.round == (uint32_t)rounds);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 200;
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(900);
    pairs(pipe, rounds);
    printf("pairs by pipes\n");
    pairs(make_sockets, rounds);
    printf("pairs by sockets\n");
    ring(rounds);
    printf("a token in a ring\n");
    crowd(rounds * 1000);
    printf("many at one pipe, one of them killed\n");
    interrupted(rounds);
    printf("signals in between\n");
    futexes(rounds);
    printf("threads in turn\n");
    shared_futexes(rounds);
    printf("processes in turn\n");
    return 0;
}
