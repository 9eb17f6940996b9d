// A program in C, compiled by the host's compiler, and the same on both sides.
/* A signal's handler begins with the FPU as a new program has it; what it interrupted gets its own back. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
static uint32_t m; static uint16_t c; static uint64_t x;
static void h(int s) {
    (void)s; __asm__ volatile("movq %%xmm0, %0; stmxcsr %1; fnstcw %2" : "=m"(x), "=m"(m), "=m"(c));
}
int main(void) {
    uint32_t mx = 0x7f80; uint16_t cw = 0x77f; uint64_t v = 0x42; long r, pid = getpid();
    signal(SIGUSR1, h);
    __asm__ volatile("ldmxcsr %1; fldcw %2; movq %3, %%xmm0; syscall; movq %%xmm0, %3; stmxcsr %1; fnstcw %2"
        : "=a"(r), "+m"(mx), "+m"(cw), "+m"(v) : "0"(62L), "D"(pid), "S"((long)SIGUSR1) : "rcx", "r11", "memory");
    uint32_t d = 0x1f80; uint16_t e = 0x37f; __asm__ volatile("ldmxcsr %0; fldcw %1" :: "m"(d), "m"(e));
    printf("mxcsr %x cw %x xmm0 %lx, after: mxcsr %x cw %x xmm0 %lx\n", m, c, x, mx, cw, v);
    return 0;
}
