// Each child tells its parent something through a pipe, of which it loses both ends when it executes a program: now the program that the
// children before it executed, now another one, or none. Whatever was made ready for it, it has the pipe, be it one that its brothers had,
// too, or one that was made for it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { ROUNDS = 200 };

static char *programs[] = { "/tmp/one", "/tmp/two", "/tmp/three" };

static void copy_self(const char *path) {
    char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(from >= 0 && to >= 0);
    for (ssize_t length; (length = read(from, bytes, sizeof bytes)) != 0;) CHECK(length > 0 && write(to, bytes, length) == length);
    CHECK(close(from) == 0 && close(to) == 0);
}

// What it does is not undone as easily as what others do.
static int leave_something(void) {
    char *far = mmap((void *)0x10000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (far != MAP_FAILED) *far = 1;
    return far == MAP_FAILED;
}

static char sign(int round) { return (char)('a' + round % 26); }

static void child(int round, int ends[2], char *program) {
    char told = sign(round), *arguments[] = { program, "ends", NULL }, *environment[] = { NULL };
    CHECK(close(ends[0]) == 0 && write(ends[1], &told, 1) == 1);
    if (program) execve(program, arguments, environment);
    _exit(program != NULL);
}

static int lasting[2], own[2];

// What a child says comes, and it ends well.
static void have_child(int round, unsigned chance) {
    int is_own = round % 4 == 3, *ends = is_own ? own : lasting, status = 0;
    char *program = chance < 5 ? programs[round / 40 % 2] : chance < 7 ? programs[chance - 4] : NULL, told = 0;
    if (is_own) CHECK(pipe2(own, O_CLOEXEC) == 0);
    pid_t made = fork();
    CHECK(made >= 0);
    if (made == 0) child(round, ends, program);
    if (is_own) CHECK(close(ends[1]) == 0);
    CHECK(waitpid(made, &status, 0) == made);
    if (status != 0 || read(ends[0], &told, 1) != 1 || told != sign(round)) {
        printf("round %d: status %#x, told %d\n", round, status, told);
        exit(1);
    }
    if (is_own) CHECK(read(ends[0], &told, 1) == 0 && close(ends[0]) == 0);
}

int main(int count, char **arguments) {
    if (count > 1) return strcmp(arguments[1], "ends") || leave_something();
    alarm(60);
    for (int i = 0; i < 3; i++) copy_self(programs[i]);
    CHECK(pipe2(lasting, O_CLOEXEC) == 0 && fcntl(lasting[0], F_SETFL, O_NONBLOCK) == 0);
    unsigned seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245 + 12345;
        have_child(round, seed >> 16 & 7);
    }
    printf("%d children\n", ROUNDS);
    return 0;
}
