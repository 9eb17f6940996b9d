// What a user may do to the scheduling of others and of itself (setpriority(2), sched(7)): result and errno of each call.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static void tell(const char *w, int r) { printf("%s %d %d\n", w, r, r ? errno : 0); }
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    pid_t one = fork();
    if (!one) { for (;;) pause(); }
    pid_t child = fork();
    if (!child) {
        if (setgid(100) || setuid(1000)) return 1;
        cpu_set_t set; CPU_ZERO(&set); CPU_SET(0, &set);
        struct sched_param zero = {0}, two = {2};
        tell("nice of other", setpriority(PRIO_PROCESS, one, 12));
        tell("cpus of other", sched_setaffinity(one, sizeof set, &set));
        tell("policy of other", sched_setscheduler(one, SCHED_BATCH, &zero));
        tell("better", setpriority(PRIO_PROCESS, 0, -5));
        tell("real time", sched_setscheduler(0, SCHED_RR, &two));
        tell("worse", setpriority(PRIO_PROCESS, 0, 15));
        tell("back", setpriority(PRIO_PROCESS, 0, 14));
        pid_t inner = fork();
        if (!inner) { for (;;) pause(); }
        tell("inner", setpriority(PRIO_PROCESS, inner, 17));
        printf("%d\n", getpriority(PRIO_PROCESS, inner));
        tell("inner back", setpriority(PRIO_PROCESS, inner, 16));
        tell("user", setpriority(PRIO_USER, 0, 18));
        printf("%d %d\n", getpriority(PRIO_PROCESS, inner), getpriority(PRIO_PROCESS, 0));
        kill(inner, 9);
        return 0;
    }
    wait(0);
    kill(one, 9);
}
