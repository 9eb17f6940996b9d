// A program in C, compiled by the host's compiler, and the same on both sides.
// Signals that a thread sends to itself: what a handler finds and may change, in what order they come, what of them waits, and that every register is as it was.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int calls, last, code, from_me, depth, deepest;

static void on(int number, void (*action)(int, siginfo_t *, void *), int flags, int more)
{
	struct sigaction wanted = { .sa_sigaction = action, .sa_flags = flags };
	sigemptyset(&wanted.sa_mask);
	if (more) sigaddset(&wanted.sa_mask, more);
	if (sigaction(number, &wanted, 0)) perror("sigaction");
}

static sigset_t set_of(int one, int other)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, one);
	if (other) sigaddset(&set, other);
	return set;
}

static void mask(int how, int one, int other)
{
	sigset_t set = set_of(one, other);
	sigprocmask(how, &set, 0);
}

static int is_blocked(int number)
{
	sigset_t now;
	sigprocmask(SIG_BLOCK, 0, &now);
	return sigismember(&now, number);
}

static int send_directly(int number) { return syscall(SYS_tgkill, getpid(), gettid(), number); }

static void note(int number, siginfo_t *info, void *context)
{
	calls++, last = number, code = info->si_code;
	from_me = info->si_pid == getpid() && info->si_uid == getuid() && info->si_signo == number;
}

static void told(const char *what)
{
	printf("%s: %d calls, signal %d, code %d, from me %d\n", what, calls, last, code, from_me);
	calls = last = code = from_me = 0;
}

static void refused(long result) { printf("%ld %s\n", result, strerrorname_np(errno)); }

static void kinds(void)
{
	on(SIGUSR1, note, SA_SIGINFO, 0), on(SIGRTMIN, note, SA_SIGINFO, 0), on(SIGCONT, note, SA_SIGINFO, 0);
	printf("%d ", kill(getpid(), SIGUSR1)), told("kill");
	printf("%d ", send_directly(SIGUSR1)), told("tgkill");
	printf("%d ", raise(SIGUSR1)), told("raise");
	printf("%d ", pthread_kill(pthread_self(), SIGUSR1)), told("pthread_kill");
	printf("%d ", kill(0, 0)), told("nothing");
	printf("%d ", kill(getpid(), SIGRTMIN)), told("a queued one");
	printf("%d ", kill(getpid(), SIGCONT)), told("continue");
	refused(kill(getpid(), 65)), refused(kill(getpid(), -1)), refused(send_directly(65)), refused(send_directly(-1));
	refused(syscall(SYS_tgkill, -1, gettid(), SIGUSR1)), refused(syscall(SYS_tgkill, getpid(), 0, SIGUSR1));
	on(SIGUSR1, (void *)SIG_IGN, 0, 0), kill(getpid(), SIGUSR1), told("ignored");
	kill(getpid(), SIGCHLD), raise(SIGURG), told("of no interest");
	on(SIGUSR1, note, SA_SIGINFO | SA_RESETHAND, 0);
	kill(getpid(), SIGUSR1), told("once");
	struct sigaction now;
	sigaction(SIGUSR1, 0, &now);
	printf("default again %d\n", now.sa_handler == SIG_DFL);
}

static void waiting(void)
{
	on(SIGUSR1, note, SA_SIGINFO, 0), on(SIGUSR2, note, SA_SIGINFO, 0);
	mask(SIG_BLOCK, SIGUSR1, SIGUSR2);
	kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR1), raise(SIGUSR2), told("blocked");
	mask(SIG_UNBLOCK, SIGUSR2, 0), told("one of them");
	kill(getpid(), SIGUSR2), told("the other beside one that waits");
	sigset_t pending;
	sigpending(&pending);
	printf("waits %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
	mask(SIG_UNBLOCK, SIGUSR1, 0), told("and that one");
	mask(SIG_BLOCK, SIGUSR1, 0);
	sigset_t set = set_of(SIGUSR1, 0), all_but;
	int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
	struct signalfd_siginfo info;
	kill(getpid(), SIGUSR1);
	long bytes = read(descriptor, &info, sizeof info);
	printf("by a descriptor %ld, %d, code %d\n", bytes, info.ssi_signo, info.ssi_code);
	raise(SIGUSR1);
	siginfo_t taken;
	int number = sigwaitinfo(&set, &taken);
	printf("taken %d, code %d\n", number, taken.si_code);
	kill(getpid(), SIGUSR1);
	sigfillset(&all_but), sigdelset(&all_but, SIGUSR1);
	refused(sigsuspend(&all_but)), told("let in");
	printf("blocked again %d\n", is_blocked(SIGUSR1));
	mask(SIG_UNBLOCK, SIGUSR1, 0);
}

static void nested(int number, siginfo_t *info, void *context)
{
	calls++, depth++;
	if (depth > deepest) deepest = depth;
	if (calls == 1) kill(getpid(), number), raise(SIGUSR2);
	depth--;
}

static void nesting(void)
{
	const int flags[] = { 0, SA_NODEFER };
	for (int i = 0; i < 2; i++) {
		calls = depth = deepest = 0;
		on(SIGUSR1, nested, SA_SIGINFO | flags[i], 0), on(SIGUSR2, nested, SA_SIGINFO, 0);
		kill(getpid(), SIGUSR1);
		printf("nested: %d calls, %d deep, blocked %d\n", calls, deepest, is_blocked(SIGUSR1));
		calls = depth = deepest = 0;
		on(SIGUSR1, nested, SA_SIGINFO | flags[i], SIGUSR2);
		kill(getpid(), SIGUSR1);
		printf("with a mask: %d calls, %d deep\n", calls, deepest);
	}
	calls = 0;
}

// What a handler changes in its frame is what the program goes on with.
static void change(int number, siginfo_t *info, void *given)
{
	ucontext_t *context = given;
	context->uc_mcontext.gregs[REG_RAX] = 77;
	context->uc_mcontext.gregs[REG_R12] += 5;
	context->uc_mcontext.gregs[REG_EFL] ^= 1;
	sigaddset(&context->uc_sigmask, SIGUSR2);
	// The first register of the vector unit, in the legacy area.
	context->uc_mcontext.fpregs->_xmm[0].element[0] += 9;
	calls++;
}

struct registers { uint64_t rax, rbx, rbp, r8, r9, r10, r12, r13, r14, r15, flags, vector; };

// Calls kill with a value in every register that a call keeps.
__attribute__((noinline)) static void call_with_all(struct registers *is, long number, long signal)
{
	long own = getpid();
	__asm__ volatile(
		".intel_syntax noprefix\n"
		"push rbp\n push rbx\n push rdi\n"
		"mov r11, rdi\n"
		"mov rax, rsi\n mov rsi, rdx\n mov rdi, rcx\n"
		"movq xmm0, [r11 + 88]\n"
		"mov rbx, [r11 + 8]\n mov rbp, [r11 + 16]\n mov r8, [r11 + 24]\n mov r9, [r11 + 32]\n mov r10, [r11 + 40]\n"
		"mov r12, [r11 + 48]\n mov r13, [r11 + 56]\n mov r14, [r11 + 64]\n mov r15, [r11 + 72]\n"
		"stc\n"
		"syscall\n"
		"mov r11, [rsp]\n"
		"mov [r11], rax\n mov [r11 + 8], rbx\n mov [r11 + 16], rbp\n mov [r11 + 24], r8\n mov [r11 + 32], r9\n"
		"mov [r11 + 40], r10\n mov [r11 + 48], r12\n mov [r11 + 56], r13\n mov [r11 + 64], r14\n mov [r11 + 72], r15\n"
		"setc al\n movzx eax, al\n mov [r11 + 80], rax\n movq [r11 + 88], xmm0\n"
		"pop rdi\n pop rbx\n pop rbp\n"
		".att_syntax\n"
		: "+S"(number), "+c"(own) : "D"(is), "d"(signal)
		: "rax", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "memory");
}

static void registers(void)
{
	void (*const actions[])(int, siginfo_t *, void *) = { note, change };
	for (int i = 0; i < 4; i++) {
		on(SIGUSR1, actions[i % 2], SA_SIGINFO, 0);
		struct registers all = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0x1234567 };
		call_with_all(&all, SYS_kill, SIGUSR1);
		printf("%ld: %ld %ld %ld %ld %ld %ld %ld %ld %ld, carry %ld, vector %lx, blocked %d\n", (long)all.rax, (long)all.rbx,
			(long)all.rbp, (long)all.r8, (long)all.r9, (long)all.r10, (long)all.r12, (long)all.r13, (long)all.r14,
			(long)all.r15, (long)all.flags, (long)all.vector, is_blocked(SIGUSR2));
		mask(SIG_UNBLOCK, SIGUSR2, 0);
	}
	calls = last = code = from_me = 0;
}

static char *other_stack;
static volatile int was_there, told_there;

static void where(int number, siginfo_t *info, void *given)
{
	char here;
	ucontext_t *context = given;
	was_there = &here >= other_stack && &here < other_stack + 65536;
	stack_t now;
	sigaltstack(0, &now);
	told_there = now.ss_flags + 10 * context->uc_stack.ss_flags + 100 * (context->uc_stack.ss_sp == other_stack);
	if (number == SIGUSR1 && !calls++) kill(getpid(), SIGUSR2);
}

// What a handler sets is undone when it returns; what it writes into its frame is not.
static void set_other(int number, siginfo_t *info, void *given)
{
	ucontext_t *context = given;
	stack_t own = { .ss_sp = other_stack, .ss_size = 32768 };
	if (number == SIGUSR1) printf("set %d, ", sigaltstack(&own, 0));
	else context->uc_stack.ss_size = 16384, context->uc_stack.ss_flags = SS_ONSTACK;
}

static void stack_is(const char *what)
{
	stack_t now;
	sigaltstack(0, &now);
	printf("%s: %ld bytes, flags %x\n", what, (long)now.ss_size, now.ss_flags);
}

static void stacks(void)
{
	other_stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	on(SIGUSR1, where, SA_SIGINFO | SA_ONSTACK, 0), on(SIGUSR2, where, SA_SIGINFO | SA_ONSTACK, 0);
	kill(getpid(), SIGUSR2), printf("no other stack: %d %d\n", was_there, told_there);
	stack_t stack = { .ss_sp = other_stack, .ss_size = 65536 };
	sigaltstack(&stack, 0);
	kill(getpid(), SIGUSR2), printf("on it: %d %d\n", was_there, told_there);
	kill(getpid(), SIGUSR1), printf("from there again: %d %d\n", was_there, told_there);
	on(SIGUSR2, where, SA_SIGINFO, 0);
	kill(getpid(), SIGUSR2), printf("not asked for: %d %d\n", was_there, told_there);
	on(SIGUSR1, set_other, SA_SIGINFO, 0), on(SIGUSR2, set_other, SA_SIGINFO, 0);
	kill(getpid(), SIGUSR1), stack_is("set in a handler");
	kill(getpid(), SIGUSR2), stack_is("set in its frame");
	stack.ss_flags = SS_ONSTACK | 1 << 31, sigaltstack(&stack, 0);
	on(SIGUSR1, where, SA_SIGINFO | SA_ONSTACK, 0), on(SIGUSR2, where, SA_SIGINFO | SA_ONSTACK, 0);
	kill(getpid(), SIGUSR2), printf("disarmed: %d %d, ", was_there, told_there), stack_is("and back");
	stack.ss_flags = SS_DISABLE, sigaltstack(&stack, 0);
	kill(getpid(), SIGUSR1), printf("gone: %d %d\n", was_there, told_there);
	kill(getpid(), SIGUSR2), stack_is("still");
	calls = 0;
}

// A frame that finds no place is a fault, and the signal is lost.
static int segv_with;
static void on_fault(int number, siginfo_t *info, void *given)
{
	ucontext_t *context = given;
	note(number, info, given);
	segv_with = info->si_addr == 0 && !sigismember(&context->uc_sigmask, SIGSEGV) && !is_blocked(SIGUSR1);
	printf("[fault: code %x, %d, before it blocked %d] ", code, segv_with, sigismember(&context->uc_sigmask, SIGUSR2));
}

static void how_it_ends(int flags, int blocked)
{
	fflush(stdout);
	if (!fork()) {
		on(SIGSEGV, on_fault, SA_SIGINFO | flags, 0);
		if (blocked) mask(SIG_BLOCK, SIGSEGV, 0);
		kill(getpid(), SIGUSR1);
		printf("goes on %d\n", calls), fflush(stdout), _exit(0);
	}
	int status;
	wait(&status);
	printf("signal %d\n", WTERMSIG(status));
}

static void no_room(void)
{
	calls = 0;
	stack_t stack = { .ss_sp = other_stack, .ss_size = 65536 };
	sigaltstack(&stack, 0);
	mprotect(other_stack, 65536, PROT_READ);
	on(SIGUSR1, note, SA_SIGINFO | SA_ONSTACK, 0);
	how_it_ends(0, 0), how_it_ends(SA_ONSTACK, 0), how_it_ends(0, 1), how_it_ends(SA_RESETHAND, 0);
	on(SIGSEGV, on_fault, SA_SIGINFO, 0);
	mask(SIG_BLOCK, SIGUSR2, 0);
	kill(getpid(), SIGUSR1), told("no room for it");
	sigset_t none = set_of(SIGHUP, 0);
	mask(SIG_BLOCK, SIGUSR1, 0), kill(getpid(), SIGUSR1);
	printf("%d ", sigsuspend(&none)), told("while it waited with another mask");
	printf("blocked %d %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2));
	mask(SIG_UNBLOCK, SIGUSR1, SIGUSR2);
	mprotect(other_stack, 65536, PROT_READ | PROT_WRITE);
	kill(getpid(), SIGUSR1), told("room again");
	stack.ss_flags = SS_DISABLE, sigaltstack(&stack, 0);
	on(SIGSEGV, (void *)SIG_DFL, 0, 0);
	calls = 0;
}

static sigjmp_buf out;
static void leave(int number) { siglongjmp(out, number); }
static void take_stack(int number, siginfo_t *info, void *given)
{
	// The return finds no frame.
	__asm__ volatile("mov $4096, %rsp\n mov $15, %eax\n syscall");
}

static void odd_returns(void)
{
	signal(SIGUSR1, leave);
	for (int i = 0; i < 3; i++)
		if (!sigsetjmp(out, 1)) kill(getpid(), SIGUSR1), printf("not reached\n");
	printf("jumped out, blocked %d\n", is_blocked(SIGUSR1));
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			on(SIGUSR1, take_stack, SA_SIGINFO, 0);
			if (i) on(SIGSEGV, (void *)SIG_IGN, 0, 0);
			kill(getpid(), SIGUSR1), _exit(0);
		}
		int status;
		wait(&status);
		printf("a frame that is not there: signal %d\n", WTERMSIG(status));
	}
	for (int number = SIGHUP; number < SIGUSR2; number++) {
		if (number == SIGSTOP || number == SIGCHLD) continue;
		if (!fork()) signal(number, SIG_DFL), kill(getpid(), number), _exit(0);
		int status;
		wait(&status);
		printf("%d ", WTERMSIG(status));
	}
	printf("end it\n");
}

static void with_others(void)
{
	struct itimerval timer = { .it_value = { .tv_sec = 1000 } }, none = { 0 };
	setitimer(ITIMER_REAL, &timer, 0);
	on(SIGUSR1, note, SA_SIGINFO, 0);
	kill(getpid(), SIGUSR1), told("beside a timer");
	setitimer(ITIMER_REAL, &none, 0);
	sigset_t none_blocked;
	sigemptyset(&none_blocked);
	mask(SIG_BLOCK, SIGUSR1, 0);
	kill(getpid(), SIGUSR1);
	struct timespec moment = { 0 };
	int ready = ppoll(0, 0, &moment, &none_blocked);
	printf("ppoll %d %s ", ready, ready < 0 ? strerrorname_np(errno) : "-"), told("meanwhile");
	mask(SIG_UNBLOCK, SIGUSR1, 0);
	for (int i = 0; i < 10000; i++) kill(getpid(), SIGUSR1);
	told("many");
}

// The first thread blocks it meanwhile.
static void *thread(void *unused)
{
	mask(SIG_UNBLOCK, SIGUSR1, 0);
	kill(getpid(), SIGUSR1), told("in a thread");
	send_directly(SIGUSR1), told("to a thread");
	return 0;
}

int main(void)
{
	kinds(), waiting(), nesting(), registers(), stacks(), no_room(), odd_returns(), with_others();
	pthread_t other;
	mask(SIG_BLOCK, SIGUSR1, 0);
	pthread_create(&other, 0, thread, 0), pthread_join(other, 0);
}
