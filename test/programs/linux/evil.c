// A process that changes the library in its own memory: it gains nothing, and harms itself only. One line for each part.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel_rows.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

// Where ExOS keeps its heap and the areas of environments, by its address_map.rs.
static char *const heap = (char *)0x7d8000100000, *const areas = (char *)0x7d8000000000;
enum { PAGE = 4096, HEAP_PAGES = 4096, AREA_PAGES = 32 };

static sigjmp_buf way_back;
static void at_fault(int signal) { siglongjmp(way_back, signal); }

// Whether a page of the library can be written.
static int is_there(volatile char *page) {
    if (sigsetjmp(way_back, 1)) return 0;
    *page = *page;
    return 1;
}

static int find_heap_pages(void) {
    int count = 0;
    signal(SIGSEGV, at_fault);
    while (count < HEAP_PAGES && is_there(heap + (long)count * PAGE)) count++;
    signal(SIGSEGV, SIG_DFL);
    return count;
}

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

// FAULTS.md row 98: the record of who it is, found and changed.
static void be_somebody_else(void) {
    CHECK(!setgid(100) && !setuid(1000) && open("secret", O_RDONLY) == -1 && errno == EACCES);
    const uint32_t own[6] = {1000, 1000, 1000, 100, 100, 100};
    int found = 0, pages = find_heap_pages();
    CHECK(pages > 4);
    for (char *at = heap; at + sizeof own <= heap + (long)pages * PAGE; at += 4)
        if (!memcmp(at, own, sizeof own)) { memset(at, 0, sizeof own); found++; }
    CHECK(found > 0 && getuid() == 0 && geteuid() == 0);
    CHECK(open("secret", O_RDONLY) == -1 && errno == EACCES);
    CHECK(open("secret", O_WRONLY | O_TRUNC) == -1 && errno == EACCES && chmod("secret", 0666) == -1 && errno == EPERM);
    CHECK(unlink("secret") == -1 && errno == EACCES && setresuid(0, 0, 0) == -1 && errno == EPERM);
    pid_t child = fork();
    if (!child) _exit(open("secret", O_RDONLY) == -1 ? 3 : 4);
    CHECK(status_of(child) == 3 << 8);
}

// FAULTS.md row 86: everything that the library keeps for this process, overwritten.
static void scribble(volatile unsigned seed, int what) {
    int pages = find_heap_pages();
    close(0);
    if (what & 1) for (long at = 0; at < (long)pages * PAGE; at += 8)
        *(volatile uint64_t *)(heap + at) = seed == 0 ? 0 : (seed = seed * 1103515245 + 12345) * 0x9e3779b97f4a7c15;
    // The area lies below the library's own stack: what the next call needs first.
    signal(SIGSEGV, at_fault);
    if (what & 2) for (int page = 0; page < AREA_PAGES; page++)
        if (!sigsetjmp(way_back, 1)) memset(areas + page * PAGE, (int)seed, PAGE);
    for (;;) getppid();
}

// A call of the kernel itself, once the library's gate is open to the program.
static uint64_t call_kernel(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    register uint64_t r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "+a"(number), "+D"(a), "+S"(b), "+d"(c), "+r"(r10), "+r"(r8), "+r"(r9)
                     : : "rbx", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
    return number;
}

// Numbers of the kernel's calls, and places of its exposed records (doc/kernel-interface.md, abi/src).
enum { CHANNEL_KEY = 2, SESSION_KEY = 3, GATE_END = 4096 + 11 * 8 };
enum { NUMBER = 1, ROOT = 4, PUBLIC = 6, AREA = 7 };
static volatile uint64_t *const kernel = (void *)0xffffc00000000000, *const environments = (void *)0xffffc00040000000;
static volatile uint64_t (*const pages)[8] = (void *)0xffffc00080000000;

static volatile uint64_t *own_record(uint64_t number) {
    volatile uint64_t *record = environments;
    while (record[NUMBER] != number || record[AREA] != (uint64_t)areas) record++;
    return record;
}

// Pages of others that a key opens for writing; what opens is overwritten if that is wanted.
static int foreign_pages(uint64_t root, uint64_t own_list, uint64_t key, volatile char *at, int overwrite) {
    int opened = 0;
    for (uint64_t page = 0; page < kernel[3]; page++) {
        if ((uint32_t)pages[page][2] == own_list) continue;
        uint64_t row[2] = {(uint64_t)at | key, page << 12 | 7};
        if (call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0)) continue;
        opened++;
        for (int i = 0; overwrite && i < PAGE; i++) at[i] = 0x5a;
    }
    return opened;
}

static volatile char scratch[2 * PAGE] __attribute__((aligned(4096)));

// 20,000 calls of the kernel with words that mean something here, or nothing.
static void call_at_random(unsigned seed, uint64_t own, uint64_t parent, uint64_t root, uint64_t public) {
    uint64_t choices[] = {0, 1, 2, 3, own, parent, 1, root, public, (uint64_t)scratch + PAGE, PAGE, ~0ul, 7, 1ul << 47};
    for (int i = 0; i < 20000; i++) {
        uint64_t words[7];
        for (int j = 0; j < 7; j++) {
            seed = seed * 1103515245 + 12345;
            words[j] = seed >> 16 & 1 ? choices[(seed >> 17) % 14] : seed >> 17 & 0x7fff;
        }
        uint64_t number = words[0] % ROWS;
        if (number == ROW_PREDICATE_WAIT || (number == ROW_ENVIRONMENT_DESTROY && words[2] == own)) continue;
        call_kernel(number, words[1], words[2], words[3], words[4], words[5], words[6]);
    }
}

// Pages under one list that a key opens, for reading or writing.
static int pages_under(uint64_t root, uint64_t list, uint64_t key, uint64_t rights) {
    int opened = 0;
    for (uint64_t page = 0; page < kernel[3]; page++) {
        if ((uint32_t)pages[page][2] != list) continue;
        uint64_t row[2] = {(uint64_t)scratch | key, page << 12 | rights};
        opened += !call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0);
    }
    return opened;
}

// A child becomes another user and turns on its parent, with all the keys that it has, and every call of the kernel.
static void turn_hostile_as_user(unsigned seed, int report) {
    uint64_t own = getpid(), parent = getppid();
    scratch[0] = scratch[PAGE] = 1;
    uint64_t root = own_record(own)[ROOT], public = own_record(own)[PUBLIC], theirs = (uint32_t)pages[own_record(parent)[ROOT]][2];
    volatile uint64_t *gate = (volatile uint64_t *)(areas + GATE_END);
    uint64_t gate_end = *gate;
    *gate = 0;
    int before = pages_under(root, theirs, SESSION_KEY, 7);
    // What was opened before stays open.
    call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)(uint64_t[2]){(uint64_t)scratch, 0}, 1, 0, 0);
    *gate = gate_end;
    if (setuid(1000)) abort();
    *gate = 0;
    int after = 0;
    for (uint64_t key = 0; key < 8; key++) after += pages_under(root, theirs, key, 7) + pages_under(root, theirs, key, 5);
    *gate = gate_end;
    int told[2] = {before, after};
    if (write(report, told, sizeof told) != sizeof told) abort();
    *gate = 0;
    call_at_random(seed, own, parent, root, public);
    *(volatile int *)8 = 1;
}

// FAULTS.md row 99: a child drops the keys that it has from its parent, and turns on it with every call of the kernel.
static void turn_hostile(unsigned seed, int report) {
    uint64_t own = getpid(), parent = getppid();
    scratch[0] = scratch[PAGE] = 1;
    volatile uint64_t *record = own_record(own);
    uint64_t root = record[ROOT], own_list = (uint32_t)pages[record[ROOT]][2];
    volatile uint64_t *gate = (volatile uint64_t *)(areas + GATE_END);
    uint64_t gate_end = *gate;
    *gate = 0;
    int with_key = foreign_pages(root, own_list, SESSION_KEY, scratch, 0);
    int dropped = !call_kernel(ROW_KEY_DROP, own, SESSION_KEY, 1, 0, 0, 0) && !call_kernel(ROW_KEY_DROP, own, CHANNEL_KEY, 1, 0, 0, 0);
    // What was opened before stays open: it is given back, and another place is tried.
    uint64_t nothing[2] = {(uint64_t)scratch, 0};
    dropped = dropped && !call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)nothing, 1, 0, 0);
    int without = 0;
    for (uint64_t key = 0; key < 8; key++) without += foreign_pages(root, own_list, key, scratch + PAGE, 1);
    // What the parent finds: with its key everything of the session was open, without it nothing.
    *gate = gate_end;
    int told[3] = {with_key, dropped, without};
    if (write(report, told, sizeof told) != sizeof told) abort();
    *gate = 0;
    call_at_random(seed, own, parent, root, record[PUBLIC]);
    *(volatile int *)8 = 1;
}

static uint64_t work(void) {
    uint64_t sum = 0;
    int ends[2];
    CHECK(!pipe(ends));
    for (int round = 0; round < 40; round++) {
        uint64_t some[64], back[64];
        for (int i = 0; i < 64; i++) some[i] = sum * 31 + i;
        CHECK(write(ends[1], some, sizeof some) == sizeof some && read(ends[0], back, sizeof back) == sizeof back);
        for (int i = 0; i < 64; i++) sum = sum * 6364136223846793005u + back[i];
    }
    close(ends[0]);
    close(ends[1]);
    return sum;
}

static volatile uint64_t shared[20 * PAGE / 8];

// A sibling of the hostile child works meanwhile, and the pages that the parent shares with both stay as they are.
static void nobody_notices(pid_t evil, uint64_t expected) {
    pid_t good = fork();
    if (!good) _exit(work() == expected ? 5 : 6);
    CHECK(status_of(good) == 5 << 8);
    CHECK(status_of(evil) != 0 && work() == expected);
    for (int i = 0; i < 20 * PAGE / 8; i++) CHECK(shared[i] == i * 0x9e3779b97f4a7c15);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    char folder[] = "/tmp/evil-XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    int secret = open("secret", O_CREAT | O_WRONLY, 0600);
    CHECK(write(secret, "secret", 6) == 6);
    pid_t child = fork();
    if (!child) { be_somebody_else(); _exit(0); }
    CHECK(status_of(child) == 0);
    puts("who edits its library is nobody else");
    uint64_t expected = work();
    for (int round = 0; round < 12; round++) {
        pid_t evil = fork();
        if (!evil) scribble(round / 3, round % 3 + 1);
        pid_t good = fork();
        if (!good) _exit(work() == expected ? 5 : 6);
        CHECK(status_of(good) == 5 << 8);
        int status = status_of(evil);
        CHECK(WIFSIGNALED(status) || WIFEXITED(status));
        CHECK(work() == expected);
    }
    puts("who scribbles over its library harms itself");
    for (int i = 0; i < 20 * PAGE / 8; i++) shared[i] = i * 0x9e3779b97f4a7c15;
    for (int round = 0; round < 4; round++) {
        int ends[2];
        CHECK(!pipe(ends));
        pid_t evil = fork();
        if (!evil) { if (setuid(1000)) abort(); turn_hostile(round, ends[1]); }
        int told[3] = {0, 0, 0};
        close(ends[1]);
        CHECK(read(ends[0], told, sizeof told) == sizeof told);
        // With the session's key much of what belongs to others could be had, without it nothing.
        if (told[0] <= 20 || !told[1] || told[2]) printf("%d, %d, %d\n", told[0], told[1], told[2]);
        close(ends[0]);
        nobody_notices(evil, expected);
    }
    puts("who drops its keys and turns hostile reaches nothing of its parent's");
    for (int round = 0; round < 4; round++) {
        int ends[2];
        CHECK(!pipe(ends));
        pid_t evil = fork();
        if (!evil) turn_hostile_as_user(round, ends[1]);
        int told[2] = {0, 0};
        close(ends[1]);
        CHECK(read(ends[0], told, sizeof told) == sizeof told);
        if (told[0] <= 20 || told[1]) printf("%d, %d\n", told[0], told[1]);
        close(ends[0]);
        nobody_notices(evil, expected);
    }
    puts("who becomes another user and turns hostile reaches nothing of its old one's");
}
