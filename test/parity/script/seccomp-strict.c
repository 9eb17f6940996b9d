// A program in C, compiled by the host's compiler, and the same on both sides.
// Strict mode of seccomp: read, write, exit and returns from handlers, and no other call.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];
static void on(int signal) { (void)signal; }
static int strict(int how)
{
	return how ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}
static void allowed(void)
{
	char byte = 'y';
	if (write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1) (void)!write(1, "read and written\n", 17);
	__asm__ volatile("ud2" ::: "memory");
}
static void skips(int signal, siginfo_t *information, void *context)
{
	(void)signal, (void)information;
	((long *)context)[21] += 2;
}
static void try(const char *name, int how, int which)
{
	int status;
	pid_t child = fork();
	if (!child) {
		struct sigaction action = {.sa_sigaction = skips, .sa_flags = SA_SIGINFO};
		sigaction(SIGILL, &action, NULL);
		signal(SIGUSR1, on);
		for (int i = 0; i < 100; i++) syscall(SYS_getppid);
		if (strict(how)) _exit(7);
		if (which == 0) { allowed(); syscall(SYS_exit, 5); }
		if (which == 1) syscall(SYS_close, 9);
		if (which == 2) syscall(SYS_exit_group, 5);
		if (which == 3) syscall(SYS_getppid);
		if (which == 4) syscall(SYS_kill, 0, 0);
		if (which == 5) syscall(1000);
		if (which == 6) mmap_it: syscall(SYS_mmap, 0, 4096, 3, 0x22, -1, 0);
		syscall(SYS_exit, 6);
		goto mmap_it;
	}
	waitpid(child, &status, 0);
	printf("%s: %s %d\n", name, WIFSIGNALED(status) ? "killed" : "exited", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
static void *confined(void *unused)
{
	(void)unused;
	strict(0);
	syscall(SYS_getppid);
	(void)!write(1, "still there\n", 12);
	return NULL;
}
static void one_of_two_threads(void)
{
	pthread_t thread;
	int status;
	pid_t child = fork();
	if (!child) {
		struct timespec pause = {0, 300000000};
		pthread_create(&thread, NULL, confined, NULL);
		nanosleep(&pause, NULL);
		printf("the other thread is here: %d\n", getppid() > 0);
		_exit(4);
	}
	waitpid(child, &status, 0);
	printf("its process exited %d\n", WEXITSTATUS(status));
}
int main(void)
{
	const char *names[] = {"what it may", "close", "exit_group", "getppid", "kill", "no call", "mmap"};
	setvbuf(stdout, NULL, _IONBF, 0);
	if (pipe(ends)) return 9;
	for (int how = 0; how < 2; how++)
		for (int which = 0; which < 7; which++) try(names[which], how, which);
	one_of_two_threads();
	printf("mode before: %d\n", prctl(PR_GET_SECCOMP));
	long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
	printf("with flags %ld %s\n", result, strerrorname_np(errno));
	result = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, ends);
	printf("with an argument %ld %s\n", result, strerrorname_np(errno));
	result = syscall(SYS_seccomp, 99, 0, NULL);
	printf("of an odd kind %ld %s\n", result, strerrorname_np(errno));
	result = prctl(PR_SET_SECCOMP, 9);
	printf("an odd mode %ld %s\n", result, strerrorname_np(errno));
	return 0;
}
