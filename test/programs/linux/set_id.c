// Programs that make a process somebody else: what it becomes, what it keeps, and that nobody else gains by it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel_rows.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static int is(uid_t real, uid_t effective, uid_t saved) {
    uid_t a, b, c;
    return !getresuid(&a, &b, &c) && a == real && b == effective && c == saved;
}

static int is_group(gid_t real, gid_t effective, gid_t saved) {
    gid_t a, b, c;
    return !getresgid(&a, &b, &c) && a == real && b == effective && c == saved;
}

// A copy of this program with an owner and a mode.
static void install(const char *name, uid_t owner, gid_t group, mode_t mode) {
    int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    struct stat status;
    CHECK(from >= 0 && to >= 0 && !fstat(from, &status) && sendfile(to, from, NULL, status.st_size) == status.st_size);
    CHECK(!close(from) && !close(to) && !chown(name, owner, group) && !chmod(name, mode));
}

static int reads(const char *path) {
    int file = open(path, O_RDONLY);
    if (file >= 0) close(file);
    return file >= 0;
}

// A child that is user 1000, group 100, with groups 20 and 30, and runs a program there.
static pid_t start(const char *program, const char *part, const char *more) {
    pid_t child = fork();
    if (!child) {
        char own[20];
        CHECK(!setgroups(2, (gid_t[]){20, 30}) && !setgid(100) && !setuid(1000));
        snprintf(own, sizeof own, "%d", getpid());
        execl(program, program, part, own, more, NULL);
        printf("%s: %s\n", program, strerror(errno));
        _exit(1);
    }
    return child;
}

// What is the same after it: number, parent, descriptors, folder, groups, limits, what is ignored and blocked.
static int keeps(int pid, const char *parent) {
    gid_t groups[4];
    sigset_t blocked;
    struct sigaction action;
    struct rlimit limit;
    char path[200], byte;
    CHECK(is(1000, 0, 0) && is_group(100, 100, 100) && getgroups(4, groups) == 2 && groups[0] == 20 && groups[1] == 30);
    CHECK(getpid() == pid && gettid() == pid && syscall(SYS_getpid) == pid && getppid() == atoi(parent));
    CHECK(getauxval(AT_SECURE) == 1 && getauxval(AT_UID) == 1000 && getauxval(AT_EUID) == 0);
    CHECK(getcwd(path, sizeof path) && strstr(path, "/set-id-") && !strcmp(getenv("KEPT"), "yes"));
    CHECK(!sigprocmask(0, NULL, &blocked) && sigismember(&blocked, SIGUSR2) && !sigismember(&blocked, SIGUSR1));
    CHECK(!sigaction(SIGUSR1, NULL, &action) && action.sa_handler == SIG_IGN && umask(0) == 027);
    CHECK(!sigaction(SIGTERM, NULL, &action) && action.sa_handler == SIG_DFL);
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur == 77 && getpgrp() == pid && fcntl(50, F_GETFD) == 0);
    CHECK(fcntl(51, F_GETFD) == -1 && errno == EBADF && read(50, &byte, 1) == 1 && byte == 'p' && reads("secret"));
    CHECK(alarm(0) > 50);
    int score = open("/proc/self/oom_score_adj", O_RDONLY);
    CHECK(read(score, path, 4) == 4 && !memcmp(path, "300\n", 4) && !close(score) && getpriority(PRIO_PROCESS, 0) == 5);
    CHECK(sched_getscheduler(0) == SCHED_BATCH);
    // It has children like everybody, and a thread's mutex has its number.
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) _exit(getppid() == pid && is(1000, 0, 0) && write(ends[1], "c", 1) == 1 ? 9 : 8);
    CHECK(status_of(child) == 9 << 8 && read(ends[0], &byte, 1) == 1 && !kill(pid, 0) && !raise(SIGUSR1));
    // Back to the user, and again; then for ever.
    CHECK(!seteuid(1000) && !reads("secret") && !seteuid(0) && reads("secret"));
    CHECK(!setuid(0) && is(0, 0, 0) && !setresuid(1000, 1000, 1000) && !reads("secret") && setuid(0) == -1 && errno == EPERM);
    child = fork();
    if (!child) _exit(write(ends[1], "d", 1) == 1 ? 7 : 6);
    CHECK(status_of(child) == 7 << 8 && read(ends[0], &byte, 1) == 1);
    return 42;
}

static void keep(void) {
    int ends[2];
    char own[20];
    CHECK(!pipe(ends) && write(ends[1], "p", 1) == 1);
    pid_t child = fork();
    if (!child) {
        sigset_t blocked;
        struct rlimit limit = {77, 100};
        sigemptyset(&blocked), sigaddset(&blocked, SIGUSR2);
        CHECK(dup2(ends[0], 50) == 50 && fcntl(51, F_DUPFD_CLOEXEC, 51) == -1 && dup3(ends[0], 51, O_CLOEXEC) == 51);
        CHECK(!sigprocmask(SIG_SETMASK, &blocked, NULL) && signal(SIGUSR1, SIG_IGN) != SIG_ERR && signal(SIGTERM, _exit) != SIG_ERR);
        umask(027), alarm(100), setenv("KEPT", "yes", 1), setpgid(0, 0);
        CHECK(!setrlimit(RLIMIT_NOFILE, &limit) && !setpriority(PRIO_PROCESS, 0, 5));
        CHECK(!sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}));
        int score = open("/proc/self/oom_score_adj", O_WRONLY);
        CHECK(write(score, "300\n", 4) == 4 && !close(score));
        CHECK(!setgroups(2, (gid_t[]){20, 30}) && !setgid(100) && !setuid(1000));
        snprintf(own, sizeof own, "%d", getpid());
        char parent[20];
        snprintf(parent, sizeof parent, "%d", getppid());
        execl("rooted", "rooted", "keeps", own, parent, NULL);
        _exit(1);
    }
    int status = status_of(child);
    if (status != 42 << 8) printf("status %x\n", status);
    close(ends[0]), close(ends[1]);
}

// Whoever is no more than its user.
static int gains_nothing(int pid, int renounces) {
    CHECK(is(1000, 1000, 1000) && is_group(100, 100, 100) && getpid() == pid && !reads("secret"));
    CHECK(!getauxval(AT_SECURE));
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == renounces ? 11 : 12;
}

// Executes a program that gives it nothing, as another user who renounced that.
static void renounced(const char *program) {
    char own[20];
    CHECK(!setgid(100) && !setuid(1000) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    snprintf(own, sizeof own, "%d", getpid());
    execl(program, program, "renounced", own, NULL);
    _exit(1);
}

static void nobody_gains(void) {
    pid_t child = start("plain", "gains-nothing", NULL);
    CHECK(status_of(child) == 11 << 8);
    child = fork();
    if (!child) renounced("rooted");
    CHECK(status_of(child) == 11 << 8);
    // A program that may not be read starts in a fresh environment, and gains no more than the others.
    install("unread-rooted", 0, 0, 04111);
    child = fork();
    if (!child) renounced("unread-rooted");
    CHECK(status_of(child) == 11 << 8);
    int script = open("script", O_CREAT | O_WRONLY, 0755);
    const char *text = "#!/bin/sh\n[ `id -u` = 1000 ] && exit 5\n";
    CHECK(write(script, text, strlen(text)) > 0 && !close(script) && !chmod("script", 04755));
    child = start("./script", NULL, NULL);
    CHECK(status_of(child) == 5 << 8);
    // A group that may not execute it makes the bit one for locks.
    child = start("locking", "gains-nothing", NULL);
    CHECK(status_of(child) == 11 << 8);
}

static int other_user(int pid) {
    int ends[2];
    char byte;
    CHECK(is(1000, 2000, 2000) && is_group(100, 100, 100) && getpid() == pid && reads("of-2000") && !reads("secret"));
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) _exit(reads("of-2000") && write(ends[1], "c", 1) == 1 && getppid() == pid ? 3 : 4);
    CHECK(status_of(child) == 3 << 8 && read(ends[0], &byte, 1) == 1);
    CHECK(!setreuid(2000, 1000) && is(2000, 1000, 1000) && !reads("of-2000") && !setuid(2000) && reads("of-2000"));
    // What it executes from here on is no set-id program: it stays who it is.
    CHECK(!setresuid(1000, 2000, 2000));
    child = fork();
    if (!child) { execl("plain", "plain", "still", NULL); _exit(1); }
    CHECK(status_of(child) == 21 << 8);
    return 12;
}

static int group(int pid) {
    CHECK(is(1000, 1000, 1000) && is_group(100, 300, 300) && getpid() == pid && getauxval(AT_SECURE) == 1);
    CHECK(reads("of-300") && !reads("secret") && !setegid(100) && !reads("of-300") && !setegid(300) && reads("of-300"));
    pid_t child = fork();
    if (!child) _exit(reads("of-300") && is_group(100, 300, 300) ? 3 : 4);
    CHECK(status_of(child) == 3 << 8);
    // For good, and another program of its own.
    CHECK(!setresgid(100, 100, 100) && !reads("of-300") && setegid(300) == -1 && errno == EPERM);
    child = fork();
    if (!child) { execl("/bin/sh", "sh", "-c", "exit 6", NULL); _exit(1); }
    CHECK(status_of(child) == 6 << 8);
    return 13;
}

static void other_users(void) {
    CHECK(status_of(start("of-user", "other-user", NULL)) == 12 << 8);
    CHECK(status_of(start("of-group", "group", NULL)) == 13 << 8);
    // One after the other: the second is executed by the first.
    CHECK(status_of(start("of-group", "and-rooted", NULL)) == 14 << 8);
}

static int second(int pid) {
    CHECK(getpid() == pid && is(1000, 0, 0) && is_group(100, 300, 300) && reads("secret") && reads("of-300"));
    return 14;
}

static void *compute(void *nothing) {
    for (volatile long rounds = 0;; rounds++) {}
    return nothing;
}

// A program that ends before the one that executed it has its turn again, because that one's threads compute: its status is
// its own all the same.
static void quick_ones(void) {
    for (int round = 0; round < 8; round++) CHECK(status_of(start("plain", "with-threads", NULL)) == 15 << 8);
    for (int round = 0; round < 8; round++) CHECK(status_of(start("of-group", "and-quick", NULL)) == 15 << 8);
}

// Its parent stops it, sees it go on, and ends it; and others see one process.
static void with_its_parent(void) {
    int status, seen = 0, others = 0, ends[2];
    char path[64], text[4000], byte;
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(ends[1], 50) == 50 && !setgid(100) && !setuid(1000));
        execl("rooted", "rooted", "waits", "0", NULL);
        _exit(1);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && !kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(WSTOPSIG(status) == SIGSTOP && !kill(child, SIGCONT) && waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc));) {
        if (atoi(entry->d_name) == child) seen++;
        if (atoi(entry->d_name) > child) others++;
    }
    closedir(proc);
    snprintf(path, sizeof path, "/proc/%d/status", child);
    int file = open(path, O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    CHECK(bytes > 0);
    text[bytes] = 0;
    CHECK(seen == 1 && !others && strstr(text, "Name:\trooted\n") && strstr(text, "Uid:\t1000\t0\t") && getpgid(child) == getpgrp());
    close(file);
    // Whose it is may end it, though it acts as another one; a third may not.
    pid_t third = fork();
    if (!third) { CHECK(!setuid(1001)); _exit(kill(child, SIGTERM) == -1 && errno == EPERM ? 3 : 4); }
    CHECK(status_of(third) == 3 << 8);
    third = fork();
    if (!third) { CHECK(!setuid(1000)); _exit(kill(child, SIGTERM) ? 4 : 3); }
    CHECK(status_of(third) == 3 << 8 && status_of(child) == SIGTERM);
    CHECK(kill(child, 0) == -1 && errno == ESRCH);
    close(ends[0]), close(ends[1]);
}

// Below the library: the kernel's calls and records, as in evil.c.
enum { PAGE = 4096, GATE_END = 4096 + 11 * 8, NUMBER = 1, ROOT = 4, AREA = 7, RECORD_WORDS = 64 };
static char *const area = (char *)0x7d8000000000;
static volatile uint64_t *const kernel = (void *)0xffffc00000000000, *const environments = (void *)0xffffc00040000000;
static volatile uint64_t (*const pages)[8] = (void *)0xffffc00080000000;
static volatile char scratch[PAGE] __attribute__((aligned(4096)));

static uint64_t map(uint64_t root, uint64_t key, uint64_t page, uint64_t rights) {
    uint64_t row[2] = {(uint64_t)scratch | key, page << 12 | rights}, number = ROW_PAGE_MAP;
    register uint64_t r10 __asm__("r10") = 1, r8 __asm__("r8") = 0, r9 __asm__("r9") = 0;
    uint64_t a = 1, b = root, c = (uint64_t)row;
    __asm__ volatile("syscall" : "+a"(number), "+D"(a), "+S"(b), "+d"(c), "+r"(r10), "+r"(r8), "+r"(r9)
                     : : "rbx", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
    return number;
}

// The environment that was made last.
static volatile uint64_t *newest(void) {
    volatile uint64_t *found = environments;
    for (uint64_t slot = 0; slot < kernel[4]; slot++) {
        volatile uint64_t *record = environments + slot * RECORD_WORDS;
        if (record[AREA] == (uint64_t)area && record[NUMBER] > found[NUMBER]) found = record;
    }
    return found;
}

// FAULTS.md row 98: a process of the user counts what it opens of the pages of one that it has just seen begin, by every key
// that it has, to read or to write.
static int spy(void) {
    uint64_t root = 0, list = (uint32_t)pages[newest()[ROOT]][2];
    for (uint64_t slot = 0; slot < kernel[4]; slot++)
        if (environments[slot * RECORD_WORDS + NUMBER] == (uint64_t)getpid()) root = environments[slot * RECORD_WORDS + ROOT];
    scratch[0] = 1;
    volatile uint64_t *gate = (volatile uint64_t *)(area + GATE_END);
    uint64_t gate_end = *gate;
    int opened = 0;
    *gate = 0;
    for (uint64_t page = 0; page < kernel[3]; page++)
        for (uint64_t key = 0; (uint32_t)pages[page][2] == list && key < 8; key++)
            opened += !map(root, key, page, 7) + !map(root, key, page, 5);
    *gate = gate_end;
    return opened;
}

static int spied(const char *program) {
    int ends[2], go[2], told[2], opened = -1;
    char byte;
    CHECK(!pipe(ends) && !pipe(go) && !pipe(told));
    pid_t eye = fork();
    if (!eye) {
        CHECK(!setgid(100) && !setuid(1000) && read(go[0], &byte, 1) == 1);
        int found = spy();
        _exit(write(told[1], &found, sizeof found) != sizeof found);
    }
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(ends[1], 50) == 50 && !setgid(100) && !setuid(1000));
        execl(program, program, "waits", "0", NULL);
        _exit(1);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && write(go[1], "", 1) == 1 && read(told[0], &opened, sizeof opened) == sizeof opened);
    CHECK(status_of(eye) == 0 && !kill(child, SIGKILL) && status_of(child) == SIGKILL);
    for (int i = 0; i < 2; i++) close(ends[i]), close(go[i]), close(told[i]);
    return opened;
}

static void spies(void) {
    CHECK(spied("plain") > 20);
    CHECK(spied("unread") == 0);
    CHECK(spied("rooted") == 0);
    CHECK(spied("of-group") == 0);
    CHECK(spied("of-user") == 0);
}

// A program that may be executed and not read: nobody but it sees what it is.
static int unread(int pid, int effective) {
    pid_t child = fork();
    if (!child) execl("plain", "plain", "quick", "0", NULL);
    CHECK(getpid() == pid && is(1000, effective, effective) && is_group(100, 100, 100) && status_of(child) == 15 << 8);
    CHECK(prctl(PR_GET_DUMPABLE) == 0 && getauxval(AT_SECURE) == (effective != 1000));
    CHECK(open("unread", O_RDONLY) == -1 ? errno == EACCES && effective : !effective);
    return 0;
}

static int of_one_user(pid_t child) {
    char path[40], byte;
    struct iovec here = {&byte, 1}, there = {(void *)install, 1};
    CHECK(!setgid(100) && !setuid(1000));
    CHECK(process_vm_readv(child, &here, 1, &there, 1, 0) == -1 && errno == EPERM);
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    CHECK(!reads(path) && !reads("unread") && open("unread", O_RDONLY | O_NOATIME) == -1);
    // A place is none to read or to map from, and one to execute.
    int place = open("unread", O_PATH);
    CHECK(place >= 0 && read(place, &byte, 1) == -1 && mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, place, 0) == MAP_FAILED);
    char own[20];
    snprintf(own, sizeof own, "%d", getpid());
    return fexecve(place, (char *[]){"unread", "unread", own, NULL}, environ);
}

static void unread_ones(void) {
    install("unread", 0, 0, 0111);
    CHECK(status_of(start("unread", "unread", NULL)) == 0);
    CHECK(status_of(start("unread-rooted", "unread-rooted", NULL)) == 0);
    int ends[2];
    char byte;
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(ends[1], 50) == 50 && !setgid(100) && !setuid(1000));
        execl("unread", "unread", "waits", "0", NULL);
        _exit(1);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && !close(ends[0]) && !close(ends[1]));
    pid_t other = fork();
    if (!other) _exit(of_one_user(child) ? 1 : 0);
    CHECK(status_of(other) == 0 && !kill(child, SIGKILL) && status_of(child) == SIGKILL);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 2) {
        int pid = atoi(arguments[2]);
        if (!strcmp(arguments[1], "keeps")) return keeps(pid, arguments[3]);
        if (!strcmp(arguments[1], "gains-nothing")) return gains_nothing(pid, 0);
        if (!strcmp(arguments[1], "renounced")) return gains_nothing(pid, 1);
        if (!strcmp(arguments[1], "other-user")) return other_user(pid);
        if (!strcmp(arguments[1], "group")) return group(pid);
        if (!strcmp(arguments[1], "second")) return second(pid);
        if (!strcmp(arguments[1], "and-rooted")) { execl("rooted", "rooted", "second", arguments[2], NULL); return 1; }
        if (!strcmp(arguments[1], "quick")) return 15;
        if (!strcmp(arguments[1], "unread")) return unread(pid, 1000);
        if (!strcmp(arguments[1], "unread-rooted")) return unread(pid, 0);
        if (!strcmp(arguments[1], "with-threads")) {
            pthread_t thread;
            for (int i = 0; i < 6; i++) CHECK(!pthread_create(&thread, NULL, compute, NULL));
        }
        if (!strcmp(arguments[1], "with-threads") || !strcmp(arguments[1], "and-quick")) {
            execl("rooted", "rooted", "quick", "", NULL);
            return 1;
        }
        if (!strcmp(arguments[1], "waits")) { if (write(50, "", 1) != 1) return 1; for (;;) pause(); }
        return 2;
    }
    if (count == 2 && !strcmp(arguments[1], "still")) return is(1000, 2000, 2000) && reads("of-2000") ? 21 : 22;
    alarm(100);
    char folder[] = "/tmp/set-id-XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    install("rooted", 0, 0, 04755), install("plain", 1000, 100, 0755), install("of-user", 2000, 0, 04755);
    install("of-group", 0, 300, 02755), install("locking", 0, 300, 02745);
    const struct { const char *name; uid_t owner; gid_t group; mode_t mode; } files[] = {
        {"secret", 0, 0, 0600}, {"of-2000", 2000, 0, 0600}, {"of-300", 0, 300, 0640},
    };
    for (int i = 0; i < 3; i++) {
        int file = open(files[i].name, O_CREAT | O_WRONLY, 0600);
        CHECK(!close(file) && !chown(files[i].name, files[i].owner, files[i].group) && !chmod(files[i].name, files[i].mode));
    }
    keep();
    puts("a set-id program is the same process, and somebody else");
    nobody_gains();
    puts("no other program makes anybody more");
    other_users();
    puts("other users, and groups");
    with_its_parent();
    puts("its parent and others see one process");
    unread_ones();
    puts("who may execute a program need not be allowed to read it");
    spies();
    puts("nobody reaches into it");
    quick_ones();
    puts("quick programs have their own ends");
}
