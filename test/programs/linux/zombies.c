// Children that have ended and that nobody has waited for: they are found as long as that is so, by their parent and by others, and they hold
// next to nothing, however many they are. When their parent is gone, however it ended, so are they.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel_rows.h"

#include "census.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

// Where ExOS keeps the areas of environments, by its address_map.rs, and its keys.
static char *const AREA = (char *)0x7d8000000000;
enum { SESSION = 3, GATE_END = 4096 + 11 * 8 };
// What is kept for later changes by up to 600 KiB. If each of those that were left behind kept a page, 2,400 would be missing.
enum { ROUNDS = 5, LEFT = 40, SLACK = 1200 };
enum { ZOMBIES = 300, GROUP_OF = 10, KILLED = 7, LARGE = 4 << 20, KIB_EACH = 64 };

static pid_t zombies[ZOMBIES];

// Every seventh is killed in the middle of nothing, the others end by themselves.
static int status_of(int index) { return index % KILLED == 3 ? SIGTERM : (index & 0x7f) << 8; }

static void child(int index) {
    char *some = malloc(200000);
    if (some) memset(some, index, 200000);
    if (index % KILLED == 3) for (;;) pause();
    _exit(index & 0x7f);
}

static void make(int index) {
    pid_t made = fork();
    CHECK(made >= 0);
    if (made == 0) child(index);
    zombies[index] = made;
    CHECK(setpgid(made, zombies[index / GROUP_OF * GROUP_OF]) == 0 || errno == ESRCH);
    if (index % KILLED == 3) CHECK(kill(made, SIGTERM) == 0);
    // It has ended and stays.
    siginfo_t told = { 0 };
    CHECK(waitid(P_PID, made, &told, WEXITED | WNOWAIT) == 0 && told.si_pid == made);
}

// What /proc tells of one: its state and its parent.
static void look_in_proc(int index, pid_t parent) {
    char path[64], name[64], state;
    int number, above;
    snprintf(path, sizeof path, "/proc/%d/stat", zombies[index]);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%d %63s %c %d", &number, name, &state, &above) == 4 && fclose(file) == 0);
    CHECK(number == zombies[index] && state == 'Z' && above == parent);
    snprintf(path, sizeof path, "/proc/%d/cmdline", zombies[index]);
    file = fopen(path, "r");
    CHECK(file && fgetc(file) == EOF && fclose(file) == 0);
    snprintf(path, sizeof path, "/proc/%d/maps", zombies[index]);
    file = fopen(path, "r");
    CHECK(file == NULL || (fgetc(file) == EOF && fclose(file) == 0));
}

// Whoever asks about them finds all.
static void find_all(pid_t parent) {
    int listed = 0;
    DIR *directory = opendir("/proc");
    CHECK(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        for (int i = 0; i < ZOMBIES; i++) listed += atoi(entry->d_name) == zombies[i];
    CHECK(closedir(directory) == 0 && listed == ZOMBIES);
    for (int i = 0; i < ZOMBIES; i++) {
        CHECK(kill(zombies[i], 0) == 0 && kill(zombies[i], SIGTERM) == 0 && kill(zombies[i], SIGKILL) == 0);
        CHECK(getpgid(zombies[i]) == zombies[i / GROUP_OF * GROUP_OF] && getsid(zombies[i]) == getsid(0));
        CHECK(getpriority(PRIO_PROCESS, (id_t)zombies[i]) == 0);
        look_in_proc(i, parent);
    }
    CHECK(kill(-zombies[0], 0) == 0);
}

static void by_another(void) {
    pid_t parent = getpid(), other = fork();
    int status;
    CHECK(other >= 0);
    if (other == 0) {
        find_all(parent);
        // They are not this one's.
        CHECK(waitpid(zombies[0], &status, 0) == -1 && errno == ECHILD);
        exit(0);
    }
    CHECK(waitpid(other, &status, 0) == other && status == 0);
}

// All ways to ask for one, and it is gone.
static void bury(int index) {
    int status = -1;
    struct rusage usage;
    siginfo_t told = { 0 };
    switch (index % 3) {
    case 0: CHECK(waitpid(zombies[index], &status, 0) == zombies[index] && status == status_of(index)); break;
    case 1: CHECK(wait4(zombies[index], &status, WNOHANG, &usage) == zombies[index] && status == status_of(index)); break;
    default:
        CHECK(waitid(P_PID, zombies[index], &told, WEXITED) == 0 && told.si_pid == zombies[index]);
        CHECK(told.si_status == (index % KILLED == 3 ? SIGTERM : index & 0x7f));
    }
    CHECK(kill(zombies[index], 0) == -1 && errno == ESRCH);
}

// The kernel destroys a process at once: a call of the kernel itself, with the key of the session, which the own library does not see.
static void destroy(pid_t number) {
    volatile uint64_t *gate_end = (volatile uint64_t *)(AREA + GATE_END);
    uint64_t before = *gate_end, result, keeps = 0;
    *gate_end = 0;
    __asm__ volatile("syscall" : "=a"(result), "+d"(keeps) : "a"((uint64_t)ROW_ENVIRONMENT_DESTROY), "D"((uint64_t)SESSION), "S"((uint64_t)number)
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
    *gate_end = before;
}

// A parent that has zombies comes to its end, in one of three ways.
static void leave_behind(int way) {
    int ends[2];
    char is_ready;
    CHECK(pipe(ends) == 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        for (int i = 0; i < LEFT; i++) make(i);
        CHECK(write(ends[1], "r", 1) == 1);
        while (way) pause();
        _exit(0);
    }
    CHECK(read(ends[0], &is_ready, 1) == 1 && close(ends[0]) == 0 && close(ends[1]) == 0);
    if (way == 1) CHECK(kill(parent, SIGKILL) == 0);
    if (way == 2) destroy(parent);
    CHECK(waitpid(parent, NULL, 0) == parent);
}

static void all_go(void) {
    for (int way = 0; way < 3; way++) leave_behind(way);
    long before = free_when_quiet();
    CHECK(processes() == 1);
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < 3; way++) leave_behind(way);
    long after = free_when_quiet();
    CHECK(processes() == 1);
    if (before - after > SLACK) printf("%ld KiB were free, %ld are\n", before, after);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(240);
    // A parent that has much: so would its children.
    char *much = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(much != MAP_FAILED);
    memset(much, 1, LARGE);
    for (int i = 0; i < 20; i++) make(i);
    long before = free_kilobytes();
    for (int i = 20; i < ZOMBIES; i++) make(i);
    long each = (before - free_kilobytes()) / (ZOMBIES - 20);
    if (each > KIB_EACH) {
        printf("%ld KiB each\n", each);
        return 1;
    }
    puts("next to nothing");
    find_all(getpid());
    puts("found");
    by_another();
    puts("found by others");
    for (int i = ZOMBIES - 1; i >= 0; i -= 2) bury(i);
    for (int i = 0; i < ZOMBIES; i += 2) bury(i);
    int status;
    CHECK(wait(&status) == -1 && errno == ECHILD);
    puts("waited for");
    all_go();
    puts("gone with their parents");
    return 0;
}
