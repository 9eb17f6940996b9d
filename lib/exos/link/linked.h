/* What a program is written against that is linked with ExOS and runs nowhere else: it calls the library as it calls its own
 * procedures, where other programs have the instruction `syscall` (xok-exos-sosp97, section 7.1).
 *
 * It is a Linux program in every other way, for which any compiler and C library will do:
 *
 *     cc -O2 -static -I lib/exos/link -o program program.c */

#ifndef EXOS_LINKED_H
#define EXOS_LINKED_H

/* Offset from GS base of the word that holds the entry of the library: the last one of its page. */
#define EXOS_ENTRY 0xff8

/* A Linux call: its number, and its arguments in the order of Linux. The result is what the kernel of Linux would give: a
 * negative error number for a refusal. Not for clone, clone3, vfork, execve, execveat and rt_sigreturn, which come back
 * elsewhere or not at all. A program that changes GS base has lost the way in. */
static inline long exos_call(long number, long first, long second, long third, long fourth, long fifth, long sixth)
{
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = fifth;
    register long r9 __asm__("r9") = sixth;
    long result;
    __asm__ volatile("lea 1f(%%rip), %%rcx; jmp *%%gs:%c[entry]; 1:"
                     : "=a"(result)
                     : [entry] "i"(EXOS_ENTRY), "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

#endif
