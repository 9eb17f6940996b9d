// A program that the same process executes again and again begins as its file says each time, whatever those before it did to
// their memory, how they ended, and what became of the file; whatever they did with the kernel's own calls to the tables of their
// address space; and if they never executed it, but could write where it stood. One line for each part that works; with an argument: the program.
#define _GNU_SOURCE
#include "evil.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { WORDS = PAGE / 8, DATA = 6, ZEROS = 5 };
#define MARK 0x5ca1ab1e0ddba115u
#define PAGE_OF(first, index) [(index) * WORDS ... (index) * WORDS + WORDS - 1] = (first) + (index)
#define PAGE_DATA(index) PAGE_OF(11, index)
#define PAGE_CONSTANT(index) PAGE_OF(21, index)

static volatile uint64_t data[DATA * WORDS] __attribute__((aligned(PAGE))) = {
    PAGE_DATA(0), PAGE_DATA(1), PAGE_DATA(2), PAGE_DATA(3), PAGE_DATA(4), PAGE_DATA(5)};
static volatile uint64_t zeros[ZEROS * WORDS] __attribute__((aligned(PAGE)));
static const volatile uint64_t constant[3 * WORDS] __attribute__((aligned(PAGE))) = {PAGE_CONSTANT(0), PAGE_CONSTANT(1), PAGE_CONSTANT(2)};
static volatile char in_data[] = "edition 1 of data";
static const volatile char in_constants[] = "edition 1 of constants";

static char self[64];

// Nothing is there but what the file says. Of the stack what lies below is looked at.
static int __attribute__((noinline)) is_as_it_was(void) {
    volatile uint64_t here = 0;
    for (volatile uint64_t *word = &here - 2 * WORDS; word < &here; word++)
        if (*word == MARK) return 1;
    for (int word = 0; word < DATA * WORDS; word++)
        if (data[word] != 11u + word / WORDS) return 2;
    for (int word = 0; word < ZEROS * WORDS; word++)
        if (zeros[word]) return 3;
    for (int word = 0; word < 3 * WORDS; word++)
        if (constant[word] != 21u + word / WORDS) return 4;
    return 0;
}

static void __attribute__((noinline)) mark_stack(void) {
    volatile uint64_t words[3 * WORDS] __attribute__((unused));
    for (int word = 0; word < 3 * WORDS; word++) words[word] = MARK;
}

static void mark(volatile uint64_t *from, int words) {
    for (int word = 0; word < words; word++) from[word] = MARK;
}

static int fixed(volatile uint64_t *at) {
    void *place = (void *)at;
    if (mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place) return 1;
    mark(at, WORDS);
    return 0;
}

// Where ExOS has a program beside the memory of a child, and that memory beside the program (lib/linux-abi/src/address_map.rs); a slot of no use.
static const uint64_t slots[] = {0x7e0000000000, 0x7f0000000000, 0x10000000000};
enum { SLOTS = 3, TABLES = 4 };

// Reads which tables the root links: at 0, and in the slots.
static void look_at_root(uint64_t root, volatile uint64_t *at, uint64_t tables[TABLES]) {
    uint64_t row[2] = {(uint64_t)at | USER_KEY, root * PAGE | 5 | 1ull << 63};
    if (call_kernel(ROW_PAGE_MAP, USER_KEY, root, (uint64_t)row, 1, 0, 0)) _exit(97);
    for (int table = 0; table < TABLES; table++) tables[table] = at[table ? slots[table - 1] >> 39 : 0] >> 12 & 0xffffffff;
}

// Makes what stands beside writable, writes over it, and links and unlinks tables, each at the places of the others.
static int spoil(unsigned seed) {
    static volatile uint64_t window[WORDS] __attribute__((aligned(PAGE)));
    uint64_t own = getpid(), root = own_record(own)[ROOT], tables[TABLES];
    PRIVATE[GATE_END] = 0;
    look_at_root(root, window, tables);
    if (tables[1] && !call_kernel(ROW_PAGE_TABLE_COPY, USER_KEY, root, slots[0], 3, ~0ull, USER_KEY)) {
        mark((volatile uint64_t *)((uint64_t)data + slots[0]), DATA * WORDS);
        mark((volatile uint64_t *)((uint64_t)zeros + slots[0]), ZEROS * WORDS);
    }
    for (int round = 0; round < 40; round++) {
        seed = seed * 1103515245 + 12345;
        uint64_t slot = slots[(seed >> 16) % SLOTS], table = tables[(seed >> 20) % TABLES];
        switch ((seed >> 24) % 3) {
        case 0: call_kernel(ROW_PAGE_TABLE_LINK, USER_KEY, root, slot, 3, table, USER_KEY); break;
        case 1: call_kernel(ROW_PAGE_TABLE_UNLINK, USER_KEY, root, slot, 3, 0, 0); break;
        default: call_kernel(ROW_PAGE_TABLE_COPY, USER_KEY, root, slot, 3, ~0ull, USER_KEY);
        }
    }
    return 0;
}

static int execute(const char *what) {
    char *arguments[] = {self, (char *)what, NULL}, *environment[] = {NULL};
    execve(self, arguments, environment);
    return 99;
}

static int do_something(const char *what) {
    int before = is_as_it_was(), status;
    if (before) return 100 + before;
    if (!strcmp(what, "edition")) return 10 * (in_data[8] - '0') + in_constants[8] - '0';
    mark_stack();
    mark(data, DATA * WORDS);
    mark(zeros, ZEROS * WORDS);
    if (!strcmp(what, "write")) return 0;
    if (!strcmp(what, "unmap"))
        return munmap((void *)&data[WORDS], 2 * PAGE) || munmap((void *)zeros, PAGE) || munmap((void *)&constant[WORDS], PAGE);
    if (!strcmp(what, "protect"))
        return mprotect((void *)data, PAGE, PROT_NONE) || mprotect((void *)&data[2 * WORDS], PAGE, PROT_READ) ||
               mprotect((void *)constant, PAGE, PROT_READ | PROT_WRITE);
    if (!strcmp(what, "write-constants")) {
        if (mprotect((void *)constant, 3 * PAGE, PROT_READ | PROT_WRITE)) return 1;
        mark((volatile uint64_t *)constant, 3 * WORDS);
        return 0;
    }
    if (!strcmp(what, "replace")) return fixed(&data[3 * WORDS]) || fixed(zeros) || fixed((volatile uint64_t *)&constant[2 * WORDS]);
    if (!strcmp(what, "move")) return mremap((void *)&data[4 * WORDS], PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)&zeros[WORDS]) == MAP_FAILED;
    if (!strcmp(what, "share")) {
        pid_t child = fork();
        if (!child) {
            mark(data, WORDS);
            _exit(0);
        }
        return waitpid(child, &status, 0) != child || status;
    }
    if (!strcmp(what, "many")) {
        for (int round = 0; round < 24; round++) {
            char *some = mmap((void *)(uintptr_t)(0x100000000ull + round * 0x8000000ull), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (some == MAP_FAILED) return 1;
            *some = 1;
        }
        return 0;
    }
    if (!strcmp(what, "beside")) {
        char *some = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int place = 0; some != MAP_FAILED && place < 16 << 20; place += 3 << 20) some[place] = 1;
        return some == MAP_FAILED;
    }
    if (!strcmp(what, "another")) return execute("write");
    if (!strcmp(what, "spoil")) return spoil(getpid());
    if (!strcmp(what, "sleep")) return usleep(2000);
    if (!strcmp(what, "die")) kill(getpid(), SIGKILL);
    return 98;
}

static const char *const ways[] = {"write", "unmap", "protect", "write-constants", "replace", "move", "share", "many", "beside", "another", "spoil", "sleep", "die"};
enum { WAYS = sizeof ways / sizeof *ways };

static pid_t begin(const char *what, int is_fork) {
    pid_t child = is_fork ? fork() : vfork();
    if (!child) _exit(execute(what));
    CHECK(child > 0);
    return child;
}

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// Who spoils its tables may end by it.
static int is_expected(const char *what, int status) {
    return !strcmp(what, "spoil") || status == (strcmp(what, "die") ? 0 : SIGKILL);
}

// Of so many children in sixteen those of fork.
static void again(const char *name, int rounds, int forks) {
    unsigned seed = 4711;
    for (int round = 0; round < rounds; round++) {
        seed = seed * 1103515245 + 12345;
        const char *what = round < 2 * WAYS ? ways[round / 2] : ways[(seed >> 16) % WAYS];
        int status = status_of(begin(what, seed >> 28 < (unsigned)forks));
        if (!is_expected(what, status)) {
            printf("%s, round %d: %s, status %#x\n", name, round, what, status);
            exit(1);
        }
    }
    puts(name);
}

// Children that become somebody else before they execute it, or that nobody may look into.
static void others(void) {
    for (int round = 0; round < 18; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            if (round % 6 == 4 && (setgid(1000) || setuid(1000))) _exit(96);
            if (round % 6 == 5 && prctl(PR_SET_DUMPABLE, 0)) _exit(95);
            _exit(execute(round % 2 ? "write" : "sleep"));
        }
        CHECK(!status_of(child));
    }
    puts("by others");
}

// Children that have the program beside them and never execute it, and what comes after each.
static void spoiled(void) {
    for (int round = 0; round < 12; round++) {
        for (int time = 0; time < 3; time++) CHECK(!status_of(begin("write", 1)));
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) _exit(spoil(round));
        status_of(child);
        CHECK(!status_of(begin("write", 1)));
    }
    puts("whatever is done to what stands beside");
}

static void several(void) {
    unsigned seed = 17;
    for (int round = 0; round < 12; round++) {
        pid_t children[4];
        const char *what[4];
        for (int index = 0; index < 4; index++) {
            seed = seed * 1103515245 + 12345;
            children[index] = begin(what[index] = ways[(seed >> 16) % WAYS], 0);
        }
        for (int index = 0; index < 4; index++) CHECK(is_expected(what[index], status_of(children[index])));
    }
    puts("several at a time");
}

static size_t find(const char *bytes, size_t length, const char *end) {
    char text[64];
    snprintf(text, sizeof text, "edit%s 1 of %s", "ion", end);
    char *found = memmem(bytes, length, text, strlen(text));
    CHECK(found);
    return found - bytes + 8;
}

static void write_file(const char *path, const char *bytes, size_t length) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(file >= 0 && write(file, bytes, length) == (ssize_t)length && !close(file));
}

static int forks;

static int edition(void) {
    int status = status_of(begin("edition", forks));
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void changed_files(void) {
    struct stat status;
    int original = open("/proc/self/exe", O_RDONLY);
    CHECK(original >= 0 && !fstat(original, &status));
    char *bytes = malloc(status.st_size);
    CHECK(bytes && read(original, bytes, status.st_size) == status.st_size && !close(original));
    size_t places[] = {find(bytes, status.st_size, "data"), find(bytes, status.st_size, "constants")};
    strcpy(self, "/tmp/executed_again");
    write_file(self, bytes, status.st_size);
    for (int round = 0; round < 3; round++) CHECK(edition() == 11);
    // Where it lies.
    int file = open(self, O_WRONLY);
    CHECK(file >= 0 && pwrite(file, "2", 1, places[0]) == 1 && !close(file) && edition() == 21);
    CHECK((file = open(self, O_WRONLY)) >= 0 && pwrite(file, "3", 1, places[1]) == 1 && !close(file) && edition() == 23);
    // Another file in its place.
    bytes[places[0]] = '4';
    write_file("/tmp/other", bytes, status.st_size);
    CHECK(!rename("/tmp/other", self) && edition() == 41 && edition() == 41);
    // The same file, made shorter and longer again.
    CHECK(!truncate(self, 100) && status_of(begin("edition", forks)) != 41 << 8);
    bytes[places[1]] = '5';
    write_file(self, bytes, status.st_size);
    CHECK(edition() == 45 && edition() == 45);
    // By those who map it.
    CHECK((file = open(self, O_RDWR)) >= 0);
    char *mapped = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED && !close(file));
    mapped[places[0]] = '6';
    CHECK(!munmap(mapped, status.st_size) && edition() == 65);
    CHECK(!unlink(self));
    free(bytes);
    puts(forks ? "changed files, by fork" : "changed files");
}

int main(int count, char **arguments) {
    snprintf(self, sizeof self, "%s", arguments[0]);
    if (count > 1) return do_something(arguments[1]);
    setvbuf(stdout, NULL, _IONBF, 0);
    again("by vfork", 60, 0);
    again("by either", 60, 5);
    again("by fork", 60, 16);
    others();
    spoiled();
    several();
    changed_files();
    forks = 1;
    snprintf(self, sizeof self, "%s", arguments[0]);
    changed_files();
    return 0;
}
