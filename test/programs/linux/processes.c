// Children that borrow their parent's memory, and what is told of them. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

extern char **environ;

static char *const no_arguments[] = {"program", NULL};

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void spawned_programs(void) {
    pid_t child = 0;
    CHECK(posix_spawn(&child, "/nowhere", NULL, NULL, no_arguments, environ) == ENOENT);
    CHECK(posix_spawn(&child, "/tmp", NULL, NULL, no_arguments, environ) == EACCES);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 77, 1);
    CHECK(posix_spawnp(&child, "true", &actions, NULL, no_arguments, environ) == EBADF);
    posix_spawn_file_actions_destroy(&actions);
    char *const arguments[] = {"sh", "-c", "exit 9", NULL};
    CHECK(!posix_spawnp(&child, "sh", NULL, NULL, arguments, environ));
    CHECK(status_of(child) == 9 << 8);
    CHECK(system("exit 5") == 5 << 8);
    puts("posix_spawn tells why a program cannot run");
}

static volatile int counter = 1;
static volatile char large[300000];

static void borrowed_memory(void) {
    volatile int on_the_stack = 1;
    volatile char *anywhere = malloc(100);
    anywhere[7] = 'b';
    volatile char *fresh = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = vfork();
    if (!child) {
        counter = 2;
        on_the_stack = 3;
        anywhere[7] = 'a';
        fresh[5000] = 7;
        for (size_t i = 0; i < sizeof large; i++) large[i] = 'x';
        _exit(4);
    }
    CHECK(counter == 2 && on_the_stack == 3 && anywhere[7] == 'a' && fresh[5000] == 7 && fresh[0] == 0);
    for (size_t i = 0; i < sizeof large; i++) CHECK(large[i] == 'x');
    CHECK(status_of(child) == 4 << 8);
    child = vfork();
    if (!child) {
        execv("/nowhere", no_arguments);
        counter = errno;
        abort();
    }
    CHECK(counter == ENOENT && status_of(child) == SIGABRT);
    child = fork();
    if (!child) {
        counter = 99;
        pid_t grandchild = vfork();
        if (!grandchild) { counter = 98; _exit(0); }
        status_of(grandchild);
        _exit(counter);
    }
    CHECK(status_of(child) == 98 << 8 && counter == ENOENT);
    // The parent waits for a program, not for its end.
    int ends[2];
    CHECK(!pipe(ends));
    char *const cat[] = {"cat", NULL};
    child = vfork();
    if (!child) { dup2(ends[0], 0); close(ends[1]); execvp("cat", cat); _exit(127); }
    CHECK(waitpid(child, NULL, WNOHANG) == 0);
    CHECK(write(ends[1], "from cat\n", 9) == 9);
    close(ends[1]);
    close(ends[0]);
    CHECK(status_of(child) == 0);
    puts("vfork: the parent finds what its child wrote");
}

static volatile int ticks, stop;

static void *tick(void *unused) {
    (void)unused;
    while (!stop) { ticks++; sched_yield(); }
    return NULL;
}

static int run(void *argument) {
    *(int *)argument = getpid();
    usleep(20000);
    return 6;
}

static void among_threads(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, tick, NULL));
    while (ticks < 10) sched_yield();
    static char stack[65536] __attribute__((aligned(16)));
    int number = 0, before = ticks;
    pid_t child = clone(run, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number);
    CHECK(child > 0 && number == child);
    CHECK(ticks > before);
    int after = ticks;
    while (ticks < after + 10) sched_yield();
    CHECK(status_of(child) == 6 << 8);
    stop = 1;
    pthread_join(thread, NULL);
    puts("the other threads run on meanwhile");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    spawned_programs();
    borrowed_memory();
    among_threads();
}
