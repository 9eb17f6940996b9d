// FAULTS.md row 85: a Linux program that changes what it was begun with, or calls the kernel itself, has the rights of its environment and
// no others. One line for each part.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "evil.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)
// Words of the private page behind those of evil.h: where the library's handlers of exceptions stand (lib/runtime/src/area.rs).
enum { HANDLERS = 0xe08 / 8, PAGE_FAULT = 14 };
enum { KEYS = 16, NUMBERS = 64, LINUX_ACCESS = 21, LINUX_MADVISE = 28 };
static const uint64_t WILD = 0x123456789abc000;

static char *own_path;

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void *nothing(void *argument) { return argument; }

static volatile sig_atomic_t signals;
static void count(int number) { (void)number; signals++; }

// What a program does that has all that it began with.
static void be_usual(void) {
    struct timespec first, second;
    pthread_t thread;
    CHECK(!clock_gettime(CLOCK_MONOTONIC, &first) && !syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &second));
    CHECK(second.tv_sec > first.tv_sec || (second.tv_sec == first.tv_sec && second.tv_nsec >= first.tv_nsec));
    int before = signals;
    CHECK(signal(SIGUSR1, count) != SIG_ERR && !raise(SIGUSR1) && signals == before + 1);
    CHECK(!pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL));
    pid_t child = fork();
    if (!child) {
        execve(own_path, (char *[]){ own_path, "whole", NULL }, (char *[]){ NULL });
        _exit(1);
    }
    CHECK(status_of(child) == 7 << 8);
}

// The program that it executes finds what a program finds.
static int be_whole(char **environment) {
    while (*environment++) {}
    int words = 0;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)environment; entry->a_type != AT_NULL; entry++, words++)
        if (entry->a_un.a_val == WILD) return 1;
    int is_vdso = !memcmp((void *)getauxval(AT_SYSINFO_EHDR), ELFMAG, SELFMAG);
    return words > 15 && is_vdso && getauxval(AT_PAGESZ) == 4096 ? 7 : 1;
}

// Everything that the stack began with leads nowhere: what the library needs of it, it has elsewhere.
static void change_beginning(char **arguments, char **environment) {
    char **end = environment;
    while (*end) end++;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)(end + 1); entry->a_type != AT_NULL; entry++) entry->a_un.a_val = WILD;
    for (char **word = arguments; word < end; word++)
        if (*word) *word = (char *)WILD;
    be_usual();
    char text[4096] = "";
    int file = open("/proc/self/cmdline", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text) >= 0 && !close(file));
}

static sigjmp_buf way_back;
static void at_fault(int number) { siglongjmp(way_back, number); }

static int can_write(volatile char *at) {
    signal(SIGSEGV, at_fault);
    int signal_number = sigsetjmp(way_back, 1);
    if (!signal_number) *at = *at;
    signal(SIGSEGV, SIG_DFL);
    return !signal_number;
}

// Every call that could write a page, unmap it, or put another one in its place.
static void change_vdso(void) {
    char *vdso = (char *)getauxval(AT_SYSINFO_EHDR), before[PAGE];
    char *some = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(some != MAP_FAILED);
    memcpy(before, vdso, PAGE);
    CHECK(!can_write(vdso));
    CHECK(mprotect(vdso, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == -1);
    CHECK(mmap(vdso, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    CHECK(mremap(some, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, vdso) == MAP_FAILED);
    CHECK(mremap(vdso, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, some + PAGE) == MAP_FAILED);
    CHECK(munmap(vdso, PAGE) == -1);
    madvise(vdso, PAGE, MADV_DONTNEED);
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero >= 0 && read(zero, vdso, PAGE) == -1 && errno == EFAULT);
    struct iovec from = { some, PAGE }, to = { vdso, PAGE };
    CHECK(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == -1);
    CHECK(!memcmp(before, vdso, PAGE) && !close(zero));
    be_usual();
}

// The page that the vDSO is, for every key: nobody writes it by a call of the kernel. Who finds it compares what it can read.
static int keys_that_write(char *page) {
    static volatile char place[PAGE] __attribute__((aligned(PAGE)));
    volatile uint64_t *kernel = (void *)0xffffc00000000000;
    uint64_t root = own_record(getpid())[ROOT], gate_end = PRIVATE[GATE_END];
    int found = 0, written = 0;
    place[0] = 1;
    PRIVATE[GATE_END] = 0;
    for (uint64_t number = 0; number < kernel[3]; number++)
        for (uint64_t key = 0; key < KEYS; key++) {
            uint64_t row[2] = { (uint64_t)place | key, number << 12 | 5 };
            if (call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0) || memcmp((char *)place, page, PAGE)) continue;
            found++;
            row[1] |= 2;
            written += !call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0);
        }
    PRIVATE[GATE_END] = gate_end;
    return found ? written : -1;
}

// As another user: neither others' environments, nor what all have, but its own CPU and its own end.
static void call_as_user(pid_t sibling) {
    CHECK(!setgid(100) && !setuid(1000));
    // As long as the gate is closed every call is one of Linux, whatever its number means elsewhere.
    CHECK(!syscall(LINUX_ACCESS, "/", F_OK) && syscall(LINUX_MADVISE, 0, 0, 0) == 0);
    CHECK(syscall(100000) == -1 && errno == ENOSYS && syscall(-1L) == -1 && errno == ENOSYS);
    CHECK(keys_that_write((char *)getauxval(AT_SYSINFO_EHDR)) == 0);
    uint64_t gate_end = PRIVATE[GATE_END], own = getpid();
    PRIVATE[GATE_END] = 0;
    int destroyed = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t number = 1; number < NUMBERS; number++)
            if (number != own) destroyed += !call_kernel(ROW_ENVIRONMENT_DESTROY, key, number, 0, 0, 0, 0);
    uint64_t gave_way = call_kernel(ROW_TIME_SLICE_YIELD, 0, 0, 0, 0, 0, 0);
    PRIVATE[GATE_END] = gate_end;
    CHECK(!destroyed && !gave_way && kill(sibling, SIGKILL) == -1 && errno == EPERM);
    be_usual();
}

// The lowest page of the stack that ExOS runs on, with the words below it that the kernel reads: of each thread it is not there.
static void *look_below_stack(void *argument) {
    char *area;
    __asm__("mov %%gs:0xd80, %0" : "=r"(area));
    signal(SIGSEGV, at_fault);
    int signal_number = sigsetjmp(way_back, 1);
    if (!signal_number) (void)*(volatile char *)(area + 2 * PAGE);
    CHECK(signal_number == SIGSEGV && *(volatile char *)(area + 3 * PAGE) == 0);
    return argument;
}

static void look_below_stacks(void) {
    pthread_t thread;
    look_below_stack(NULL);
    CHECK(!pthread_create(&thread, NULL, look_below_stack, NULL) && !pthread_join(thread, NULL));
}

// Its handlers are gone, so that each fault brings another one, until no frame fits any more.
static void fault_without_end(void) {
    PRIVATE[HANDLERS + PAGE_FAULT] = 8;
    __asm__ volatile("movb $1, 8");
    _exit(0);
}

static pid_t begin(void (*part)(void)) {
    pid_t child = fork();
    if (!child) part(), _exit(0);
    return child;
}

int main(int argument_count, char **arguments, char **environment) {
    if (argument_count > 1) return be_whole(environment);
    setvbuf(stdout, NULL, _IONBF, 0);
    own_path = strdup(arguments[0]);
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) == 0);
    pid_t child = fork();
    if (!child) change_beginning(arguments, environment), _exit(0);
    CHECK(status_of(child) == 0);
    puts("who changes what it began with has what the library keeps");
    CHECK(status_of(begin(change_vdso)) == 0);
    be_usual();
    puts("nobody changes the vDSO");
    pid_t sibling = fork();
    if (!sibling) for (;;) pause();
    child = fork();
    if (!child) call_as_user(sibling), _exit(0);
    CHECK(status_of(child) == 0 && !kill(sibling, 0) && !kill(sibling, SIGKILL) && status_of(sibling) == SIGKILL);
    puts("who calls the kernel has the rights of its environment");
    CHECK(status_of(begin(look_below_stacks)) == 0);
    CHECK(WIFSIGNALED(status_of(begin(fault_without_end))));
    be_usual();
    puts("who faults without end comes to an end");
    return 0;
}
