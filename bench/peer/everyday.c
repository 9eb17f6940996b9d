/*
 * The calls that ordinary programs make all day, each of which asks little of a system: what is measured is the way
 * there and back, and how things are found. No paper has a table of these.
 */
#include "harness.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CALLS 64
#define ROUNDS 16
#define FILE_NAME "/tmp/measured"

static int file, ends[2], interest;
static char bytes[64];
static volatile int signals_taken;
/* Odd while it is the other thread's turn. */
static volatile uint32_t turn;

static void stats(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(stat(FILE_NAME, &status), "stat");
}

static void statuses_of_descriptor(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(fstat(file, &status), "fstat");
}

static void missing_files(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(stat("/tmp/absent", &status) == 0 ? -1 : 0, "stat of what is not there");
}

static void opens(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(close((int)checked(open(FILE_NAME, O_RDONLY), "open")), "close");
}

static void reads(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(pread(file, bytes, sizeof bytes, 0), "pread");
}

static void writes(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(pwrite(file, bytes, sizeof bytes, 0), "pwrite");
}

static void seeks(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(lseek(file, 0, SEEK_SET), "lseek");
}

static void polls(void)
{
	struct pollfd wanted = { .fd = ends[0], .events = POLLIN };
	for (int call = 0; call < CALLS; call++)
		checked(poll(&wanted, 1, -1), "poll");
}

static void interests(void)
{
	struct epoll_event event;
	for (int call = 0; call < CALLS; call++)
		checked(epoll_wait(interest, &event, 1, -1), "epoll_wait");
}

static void clocks(void)
{
	struct timespec time;
	for (int call = 0; call < CALLS; call++)
		clock_gettime(CLOCK_MONOTONIC, &time);
}

static void take_signal(int signal)
{
	(void)signal;
	signals_taken++;
}

static void signals(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(kill(getpid(), SIGUSR1), "kill");
}

static void masks(void)
{
	sigset_t set;
	sigemptyset(&set);
	for (int call = 0; call < CALLS; call++)
		checked(sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

static void await_turn(uint32_t parity)
{
	for (;;) {
		uint32_t seen = turn;
		if ((seen & 1) == parity)
			return;
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL);
	}
}

static void pass_turn(void)
{
	++turn;
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1);
}

static void *other_thread(void *nothing)
{
	for (;;) {
		await_turn(1);
		pass_turn();
	}
	return nothing;
}

static void turns(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		pass_turn();
		await_turn(0);
	}
}

static void prepare(void)
{
	struct sigaction action = { .sa_handler = take_signal };
	struct epoll_event event = { .events = EPOLLIN };
	file = (int)checked(open(FILE_NAME, O_CREAT | O_RDWR | O_TRUNC, 0644), "create");
	checked(write(file, bytes, sizeof bytes), "write");
	checked(pipe(ends), "pipe");
	checked(write(ends[1], bytes, 1), "write to a pipe");
	checked(sigaction(SIGUSR1, &action, NULL), "sigaction");
	interest = (int)checked(epoll_create1(0), "epoll_create1");
	checked(epoll_ctl(interest, EPOLL_CTL_ADD, ends[0], &event), "epoll_ctl");
}

int main(void)
{
	pthread_t thread;
	begin();
	prepare();
	measure("stat", CALLS, stats);
	measure("stat-absent", CALLS, missing_files);
	measure("fstat", CALLS, statuses_of_descriptor);
	measure("open-close", CALLS, opens);
	measure("read", CALLS, reads);
	measure("write", CALLS, writes);
	measure("seek", CALLS, seeks);
	measure("poll", CALLS, polls);
	measure("epoll", CALLS, interests);
	measure("clock", CALLS, clocks);
	measure("signal", CALLS, signals);
	measure("mask", CALLS, masks);
	checked(-pthread_create(&thread, NULL, other_thread, NULL), "pthread_create");
	measure("futex-threads", ROUNDS, turns);
	return 0;
}
