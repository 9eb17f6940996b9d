// A program in C, compiled by the host's compiler, and the same on both sides.
// Signals of descriptors with O_ASYNC: pipes, sockets and terminals, owners of every kind, readers that sleep or compute.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t plain, queued, seen_fd, seen_code;
static volatile long seen_band;
static _Thread_local volatile sig_atomic_t here;

static void handler(int signal, siginfo_t *information, void *context)
{
	(void)context;
	here++;
	if (signal == SIGIO) plain++;
	else queued++, seen_fd = information->si_fd, seen_code = information->si_code, seen_band = information->si_band;
}
static void wait_until(volatile sig_atomic_t *count, int least)
{
	for (int turn = 0; turn < 2000 && *count < least; turn++) usleep(1000);
}
static void put(int fd)
{
	if (write(fd, "x", 1) != 1) exit(9);
}
static void take(int fd)
{
	char bytes[64];
	if (read(fd, bytes, sizeof bytes) < 1) exit(9);
}
static void asynchronous(int fd, int signal)
{
	if (fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETSIG, signal) || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC)) exit(9);
}
static void readable(const char *what, int reader, int writer)
{
	plain = queued = 0;
	asynchronous(reader, 0);
	put(writer);
	wait_until(&plain, 1);
	printf("%s: plain %d\n", what, plain > 0);
	take(reader);
	asynchronous(reader, SIGRTMIN + 1);
	put(writer);
	wait_until(&queued, 1);
	printf("%s: queued %d, descriptor %d, code %d, band %lx\n", what, queued > 0, seen_fd == reader, seen_code, seen_band & POLLIN);
	take(reader);
	fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) & ~O_ASYNC);
	plain = queued = 0;
	put(writer);
	usleep(20000);
	printf("%s: without the flag %d\n", what, plain + queued);
	take(reader);
}
static int other_end;
static void *put_later(void *unused)
{
	usleep(50000);
	put(other_end);
	return unused;
}
static void *threads_own(void *reader)
{
	struct f_owner_ex owner = {F_OWNER_TID, gettid()};
	int fd = *(int *)reader;
	asynchronous(fd, SIGRTMIN + 2);
	if (fcntl(fd, F_SETOWN_EX, &owner)) exit(9);
	put(other_end);
	for (int turn = 0; turn < 2000 && !here; turn++) usleep(1000);
	printf("the thread got %d\n", here);
	return NULL;
}
int main(void)
{
	int ends[2], pair[2], master, slave;
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	pthread_t thread;
	setvbuf(stdout, NULL, _IONBF, 0);
	sigaction(SIGIO, &action, NULL);
	for (int signal = SIGRTMIN + 1; signal <= SIGRTMIN + 3; signal++) sigaction(signal, &action, NULL);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 9;
	readable("pipe", ends[0], ends[1]);
	readable("socket", pair[0], pair[1]);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 9;
	readable("datagrams", pair[0], pair[1]);
	master = posix_openpt(O_RDWR | O_NOCTTY);
	if (grantpt(master) || unlockpt(master)) return 9;
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	plain = 0;
	asynchronous(slave, 0);
	if (write(master, "line\n", 5) != 5) return 9;
	wait_until(&plain, 1);
	printf("terminal: plain %d\n", plain > 0);

	// A reader that sleeps in a call, and one that only computes.
	asynchronous(ends[0], SIGRTMIN + 1);
	queued = 0;
	other_end = ends[1];
	pthread_create(&thread, NULL, put_later, NULL);
	struct timespec long_time = {10, 0};
	int slept = nanosleep(&long_time, NULL);
	pthread_join(thread, NULL);
	wait_until(&queued, 1);
	printf("asleep: %d, %s\n", queued, slept ? "woken" : "slept on");
	take(ends[0]);
	queued = 0;
	pid_t child = fork();
	if (!child) {
		usleep(50000);
		put(ends[1]);
		_exit(0);
	}
	for (unsigned long turn = 0; turn < 4000000000ul && !queued; turn++) __asm__ volatile("pause");
	printf("computing: %d\n", queued);
	waitpid(child, NULL, 0);
	take(ends[0]);

	// The other process is the owner.
	int told[2], go[2];
	if (pipe(told) || pipe(go)) return 9;
	queued = 0;
	child = fork();
	if (!child) {
		put(go[1]);
		while (!queued) usleep(1000);
		printf("the owner got %d\n", queued > 0);
		put(told[1]);
		_exit(0);
	}
	take(go[0]);
	if (fcntl(ends[0], F_SETOWN, child)) return 9;
	put(ends[1]);
	take(told[0]);
	waitpid(child, NULL, 0);
	printf("this process got %d\n", queued);
	take(ends[0]);

	// Its group; one of its threads.
	plain = 0;
	setpgid(0, 0);
	fcntl(ends[0], F_SETSIG, 0);
	printf("group: %d\n", fcntl(ends[0], F_SETOWN, -getpgrp()));
	put(ends[1]);
	wait_until(&plain, 1);
	printf("as a group: %d\n", plain > 0);
	take(ends[0]);
	pthread_create(&thread, NULL, threads_own, &ends[0]);
	pthread_join(thread, NULL);
	take(ends[0]);

	// By ioctl; room in a full pipe; the descriptor closed.
	int on = 1;
	plain = queued = 0;
	fcntl(ends[1], F_SETOWN, getpid());
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	int set = ioctl(ends[1], FIOASYNC, &on);
	printf("ioctl %d, flag %d\n", set, (fcntl(ends[1], F_GETFL) & O_ASYNC) != 0);
	char much[4096] = {0};
	while (write(ends[1], much, sizeof much) > 0) {}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	plain = 0;
	while (read(ends[0], much, sizeof much) > 0) {}
	wait_until(&plain, 1);
	printf("room: %d\n", plain > 0);
	close(ends[0]);
	close(ends[1]);
	if (pipe(ends)) return 9;
	usleep(20000);
	plain = queued = 0;
	put(ends[1]);
	usleep(20000);
	printf("after the close: %d\n", plain + queued);
	return 0;
}
