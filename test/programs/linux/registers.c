// Every register and flag of the program over a call, by the gate and as a call of a rewritten site: every form that is
// rewritten, calls that come back twice, signals on the way out, and calls that are made again. Prints one line for each
// part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

// More than the traps after which a site is rewritten.
#define ROUNDS 40
#define JUMP 0xe9
#define SHORT_JUMP 0xeb
// Carry, parity, zero, sign, direction, overflow, and the bit that is always there.
#define FLAGS 0xcc7

enum { RBX, RBP, R12, R13, R14, R15, RDI, RSI, RDX, R10, R8, R9, COUNT };
struct state { uint64_t registers[COUNT], flags, result; };

// Loads the state, goes through `form`, whose site is at NAME_site, and stores it again.
#define PROBE(name, form) \
    void name(struct state *); \
    extern const unsigned char name##_site[]; \
    __asm__(".text\n.globl " #name "\n" #name ":\n" \
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rdi\n" \
        "mov %rdi, %rax\n" \
        "mov (%rax), %rbx; mov 8(%rax), %rbp; mov 16(%rax), %r12; mov 24(%rax), %r13; mov 32(%rax), %r14\n" \
        "mov 40(%rax), %r15; mov 48(%rax), %rdi; mov 56(%rax), %rsi; mov 64(%rax), %rdx; mov 72(%rax), %r10\n" \
        "mov 80(%rax), %r8; mov 88(%rax), %r9; pushq 96(%rax); popfq\n" \
        form \
        "pushfq; cld; push %rax; mov 16(%rsp), %rcx\n" \
        "mov %rbx, (%rcx); mov %rbp, 8(%rcx); mov %r12, 16(%rcx); mov %r13, 24(%rcx); mov %r14, 32(%rcx)\n" \
        "mov %r15, 40(%rcx); mov %rdi, 48(%rcx); mov %rsi, 56(%rcx); mov %rdx, 64(%rcx); mov %r10, 72(%rcx)\n" \
        "mov %r8, 80(%rcx); mov %r9, 88(%rcx); pop 104(%rcx); pop 96(%rcx)\n" \
        "pop %rdi; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n")
#define NUMBERED(name, number) PROBE(name, #name "_site: mov $" #number ", %eax; syscall\n")

NUMBERED(probe_getuid, 102);
NUMBERED(probe_getpid, 39);
NUMBERED(probe_write, 1);
NUMBERED(probe_kill, 62);
NUMBERED(probe_fork, 57);
NUMBERED(probe_pause, 34);
// `read` as the GNU C library has it; nothing jumps over it here.
PROBE(probe_read,
    "call 1f; jmp 4f\n.p2align 4\n1: or $1, %r11\nje 2f\nprobe_read_site: xor %eax, %eax; syscall\n"
    ".byte 0x48, 0x3d, 0, 0xf0, 0xff, 0xff; ja 3f; ret\n"
    ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n2: ud2\n3: ret\n4:\n");
// `syscall` as it has it: the sixth argument on the stack.
PROBE(probe_function,
    "sub $16, %rsp; mov %r9, 8(%rsp); mov $110, %eax; mov %r9, %r8\n"
    "probe_function_site: mov 8(%rsp), %r9; syscall\nlea 16(%rsp), %rsp\n");

static volatile int taken;
// Whether sites are to be jumps by now: not with an argument, as on Linux, where all else is the same.
static int is_rewritten;

static void fill(struct state *state, uint64_t seed) {
    for (int i = 0; i < COUNT; i++) state->registers[i] = seed * 0x9e3779b97f4a7c15 + (uint64_t)i * 0x1111111111111111;
    state->flags = 0x202;
}

// `before` went through a probe and is `after`; the result is what is expected.
static void compare(const struct state *before, const struct state *after, uint64_t result, int with_flags) {
    for (int i = 0; i < COUNT; i++) {
        if (after->registers[i] != before->registers[i]) {
            printf("register %d: %#lx became %#lx\n", i, before->registers[i], after->registers[i]);
            exit(1);
        }
    }
    CHECK(!with_flags || ((before->flags ^ after->flags) & FLAGS) == 0);
    if (after->result != result) {
        printf("the result is %ld, not %ld\n", (long)after->result, (long)result);
        exit(1);
    }
}

static void quick_calls(void) {
    uint64_t own = (uint64_t)getpid(), user = getuid();
    for (int round = 0; round < ROUNDS; round++) {
        struct state before, after;
        fill(&before, (uint64_t)round + 1);
        before.flags = 0x202 | (0x8d5u & ((unsigned)round * 0x2b5u)) | (round % 2 ? 0x400 : 0);
        after = before;
        probe_getuid(&after);
        compare(&before, &after, user, 1);
        after = before;
        probe_getpid(&after);
        compare(&before, &after, own, 1);
        before.registers[RDI] = (uint64_t)-1;
        after = before;
        probe_write(&after);
        compare(&before, &after, (uint64_t)-EBADF, 1);
    }
    CHECK(!is_rewritten || (*probe_getuid_site == JUMP && *probe_getpid_site == JUMP && *probe_write_site == JUMP));
    puts("quick calls");
}

static void other_forms(void) {
    int ends[2];
    char byte = 'a', got = 0;
    uint64_t parent = (uint64_t)getppid();
    CHECK(pipe(ends) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct state before, after;
        fill(&before, (uint64_t)round + 7);
        before.registers[RDI] = (uint64_t)ends[0];
        before.registers[RSI] = (uint64_t)&got;
        before.registers[RDX] = 1;
        after = before;
        CHECK(write(ends[1], &byte, 1) == 1);
        probe_read(&after);
        compare(&before, &after, 1, 0);
        CHECK(got == byte);
        byte++;
        fill(&before, (uint64_t)round + 9);
        before.registers[R8] = before.registers[R9];
        after = before;
        probe_function(&after);
        compare(&before, &after, parent, 0);
        CHECK(syscall(SYS_getppid) == (long)parent);
    }
    CHECK(!is_rewritten || (*probe_read_site == SHORT_JUMP && *probe_function_site == JUMP));
    // The same by the C library's own: a child that this function made, and its end.
    for (int round = 0; round < 3; round++) {
        int status;
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) _exit(round);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == round);
    }
    close(ends[0]);
    close(ends[1]);
    puts("other forms");
}

// Ruins what a function may ruin, and counts.
static void take_signal(int signal) {
    (void)signal;
    __asm__ volatile("xor %%r8d, %%r8d; mov %%r8, %%r9; mov %%r8, %%r10; mov %%r8, %%r11; pxor %%xmm7, %%xmm7" ::
        : "r8", "r9", "r10", "r11", "xmm7");
    taken++;
}

static void signals_on_the_way_out(void) {
    struct sigaction action = { .sa_handler = take_signal };
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct state before, after;
        fill(&before, (uint64_t)round + 3);
        before.registers[RDI] = (uint64_t)getpid();
        before.registers[RSI] = SIGUSR1;
        before.flags = 0x202 | (round % 2 ? 0x401 : 0x880);
        after = before;
        probe_kill(&after);
        compare(&before, &after, 0, 1);
        CHECK(taken == round + 1);
    }
    CHECK(!is_rewritten || *probe_kill_site == JUMP);
    puts("signals on the way out");
}

static void calls_that_come_back_twice(void) {
    for (int round = 0; round < ROUNDS / 2; round++) {
        struct state before, after;
        int status;
        fill(&before, (uint64_t)round + 5);
        before.flags = 0x202 | (round % 2 ? 0x400 : 0x1);
        after = before;
        probe_fork(&after);
        pid_t child = (pid_t)after.result;
        compare(&before, &after, (uint64_t)child, 1);
        if (child == 0) _exit(7);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    puts("calls that come back twice");
}

// A call that waits, and is over by a signal; and reads that are made again behind the handler, which brings what they wait for.
static int ends_of_alarm[2];

static void bring(int signal) {
    (void)signal;
    if (++taken % 3 == 0) CHECK(write(ends_of_alarm[1], "x", 1) == 1);
}

static void calls_that_wait(void) {
    struct sigaction action = { .sa_handler = take_signal };
    struct itimerval often = { .it_value = { .tv_usec = 2000 }, .it_interval = { .tv_usec = 2000 } };
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < ROUNDS / 2; round++) {
        struct state before, after;
        fill(&before, (uint64_t)round + 11);
        after = before;
        probe_pause(&after);
        compare(&before, &after, (uint64_t)-EINTR, 1);
    }
    CHECK(pipe(ends_of_alarm) == 0);
    action.sa_handler = bring;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    taken = 0;
    for (int round = 0; round < ROUNDS / 2; round++) {
        struct state before, after;
        char got = 0;
        fill(&before, (uint64_t)round + 13);
        before.registers[RDI] = (uint64_t)ends_of_alarm[0];
        before.registers[RSI] = (uint64_t)&got;
        before.registers[RDX] = 1;
        after = before;
        probe_read(&after);
        compare(&before, &after, 1, 0);
        CHECK(got == 'x');
    }
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
    puts("calls that wait");
}

int main(int arguments, char **argument) {
    (void)argument;
    setvbuf(stdout, NULL, _IONBF, 0);
    is_rewritten = arguments == 1;
    quick_calls();
    other_forms();
    signals_on_the_way_out();
    calls_that_come_back_twice();
    calls_that_wait();
    return 3;
}
