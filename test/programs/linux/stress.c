/* Processes, threads and pipes in numbers, and processes killed at random points: afterwards as much memory is free as
 * before, and nobody is left. The argument is a percentage of the numbers: 100 is 1,000 forks, 500 processes at once, 200
 * threads, 1,000 pipes and 100 kills. Everything is done twice: what the first pass fills, such as the heaps of those who
 * serve, is not given back, and does not grow with the second. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"

static void fail(const char *what, int number)
{
    printf("%s %d: %s\n", what, number, strerror(errno));
    exit(1);
}

static pid_t fork_or_fail(int number)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork", number);
    return child;
}

/* Each child's status arrives; every tenth runs another program. */
static void one_after_another(int count)
{
    for (int i = 0; i < count; i++) {
        int status = 0, expected = i % 10 ? i & 127 : 0;
        pid_t child = fork_or_fail(i);
        if (child == 0) {
            if (i % 10 == 0)
                execl("/proc/self/exe", "stress", "exit", (char *)0);
            _exit(i & 127);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != expected)
            fail("status of child", i);
    }
}

/* All of them live until the last has begun. */
static void at_once(int count)
{
    int begun[2], go[2];
    char byte = 0;
    if (pipe(begun) || pipe(go))
        fail("pipe", 0);
    for (int i = 0; i < count; i++)
        if (fork_or_fail(i) == 0) {
            close(go[1]);
            if (write(begun[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0)
                _exit(1);
            _exit(0);
        }
    for (int i = 0; i < count; i++)
        if (read(begun[0], &byte, 1) != 1)
            fail("byte of child", i);
    if (processes() < count)
        fail("processes", processes());
    close(go[1]);
    for (int i = 0, status; i < count; i++)
        if (wait(&status) < 0 || status != 0)
            fail("end of child", i);
    close(go[0]);
    close(begun[0]);
    close(begun[1]);
}

static pthread_barrier_t all_there;

static void *meet(void *argument)
{
    pthread_barrier_wait(&all_there);
    return argument;
}

static void threads(int count)
{
    pthread_t thread[count];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    pthread_barrier_init(&all_there, 0, count + 1);
    for (long i = 0; i < count; i++)
        if ((errno = pthread_create(&thread[i], &small, meet, (void *)i)))
            fail("thread", i);
    pthread_barrier_wait(&all_there);
    for (long i = 0; i < count; i++) {
        void *result;
        if (pthread_join(thread[i], &result) || result != (void *)i)
            fail("join", i);
    }
}

static void pipes(int count)
{
    int (*ends)[2] = malloc(count * sizeof *ends);
    for (int i = 0; i < count; i++)
        if (pipe(ends[i]) || write(ends[i][1], &i, sizeof i) != sizeof i)
            fail("pipe", i);
    for (int i = 0, found; i < count; i++) {
        if (read(ends[i][0], &found, sizeof found) != sizeof found || found != i)
            fail("what came through pipe", i);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    free(ends);
}

/* Makes pipes, children and memory without end. */
static void work_until_killed(void)
{
    for (;;) {
        int ends[2];
        char byte = 0;
        if (pipe(ends))
            fail("pipe", 0);
        pid_t child = fork_or_fail(0);
        if (child == 0) {
            char *memory = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(memory, 1, 65536);
            _exit(write(ends[1], &byte, 1) != 1);
        }
        if (read(ends[0], &byte, 1) != 1)
            fail("read", 0);
        close(ends[0]);
        close(ends[1]);
        waitpid(child, 0, 0);
    }
}

static void killed(int count)
{
    for (int i = 0, status; i < count; i++) {
        pid_t child = fork_or_fail(i);
        if (child == 0)
            work_until_killed();
        usleep(rand() % 30000);
        kill(child, SIGKILL);
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail("end of killed child", i);
    }
}

static void pass(int percent)
{
    one_after_another(10 * percent);
    at_once(5 * percent);
    threads(2 * percent);
    pipes(10 * percent);
    killed(percent);
}

int main(int count, char **arguments)
{
    const long SLACK = 512;
    if (count < 2 || strcmp(arguments[1], "exit") == 0)
        return 0;
    struct rlimit descriptors = {4096, 4096};
    if (setrlimit(RLIMIT_NOFILE, &descriptors))
        fail("limit", 4096);
    int percent = atoi(arguments[1]);
    pass(percent);
    long before = free_when_quiet();
    pass(percent);
    long after = free_when_quiet();
    if (before - after > SLACK)
        printf("%ld KiB were free, %ld are\n", before, after);
    if (processes() != 1)
        printf("%d processes\n", processes());
    puts("done");
    return 0;
}
