/*
 * Null calls: exokernel-sosp95 Table 4, xok-exos-sosp97 section 7.1, l4linux-sosp97 Table 2 and "write to /dev/null" of
 * its Table 3. A call of getpid goes to the system each time: libraries have not kept its answer for long.
 *
 * calls-linked.c is the same program linked with ExOS: what it calls are the library's procedures.
 */
#include "harness.h"
#ifdef LINKED
#include "linked.h"
#endif

#include <fcntl.h>
#include <sys/syscall.h>

#define CALLS 100

static int null_device;

static long own_number(void)
{
#ifdef LINKED
	return exos_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
#else
	return getpid();
#endif
}

static long write_one(void)
{
#ifdef LINKED
	return exos_call(SYS_write, null_device, (long)"x", 1, 0, 0, 0);
#else
	return write(null_device, "x", 1);
#endif
}

__attribute__((noinline)) static void procedure(void)
{
	asm volatile("");
}

static void procedure_calls(void)
{
	for (int call = 0; call < CALLS; call++)
		procedure();
}

static void loop_alone(void)
{
	for (int call = 0; call < CALLS; call++)
		asm volatile("");
}

static void getpids(void)
{
	for (int call = 0; call < CALLS; call++)
		own_number();
}

/* The call as a program without a library makes it, its number not known beforehand: ExOS finds no place to rewrite. */
static void bare_getpids(void)
{
	static volatile long number = SYS_getpid;
	for (int call = 0; call < CALLS; call++) {
		long result;
		asm volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
	}
}

static void null_writes(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(write_one(), "write to /dev/null");
}

int main(void)
{
	begin();
	null_device = (int)checked(open("/dev/null", O_WRONLY), "open /dev/null");
	measure("loop", CALLS, loop_alone);
	measure("procedure", CALLS, procedure_calls);
	measure("getpid", CALLS, getpids);
	measure("getpid-trap", CALLS, bare_getpids);
	measure("write-null", CALLS, null_writes);
	return 0;
}
