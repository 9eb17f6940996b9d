// FAULTS.md row 98: a process asks the kernel for every page of the machine, with every key that it has, and looks for what others
// keep from it. One that is user 0 finds all of it; one that became another user finds what everybody may read, and nothing else.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "kernel_rows.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { PAGE = 4096, FILE_BYTES = 4 * PAGE, USER = 1000, OTHER = 1001 };

// What is written where.
enum kind {
    WRITTEN, MAPPED, SHARED, NAMED_PIPE, PRINTED, SEGMENT, OF_OTHER, CLOSED_LATER, BELOW_CLOSED, PROGRAM,
    LATER_CHILD, PUBLIC, KINDS,
};
static const char *const names[KINDS] = {
    "a file that was written", "a file that is mapped", "a file that is mapped to be written", "a named pipe",
    "what was printed", "a shared segment", "a file of another user", "a file that was closed later",
    "a file below a folder that was closed later", "a program that may not be read", "the memory of a later child", "a public file",
};

// Two words beside each other that have a difference which nothing else has: who looks for them has them nowhere itself.
static const uint64_t MARK = 0x5ec2e7a9b1d3f705;

static void fill(void *place, size_t bytes, enum kind kind) {
    uint64_t *words = place, some = 0x9e3779b97f4a7c15 * (kind + 1);
    for (size_t i = 0; i + 1 < bytes / 8; i += 2) {
        some = some * 6364136223846793005u + 1442695040888963407u;
        words[i] = some, words[i + 1] = some ^ (MARK + kind);
    }
}

// It stands at any byte of a page.
static void look(const volatile char *page, int found[KINDS]) {
    int seen[KINDS] = {0};
    for (int at = 0; at + 16 <= PAGE; at++) {
        uint64_t kind = (*(const volatile uint64_t *)(page + at) ^ *(const volatile uint64_t *)(page + at + 8)) - MARK;
        if (kind < KINDS) seen[kind]++;
    }
    for (int kind = 0; kind < KINDS; kind++) found[kind] += seen[kind] >= 8;
}

// Below the library: the kernel's calls and records, as in evil.c.
enum { GATE_END = 4096 + 11 * 8, NUMBER = 1, ROOT = 4, AREA = 7, RECORD_WORDS = 64, KEYS = 8 };
static char *const area = (char *)0x7d8000000000;
static volatile uint64_t *const kernel = (void *)0xffffc00000000000, *const environments = (void *)0xffffc00040000000;
static volatile char scratch[PAGE] __attribute__((aligned(4096)));

static uint64_t map(uint64_t root, uint64_t key, uint64_t entry) {
    uint64_t row[2] = {(uint64_t)scratch | key, entry}, number = ROW_PAGE_MAP;
    register uint64_t r10 __asm__("r10") = 1, r8 __asm__("r8") = 0, r9 __asm__("r9") = 0;
    uint64_t a = 1, b = root, c = (uint64_t)row;
    __asm__ volatile("syscall" : "+a"(number), "+D"(a), "+S"(b), "+d"(c), "+r"(r10), "+r"(r8), "+r"(r9)
                     : : "rbx", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
    return number;
}

static uint64_t own_root(void) {
    volatile uint64_t *record = environments;
    while (record[NUMBER] != (uint64_t)getpid() || record[AREA] != (uint64_t)area) record += RECORD_WORDS;
    return record[ROOT];
}

// Looks into every page that opens: how many hold each of these.
static void spy(int found[KINDS]) {
    uint64_t root = own_root();
    volatile uint64_t *gate = (volatile uint64_t *)(area + GATE_END);
    uint64_t gate_end = *gate;
    scratch[0] = 1;
    *gate = 0;
    for (uint64_t page = 0; page < kernel[3]; page++)
        for (uint64_t key = 0; key < KEYS; key++)
            if (!map(root, key, page << 12 | 5)) { look(scratch, found); break; }
    map(root, 0, 0);
    *gate = gate_end;
}

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static int make(const char *path, mode_t mode, uid_t owner, enum kind kind) {
    static char bytes[FILE_BYTES];
    int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    fill(bytes, sizeof bytes, kind);
    CHECK(file >= 0 && write(file, bytes, sizeof bytes) == sizeof bytes && !chmod(path, mode) && !chown(path, owner, owner));
    return file;
}

// Touches all of a file, mapped.
static void touch(const char *path) {
    int file = open(path, O_RDONLY), sum = 0;
    volatile char *at = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    CHECK(file >= 0 && at != MAP_FAILED);
    for (int i = 0; i < FILE_BYTES; i += PAGE) sum += at[i];
    CHECK(!close(file) && sum != 1 << 30);
}

static void touch_as(uid_t user, const char *path) {
    pid_t child = fork();
    if (!child) { CHECK(!setuid(user)); touch(path); _exit(0); }
    CHECK(status_of(child) == 0);
}

// Rewrites a file that was told of to others.
static void rewrite(const char *path, enum kind kind) {
    static char bytes[FILE_BYTES];
    int file = open(path, O_WRONLY);
    fill(bytes, sizeof bytes, kind);
    CHECK(file >= 0 && write(file, bytes, sizeof bytes) == sizeof bytes && !close(file));
}

// What a copy of this program has in the place of these words.
static const volatile uint64_t payload[64] = {0x1b57a3c4d2e6f908, 0x8d2f6a1c3e5b7094, 1};

// A program that its user runs, which may not read it: what it has in its text is its own affair.
static void run_unreadable(void) {
    static char bytes[4 << 20];
    int from = open("/proc/self/exe", O_RDONLY), to = open("program", O_CREAT | O_WRONLY, 0700), ends[2];
    ssize_t size = read(from, bytes, sizeof bytes);
    char *place = memmem(bytes, size, (const void *)payload, 16), byte;
    CHECK(size > 0 && size < (ssize_t)sizeof bytes && place && !pipe(ends));
    fill(place, sizeof payload, PROGRAM);
    CHECK(write(to, bytes, size) == size && !close(to) && !close(from) && !chmod("program", 0711));
    memset(bytes, 0, sizeof bytes);
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(ends[1], 50) == 50 && !setuid(USER) && open("program", O_RDONLY) == -1 && errno == EACCES);
        execl("program", "program", "runs", NULL);
        _exit(1);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && !close(ends[0]) && !close(ends[1]));
}

// Keeps secrets of all kinds until it is killed.
static void keep(int ready) {
    static char bytes[512];
    // Who becomes another user has what it had open, and its user has it then: nothing is open yet.
    run_unreadable();
    close(make("of-other", 0600, OTHER, OF_OTHER));
    touch_as(OTHER, "of-other");
    close(make("closed", 0644, 0, KINDS));
    touch_as(USER, "closed");
    CHECK(!chmod("closed", 0600));
    rewrite("closed", CLOSED_LATER);
    CHECK(!mkdir("folder", 0755));
    close(make("folder/open", 0644, 0, KINDS));
    touch_as(USER, "folder/open");
    CHECK(!chmod("folder", 0700));
    rewrite("folder/open", BELOW_CLOSED);
    close(make("public", 0644, 0, PUBLIC));
    touch_as(OTHER, "public");

    make("written", 0600, 0, WRITTEN);
    close(make("mapped", 0600, 0, MAPPED));
    touch("mapped");
    void *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, make("shared", 0600, 0, SHARED), 0);
    CHECK(at != MAP_FAILED);
    fill(at, FILE_BYTES, SHARED);

    CHECK(!mkfifo("pipe", 0600));
    int pipe = open("pipe", O_RDWR);
    fill(bytes, sizeof bytes, NAMED_PIPE);
    CHECK(pipe >= 0 && write(pipe, bytes, sizeof bytes) == sizeof bytes);

    int master, slave;
    struct termios raw;
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL) && !tcgetattr(slave, &raw));
    cfmakeraw(&raw);
    CHECK(!tcsetattr(slave, TCSANOW, &raw));
    fill(bytes, sizeof bytes, PRINTED);
    CHECK(write(slave, bytes, sizeof bytes) == sizeof bytes);

    int segment = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
    void *attached = shmat(segment, NULL, 0);
    CHECK(segment >= 0 && attached != (void *)-1 && !shmctl(segment, IPC_RMID, NULL));
    fill(attached, PAGE, SEGMENT);
    memset(bytes, 0, sizeof bytes);
    CHECK(write(ready, "k", 1) == 1);
    for (;;) pause();
}

static char memory[FILE_BYTES];

// Writes a secret into its own memory, and into that of the library.
static void be_later(int ready) {
    fill(memory, sizeof memory, LATER_CHILD);
    CHECK(write(ready, "l", 1) == 1);
    for (;;) pause();
}

// A child becomes a user, another one does and ends, and when there is a third one, which stays who it is, the first looks around.
static void look_around(uid_t user, int found[KINDS]) {
    int go[2], ready[2], told[2];
    char byte;
    CHECK(!pipe(go) && !pipe(ready) && !pipe(told));
    pid_t eye = fork();
    if (!eye) {
        CHECK(!setuid(user));
        int there[KINDS] = {0};
        CHECK(read(go[0], &byte, 1) == 1);
        spy(there);
        _exit(write(told[1], there, sizeof there) != sizeof there);
    }
    pid_t before = fork();
    if (!before) _exit(setuid(user));
    CHECK(status_of(before) == 0);
    pid_t later = fork();
    if (!later) be_later(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1 && write(go[1], "", 1) == 1);
    CHECK(read(told[0], found, sizeof(int) * KINDS) == sizeof(int) * KINDS);
    CHECK(status_of(eye) == 0 && !kill(later, SIGKILL) && status_of(later) == SIGKILL);
    for (int i = 0; i < 2; i++) close(go[i]), close(ready[i]), close(told[i]);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "runs")) {
        if (write(50, payload[0] ? "p" : "q", 1) != 1) return 1;
        for (;;) pause();
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    char folder[] = "/tmp/evil-reader-XXXXXX", byte;
    int ready[2];
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755) && !pipe(ready));
    pid_t keeper = fork();
    if (!keeper) keep(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    int found[KINDS] = {0};
    look_around(0, found);
    for (int kind = 0; kind < KINDS; kind++) if (!found[kind]) printf("user 0 does not find %s\n", names[kind]);
    puts("user 0 finds what it looks for");
    for (int round = 0; round < 3; round++) {
        memset(found, 0, sizeof found);
        look_around(USER, found);
        for (int kind = 0; kind < KINDS; kind++)
            if ((kind == PUBLIC) != !!found[kind]) printf("another user finds %d pages of %s\n", found[kind], names[kind]);
    }
    puts("another user finds what everybody may read, and nothing else");
    CHECK(!kill(keeper, SIGKILL) && status_of(keeper) == SIGKILL);
    return 0;
}
