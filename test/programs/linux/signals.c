// Signals, their queues, alternate stacks, frames and timers, and programs begun by threads. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static volatile int calls, last_value, last_code, last_sender;
static volatile void *last_address;

static void note(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)context;
    calls++;
    last_value = information->si_value.sival_int;
    last_code = information->si_code;
    last_sender = information->si_pid;
    last_address = information->si_addr;
}

static void handle(int signal, void (*function)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = function, .sa_flags = SA_SIGINFO | flags};
    CHECK(!sigaction(signal, &action, NULL));
}

static void queues(void) {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGUSR1);
    CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
    for (int i = 1; i <= 5; i++) CHECK(!sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}));
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    CHECK(!sigpending(&pending) && sigismember(&pending, SIGRTMIN) && sigismember(&pending, SIGUSR1));
    siginfo_t information;
    CHECK(sigwaitinfo(&set, &information) == SIGUSR1 && information.si_pid == getpid() && information.si_code == SI_USER);
    for (int i = 1; i <= 5; i++) {
        CHECK(sigwaitinfo(&set, &information) == SIGRTMIN);
        CHECK(information.si_value.sival_int == i && information.si_code == SI_QUEUE);
    }
    struct timespec soon = {0, 10000000};
    CHECK(sigtimedwait(&set, NULL, &soon) == -1 && errno == EAGAIN);
    handle(SIGRTMIN, note, 0);
    for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    calls = 0;
    CHECK(!sigprocmask(SIG_UNBLOCK, &set, NULL) && calls == 3 && last_value == 3);
    puts("queues, sigwaitinfo, masks");
}

static void interruptions(void) {
    int ends[2];
    char byte;
    CHECK(!pipe(ends));
    handle(SIGALRM, note, 0);
    struct itimerval soon = {.it_value = {0, 20000}};
    calls = 0;
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR && calls == 1);
    handle(SIGALRM, note, SA_RESTART);
    pid_t child = fork();
    if (child == 0) { usleep(120000); write(ends[1], "x", 1); _exit(0); }
    soon.it_interval = (struct timeval){0, 20000};
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    calls = 0;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x' && calls >= 1);
    soon = (struct itimerval){0};
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    while (waitpid(child, NULL, 0) != child) CHECK(errno == EINTR);
    sigset_t none;
    sigemptyset(&none);
    alarm(1);
    calls = 0;
    CHECK(sigsuspend(&none) == -1 && errno == EINTR && calls == 1);
    CHECK(alarm(100) == 0 && alarm(0) >= 99);
    for (int i = calls = 0; i < 2; i++) ;
    soon.it_value = (struct timeval){0, 30000};
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    while (!calls) ;
    puts("interruption, restart, interval timers");
}

static void timers(void) {
    timer_t timer;
    handle(SIGRTMIN + 1, note, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 77};
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec times = {.it_value = {0, 10000000}, .it_interval = {0, 10000000}}, rest;
    calls = 0;
    CHECK(!timer_settime(timer, 0, &times, NULL));
    while (calls < 3) pause();
    CHECK(last_value == 77 && last_code == SI_TIMER);
    CHECK(!timer_gettime(timer, &rest) && rest.it_value.tv_nsec > 0 && rest.it_interval.tv_nsec == 10000000);
    CHECK(!timer_delete(timer) && timer_delete(timer) == -1 && errno == EINVAL);
    puts("timers that were created");
}

static sigjmp_buf back;
static volatile char *stack_low, *stack_high;
static volatile int on_alternate;

static void overflowed(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)context;
    char here;
    on_alternate = &here >= stack_low && &here < stack_high;
    last_address = information->si_addr;
    last_code = information->si_code;
    siglongjmp(back, 1);
}

static int deep(int n) { volatile char room[4096]; room[0] = (char)n; return n > 100000000 ? 0 : deep(n + 1) + room[0]; }

static void stacks(void) {
    static char room[65536];
    stack_low = room;
    stack_high = room + sizeof room;
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, old;
    CHECK(!sigaltstack(&stack, NULL) && !sigaltstack(NULL, &old) && old.ss_sp == room && old.ss_flags == 0);
    handle(SIGSEGV, overflowed, SA_ONSTACK);
    if (!sigsetjmp(back, 1)) deep(0);
    CHECK(on_alternate && last_code == SEGV_MAPERR);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!sigsetjmp(back, 1)) page[5] = 1;
    CHECK(last_address == page + 5 && last_code == SEGV_ACCERR);
    handle(SIGFPE, overflowed, 0);
    volatile int zero = 0;
    if (!sigsetjmp(back, 1)) zero = 77 / zero;
    CHECK(last_code == FPE_INTDIV);
    puts("alternate stacks, faults");
}

static void change(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)information;
    ucontext_t *interrupted = context;
    interrupted->uc_mcontext.gregs[REG_RIP] += 2;
    // Flags that no program may set: taken for what they can be.
    interrupted->uc_mcontext.gregs[REG_EFL] |= 0x3000 | 0x4000 | 0x100000;
    interrupted->uc_mcontext.gregs[REG_EFL] &= ~0x200;
}

static int ends_by(void (*body)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) { body(); _exit(99); }
    while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void wild_return(void) { __asm__ volatile("mov $0x10000, %rsp; mov $15, %eax; syscall"); }
static void stack_nowhere(void) { __asm__ volatile("movabs $0x8000000000000000, %rsp; push %rax"); }
static void to_kernel(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)information;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (long long)0xffffffff80000000;
}
static void jump_to_kernel(void) { signal(SIGSEGV, SIG_DFL); handle(SIGUSR2, to_kernel, 0); raise(SIGUSR2); }
static void blocked_fault(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    *(volatile int *)8 = 1;
}
static void no_room(void) {
    stack_t stack = {.ss_sp = (void *)0x20000, .ss_size = 65536};
    sigaltstack(&stack, NULL);
    handle(SIGUSR2, note, SA_ONSTACK);
    raise(SIGUSR2);
}

static void frames(void) {
    signal(SIGSEGV, SIG_DFL);
    handle(SIGILL, change, 0);
    unsigned long flags;
    __asm__ volatile("ud2; pushfq; pop %0" : "=r"(flags));
    CHECK((flags & 0x7000) == 0 && (flags & 0x200));
    CHECK(ends_by(wild_return) == SIGSEGV);
    // A CPU raises #SS for it, QEMU 7.2 #GP.
    int nowhere = ends_by(stack_nowhere);
    CHECK(nowhere == SIGBUS || nowhere == SIGSEGV);
    CHECK(ends_by(jump_to_kernel) == SIGSEGV);
    CHECK(ends_by(blocked_fault) == SIGSEGV);
    CHECK(ends_by(no_room) == SIGSEGV);
    puts("forged frames harm their own process only");
}

static void *begin_program(void *argument) {
    execl("/proc/self/exe", "signals", "again", (char *)NULL);
    return argument;
}
static void *spin(void *argument) { for (;;) __asm__ volatile("pause"); return argument; }
static void exec_in_thread(void) {
    pthread_t thread;
    setenv("PARENT", "1", 1);
    pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, begin_program, NULL);
    pthread_join(thread, NULL);
}

// A set of signals as /proc shows it.
static unsigned long shown(pid_t process, const char *name) {
    char path[64], line[256];
    unsigned long set = 0;
    sprintf(path, "/proc/%d/status", process);
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) set = strtoul(line + strlen(name), NULL, 16);
    fclose(file);
    return set;
}

static void *blocks_more(void *unused) {
    sigset_t all;
    sigfillset(&all);
    CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL) && signal(SIGUSR1, SIG_IGN) != SIG_ERR && !setuid(getuid()));
    return unused;
}

// What a child has of its parent's masks and handlers, and what a process has whose threads have other masks.
static void shown_signals(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGWINCH);
    CHECK(!sigprocmask(SIG_BLOCK, &one, NULL));
    handle(SIGURG, note, 0);
    signal(SIGTTIN, SIG_IGN);
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    for (int i = 0; i < 2; i++) {
        pid_t of = i ? child : getpid();
        CHECK(shown(of, "SigBlk:") == 1UL << (SIGWINCH - 1));
        CHECK(shown(of, "SigCgt:") & 1UL << (SIGURG - 1) && shown(of, "SigIgn:") & 1UL << (SIGTTIN - 1));
    }
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, blocks_more, NULL) && !pthread_join(thread, NULL));
    CHECK(shown(getpid(), "SigBlk:") == 1UL << (SIGWINCH - 1) && shown(getpid(), "SigIgn:") & 1UL << (SIGUSR1 - 1));
    CHECK(!sigprocmask(SIG_UNBLOCK, &one, NULL));
    for (int i = 0; i < 3; i++) signal((int[]){SIGURG, SIGTTIN, SIGUSR1}[i], SIG_DFL);
    puts("what is shown of signals");
}

static void children(void) {
    CHECK(ends_by(exec_in_thread) == -42);
    signal(SIGCHLD, SIG_IGN);
    if (fork() == 0) _exit(3);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    struct rusage used;
    CHECK(!getrusage(RUSAGE_CHILDREN, &used));
    siginfo_t information;
    pid_t child = fork();
    if (child == 0) { raise(SIGSTOP); usleep(300000); _exit(5); }
    CHECK(!waitid(P_PID, child, &information, WSTOPPED) && information.si_code == CLD_STOPPED && information.si_status == SIGSTOP);
    // One that goes on and is stopped again at once has stopped a second time.
    kill(child, SIGCONT);
    kill(child, SIGSTOP);
    CHECK(!waitid(P_PID, child, &information, WSTOPPED) && information.si_status == SIGSTOP);
    kill(child, SIGCONT);
    CHECK(!waitid(P_PID, child, &information, WCONTINUED) && information.si_code == CLD_CONTINUED);
    CHECK(!waitid(P_PID, child, &information, WEXITED | WNOWAIT) && information.si_status == 5);
    CHECK(!waitid(P_PID, child, &information, WEXITED) && information.si_pid == child);
    puts("programs begun by threads, children that stop");
}

static void readable_signals(void) {
    sigset_t set, other;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGCHLD);
    CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
    int descriptor = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(descriptor >= 0 && fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
    struct signalfd_siginfo some[4];
    CHECK(read(descriptor, some, 100) == -1 && errno == EINVAL);
    CHECK(read(descriptor, some, sizeof some) == -1 && errno == EAGAIN);
    struct pollfd wanted = {descriptor, POLLIN, 0};
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event));
    CHECK(poll(&wanted, 1, 0) == 0 && epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(!sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 77}) && !kill(getpid(), SIGUSR2));
    CHECK(poll(&wanted, 1, 0) == 1 && wanted.revents == POLLIN);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 1 && epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(read(descriptor, some, sizeof some) == 2 * sizeof *some);
    CHECK(some[0].ssi_signo == SIGUSR2 && some[0].ssi_code == SI_USER && (pid_t)some[0].ssi_pid == getpid());
    CHECK(some[1].ssi_signo == (unsigned)SIGRTMIN + 1 && some[1].ssi_code == SI_QUEUE && some[1].ssi_int == 77);
    pid_t child = fork();
    if (!child) {
        // A child reads its own signals.
        kill(getpid(), SIGUSR2);
        _exit(read(descriptor, some, sizeof some) == sizeof *some ? 5 : 6);
    }
    CHECK(poll(&wanted, 1, 5000) == 1 && read(descriptor, some, sizeof some) == sizeof *some);
    CHECK(some[0].ssi_signo == SIGCHLD && (pid_t)some[0].ssi_pid == child && some[0].ssi_code == CLD_EXITED);
    CHECK(some[0].ssi_status == 5);
    CHECK(waitpid(child, NULL, 0) == child);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    CHECK(signalfd(descriptor, &other, 0) == descriptor && signalfd(0, &other, 0) == -1 && errno == EINVAL);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 78});
    CHECK(read(descriptor, some, sizeof some) == -1 && errno == EAGAIN);
    siginfo_t information;
    CHECK(sigwaitinfo(&set, &information) == SIGRTMIN + 1 && information.si_value.sival_int == 78);
    CHECK(!sigprocmask(SIG_UNBLOCK, &set, NULL));
    close(epoll);
    close(descriptor);
    puts("signals that are read");
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "again")) return getpid() == syscall(SYS_gettid) && getenv("PARENT") ? 42 : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    queues();
    readable_signals();
    interruptions();
    timers();
    stacks();
    frames();
    shown_signals();
    children();
    return 0;
}
