// A child of vfork is another process from its first instruction on, however late it begins, and its parent stands still.
// One line for each part that works. With an argument: a program that such a child executes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static char *self;

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static volatile pid_t told_number, told_parent;

static void numbers(void) {
    pid_t parent = getpid();
    pid_t child = vfork();
    if (!child) {
        told_number = syscall(SYS_getpid);
        told_parent = getppid();
        _exit(told_number != syscall(SYS_gettid));
    }
    CHECK(told_number == child && told_parent == parent && syscall(SYS_getpid) == parent && status_of(child) == 0);
    pid_t first = vfork();
    if (!first) _exit(1);
    pid_t second = vfork();
    if (!second) _exit(2);
    CHECK(first != second && first != parent && !kill(first, 0) && !kill(second, 0));
    int status;
    CHECK(waitpid(0, &status, 0) == first && status == 1 << 8);
    siginfo_t information;
    CHECK(!waitid(P_PID, second, &information, WEXITED) && information.si_pid == second && information.si_status == 2);
    CHECK(kill(first, 0) == -1 && errno == ESRCH && waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    puts("numbers");
}

static volatile sig_atomic_t handled, handled_in, sender, code;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)context;
    handled++;
    handled_in = (int)syscall(SYS_getpid);
    sender = information->si_pid;
    code = information->si_code;
}

static void signals(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, before;
    CHECK(!sigaction(SIGCHLD, &action, NULL) && !sigaction(SIGALRM, &action, NULL));
    handled = 0;
    pid_t child = vfork();
    if (!child) _exit(3);
    while (!handled) usleep(100);
    CHECK(handled == 1 && sender == child && code == CLD_EXITED && handled_in == getpid() && status_of(child) == 3 << 8);
    // What comes for the parent waits until it goes on, and is not its child's.
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    static volatile int seen;
    signal(SIGCHLD, SIG_DFL);
    handled = 0;
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    child = vfork();
    if (!child) {
        for (volatile int round = 0; round < 20000000; round++) {}
        seen = handled;
        _exit(0);
    }
    CHECK(seen == 0 && status_of(child) == 0);
    while (!handled) pause();
    CHECK(handled == 1 && handled_in == getpid());
    // A mask is the child's own, and goes on into its program.
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    child = vfork();
    if (!child) {
        sigaction(SIGALRM, NULL, &before);
        if (before.sa_sigaction != handler || sigprocmask(SIG_BLOCK, &set, &old) || sigismember(&old, SIGUSR1)) _exit(1);
        execl(self, self, "mask", NULL);
        _exit(2);
    }
    CHECK(status_of(child) == 0 && !sigprocmask(SIG_BLOCK, NULL, &old) && !sigismember(&old, SIGUSR1) && !sigismember(&old, SIGUSR2));
    // Handlers that it changes are its own.
    child = vfork();
    if (!child) {
        signal(SIGALRM, SIG_IGN);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && !sigaction(SIGALRM, NULL, &before) && before.sa_sigaction == handler);
    puts("signals");
}

static volatile uintptr_t place;

static void ends(void) {
    place = 0;
    pid_t child = vfork();
    if (!child) {
        *(volatile int *)place = 1;
        _exit(0);
    }
    CHECK(status_of(child) == SIGSEGV);
    child = vfork();
    if (!child) {
        kill(syscall(SYS_getpid), SIGTERM);
        _exit(0);
    }
    CHECK(status_of(child) == SIGTERM);
    signal(SIGCHLD, SIG_IGN);
    child = vfork();
    if (!child) _exit(0);
    CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    CHECK(!access("/", R_OK));
    puts("ends");
}

static char *volatile fresh;

static void shared_memory(void) {
    static volatile double number;
    double before = place + 1.5;
    pid_t child = vfork();
    if (!child) {
        fresh = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fresh[5000] = 7;
        number = 2.5 * (before + 1);
        _exit(0);
    }
    CHECK(fresh[5000] == 7 && !munmap(fresh, 8192) && number == 6.25 && before == 1.5 && status_of(child) == 0);
    puts("memory");
}

static void programs(void) {
    char *none[] = {NULL}, *script[] = {"script", "one", NULL};
    static volatile int refused;
    int ends[2], before, after;
    char text[32] = "";
    CHECK((before = dup(0)) >= 0 && !close(before) && !pipe(ends));
    pid_t child = vfork();
    if (!child) {
        execv("/nowhere", script);
        refused = errno;
        execv("/", script);
        refused += errno;
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        dup2(ends[1], 1);
        close(0);
        execl(self, self, "say", NULL);
        _exit(1);
    }
    CHECK(refused == ENOENT + EACCES && status_of(child) == 0);
    CHECK(read(ends[0], text, sizeof text) == 4 && !strcmp(text, "said") && !fcntl(ends[1], F_GETFD));
    close(ends[0]);
    close(ends[1]);
    // Nothing stays open of programs that were executed, or could not be.
    for (volatile int round = 0; round < 20; round++) {
        child = vfork();
        if (!child) {
            execve("/nowhere", none, none);
            execl(self, self, round & 1 ? "fine" : "bad", NULL);
            _exit(1);
        }
        CHECK(status_of(child) == (round & 1 ? 0 : 9 << 8));
    }
    after = dup(0);
    CHECK(before == after);
    puts("programs");
}

static int executed(const char *what) {
    sigset_t set;
    if (!strcmp(what, "say")) return write(1, "said", 4) != 4 || dup(0) != -1;
    if (strcmp(what, "mask")) return strcmp(what, "fine") ? 9 : 0;
    sigprocmask(SIG_BLOCK, NULL, &set);
    return !sigismember(&set, SIGUSR1) || sigismember(&set, SIGUSR2) || sigismember(&set, SIGCHLD);
}

int main(int count, char **arguments) {
    if (count > 1) return executed(arguments[1]);
    setvbuf(stdout, NULL, _IONBF, 0);
    self = "/proc/self/exe";
    numbers();
    signals();
    ends();
    shared_memory();
    programs();
}
