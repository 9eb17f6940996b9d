// A process that harms as much as it can, round after round: messages of all kinds with words of all kinds to the server,
// calls of the kernel with the keys that it has, random words over its library. Beside it processes of two other users work,
// and must come to what they come to in peace; so must another session, where the same goes on at the same time.
#define _GNU_SOURCE
#include "evil.h"
#include "workers.h"
#include <errno.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, MESSAGES = 4000, KERNEL_CALLS = 20000, EVIL_USER = 1000, OTHER_USER = 2000 };
// Numbers of the kernel's calls, words of a process's record, and how many operations the server has (abi/src, lib/exos/src/server/protocol.rs).
enum { PUBLIC = 6, OPERATIONS = 106 };
static volatile char scratch[2 * PAGE] __attribute__((aligned(4096)));
static uint64_t seed;

static uint64_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t own[3], server, root;

// A word that means something, or looks like it, or is nothing at all.
static uint64_t some_word(void) {
    uint64_t choices[] = {0, 1, 2, 3, own[0], own[1], own[2], server, root, EVIL_USER, ~0ul, 1ul << 56 | 5, 7ul << 56 | 9, 4096, 32768, 1ul << 47};
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
        ask(server, message, 100);
    }
}

static void call_at_random(void) {
    for (int i = 0; i < KERNEL_CALLS; i++) {
        uint64_t number = next() % ROWS, a = some_word(), b = some_word(), c = some_word();
        if (number == ROW_PREDICATE_WAIT || (number == ROW_ENVIRONMENT_DESTROY && b == own[0])) continue;
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
    // The server answers whom it knows: a child is told to it when it first asks by its library, or a moment later.
    CHECK(mkdir("refused", 0700) == -1);
    own[0] = getpid();
    own[1] = getppid();
    seed = (round + 1) * 0x9e3779b97f4a7c15;
    scratch[0] = scratch[PAGE] = 1;
    uint64_t end = PRIVATE[GATE_END];
    PRIVATE[GATE_END] = 0;
    volatile uint64_t *record = own_record(own[0]);
    root = record[ROOT];
    own[2] = record[PUBLIC];
    server = find_server(own[0], scratch);
    if (server && round % 3 != 2) send_messages();
    if (round % 3 == 1) call_at_random();
    PRIVATE[GATE_END] = end;
    if (!server) _exit(9);
    scribble();
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); // The other session prints, too: each line at once.
    char folder[] = "/tmp/evil-XXXXXX";
    const uid_t users[2] = {0, OTHER_USER};
    uint64_t expected[2];
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    for (int i = 0; i < 2; i++) {
        make_folder(users[i]);
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
