// What a child was made of serves the next one. By the clock that counts instructions, children behind the first one take
// less than half of what that takes where they end at once, and less than three quarters where they execute a program,
// which is laid out anew each time. Where each child is made anew they take nearly as much.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed\n", __LINE__, #what); exit(1); } } while (0)
// The first few make room for what is kept.
enum { CHILDREN = 20, SETTLED = 10 };

static char *own_path;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void end_at_once(void) { _exit(0); }

static void execute(void) { execve(own_path, (char *[]){ own_path, "x", NULL }, (char *[]){ NULL }), _exit(1); }

static uint64_t one(void (*action)(void)) {
    int status;
    uint64_t before = now();
    pid_t child = fork();
    if (!child) action();
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return now() - before;
}

static void compare(const char *what, void (*action)(void), uint64_t percent, int tells) {
    uint64_t first = one(action), least = first;
    for (int i = 1; i < CHILDREN; i++) {
        uint64_t took = one(action);
        if (i >= SETTLED && took < least) least = took;
    }
    if (tells || least >= first * percent / 100) printf("%s: the first takes %lu, another one %lu\n", what, first, least);
    else puts(what);
}

int main(int count, char **arguments) {
    if (count > 1 && arguments[1][0] == 'x') return 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    own_path = arguments[0];
    compare("children that end", end_at_once, 50, count > 1);
    compare("children that execute a program", execute, 75, count > 1);
    return 0;
}
