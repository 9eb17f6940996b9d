// The leader of a session ends: its terminal is lost, the foreground group hangs up, and a stopped group that has become
// an orphan hangs up and continues. What each process saw stands in memory that all share.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOREGROUND, BACKGROUND, STOPPED, MEMBER, KINDS };
static const char *const names[KINDS] = {"foreground", "background", "stopped", "member"};
struct seen { atomic_int ready, hangups, continues; int tty, read, foreground, written; };
static struct seen *seen;
static int self;

static void count(int signal) { signal == SIGHUP ? seen[self].hangups++ : seen[self].continues++; }

static void outcome(int kind, int slave) {
    char byte;
    int terminal = open("/dev/tty", O_RDWR | O_NONBLOCK);
    seen[kind].tty = terminal < 0 ? errno : 0;
    if (terminal >= 0) close(terminal);
    signal(SIGTTIN, SIG_IGN), signal(SIGTTOU, SIG_IGN);
    long got = read(slave, &byte, 1);
    seen[kind].read = got < 0 ? errno : (int)got;
    // A terminal that is being hung up may be busy for a moment.
    for (int tries = 0; (got = write(slave, "x", 1)) < 0 && errno == EAGAIN && tries < 1000; tries++) usleep(1000);
    seen[kind].written = got < 0 ? errno : (int)got;
    pid_t group = tcgetpgrp(slave);
    seen[kind].foreground = group < 0 ? errno : 0;
}

// A child of the leader in a group of its own, or in the leader's.
static pid_t child(int kind, int slave) {
    pid_t made = fork();
    if (made) return made;
    self = kind;
    if (kind != MEMBER) setpgid(0, 0);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGHUP, &action, NULL), sigaction(SIGCONT, &action, NULL);
    pid_t leader = getppid();
    if (kind == FOREGROUND) {
        signal(SIGTTOU, SIG_IGN);
        if (tcsetpgrp(slave, getpid())) seen[kind].ready = 9;
    }
    seen[kind].ready++;
    if (kind == STOPPED) raise(SIGSTOP);
    while (getppid() == leader) usleep(1000);
    usleep(200000);
    outcome(kind, slave);
    seen[kind].ready++;
    _exit(0);
}

static void lead(int slave, int ignores) {
    setsid();
    if (ioctl(slave, TIOCSCTTY, 0)) _exit(1);
    if (ignores) signal(SIGHUP, SIG_IGN);
    pid_t stopped = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        pid_t made = child(kind, slave);
        if (kind == STOPPED) stopped = made;
        while (!seen[kind].ready) usleep(1000);
    }
    int status;
    waitpid(stopped, &status, WUNTRACED);
    _exit(0);
}

static void end_a_leader(int ignores) {
    int master, slave, status;
    memset(seen, 0, KINDS * sizeof *seen);
    if (openpty(&master, &slave, NULL, NULL, NULL)) exit(1);
    fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
    pid_t leader = fork();
    if (!leader) lead(slave, ignores);
    waitpid(leader, &status, 0);
    printf("the leader ended with %#x\n", status);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int tries = 0; seen[kind].ready < 2 && tries < 5000; tries++) usleep(1000);
        printf("%s: %d, %d SIGHUP, %d SIGCONT, /dev/tty %s, read %s, write %s, group %s\n", names[kind], seen[kind].ready,
            seen[kind].hangups, seen[kind].continues, strerrorname_np(seen[kind].tty), strerrorname_np(seen[kind].read),
            seen[kind].written == 1 ? "1" : strerrorname_np(seen[kind].written), strerrorname_np(seen[kind].foreground));
    }
    // The terminal serves another session.
    pid_t next = fork();
    if (!next) {
        int again = open(ptsname(master), O_RDWR | O_NOCTTY);
        setsid();
        _exit(ioctl(again, TIOCSCTTY, 0) ? errno : tcgetsid(again) == getpid() ? 0 : 100);
    }
    waitpid(next, &status, 0);
    printf("another session: %d\n", WEXITSTATUS(status));
    close(master), close(slave);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    seen = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    end_a_leader(0);
    end_a_leader(1);
    return 0;
}
