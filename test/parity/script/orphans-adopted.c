// A program in C, compiled by the host's compiler, and the same on both sides.
// Processes that adopt orphans below them (PR_SET_CHILD_SUBREAPER): who is whose parent, when a parent ends; statuses, stops, signals and groups of the adopted; the nearest of several.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int mouth[2];

/* What a process far below has to say: a word at a time, in order. */
static void say(const char *what, int number)
{
	char line[64];
	int length = snprintf(line, sizeof line, "%s %d", what, number);
	if (write(mouth[1], line, length + 1) < 0) _exit(99);
}

static void hear(char *line)
{
	while (read(mouth[0], line, 1) == 1 && *line) line++;
	*line = 0;
}

static int reaps(void)
{
	int answer = -1;
	prctl(PR_GET_CHILD_SUBREAPER, &answer);
	return answer;
}

static void nap(int milliseconds) { poll(0, 0, milliseconds); }

/* Until the parent is another one than before, at most ten seconds. */
static void await_other_parent(pid_t before)
{
	for (int i = 0; i < 1000 && getppid() == before; i++) nap(10);
}

static const char *name_of(pid_t who, pid_t self) { return who == self ? "me" : "somebody"; }

static void print_status(const char *whose, int status)
{
	if (WIFEXITED(status)) printf("%s exited %d\n", whose, WEXITSTATUS(status));
	else if (WIFSIGNALED(status)) printf("%s killed %d\n", whose, WTERMSIG(status));
	else if (WIFSTOPPED(status)) printf("%s stopped %d\n", whose, WSTOPSIG(status));
	else printf("%s went on\n", whose);
}

/* Forks a child that forks: the child ends at once with its status, the grandchild does what it is told. */
static pid_t orphan(void (*action)(void), int status)
{
	int back[2];
	pid_t inner = 0;
	if (pipe(back)) exit(1);
	pid_t outer = fork();
	if (!outer) {
		pid_t parent = getpid();
		inner = fork();
		if (!inner) {
			close(back[0]), close(back[1]);
			await_other_parent(parent);
			action();
			_exit(0);
		}
		if (write(back[1], &inner, sizeof inner) < 0) _exit(98);
		_exit(status);
	}
	if (read(back[0], &inner, sizeof inner) != sizeof inner) exit(1);
	close(back[0]), close(back[1]);
	int how;
	waitpid(outer, &how, 0);
	print_status("child", how);
	return inner;
}

static pid_t self;
static void tell_parent(void) { say(name_of(getppid(), self), 0), _exit(7); }
static void wait_to_be_killed(void) { say("ready", 0); for (;;) pause(); }
static void stop_and_end(void) { raise(SIGSTOP); nap(300); _exit(8); }

static void the_switch(void)
{
	printf("== the switch: %d\n", reaps());
	printf("on %d", prctl(PR_SET_CHILD_SUBREAPER, 7));
	printf(": %d\n", reaps());
	if (!fork()) { printf("a child has %d\n", reaps()); fflush(stdout); _exit(0); }
	wait(0);
	int outcome = prctl(PR_GET_CHILD_SUBREAPER, 8);
	printf("nowhere to tell %d %d\n", outcome, errno == EFAULT);
}

static void adopted(void)
{
	char line[64];
	int status;
	printf("== adopted\n");
	pid_t inner = orphan(tell_parent, 5);
	hear(line);
	printf("its parent is %s\n", line);
	pid_t found = waitpid(-1, &status, 0);
	printf("found it: %d\n", found == inner);
	print_status("orphan", status);
	found = waitpid(-1, &status, WNOHANG);
	printf("another: %d %d\n", found, errno == ECHILD);
}

static volatile sig_atomic_t signals;
static siginfo_t last;
static void note(int number, siginfo_t *info, void *context) { signals++, last = *info; }

static void signalled(void)
{
	char line[64];
	int status;
	printf("== signalled\n");
	pid_t inner = orphan(wait_to_be_killed, 0);
	hear(line);
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigset_t set, before;
	sigemptyset(&set), sigaddset(&set, SIGCHLD), sigprocmask(SIG_BLOCK, &set, &before);
	sigaction(SIGCHLD, &action, 0);
	kill(inner, SIGTERM);
	while (!signals) sigsuspend(&before);
	printf("%d: from it %d, code %d, status %d\n", signals, last.si_pid == inner, last.si_code, last.si_status);
	printf("waited %d", waitpid(inner, &status, 0) == inner);
	print_status("", status);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, 0);
}

static void stopped(void)
{
	int status;
	printf("== stopped\n");
	pid_t inner = orphan(stop_and_end, 0);
	printf("%d ", waitpid(inner, &status, WUNTRACED) == inner);
	print_status("orphan", status);
	printf("group %d", getpgid(inner) == getpgrp());
	printf(", into one of its own %d", setpgid(inner, 0));
	printf(", %d\n", getpgid(inner) == inner);
	kill(inner, SIGCONT);
	printf("%d ", waitpid(-inner, &status, WCONTINUED) == inner);
	print_status("orphan", status);
	siginfo_t info = {0};
	printf("%d ", waitid(P_PID, inner, &info, WEXITED | WNOWAIT));
	printf("%d %d %d\n", info.si_pid == inner, info.si_code == CLD_EXITED, info.si_status);
	waitpid(inner, &status, 0);
	print_status("orphan", status);
}

/* One that had ended before its parent did, and that nobody had waited for. */
static void ended_before(void)
{
	int status, there[2];
	pid_t inner = 0;
	printf("== ended before\n");
	if (pipe(there)) exit(1);
	pid_t outer = fork();
	if (!outer) {
		inner = fork();
		if (!inner) _exit(9);
		siginfo_t info;
		waitid(P_PID, inner, &info, WEXITED | WNOWAIT);
		_exit(write(there[1], &inner, sizeof inner) < 0);
	}
	if (read(there[0], &inner, sizeof inner) != sizeof inner) exit(1);
	close(there[0]), close(there[1]);
	waitpid(outer, &status, 0);
	print_status("child", status);
	printf("%d ", waitpid(-1, &status, 0) == inner);
	print_status("orphan", status);
}

/* The nearest adopts; when it ends, the next one does. */
static void two(void)
{
	char line[64];
	int status;
	printf("== two\n");
	pid_t middle = fork();
	if (!middle) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		self = getpid();
		pid_t inner = fork();
		if (!inner) {
			pid_t parent = getpid();
			if (fork()) _exit(0);
			await_other_parent(parent);
			say(name_of(getppid(), self), 1);
			await_other_parent(self);
			_exit(6);
		}
		waitpid(inner, 0, 0);
		nap(50);
		_exit(3);
	}
	hear(line);
	printf("its parent is %s\n", line);
	waitpid(middle, &status, 0);
	print_status("middle", status);
	waitpid(-1, &status, 0);
	print_status("orphan", status);
}

static void many(void)
{
	int status, sum = 0;
	printf("== many\n");
	pid_t outer = fork();
	if (!outer) {
		for (int i = 1; i <= 100; i++) if (!fork()) { nap(i % 7 * 10); _exit(i); }
		_exit(0);
	}
	waitpid(outer, &status, 0);
	while (wait(&status) > 0) sum += WEXITSTATUS(status);
	printf("all of them: %d, no more %d\n", sum, errno == ECHILD);
}

/* Told of its parent's end, whoever takes its place. */
static void told_of_the_end(void)
{
	int status;
	printf("== told of the end\n");
	pid_t outer = fork();
	if (!outer) {
		pid_t inner = fork();
		if (!inner) { prctl(PR_SET_PDEATHSIG, SIGUSR2); say("set", 0); nap(20000); _exit(1); }
		char line[64];
		hear(line);
		_exit(0);
	}
	waitpid(outer, &status, 0);
	waitpid(-1, &status, 0);
	print_status("orphan", status);
}

static void off(void)
{
	char line[64];
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	printf("== off: %d\n", reaps());
	orphan(tell_parent, 4);
	hear(line);
	printf("its parent is not me: %d\n", strncmp(line, "me", 2) != 0);
	pid_t none = waitpid(-1, 0, 0);
	printf("none of mine: %d %d\n", none, errno == ECHILD);
}

/* Through another program it stays as it is. */
static int after_exec(void)
{
	int status;
	printf("== another program: %d\n", reaps());
	if (!fork()) { if (fork()) _exit(0); nap(100); _exit(11); }
	for (int i = 0; i < 2; i++) wait(&status);
	print_status("orphan", status);
	return 0;
}

int main(int count, char **arguments)
{
	setvbuf(stdout, 0, _IONBF, 0);
	if (count > 1) return after_exec();
	self = getpid();
	if (pipe(mouth)) return 1;
	the_switch(), adopted(), signalled(), stopped(), ended_before(), two(), many(), told_of_the_end(), off();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	execl(arguments[0], arguments[0], "again", (char *)0);
	execl("/proc/self/exe", arguments[0], "again", (char *)0);
	return 1;
}
