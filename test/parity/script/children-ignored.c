// A program in C, compiled by the host's compiler, and the same on both sides.
/* SIGCHLD ignored: a child that has ended is gone by itself, also while its parent never waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int gone(int pid, int busy) {
    for (int i = 0; i < 300; i++) {
        if (kill(pid, 0) && errno == ESRCH) return 1;
        if (busy) { clock_t t = clock(); while (clock() - t < 10000) ; } else usleep(10000);
    }
    return 0;
}
int main(void) {
    signal(SIGCHLD, SIG_IGN);
    int p = fork(); if (!p) _exit(0);
    printf("gone after a sleep: %s\n", gone(p, 0) ? "yes" : "NO"); fflush(stdout);
    p = fork(); if (!p) _exit(0);
    printf("gone while busy: %s\n", gone(p, 1) ? "yes" : "NO"); fflush(stdout);
    p = fork(); if (!p) { execl("/bin/true", "true", (char *)0); execl("/bin/bash", "bash", "-c", "exit", (char *)0); _exit(1); }
    printf("exec'd child gone: %s\n", gone(p, 0) ? "yes" : "NO"); fflush(stdout);
    int r = wait(0); printf("wait: %s\n", r < 0 ? strerror(errno) : "a child");
    return 0;
}
