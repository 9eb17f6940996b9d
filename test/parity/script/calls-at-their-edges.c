// Arguments of calls at the edge of what they take: reservations of terabytes, addresses that are wished for, signals that a
// process says the kernel sent it, flags that nobody knows.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIB (1UL << 40)
/* glibc names neither of them: a flag that asks whether others are known, and one way to ask for weak random bytes. */
#define SA_UNSUPPORTED 0x400
#define WEAK 4

static void say(const char *what, long result)
{
	printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "done");
}

static char *reserve(void *wish, size_t bytes, int more)
{
	return mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | more, -1, 0);
}

static void reservations(void)
{
	int status;
	char *eight = reserve(NULL, 8 * TIB, 0), *four = reserve(NULL, 4 * TIB, 0);
	printf("reserved: %d %d\n", eight != MAP_FAILED, four != MAP_FAILED);
	four[0] = 1;
	four[4 * TIB - 1] = 2;
	pid_t child = fork();
	if (child == 0) {
		four[0] += four[4 * TIB - 1];
		four[TIB] = 9;
		printf("the child has %d %d\n", four[0], four[TIB]);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("its parent has %d %d\n", four[0], four[TIB]);
	say("drop all of it", madvise(four, 4 * TIB, MADV_DONTNEED));
	printf("then it has %d\n", four[4 * TIB - 1]);
	say("protect the middle", mprotect(four + TIB, 2 * TIB, PROT_READ));
	say("unmap the middle", munmap(four + TIB, TIB));
	say("unmap all of it", munmap(four, 4 * TIB));
	say("unmap the other one", munmap(eight, 8 * TIB));
	say("more than there are addresses", (long)reserve(NULL, 1UL << 47, 0));
}

static void wishes(void)
{
	char *wish = (char *)0x200000000000;
	printf("granted: %d\n", reserve(wish, 4096, 0) == wish);
	printf("granted where something lies: %d\n", reserve(wish, 4096, 0) == wish);
	say("insisted upon", (long)reserve(wish, 4096, MAP_FIXED_NOREPLACE));
	printf("granted in the middle of a page: %d\n", reserve(wish + 0x2001, 4096, 0) == wish + 0x2000);
}

static volatile int came, code;

static void note(int number, siginfo_t *information, void *context)
{
	(void)context;
	came = number;
	code = information->si_code;
}

static void signals(void)
{
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_UNSUPPORTED }, there;
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR1, NULL, &there);
	printf("unknown flags that stay: %x\n", there.sa_flags & SA_UNSUPPORTED);
	siginfo_t told = { .si_code = SI_USER };
	say("told as by the kernel", syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &told));
	printf("came: %d, as %d\n", came == SIGUSR1, code);
	told.si_code = SI_KERNEL;
	say("told to a thread", syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR1, &told));
	printf("came as: %d\n", code);
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	say("told to another process", syscall(SYS_rt_sigqueueinfo, child, SIGUSR1, &told));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	char byte;
	setvbuf(stdout, NULL, _IOLBF, 0);
	reservations();
	wishes();
	signals();
	say("a group below 0, of a process below 0", setpgid(-1, 0));
	say("a group of nobody", setpgid(999999, 0));
	say("random bytes, weak and strong", syscall(SYS_getrandom, &byte, 1, WEAK | 2));
	say("random bytes, weak", syscall(SYS_getrandom, &byte, 1, WEAK));
	int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
	say("from the end of a folder", lseek(folder, 0, SEEK_END));
	printf("from its beginning: %ld\n", (long)lseek(folder, 3, SEEK_SET));
	return 0;
}
