// A program in C, compiled by the host's compiler, and the same on both sides.
// What was waited for has come, and a signal with it: the call tells of what has come, and is not interrupted.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200
static volatile sig_atomic_t caught;
static int pipe_of[2], answer[2], event, set, queue;
static int *word;
static void note(int signal)
{
	(void)signal;
	caught++;
}
/* Each way to wait, and to give what is waited for. */
static int await_pipe(void) { char c; return read(pipe_of[0], &c, 1); }
static int await_poll(void) { struct pollfd one = {pipe_of[0], POLLIN, 0}; return poll(&one, 1, -1) < 0 ? -1 : await_pipe(); }
static int await_select(void)
{
	fd_set set_of;
	FD_ZERO(&set_of);
	FD_SET(pipe_of[0], &set_of);
	return select(pipe_of[0] + 1, &set_of, NULL, NULL, NULL) < 0 ? -1 : await_pipe();
}
static int await_epoll(void) { struct epoll_event one; return epoll_wait(set, &one, 1, -1) < 0 ? -1 : await_pipe(); }
static int await_event(void) { long value; return read(event, &value, 8) < 0 ? -1 : 1; }
static int await_message(void) { struct { long type; char text[8]; } one; return msgrcv(queue, &one, 8, 0, 0) < 0 ? -1 : 1; }
static int await_futex(void)
{
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0)
		if (syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL) < 0 && errno != EAGAIN) return -1;
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	return 1;
}
static void give_pipe(void) { if (write(pipe_of[1], "x", 1) != 1) exit(9); }
static void give_event(void) { long one = 1; if (write(event, &one, 8) != 8) exit(9); }
static void give_message(void) { struct { long type; char text[8]; } one = {1, "hello"}; if (msgsnd(queue, &one, 8, 0)) exit(9); }
static void give_futex(void) { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); syscall(SYS_futex, word, FUTEX_WAKE, 1); }

/* The other process gives what is waited for, then sends a signal; and does so again when both have come. */
static void try(const char *what, int (*await)(void), void (*give)(void))
{
	int interrupted = 0, failed = 0;
	pid_t parent = getpid(), child;
	sigset_t none;
	sigemptyset(&none);
	caught = 0;
	if (!(child = fork())) {
		char c;
		for (int round = 0; round < ROUNDS; round++) {
			if (round % 4 == 0) usleep(1000);
			give();
			kill(parent, SIGUSR1);
			if (read(answer[0], &c, 1) != 1) exit(9);
		}
		exit(0);
	}
	for (int round = 1; round <= ROUNDS; round++) {
		while (await() != 1) {
			if (errno == EINTR) interrupted++; else { failed++; break; }
		}
		while (caught < round) usleep(100);
		if (write(answer[1], "x", 1) != 1) exit(9);
	}
	int status;
	while (waitpid(child, &status, 0) < 0) {}
	printf("%s: interrupted %d failed %d child %d\n", what, interrupted, failed, status);
	fflush(stdout);
}
/* A child that ends closes its end of a pipe first, then its parent is told: who reads finds the end, who waits finds the child. */
static void ends(void)
{
	int interrupted = 0, waits = 0;
	for (int round = 1; round <= ROUNDS; round++) {
		int ends_of[2];
		char c;
		if (pipe(ends_of)) exit(9);
		pid_t child = fork();
		if (!child) {
			if (round % 4 == 0) usleep(1000);
			exit(0);
		}
		close(ends_of[1]);
		while (read(ends_of[0], &c, 1) < 0) interrupted++;
		while (waitpid(child, NULL, 0) < 0) waits++;
		close(ends_of[0]);
	}
	printf("ends: reads interrupted %d, waits interrupted %d\n", interrupted, waits);
}
int main(void)
{
	struct sigaction action = {.sa_handler = note};
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGCHLD, &action, NULL);
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pipe(pipe_of) || pipe(answer)) return 9;
	event = eventfd(0, 0);
	set = epoll_create1(0);
	struct epoll_event wanted = {.events = EPOLLIN};
	epoll_ctl(set, EPOLL_CTL_ADD, pipe_of[0], &wanted);
	queue = msgget(IPC_PRIVATE, 0600);
	try("read of a pipe", await_pipe, give_pipe);
	try("poll", await_poll, give_pipe);
	try("select", await_select, give_pipe);
	try("epoll_wait", await_epoll, give_pipe);
	try("read of an eventfd", await_event, give_event);
	try("msgrcv", await_message, give_message);
	try("futex", await_futex, give_futex);
	ends();
	msgctl(queue, IPC_RMID, NULL);
	return 0;
}
