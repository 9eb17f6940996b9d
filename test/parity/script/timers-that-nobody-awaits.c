// Timers that expired while nobody looked: counted in one signal, and by timerfd from a time in the past; timed waits for semaphores that a signal
// cuts short; FIFOs that wait for their first writer; names that a slash follows; waits for what cannot come.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TELL(call) tell(#call, (errno = 0, (long)(call)))
static void tell(const char *call, long result) {
    printf("  %s: %ld %s\n", call, result < 0 ? -1 : result, result < 0 ? strerrorname_np(errno) : "");
}

static volatile int came, overrun;

static void counted(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)context;
    came++;
    overrun = information->si_overrun;
}

static void expiries(int signal) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    struct sigaction action = {.sa_sigaction = counted, .sa_flags = SA_SIGINFO};
    struct itimerspec every = {{0, 30000000}, {0, 30000000}};
    sigset_t set;
    timer_t timer;
    sigaction(signal, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &every, NULL);
    for (int times = 0; times < 10; times++) usleep(30000);
    came = overrun = 0;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    timer_delete(timer);
    printf("  %d signal, several expiries: %d\n", came, overrun >= 5);
}

static void past(void) {
    unsigned long long times = 0;
    struct itimerspec before = {.it_interval = {0, 20000000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    clock_gettime(CLOCK_MONOTONIC, &before.it_value);
    usleep(100000);
    TELL(timerfd_settime(timer, TFD_TIMER_ABSTIME, &before, NULL));
    TELL(read(timer, &times, sizeof times));
    printf("  one for each period: %d\n", times >= 5);
    TELL(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
}

static void nothing(int signal) { (void)signal; }

static void cut_short(void) {
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    struct itimerval timer = {.it_value = {0, 50000}};
    struct timespec limit;
    sem_t semaphore;
    sigaction(SIGALRM, &action, NULL);
    sem_init(&semaphore, 0, 0);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 1;
    setitimer(ITIMER_REAL, &timer, NULL);
    TELL(sem_timedwait(&semaphore, &limit));
}

static void polled(const char *when, int fd, int milliseconds) {
    struct pollfd polled = {fd, POLLIN, 0};
    int count = poll(&polled, 1, milliseconds);
    printf("  %s: %d %x\n", when, count, polled.revents);
}

static void first_writer(void) {
    char byte;
    mkfifo("fifo", 0600);
    int reader = open("fifo", O_RDONLY | O_NONBLOCK);
    polled("no writer yet", reader, 20);
    TELL(read(reader, &byte, 1));
    pid_t child = fork();
    // Where there is none, -1 would be everybody.
    if (child < 0) exit(1);
    if (child == 0) {
        usleep(50000);
        if (write(open("fifo", O_WRONLY), "x", 1) == 1) pause();
        _exit(1);
    }
    polled("a first one", reader, 5000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    TELL(read(reader, &byte, 1));
    polled("it is gone", reader, 0);
    int writer = open("fifo", O_WRONLY);
    polled("another", reader, 0);
    close(writer);
    polled("gone, too", reader, 0);
}

static void slashes(void) {
    struct stat status;
    symlink("nowhere", "dangling");
    TELL(mkdir("dangling/", 0755));
    TELL(mknod("dangling/", S_IFIFO | 0644, 0));
    TELL(lstat("nowhere", &status));
    TELL(mkdir("fresh/", 0755));
    TELL(mkdir("fresh//", 0755));
    TELL(mknod("other/", S_IFIFO | 0644, 0));
    TELL(mkdir("/", 0755));
    TELL(open("missing", O_PATH | O_CREAT, 0600));
}

static void waits(void) {
    siginfo_t found = {0};
    pid_t child = fork();
    if (child == 0) _exit(3);
    TELL(waitid(P_PID, child, &found, WEXITED | WNOWAIT));
    TELL(waitid(P_PID, child, &found, WSTOPPED | WNOHANG));
    TELL(waitid(P_PID, child, &found, WSTOPPED | WCONTINUED));
    TELL(waitid(P_PID, child, &found, WEXITED));
    printf("  status %d\n", found.si_status);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("expiries");
    expiries(SIGRTMIN + 1);
    expiries(SIGUSR1);
    puts("times in the past");
    past();
    puts("a semaphore");
    cut_short();
    puts("first writers");
    first_writer();
    puts("slashes");
    slashes();
    puts("waits");
    waits();
    return 0;
}
