/*
 * Exceptions to a handler and back by signals: exokernel-sosp95 Table 5. The handler does the least that lets the program go
 * on: it steps over the instruction, as the native handlers of Chitin do.
 */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define REPEATS 16

static char *page;
static int length;
static sigjmp_buf escape;

static void step_over(int signal, siginfo_t *information, void *context)
{
	(void)signal;
	(void)information;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += length;
}

static void give_up(int signal)
{
	siglongjmp(escape, signal);
}

static void handle(int signal, int instruction)
{
	struct sigaction action = {.sa_sigaction = step_over, .sa_flags = SA_SIGINFO};
	length = instruction;
	checked(sigaction(signal, &action, NULL), "sigaction");
}

/* Sixteen times an instruction that faults, of a known length. */
static void protections(void)
{
	asm volatile(".rept 16\n\tmovq $1, (%0)\n\t.endr" ::"r"(page) : "memory");
}

static void invalid_opcodes(void)
{
	asm volatile(".rept 16\n\tud2\n\t.endr");
}

static void divisions(void)
{
	asm volatile("xor %%ecx, %%ecx\n\txor %%edx, %%edx\n\t.rept 16\n\tdiv %%ecx\n\t.endr" ::: "eax", "ecx", "edx");
}

static void misalignments(void)
{
	asm volatile("pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\t"
		     ".rept 16\n\tmov -15(%%rsp), %%rax\n\t.endr\n\t"
		     "pushfq\n\tandl $0xfffbffff, (%%rsp)\n\tpopfq" ::: "rax", "memory");
}

/* Whether this machine checks alignment at all: some emulators do not. */
static int checks_alignment(void)
{
	signal(SIGBUS, give_up);
	if (sigsetjmp(escape, 1) == SIGBUS)
		return 1;
	misalignments();
	return 0;
}

int main(void)
{
	begin();
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	checked(page == MAP_FAILED ? -1 : 0, "mmap");
	handle(SIGSEGV, 7);
	measure("protection", REPEATS, protections);
	handle(SIGILL, 2);
	measure("invalid-opcode", REPEATS, invalid_opcodes);
	handle(SIGFPE, 2);
	measure("division", REPEATS, divisions);
	if (checks_alignment()) {
		handle(SIGBUS, 5);
		measure("alignment", REPEATS, misalignments);
	} else {
		absent("alignment", "this machine does not check alignment");
	}
	return 0;
}
