// Signals, timers, identities, limits, waits and settings of processes: numbers and flags at and beyond what there is.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *const KERNEL = (void *)0xffff800000000000, *const NOWHERE = (void *)0x1000;

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
#define SAY(call) (errno = 0, say(#call, (long)(call)))

struct action { void *handler; unsigned long flags; void *restorer; uint64_t mask; };

static void handler(int number) { (void)number; }

static void actions(void) {
    struct action action = { handler, 0, NULL, ~0ul }, before;
    int numbers[] = { -1, 0, 1, SIGKILL, SIGSTOP, 31, 32, 33, 34, 64, 65, INT_MAX, INT_MIN };
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int number = numbers[i];
        printf("%d ", number), SAY(syscall(SYS_rt_sigaction, number, NULL, &before, 8));
        printf("%d ", number), SAY(syscall(SYS_rt_sigaction, number, &action, NULL, 8));
        printf("%d ", number), SAY(syscall(SYS_rt_sigaction, number, NULL, &before, 8));
        if (i > 1) printf("%d is %d, %lx, %lx\n", number, before.handler == handler, before.flags, (long)before.mask);
        printf("%d ", number), SAY(syscall(SYS_rt_sigaction, number, NULL, NULL, 8));
        if (number != SIGKILL && number != SIGSTOP) {
            action.handler = SIG_DFL;
            printf("%d ", number), SAY(syscall(SYS_rt_sigaction, number, &action, NULL, 8));
            action.handler = handler;
        }
        printf("%d ", number), SAY(syscall(SYS_kill, getpid(), number == 0 ? 0 : -1 - (number & 0xff)));
        printf("%d ", number), SAY(syscall(SYS_tgkill, getpid(), getpid(), number > 65 || number <= 0 ? number : 0));
    }
    SAY(syscall(SYS_rt_sigaction, 1, &action, NULL, 4));
    SAY(syscall(SYS_rt_sigaction, 1, &action, NULL, 16));
    SAY(syscall(SYS_rt_sigaction, 1, NOWHERE, NULL, 8));
    SAY(syscall(SYS_rt_sigaction, 1, NULL, KERNEL, 8));
    SAY(syscall(SYS_rt_sigaction, 65, NOWHERE, NULL, 8));
    SAY(syscall(SYS_rt_sigaction, SIGKILL, NOWHERE, NULL, 8));
    SAY(syscall(SYS_tgkill, 0, getpid(), 0));
    SAY(syscall(SYS_tgkill, getpid(), 0, 0));
    SAY(syscall(SYS_tgkill, getpid(), -1, 0));
    SAY(syscall(SYS_tgkill, -1, getpid(), 0));
    SAY(syscall(SYS_tgkill, 1 << 22, getpid(), 0));
    SAY(syscall(SYS_tkill, 0, 0));
    SAY(syscall(SYS_tkill, -5, 0));
    SAY(syscall(SYS_tkill, 1 << 22, 0));
    SAY(kill(1 << 22, 0));
    SAY(kill(-(1 << 22), 0));
    SAY(kill(INT_MIN, 0));
    SAY(kill(0, 65));
    SAY(kill(0, 0));
}

static void masks(void) {
    uint64_t mask = ~0ul, before = 0;
    for (int how = -1; how < 4; how++) {
        printf("how %d: ", how), SAY(syscall(SYS_rt_sigprocmask, how, &mask, &before, 8));
        printf("how %d: ", how), SAY(syscall(SYS_rt_sigprocmask, how, NULL, &before, 8));
        printf("mask %lx\n", before);
    }
    mask = 0;
    SAY(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8));
    SAY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, 4));
    SAY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, 128));
    SAY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NOWHERE, NULL, 8));
    SAY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NOWHERE, 8));
    SAY(syscall(SYS_rt_sigprocmask, 7, NOWHERE, NULL, 8));
    SAY(syscall(SYS_rt_sigprocmask, 7, NULL, NULL, 8));
    for (int size = 0; size < 12; size += 4) printf("%d ", size), SAY(syscall(SYS_rt_sigpending, &mask, size));
    SAY(syscall(SYS_rt_sigpending, &mask, 16));
    SAY(syscall(SYS_rt_sigpending, NOWHERE, 8));
    SAY(syscall(SYS_rt_sigsuspend, &mask, 4));
    SAY(syscall(SYS_rt_sigsuspend, NOWHERE, 8));
    struct timespec none = { 0, 0 };
    SAY(syscall(SYS_rt_sigtimedwait, &mask, NULL, &none, 8));
    SAY(syscall(SYS_rt_sigtimedwait, &mask, NULL, &none, 4));
    SAY(syscall(SYS_rt_sigtimedwait, NOWHERE, NULL, &none, 8));
    mask = ~0ul;
    SAY(syscall(SYS_rt_sigtimedwait, &mask, NULL, &none, 8));
    SAY(syscall(SYS_rt_sigtimedwait, &mask, KERNEL, &none, 8));
    siginfo_t told = { .si_signo = 5, .si_code = SI_QUEUE };
    SAY(syscall(SYS_rt_sigqueueinfo, getpid(), 0, &told));
    SAY(syscall(SYS_rt_sigqueueinfo, getpid(), 65, &told));
    SAY(syscall(SYS_rt_sigqueueinfo, 1 << 22, 1, &told));
    SAY(syscall(SYS_rt_sigqueueinfo, getpid(), 1, NOWHERE));
    SAY(syscall(SYS_rt_sigqueueinfo, -1, 1, &told));
    told.si_code = SI_TKILL;
    SAY(syscall(SYS_rt_sigqueueinfo, getppid(), 0, &told));
    told.si_code = 0;
    SAY(syscall(SYS_rt_sigqueueinfo, getppid(), 0, &told));
    SAY(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), 0, &told));
    SAY(syscall(SYS_rt_tgsigqueueinfo, 0, getpid(), 0, &told));
    SAY(syscall(SYS_rt_tgsigqueueinfo, getpid(), 0, 0, &told));
}

static void stacks(void) {
    static char room[65536];
    stack_t before, there = { room, 0, sizeof room };
    SAY(sigaltstack(NULL, &before));
    printf("%p %x %zu\n", before.ss_sp, before.ss_flags, before.ss_size);
    SAY(sigaltstack(&there, NULL));
    int flags[] = { 0, SS_ONSTACK, SS_DISABLE, 3, 4, 1 << 31, (1 << 31) | 1, (1 << 31) | 2, 1 << 30 };
    size_t sizes[] = { 0, 1, 2047, 2048, 4096, sizeof room, (size_t)-1 };
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 7; j++) {
            there = (stack_t){ room, flags[i], sizes[j] };
            printf("%x %zu ", flags[i], sizes[j]), SAY(sigaltstack(&there, &before));
            printf("before: %d %x %zu\n", before.ss_sp == room, before.ss_flags, before.ss_size);
        }
    there = (stack_t){ NULL, 0, sizeof room };
    SAY(sigaltstack(&there, NULL));
    there = (stack_t){ KERNEL, 0, sizeof room };
    SAY(sigaltstack(&there, NULL));
    SAY(sigaltstack(NOWHERE, NULL));
    SAY(sigaltstack(NULL, NOWHERE));
    there = (stack_t){ NULL, SS_DISABLE, 0 };
    SAY(sigaltstack(&there, NULL));
}

static void timers(void) {
    struct itimerval value = { { 0, 0 }, { 0, 0 } }, now;
    for (int which = -1; which < 4; which++) {
        printf("%d ", which), SAY(getitimer(which, &now));
        printf("%d ", which), SAY(setitimer(which, &value, &now));
        printf("%d ", which), SAY(syscall(SYS_setitimer, which, NULL, &now));
    }
    SAY(getitimer(0, NOWHERE));
    SAY(syscall(SYS_setitimer, 0, NOWHERE, NULL));
    value.it_value.tv_usec = 1000000;
    SAY(setitimer(0, &value, NULL));
    value.it_value.tv_usec = -1;
    SAY(setitimer(0, &value, NULL));
    value = (struct itimerval){ { 0, 1000000 }, { 0, 0 } };
    SAY(setitimer(0, &value, NULL));
    clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, 10, CLOCK_TAI, 12, 16, 100, -2, -6, -7, INT_MAX };
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        clockid_t clock = clocks[i];
        struct timespec time, zero = { 0, 0 };
        int timer = -1;
        struct sigevent event = { .sigev_notify = SIGEV_NONE };
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_gettime, clock, &time));
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_getres, clock, &time));
        if (errno == 0 && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_MONOTONIC_COARSE && clock != -7) printf("%ld.%09ld\n", (long)time.tv_sec, time.tv_nsec);
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_getres, clock, NULL));
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_nanosleep, clock, 0, &zero, NULL));
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_nanosleep, clock, 4, &zero, NULL));
        printf("clock %d: ", clock), SAY(syscall(SYS_clock_settime, clock, NOWHERE));
        long made = syscall(SYS_timer_create, clock, &event, &timer);
        printf("timer of %d: ", clock), say("made", made);
        if (made == 0) printf("deleted: %ld\n", syscall(SYS_timer_delete, timer));
        long descriptor = timerfd_create(clock, 0);
        printf("timerfd of %d: ", clock), say("made", descriptor < 0 ? descriptor : 0);
        if (descriptor >= 0) close(descriptor);
    }
    SAY(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, NOWHERE));
    struct { int notify, number; } events[] = { { SIGEV_SIGNAL, 0 }, { SIGEV_SIGNAL, 65 }, { SIGEV_SIGNAL, SIGKILL }, { SIGEV_NONE, 65 }, { SIGEV_THREAD, 10 }, { SIGEV_THREAD, 0 }, { SIGEV_THREAD_ID, 10 }, { 3, 10 }, { 5, 10 }, { 8, 10 }, { -1, 10 } };
    for (unsigned i = 0; i < sizeof events / sizeof *events; i++) {
        struct sigevent event = { .sigev_notify = events[i].notify, .sigev_signo = events[i].number };
        int timer = -1;
        long made = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer);
        printf("event %d %d: ", events[i].notify, events[i].number), say("made", made);
        if (made == 0) syscall(SYS_timer_delete, timer);
    }
    int timer = -1;
    SAY(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, NOWHERE));
    SAY(syscall(SYS_timer_create, CLOCK_MONOTONIC, NOWHERE, &timer));
    struct itimerspec spec = { { 0, 0 }, { 0, 0 } };
    int numbers[] = { -1, 1000, INT_MAX };
    for (int i = 0; i < 3; i++) {
        printf("%d ", numbers[i]), SAY(syscall(SYS_timer_settime, numbers[i], 0, &spec, NULL));
        printf("%d ", numbers[i]), SAY(syscall(SYS_timer_gettime, numbers[i], &spec));
        printf("%d ", numbers[i]), SAY(syscall(SYS_timer_getoverrun, numbers[i]));
        printf("%d ", numbers[i]), SAY(syscall(SYS_timer_delete, numbers[i]));
    }
    SAY(syscall(SYS_timer_settime, 1000, 0, NULL, NULL));
    int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
    SAY(timerfd_create(CLOCK_MONOTONIC, 1));
    for (int flags = 0; flags < 9; flags += 1) printf("%d ", flags), SAY(timerfd_settime(descriptor, flags, &spec, NULL));
    SAY(timerfd_settime(0, 0, &spec, NULL));
    SAY(timerfd_settime(-1, 0, &spec, NULL));
    SAY(timerfd_gettime(descriptor, NOWHERE));
    SAY(timerfd_settime(descriptor, 0, NOWHERE, NULL));
    char few[7];
    SAY(read(descriptor, few, 7));
    close(descriptor);
    uint64_t mask = 1;
    for (int size = 4; size < 20; size += 4) { long made = syscall(SYS_signalfd4, -1, &mask, size, 0); printf("%d ", size), say("signalfd", made < 0 ? made : 0); if (made >= 0) close(made); }
    SAY(syscall(SYS_signalfd4, -1, &mask, 8, 1));
    SAY(syscall(SYS_signalfd4, 0, &mask, 8, 0));
    SAY(syscall(SYS_signalfd4, 1000, &mask, 8, 0));
    SAY(syscall(SYS_signalfd4, -2, &mask, 8, 0));
    SAY(syscall(SYS_signalfd4, -1, NOWHERE, 8, 0));
}

static void waits(void) {
    siginfo_t told;
    struct rusage usage;
    int options[] = { 0, WNOHANG, WUNTRACED, WCONTINUED, WEXITED, WSTOPPED, WNOWAIT, 16, 1 << 20, __WALL, __WCLONE, __WNOTHREAD, WNOHANG | WEXITED, WNOHANG | WNOWAIT, -1 };
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        printf("%x ", options[i]), SAY(waitpid(-1, NULL, options[i]));
        for (int type = -1; type < 5; type++) printf("%x of type %d ", options[i], type), SAY(waitid(type, type == P_PIDFD ? -1 : 1, &told, options[i]));
    }
    SAY(waitpid(INT_MIN, NULL, 0));
    SAY(waitpid(0, NULL, 0));
    SAY(waitpid(1 << 22, NULL, 0));
    SAY(waitid(P_PID, 0, &told, WEXITED));
    SAY(waitid(P_PID, -1, &told, WEXITED));
    SAY(waitid(P_PGID, 0, &told, WEXITED));
    SAY(waitid(P_PGID, -1, &told, WEXITED));
    SAY(waitid(P_PIDFD, 0, &told, WEXITED));
    SAY(waitid(P_PIDFD, 1000, &told, WEXITED));
    pid_t child = fork();
    if (!child) _exit(5);
    SAY(syscall(SYS_wait4, child, NOWHERE, 0, NULL) == child);
    SAY(waitpid(child, NULL, 0));
    child = fork();
    if (!child) _exit(5);
    SAY(waitid(P_PID, child, NULL, WEXITED | WNOWAIT));
    SAY(syscall(SYS_wait4, child, NULL, 0, NOWHERE) == child);
    SAY(waitpid(child, NULL, 0));
    child = fork();
    if (!child) _exit(5);
    SAY(syscall(SYS_waitid, P_PID, child, KERNEL, WEXITED, NULL));
    SAY(waitpid(child, NULL, 0));
    for (int who = -3; who < 3; who++) printf("%d ", who), SAY(getrusage(who, &usage));
    SAY(syscall(SYS_getrusage, 0, NOWHERE));
    SAY(syscall(SYS_times, KERNEL));
}

static void limits(void) {
    struct rlimit limit;
    for (int which = -1; which < 18; which++) {
        printf("%d ", which), SAY(syscall(SYS_getrlimit, which, &limit));
        printf("%d ", which), SAY(syscall(SYS_prlimit64, 0, which, NULL, NULL));
        if (which < 0 || which > 15 || which == RLIMIT_NPROC || which == RLIMIT_SIGPENDING || which == RLIMIT_MEMLOCK) continue;
        struct rlimit same = limit, odd = { 100, 50 };
        printf("%d ", which), SAY(syscall(SYS_setrlimit, which, &odd));
        printf("%d ", which), SAY(syscall(SYS_setrlimit, which, &same));
        printf("%d ", which), SAY(syscall(SYS_prlimit64, getpid(), which, NULL, &limit));
    }
    SAY(syscall(SYS_prlimit64, 1 << 22, 0, NULL, NULL));
    SAY(syscall(SYS_prlimit64, -1, 0, NULL, NULL));
    SAY(syscall(SYS_getrlimit, 0, NOWHERE));
    SAY(syscall(SYS_setrlimit, 0, KERNEL));
    for (int which = -1; which < 4; which++) {
        // Of a user there may be others.
        if (which != PRIO_USER) printf("%d ", which), SAY(getpriority(which, 0));
        printf("%d ", which), SAY(syscall(SYS_getpriority, which, 1 << 22));
        printf("%d ", which), SAY(setpriority(which, 1 << 22, 0));
        if (which != 3) printf("%d ", which), SAY(syscall(SYS_ioprio_get, which, 0));
        printf("%d ", which), SAY(syscall(SYS_ioprio_set, which, 0, 5 << 13));
        printf("%d ", which), SAY(syscall(SYS_ioprio_set, which, 0, 9));
    }
    for (int policy = -1; policy < 7; policy++) {
        struct sched_param zero = { 0 }, one = { 1 }, many = { 100 };
        printf("%d ", policy), SAY(sched_get_priority_max(policy));
        printf("%d ", policy), SAY(sched_get_priority_min(policy));
        printf("%d ", policy), SAY(sched_setscheduler(0, policy, &many));
        if (policy != 1 && policy != 2) printf("%d ", policy), SAY(sched_setscheduler(0, policy, &one));
        if (policy != 4 && policy != 5 && policy != 6) printf("%d ", policy), SAY(sched_setscheduler(0, policy, &zero));
        printf("%d ", policy), SAY(sched_getscheduler(0));
    }
    struct sched_param zero = { 0 };
    SAY(sched_setscheduler(0, 0, &zero));
    SAY(sched_getscheduler(-1));
    SAY(sched_getscheduler(1 << 22));
    SAY(sched_getparam(0, NULL));
    SAY(sched_getparam(-1, &zero));
    SAY(sched_setparam(0, NULL));
    SAY(syscall(SYS_sched_rr_get_interval, -1, &limit));
    SAY(syscall(SYS_sched_rr_get_interval, 1 << 22, &limit));
    SAY(syscall(SYS_sched_rr_get_interval, 0, NOWHERE));
    unsigned long set[16] = { 0 };
    SAY(syscall(SYS_sched_setaffinity, 0, 8, set));
    SAY(syscall(SYS_sched_setaffinity, 0, 0, set));
    SAY(syscall(SYS_sched_setaffinity, 0, 8, NOWHERE));
    SAY(syscall(SYS_sched_setaffinity, 1 << 22, 8, set));
    SAY(syscall(SYS_sched_getaffinity, 0, 1, set));
    SAY(syscall(SYS_sched_getaffinity, 0, 0, set));
    SAY(syscall(SYS_sched_getaffinity, 0, 9, set));
    SAY(syscall(SYS_sched_getaffinity, 1 << 22, 8, set));
    SAY(syscall(SYS_sched_getaffinity, 0, 128, NOWHERE));
    unsigned attributes[14] = { 48 };
    unsigned sizes[] = { 0, 1, 47, 48, 49, 56, 4096, 4097 };
    for (int i = 0; i < 8; i++) printf("%u ", sizes[i]), SAY(syscall(SYS_sched_getattr, 0, attributes, sizes[i] > 56 ? sizes[i] - 4096 : sizes[i], 0));
    SAY(syscall(SYS_sched_getattr, 0, attributes, 56, 1));
    SAY(syscall(SYS_sched_getattr, -1, attributes, 56, 0));
    SAY(syscall(SYS_sched_setattr, 0, NULL, 0));
    SAY(syscall(SYS_sched_setattr, 0, NOWHERE, 0));
}

static void identities(void) {
    gid_t groups[4] = { 1, 2, 3, 4 };
    SAY(syscall(SYS_getgroups, -1, groups));
    SAY(getgroups(0, NULL));
    SAY(getgroups(3, groups));
    SAY(getgroups(4, NOWHERE));
    SAY(getgroups(4, groups));
    SAY(syscall(SYS_setuid, -1));
    SAY(syscall(SYS_setgid, -1));
    SAY(syscall(SYS_setreuid, -1, -1));
    SAY(syscall(SYS_setresuid, -1, -1, -1));
    SAY(syscall(SYS_setresgid, -1, -1, -1));
    SAY(syscall(SYS_getresuid, NOWHERE, groups, groups));
    SAY(syscall(SYS_getresgid, groups, groups, NULL));
    SAY(syscall(SYS_setfsuid, -1));
    SAY(syscall(SYS_setfsgid, -1));
    SAY(getpgid(-1));
    SAY(getpgid(1 << 22));
    SAY(getsid(-1));
    SAY(getsid(1 << 22));
    SAY(setpgid(-1, 0));
    SAY(setpgid(0, -1));
    SAY(setpgid(1 << 22, 0));
    SAY(setpgid(0, 1 << 22));
    SAY(setpgid(getppid(), 0));
    pid_t child = fork();
    if (!child) {
        SAY(setsid() == getpid());
        SAY(setsid());
        SAY(setpgid(0, 0));
        SAY(setpgid(0, getppid()));
        exit(0);
    }
    waitpid(child, NULL, 0);
    struct __user_cap_header_struct header = { 0, 0 };
    struct __user_cap_data_struct data[2];
    unsigned versions[] = { 0, 0x19980330, 0x20071026, 0x20080522, 1 };
    for (int i = 0; i < 5; i++) {
        header = (struct __user_cap_header_struct){ versions[i], 0 };
        printf("%x ", versions[i]), SAY(syscall(SYS_capget, &header, data));
        printf("version %x\n", header.version);
        header = (struct __user_cap_header_struct){ versions[i], 0 };
        printf("%x ", versions[i]), SAY(syscall(SYS_capget, &header, NULL));
        header = (struct __user_cap_header_struct){ versions[i], 1 << 22 };
        printf("%x ", versions[i]), SAY(syscall(SYS_capget, &header, data));
        header = (struct __user_cap_header_struct){ versions[i], -1 };
        printf("%x ", versions[i]), SAY(syscall(SYS_capget, &header, data));
        printf("%x ", versions[i]), SAY(syscall(SYS_capset, &header, data));
    }
    SAY(syscall(SYS_capget, NOWHERE, data));
}

static void settings(void) {
    char name[32];
    int word;
    SAY(prctl(PR_SET_NAME, "a name that is longer than it may be", 0, 0, 0));
    SAY(prctl(PR_GET_NAME, name, 0, 0, 0));
    printf("%s\n", name);
    SAY(prctl(PR_SET_NAME, NOWHERE, 0, 0, 0));
    SAY(prctl(PR_GET_NAME, NOWHERE, 0, 0, 0));
    SAY(prctl(PR_SET_PDEATHSIG, 65, 0, 0, 0));
    SAY(prctl(PR_SET_PDEATHSIG, -1, 0, 0, 0));
    SAY(prctl(PR_SET_PDEATHSIG, 64, 0, 0, 0));
    SAY(prctl(PR_GET_PDEATHSIG, &word, 0, 0, 0));
    printf("%d\n", word);
    SAY(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
    SAY(prctl(PR_GET_PDEATHSIG, NOWHERE, 0, 0, 0));
    for (int value = -1; value < 4; value++) {
        if (value != 0) printf("%d ", value), SAY(prctl(PR_SET_DUMPABLE, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_SET_KEEPCAPS, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_SET_CHILD_SUBREAPER, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_GET_CHILD_SUBREAPER, &word, 0, 0, 0));
        printf("%d\n", word);
        printf("%d ", value), SAY(prctl(PR_SET_TIMING, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_CAPBSET_READ, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_SET_THP_DISABLE, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_SET_TIMERSLACK, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_MCE_KILL_GET, value, 0, 0, 0));
        printf("%d ", value), SAY(prctl(PR_CAP_AMBIENT, value, 0, 0, 0));
    }
    SAY(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0));
    SAY(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
    SAY(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0));
    SAY(prctl(PR_CAPBSET_READ, 40, 0, 0, 0));
    SAY(prctl(PR_CAPBSET_READ, 41, 0, 0, 0));
    SAY(prctl(PR_CAPBSET_DROP, 64, 0, 0, 0));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0));
    SAY(prctl(PR_GET_THP_DISABLE, 1, 0, 0, 0));
    SAY(prctl(PR_GET_TID_ADDRESS, NOWHERE, 0, 0, 0));
    SAY(prctl(PR_GET_TSC, &word, 0, 0, 0));
    SAY(prctl(PR_SET_TSC, 5, 0, 0, 0));
    SAY(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
    SAY(prctl(PR_SET_SECUREBITS, 1 << 20, 0, 0, 0));
    SAY(prctl(PR_GET_ENDIAN, &word, 0, 0, 0));
    SAY(prctl(PR_GET_FPEMU, &word, 0, 0, 0));
    SAY(prctl(PR_GET_UNALIGN, &word, 0, 0, 0));
    SAY(prctl(-1, 0, 0, 0, 0));
    SAY(prctl(9999, 0, 0, 0, 0));
    SAY(syscall(SYS_arch_prctl, 0, 0));
    SAY(syscall(SYS_arch_prctl, 0x1002, KERNEL));
    SAY(syscall(SYS_arch_prctl, 0x1003, NOWHERE));
    SAY(syscall(SYS_arch_prctl, 0x1004, NOWHERE));
    SAY(personality(0xffffffff));
    SAY(umask(01777));
    SAY(umask(022));
    SAY(uname(NOWHERE));
    SAY(syscall(SYS_sysinfo, NOWHERE));
    SAY(syscall(SYS_getcpu, NOWHERE, NULL, NULL));
    SAY(syscall(SYS_getcpu, NULL, NULL, NULL));
    SAY(syscall(SYS_gettimeofday, NOWHERE, NULL));
    SAY(syscall(SYS_time, NOWHERE));
    SAY(syscall(SYS_getrandom, NOWHERE, 8, 0));
    SAY(syscall(SYS_getrandom, name, 8, 8));
    SAY(syscall(SYS_getrandom, name, 8, 6));
    SAY(syscall(SYS_getrandom, name, 0, 0));
    SAY(syscall(SYS_membarrier, 1 << 20, 0, 0));
    SAY(syscall(SYS_membarrier, 0, 1, 0));
    SAY(syscall(SYS_kcmp, getpid(), getpid(), 99, 0, 0));
    SAY(syscall(SYS_pidfd_open, 0, 0));
    SAY(syscall(SYS_pidfd_open, -1, 0));
    SAY(syscall(SYS_pidfd_open, 1 << 22, 0));
    SAY(syscall(SYS_pidfd_open, getpid(), 1));
    SAY(syscall(SYS_pidfd_send_signal, 0, 0, NULL, 0));
    SAY(syscall(SYS_pidfd_send_signal, -1, 0, NULL, 0));
    SAY(syscall(SYS_get_robust_list, -1, NULL, NULL));
    SAY(syscall(SYS_restart_syscall));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGCHLD, SIG_DFL);
    actions();
    masks();
    stacks();
    timers();
    waits();
    limits();
    identities();
    settings();
    return 0;
}
