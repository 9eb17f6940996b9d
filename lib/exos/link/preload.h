/* What an object is written against that ExOS loads into a process before its program begins (doc/exos.md).
 *
 *     cc -shared -fPIC -O1 -nostdlib -mgeneral-regs-only -mno-red-zone -fno-stack-protector \
 *        -Wl,-e,exos_preload -o object object.c
 *
 * The object is part of the library: its functions run on ExOS's stack, of which some 20 KiB are theirs, in the middle of a
 * call of the program. So they must leave vector registers alone and keep nothing below the stack pointer, and they have no
 * thread-local storage. What they do wrong harms their own process and no other. */

#ifndef EXOS_PRELOAD_H
#define EXOS_PRELOAD_H

#include <stdint.h>

/* A Linux call of the program. */
struct exos_call {
    uint64_t number;
    uint64_t arguments[6]; /* in the order of Linux: rdi rsi rdx r10 r8 r9 */
    void *state;           /* ExOS's; a copy of the whole makes another call for the same program */
};

/* Performs a call; the result is what the program gets: a negative error number for a refusal. */
typedef int64_t exos_operation(struct exos_call *call);

struct exos_interface {
    /* From now on `operation` performs the calls of this number, in this process and in its children, until execve. A
     * negative error number where there is no such call. getpid, which ExOS answers at the door, never comes here. */
    int64_t (*replace)(uint64_t number, exos_operation *operation);
    /* Performs a call as ExOS does, whatever was replaced. There is one to perform only while an operation runs, from its
     * own call's `state`: not in exos_preload. Buffers of its own lie in the object: ExOS's stack is no memory of the
     * program's. */
    exos_operation *perform;
};

/* The entry of the object. After a negative error number the program does not begin. */
int64_t exos_preload(const struct exos_interface *interface);

#endif
