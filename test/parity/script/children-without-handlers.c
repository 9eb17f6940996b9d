// A program in C, compiled by the host's compiler, and the same on both sides.
// clone3 with CLONE_CLEAR_SIGHAND: the child has no handlers, ignores what its parent ignored, and its parent keeps its own.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static void note(int signal) { caught = signal; }
static const char *action_of(int signal)
{
	struct sigaction action;
	sigaction(signal, NULL, &action);
	return action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
}
static long clone_with(unsigned long long flags)
{
	struct clone_args how = {.flags = flags, .exit_signal = flags & CLONE_THREAD ? 0 : SIGCHLD};
	return syscall(SYS_clone3, &how, sizeof how);
}
int main(void)
{
	int status;
	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGUSR1, note);
	signal(SIGUSR2, SIG_IGN);
	signal(SIGTERM, note);
	for (int borrows = 0; borrows < 2; borrows++) {
		long child = clone_with(CLONE_CLEAR_SIGHAND | (borrows ? CLONE_VFORK : 0));
		if (!child) {
			printf("%s %s %s\n", action_of(SIGUSR1), action_of(SIGUSR2), action_of(SIGTERM));
			raise(SIGUSR2);
			raise(SIGUSR1);
			_exit(1);
		}
		waitpid(child, &status, 0);
		printf("%d, ended by %d\n", child > 0, WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
	}
	printf("%s %s %s\n", action_of(SIGUSR1), action_of(SIGUSR2), action_of(SIGTERM));
	raise(SIGUSR1);
	printf("caught %d\n", caught == SIGUSR1);
	long both = clone_with(CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM);
	printf("with the parent's: %ld %d\n", both, errno == EINVAL);
	return 0;
}
