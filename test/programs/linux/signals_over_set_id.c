// Signals of another process that come while a set-id program begins reach the process: no send finds it gone, and none is
// lost. User 1000 executes a program of user 0; user 0 signals it at another moment in each turn.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { TURNS = 60, STEP_US = 150 };
static const char *copy = "/tmp/of-user-0";

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void make_copy(void) {
    struct stat own;
    int from = open("/proc/self/exe", O_RDONLY), to = open(copy, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    CHECK(from >= 0 && to >= 0 && fstat(from, &own) == 0);
    for (off_t done = 0; done < own.st_size;) CHECK(sendfile(to, from, &done, own.st_size - done) > 0);
    CHECK(fchmod(to, 04755) == 0 && close(to) == 0 && close(from) == 0);
}

// Whether the set-id program ran before the signal came.
static int turn(long delay_us) {
    int ends[2], status;
    char byte;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        int out = dup2(ends[1], 9);
        CHECK(setgid(1000) == 0 && setuid(1000) == 0 && write(out, "a", 1) == 1);
        execl(copy, copy, "runs", (char *)0);
        _exit(1);
    }
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    for (long until = now_us() + delay_us; now_us() < until;) CHECK(kill(child, 0) == 0);
    CHECK(kill(child, SIGCONT) == 0 && kill(child, SIGTERM) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    int ran = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return ran;
}

int main(int count, char **given) {
    if (count > 1 && strcmp(given[1], "runs") == 0) {
        CHECK(geteuid() == 0 && getuid() == 1000 && write(9, "b", 1) == 1);
        for (;;) pause();
    }
    int ran = 0;
    make_copy();
    for (int i = 0; i < TURNS; i++) ran += turn(i * STEP_US);
    // The longest delay is long enough.
    ran += turn(2000000);
    printf(ran > 0 ? "each signal has reached its process\n" : "no program ran\n");
    return 0;
}
