// What a hostile program needs beside Linux: the kernel's own calls, and messages to ExOS's server, once it has opened
// its library's gate. Places and numbers are those of abi/src and lib/linux-abi/src/address_map.rs.
#include <stdint.h>
#include "kernel_rows.h"

// The environment area, whose second page holds the words that the kernel reads and writes; windows that are shared with
// others; the library's heap.
static char *const areas = (char *)0x7d8000000000, *const windows = (char *)0x7d8000080000, *const heap = (char *)0x7d8000100000;
#define PRIVATE ((volatile uint64_t *)(areas + 4096))
enum { SYNCHRONOUS_ENTRY = 5, ASYNCHRONOUS_ENTRY = 6, CRITICAL_SECTION = 8, PENDING = 9, GATE_END = 11 };
enum { WINDOW_BYTES = 512 << 10 };

// A call of the kernel itself, which may come back with all registers lost but the stack pointer.
static uint64_t call_kernel(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    register uint64_t r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("lea -128(%%rsp), %%rsp; push %%rbp; syscall; pop %%rbp; lea 128(%%rsp), %%rsp"
                     : "+a"(number), "+D"(a), "+S"(b), "+d"(c), "+r"(r10), "+r"(r8), "+r"(r9)
                     : : "rbx", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
    return number;
}

// A control transfer with six words, and back: 0 once it was answered, else the kernel's error. The same protocol as
// lib/runtime/src/transfer.rs: a caller that is given a slice of its own before the answer came asks for it again.
// Between the call and the answer the caller must not fault: the library handles a fault by calls of its own, and takes
// the entry for the answer. So the code lies in one page, and `ask` reads the constant first.
uint64_t hostile_stack;
const uint64_t hostile_yield = ROW_TIME_SLICE_YIELD;
uint64_t hostile_transfer(uint64_t *message, uint64_t callee);
void hostile_answer(void);
__asm__(
    ".p2align 9\n"
    "hostile_transfer:\n"
    "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "rdfsbase %rax; push %rax; push %rdi; push %rsi\n"
    "mov %rsp, hostile_stack(%rip)\n"
    "movabs $0x4000000000000000, %rax; or %rsi, %rax; mov %rdi, %rcx\n"
    "mov (%rcx), %rdi; mov 8(%rcx), %rsi; mov 16(%rcx), %rdx; mov 24(%rcx), %r10; mov 32(%rcx), %r8; mov 40(%rcx), %r9\n"
    "xor %ebx, %ebx; xor %ebp, %ebp; xor %r12d, %r12d; xor %r13d, %r13d; xor %r14d, %r14d; xor %r15d, %r15d\n"
    "movq $1, %gs:112; syscall; test %rax, %rax; jnz 3f\n"
    "2: mov hostile_yield(%rip), %rax; mov (%rsp), %rdi; syscall\n"
    "movabs $0x4000000000000000, %rax; or (%rsp), %rax; mov $1, %r12d\n"
    "xor %edi, %edi; xor %esi, %esi; xor %edx, %edx; xor %r10d, %r10d; xor %r8d, %r8d; xor %r9d, %r9d; syscall; jmp 2b\n"
    "3: movq $0, %gs:112; mov hostile_stack(%rip), %rsp; pop %rcx; pop %rcx; jmp 4f\n"
    "hostile_answer:\n"
    "movq $0, %gs:112; mov hostile_stack(%rip), %rsp; pop %rcx; pop %rcx\n"
    "mov %rdi, (%rcx); mov %rsi, 8(%rcx); mov %rdx, 16(%rcx); mov %r10, 24(%rcx); mov %r8, 32(%rcx); mov %r9, 40(%rcx)\n"
    "xor %eax, %eax\n"
    "4: pop %rcx; wrfsbase %rcx; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n");

// Asks an environment, so often at most while it is busy: 0 once it has answered. The gate must be open.
static uint64_t ask(uint64_t callee, uint64_t *message, int most) {
    uint64_t error = *(volatile const uint64_t *)&hostile_yield;
    PRIVATE[CRITICAL_SECTION]++;
    uint64_t entries[2] = {PRIVATE[SYNCHRONOUS_ENTRY], PRIVATE[ASYNCHRONOUS_ENTRY]};
    PRIVATE[SYNCHRONOUS_ENTRY] = PRIVATE[ASYNCHRONOUS_ENTRY] = (uint64_t)hostile_answer;
    for (int tries = 0; error && tries < most; tries++) {
        error = hostile_transfer(message, callee);
        if (error) call_kernel(ROW_TIME_SLICE_YIELD, callee, 0, 0, 0, 0, 0);
    }
    PRIVATE[SYNCHRONOUS_ENTRY] = entries[0];
    PRIVATE[ASYNCHRONOUS_ENTRY] = entries[1];
    PRIVATE[CRITICAL_SECTION]--;
    // The end of a slice that came meanwhile.
    if (PRIVATE[PENDING]) PRIVATE[PENDING] = 0, call_kernel(ROW_TIME_SLICE_YIELD, 0, 0, 0, 0, 0, 0);
    return error;
}

// The kernel's records of environments, and words of them; the call that maps pages, and the key of a process's user.
static volatile uint64_t *const environments = (void *)0xffffc00040000000;
enum { NUMBER = 1, ROOT = 4, AREA = 7, USER_KEY = 3, PAGE = 4096 };

static volatile uint64_t *own_record(uint64_t own) {
    volatile uint64_t *record = environments;
    while (record[NUMBER] != own || record[AREA] != (uint64_t)areas) record++;
    return record;
}

// The environment that answers as the server does: 0 where none does. The first page of the own window, where paths lie, is
// mapped at `place`, unless that is nowhere. The server may be busy with others for long.
__attribute__((unused)) static uint64_t find_server(uint64_t own, volatile char *place) {
    enum { ATTACH = 0, NUMBERS = 256, LOOKS = 10 };
    uint64_t root = own_record(own)[ROOT];
    for (uint64_t i = 0; i < LOOKS * NUMBERS; i++) {
        uint64_t number = 2 + i % NUMBERS, message[6] = {ATTACH};
        if (number == own || ask(number, message, 100) || message[0] || !message[1]) continue;
        uint64_t row[2] = {(uint64_t)place | USER_KEY, (uint32_t)message[1] * (uint64_t)PAGE | 7};
        if (!place || !call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0)) return number;
    }
    return 0;
}
