// A process that harms as much as it can, round after round: messages of all kinds with words of all kinds to the guardian,
// calls of the kernel with the keys that it has, random words over its library. Beside it processes of two other users work,
// and must come to what they come to in peace; so must another session, where the same goes on at the same time.
#define _GNU_SOURCE
#include "evil.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { PAGE = 4096, ROUNDS = 3, MESSAGES = 4000, KERNEL_CALLS = 20000, EVIL_USER = 1000, OTHER_USER = 2000 };
// Numbers of the kernel's calls, keys that a process has, and words of its record (doc/kernel-interface.md, abi/src).
enum { PAGE_MAP = 13, ENVIRONMENT_DESTROY = 21, PREDICATE_WAIT = 29, CALLS = 46, USER_KEY = 3 };
enum { NUMBER = 1, ROOT = 4, PUBLIC = 6, AREA = 7 };
enum { ATTACH = 0, OPERATIONS = 96 };
static volatile uint64_t *const environments = (void *)0xffffc00040000000;
static volatile char scratch[2 * PAGE] __attribute__((aligned(4096)));
static uint64_t seed;

static uint64_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t mixed(uint64_t sum, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return sum;
}

// What a process of some user comes to: files, pipes, sockets, memory and children, in a folder of its own.
static uint64_t work(uid_t user) {
    uint64_t sum = user;
    char folder[32], text[256] = {0};
    sprintf(folder, "work-%u", user);
    CHECK(!chdir(folder));
    for (int round = 0; round < 12; round++) {
        int ends[2], pair[2], status, file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int i = 0; i < 40; i++) {
            int length = sprintf(text, "%d %d %lu\n", round, i, (unsigned long)sum);
            CHECK(write(file, text, length) == length);
            sum = mixed(sum, text, length);
        }
        struct stat found;
        CHECK(!rename("file", "other") && !stat("other", &found) && !link("other", "third") && !unlink("other") && !unlink("third"));
        char *bytes = mmap(0, found.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        CHECK(bytes != MAP_FAILED);
        sum = mixed(sum, bytes, found.st_size);
        memset(bytes, round, found.st_size);
        munmap(bytes, found.st_size);
        close(file);
        CHECK(!pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            CHECK(read(ends[0], text, 100) == 100 && write(pair[1], text, 100) == 100);
            _exit(round);
        }
        CHECK(write(ends[1], text, 100) == 100 && read(pair[0], text, 100) == 100);
        CHECK(waitpid(child, &status, 0) == child && status == round << 8);
        sum = mixed(sum, text, 100);
        for (int i = 0; i < 2; i++) close(ends[i]), close(pair[i]);
    }
    return sum;
}

// The child that comes to something, and the pipe that tells what.
struct worker { pid_t process; int from; };

static struct worker begin_to_work(uid_t user) {
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        if (user) CHECK(!setgroups(0, 0) && !setgid(user) && !setuid(user));
        uint64_t sum = work(user);
        _exit(write(ends[1], &sum, sizeof sum) == sizeof sum ? 0 : 2);
    }
    close(ends[1]);
    return (struct worker){child, ends[0]};
}

static uint64_t what_it_came_to(struct worker worker) {
    uint64_t sum = 0;
    int status;
    CHECK(read(worker.from, &sum, sizeof sum) == sizeof sum);
    CHECK(waitpid(worker.process, &status, 0) == worker.process && status == 0);
    close(worker.from);
    return sum;
}

static uint64_t own[3], guardian, root;

// The environment that answers as the guardian does, and its window, where paths lie. It may be busy with others for long.
static void find_guardian(void) {
    enum { NUMBERS = 256, LOOKS = 10 };
    volatile uint64_t *record = environments;
    while (record[NUMBER] != own[0] || record[AREA] != (uint64_t)areas) record++;
    root = record[ROOT];
    own[2] = record[PUBLIC];
    for (uint64_t i = 0; i < LOOKS * NUMBERS && !guardian; i++) {
        uint64_t number = 2 + i % NUMBERS, message[6] = {ATTACH};
        if (number == own[0] || ask(number, message, 100) || message[0] || !message[1]) continue;
        uint64_t row[2] = {(uint64_t)scratch | USER_KEY, (uint32_t)message[1] * (uint64_t)PAGE | 7};
        if (!call_kernel(PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0)) guardian = number;
    }
}

// A word that means something, or looks like it, or is nothing at all.
static uint64_t some_word(void) {
    uint64_t choices[] = {0, 1, 2, 3, own[0], own[1], own[2], guardian, root, EVIL_USER, ~0ul, 1ul << 56 | 5, 7ul << 56 | 9, 4096, 32768, 1ul << 47};
    uint64_t kind = next() % 4;
    return kind == 0 ? next() : kind == 1 ? next() % 64 : choices[next() % (sizeof choices / sizeof *choices)];
}

static void put_some_path(void) {
    static const char *const paths[] = {"/", ".", "..", "/tmp", "/proc/1/mem", "/etc/passwd", "/dev/null", "a/b", "work-0/file", "work-2000/third", "/dev/pts/0", "(limit)/7/0/0"};
    const char *path = paths[next() % (sizeof paths / sizeof *paths)];
    size_t length = strlen(path);
    for (size_t i = 0; i < 64; i++) scratch[i] = i < length ? path[i] : next() % 3 ? 0 : (char)next();
}

static void send_messages(void) {
    for (int i = 0; i < MESSAGES; i++) {
        uint64_t message[6] = {next() % OPERATIONS};
        for (int j = 1; j < 6; j++) message[j] = some_word();
        put_some_path();
        ask(guardian, message, 100);
    }
}

static void call_at_random(void) {
    for (int i = 0; i < KERNEL_CALLS; i++) {
        uint64_t number = next() % CALLS, a = some_word(), b = some_word(), c = some_word();
        if (number == PREDICATE_WAIT || (number == ENVIRONMENT_DESTROY && b == own[0])) continue;
        call_kernel(number, a, b, c, some_word(), some_word(), some_word());
    }
}

static sigjmp_buf way_back;
static void at_fault(int signal) { siglongjmp(way_back, signal); }

// Random words over all that the library keeps, but for what others gave it; then calls, as long as there are any.
static void scribble(void) {
    volatile long page = 0;
    signal(SIGSEGV, at_fault);
    for (; page < 4096; page++) {
        if (sigsetjmp(way_back, 1)) break;
        for (int i = 0; i < PAGE; i += 8) *(volatile uint64_t *)(heap + page * PAGE + i) = next();
    }
    for (;;) getppid();
}

static void do_harm(uint64_t round) {
    alarm(30);
    // The guardian answers whom it knows: a child is told to it when it first asks by its library, or a moment later.
    CHECK(mkdir("refused", 0700) == -1);
    own[0] = getpid();
    own[1] = getppid();
    seed = (round + 1) * 0x9e3779b97f4a7c15;
    scratch[0] = scratch[PAGE] = 1;
    uint64_t end = PRIVATE[GATE_END];
    PRIVATE[GATE_END] = 0;
    find_guardian();
    if (guardian && round % 3 != 2) send_messages();
    if (round % 3 == 1) call_at_random();
    PRIVATE[GATE_END] = end;
    if (!guardian) _exit(9);
    scribble();
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); // The other session prints, too: each line at once.
    char folder[] = "/tmp/evil-XXXXXX";
    const uid_t users[2] = {0, OTHER_USER};
    uint64_t expected[2];
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    for (int i = 0; i < 2; i++) {
        char name[32];
        sprintf(name, "work-%u", users[i]);
        CHECK(!mkdir(name, 0700) && !chown(name, users[i], users[i]));
        expected[i] = what_it_came_to(begin_to_work(users[i]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        pid_t evil = fork();
        if (!evil) {
            CHECK(!setgroups(0, 0) && !setgid(EVIL_USER) && !setuid(EVIL_USER));
            // A child of its own, so that all that it has is this user's.
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) do_harm(round);
            int status;
            CHECK(waitpid(child, &status, 0) == child);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
        }
        struct worker workers[2] = {begin_to_work(users[0]), begin_to_work(users[1])};
        for (int i = 0; i < 2; i++) CHECK(what_it_came_to(workers[i]) == expected[i]);
        int status;
        CHECK(waitpid(evil, &status, 0) == evil && status != 9 << 8);
        for (int i = 0; i < 2; i++) CHECK(what_it_came_to(begin_to_work(users[i])) == expected[i]);
    }
    puts("whoever does harm does it to itself");
}
