// Processes that adopt orphans, and who lies to them. A hostile child asks its parent, who adopts, and others, to adopt processes
// whose parents live: nobody's parent is another one, and nobody gets a child that is not its own. Who adopts and never answers
// holds nobody up for long. One line for each part.
#define _GNU_SOURCE
#include "evil.h"
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { USER = 1000, GROUP = 100, ROUNDS = 20 };
// A call of the kernel's, and operations of the server's (doc/kernel-interface.md, lib/exos/src/server/protocol.rs).
enum { ASK = 76, TAKE_ANSWER = 79 };
static volatile char scratch[PAGE] __attribute__((aligned(4096)));

static void become_user(void) { CHECK(!setgroups(0, 0) && !setgid(GROUP) && !setuid(USER)); }

// Has a process asked by the server, and waits for its answer for a while: whether it gave one.
static int request(uint64_t server, uint64_t asked, const char *path) {
    size_t length = strlen(path);
    for (size_t i = 0; i < length; i++) scratch[i] = path[i];
    uint64_t question[6] = {ASK, asked, length};
    if (ask(server, question, 1000) || question[0]) return 0;
    for (int i = 0; i < 200; i++) {
        uint64_t answer[6] = {TAKE_ANSWER, question[1]};
        if (!ask(server, answer, 1000) && answer[0] == 0 && answer[1]) return 1;
        call_kernel(ROW_TIME_SLICE_YIELD, asked, 0, 0, 0, 0, 0);
    }
    return 0;
}

// Asks each of these to adopt each of these, and more that are nobody.
static void lie(const pid_t *known, int count) {
    static char paths[256][64];
    pid_t own = getpid();
    int lies = 0;
    for (int i = 0; i < count; i++) sprintf(paths[lies++], "(adopt)/%d", known[i]), sprintf(paths[lies++], "(adopt)/%d/%d", known[i], known[i]);
    for (int i = 1; i < 40; i++) sprintf(paths[lies++], "(adopt)/%d", i);
    strcpy(paths[lies++], "(adopt)"), strcpy(paths[lies++], "(adopt)/"), strcpy(paths[lies++], "(adopt)/18446744073709551615/-1/x");
    scratch[0] = 1;
    uint64_t end = PRIVATE[GATE_END], answers = 0;
    PRIVATE[GATE_END] = 0;
    uint64_t server = find_server(own, scratch);
    for (int round = 0; server && round < ROUNDS; round++)
        for (int i = 0; i < count; i++)
            for (int j = 0; j < lies; j++) answers += request(server, known[i], paths[j]);
    PRIVATE[GATE_END] = end;
    if (!server || answers <= 100) printf("server %lu, %lu answers\n", server, answers);
    CHECK(server && answers > 100);
}

static int pipe_from(int *end) {
    int ends[2];
    CHECK(!pipe(ends));
    *end = ends[1];
    return ends[0];
}

static void lied_to(void) {
    int to_middle, from_middle = pipe_from(&to_middle), to_own, from_own = pipe_from(&to_own), status;
    CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t own = getpid(), last, middle = fork();
    if (!middle) {
        char byte;
        pid_t parent = getpid();
        close(to_middle);
        if (!(last = fork())) {
            for (long looks = 0; getppid() == parent; looks++) usleep(1000);
            _exit(getppid() == own ? 9 : 10);
        }
        CHECK(write(to_own, &last, sizeof last) == sizeof last && read(from_middle, &byte, 1) == 0);
        CHECK(waitpid(last, &status, WNOHANG) == 0);
        _exit(8);
    }
    CHECK(read(from_own, &last, sizeof last) == sizeof last);
    pid_t hostile = fork();
    if (!hostile) {
        // A child of its own lies, so that all that it has is this user's.
        become_user();
        pid_t known[] = {own, middle, last, getpid(), 1}, child = fork();
        if (!child) lie(known, sizeof known / sizeof *known), _exit(0);
        CHECK(waitpid(child, &status, 0) == child);
        _exit(status != 0);
    }
    CHECK(waitpid(hostile, &status, 0) == hostile && status == 0);
    CHECK(waitpid(last, &status, WNOHANG) == -1 && errno == ECHILD && waitpid(-1, &status, WNOHANG) == 0);
    close(to_middle);
    CHECK(waitpid(middle, &status, 0) == middle && status == 8 << 8);
    CHECK(waitpid(-1, &status, 0) == last && status == 9 << 8);
    CHECK(wait(&status) == -1 && errno == ECHILD);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void never_answered(void) {
    int to_own, from_own = pipe_from(&to_own), status;
    pid_t hostile = fork();
    if (!hostile) {
        CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
        if (!fork()) {
            pid_t parent = getpid();
            if (!fork()) {
                CHECK(write(to_own, "", 1) == 1);
                while (getppid() == parent) usleep(1000);
                CHECK(write(to_own, "", 1) == 1);
                _exit(0);
            }
            sleep(1);
            _exit(0);
        }
        become_user();
        PRIVATE[GATE_END] = 0;
        for (;;) call_kernel(ROW_TIME_SLICE_YIELD, 0, 0, 0, 0, 0, 0);
    }
    char byte;
    double begun = now();
    CHECK(read(from_own, &byte, 1) == 1 && read(from_own, &byte, 1) == 1 && now() - begun < 20);
    CHECK(!kill(hostile, SIGKILL) && waitpid(hostile, &status, 0) == hostile && status == SIGKILL);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    lied_to();
    puts("who adopts believes nobody but who ends");
    never_answered();
    puts("who never answers holds nobody up");
}
