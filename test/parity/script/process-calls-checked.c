// Calls on processes whose checks have an order: groups of children that executed, schedules of processes that are not
// there, name spaces without rights, the clock and the names of the machine; flags of clone without effect; what a
// timer from a time in the past missed, and a queue that is closed by the process that a notice was for.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
#define SAY(call) (errno = 0, say(#call, (long)(call)))

// A child that runs another program, or with `executes` 0 sleeps in this one. It is seen by the end of a pipe.
static pid_t child(int executes) {
    int ends[2];
    char byte;
    pipe2(ends, O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        if (executes) execl("/bin/sleep", "sleep", "100", NULL);
        close(ends[1]);
        pause();
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 0) puts("?");
    close(ends[0]);
    return pid;
}

static void groups(void) {
    const int none = 4000000;
    pid_t plain = child(0), executed = child(1);
    SAY(setpgid(none, none));
    SAY(setpgid(none, -1));
    SAY(setpgid(plain, none));
    SAY(setpgid(executed, none));
    SAY(setpgid(executed, executed));
    SAY(setpgid(plain, plain));
    SAY(setpgid(0, plain));
    int refused = 0;
    for (int i = 0; i < 200; i++) {
        pid_t one = child(1);
        refused += setpgid(one, one) < 0 && errno == EACCES;
        kill(one, SIGKILL);
        waitpid(one, NULL, 0);
    }
    printf("refused %d\n", refused);
    kill(plain, SIGKILL);
    kill(executed, SIGKILL);
    SAY(wait(NULL) > 0);
    SAY(wait(NULL) > 0);
}

struct attributes { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t deadline[3]; };

static void attributes(const char *what, pid_t pid, struct attributes attributes) {
    attributes.size = sizeof attributes;
    errno = 0;
    say(what, syscall(SYS_sched_setattr, pid, &attributes, 0));
    struct attributes now = {0};
    syscall(SYS_sched_getattr, 0, &now, sizeof now, 0);
    printf("policy %d, nice %d, priority %d\n", now.policy, now.nice, now.priority);
}

static void schedules(void) {
    const int none = 4000000;
    struct sched_param wrong = { 77 }, usual = { 0 };
    SAY(sched_setscheduler(none, 77, &wrong));
    SAY(sched_setscheduler(none, -1, &wrong));
    SAY(sched_setscheduler(none, SCHED_RR, NULL));
    SAY(sched_setscheduler(none, SCHED_OTHER, &wrong));
    SAY(sched_setscheduler(0, SCHED_OTHER, &wrong));
    SAY(sched_setscheduler(0, SCHED_BATCH, &usual));
    SAY(sched_setparam(none, &wrong));
    attributes("a nice value beyond", 0, (struct attributes){ .nice = 30 });
    attributes("unknown flags", 0, (struct attributes){ .flags = 0x80 });
    attributes("unknown flags of none", none, (struct attributes){ .flags = 0x80 });
    attributes("the same policy", 0, (struct attributes){ .flags = 8, .policy = 77, .nice = 19 });
    attributes("the same values", 0, (struct attributes){ .flags = 0x10, .policy = SCHED_BATCH, .nice = 3 });
    attributes("all the same", 0, (struct attributes){ .flags = 0x18, .nice = 3 });
    attributes("policy -1 of none", none, (struct attributes){ .policy = -1 });
    attributes("policy 77 of none", none, (struct attributes){ .policy = 77 });
    attributes("a deadline of none", none, (struct attributes){ .policy = 6 });
    attributes("a priority without use", 0, (struct attributes){ .priority = 3 });
}

static void flags(void) {
    const unsigned long all[] = { CLONE_IO, CLONE_PTRACE, CLONE_UNTRACED };
    for (int i = 0; i < 3; i++) {
        int status = 0;
        pid_t pid = syscall(SYS_clone, all[i] | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) _exit(7);
        waitpid(pid, &status, 0);
        printf("clone %d: %d\n", i, WEXITSTATUS(status));
    }
}

static void missed(void) {
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec times = { .it_interval = { 0, 1 } };
    sigset_t set;
    timer_t timer;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    SAY(timer_create(CLOCK_REALTIME, &event, &timer));
    // A time before the machine began counts from its beginning alone.
    sleep(1);
    clock_gettime(CLOCK_REALTIME, &times.it_value);
    times.it_value.tv_sec -= 1;
    SAY(timer_settime(timer, TIMER_ABSTIME, &times, NULL));
    SAY(sigwaitinfo(&set, NULL));
    printf("missed %d\n", timer_getoverrun(timer) >= 1000000000);
    timer_delete(timer);
}

static void notices(void) {
    struct sigevent event = { .sigev_notify = SIGEV_NONE };
    struct mq_attr most = { .mq_maxmsg = 2, .mq_msgsize = 8 };
    mqd_t queue = mq_open("/checked", O_CREAT | O_RDWR, 0600, &most), other = mq_open("/checked", O_RDWR);
    SAY(mq_notify(queue, &event));
    SAY(mq_notify(other, &event));
    SAY(mq_close(queue));
    SAY(mq_notify(other, &event));
    if (fork() == 0) {
        SAY(mq_close(other));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    SAY(mq_notify(other, &event));
    SAY(mq_close(other));
    SAY(mq_unlink("/checked"));
}

// What a process without any capability is refused. No call here could set the clock of a host.
static void machine(void) {
    struct timespec wrong = { 1, 1000000000 }, soon = { 1, 0 };
    struct timeval wrong_short = { 1, 1000000 }, early = { -1, 0 }, soon_short = { 1, 0 };
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = {{0}};
    SAY(syscall(SYS_capset, &header, none));
    SAY(clock_settime(CLOCK_REALTIME, &wrong));
    SAY(syscall(SYS_clock_settime, CLOCK_REALTIME, NULL));
    SAY(clock_settime(CLOCK_REALTIME, &soon));
    SAY(clock_settime(CLOCK_MONOTONIC, &soon));
    SAY(clock_settime(77, &soon));
    SAY(settimeofday(&wrong_short, NULL));
    SAY(settimeofday(&early, NULL));
    SAY(settimeofday(&soon_short, NULL));
    SAY(syscall(SYS_settimeofday, NULL, NULL));
    SAY(sethostname("a", 1));
    SAY(syscall(SYS_sethostname, "a", 65));
    SAY(syscall(SYS_setdomainname, NULL, 3));
    SAY(unshare(CLONE_NEWUTS));
    SAY(unshare(CLONE_NEWNS));
    SAY(unshare(CLONE_NEWIPC | CLONE_FILES));
}

int main(void) {
    struct sysinfo information;
    double load = -1;
    FILE *loads = fopen("/proc/loadavg", "r");
    fscanf(loads, "%lf", &load);
    setvbuf(stdout, NULL, _IONBF, 0);
    SAY(sysinfo(&information));
    double told = information.loads[0] / 65536.0;
    printf("load %d\n", told > load - 0.5 && told < load + 0.5);
    groups();
    schedules();
    flags();
    missed();
    notices();
    machine();
    return 0;
}
