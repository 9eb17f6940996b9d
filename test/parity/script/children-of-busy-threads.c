// Children of a process whose other threads make calls all the while: what a child has of the library's memory is whole.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

enum { CHILDREN = 120, THREADS = 3, MANY = 700 };

static atomic_int done;
static int ends[2];

static int poll_many(void)
{
	struct pollfd all[MANY];
	for (int index = 0; index < MANY; index++) all[index] = (struct pollfd){.fd = ends[index & 1], .events = POLLOUT};
	return poll(all, MANY, 0) == MANY / 2;
}
static int read_maps(void)
{
	char text[16384];
	int file = open("/proc/self/maps", O_RDONLY);
	long got = read(file, text, sizeof text);
	close(file);
	return got > 100;
}
static int watch_many(void)
{
	int set = epoll_create1(0), all[20], right = 1;
	struct epoll_event event = {.events = EPOLLIN};
	for (int index = 0; index < 20; index++) {
		all[index] = eventfd(0, 0);
		right &= epoll_ctl(set, EPOLL_CTL_ADD, all[index], &event) == 0;
	}
	right &= epoll_wait(set, &event, 1, 0) == 0;
	for (int index = 0; index < 20; index++) close(all[index]);
	close(set);
	return right;
}
static int timers(void)
{
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	struct itimerspec soon = {.it_value = {100, 0}};
	return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0
		&& timer_delete(timer) == 0;
}
static int futexes(void)
{
	static int word;
	struct timespec soon = {0, 1000};
	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0) == -1 && errno == ETIMEDOUT;
}
static int maps(void)
{
	char *memory = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return 0;
	for (int page = 0; page < 64; page += 2) memory[page * 4096] = 1, mprotect(memory + page * 4096, 4096, PROT_READ);
	return munmap(memory, 64 * 4096) == 0;
}
static int (*const calls[])(void) = {poll_many, read_maps, watch_many, timers, futexes, maps};
enum { CALLS = sizeof calls / sizeof *calls };

static void *busy(void *first)
{
	long failed = 0;
	for (long turn = (long)first; !done; turn++) failed += !calls[turn % CALLS]();
	return (void *)failed;
}
static void *ends_at_once(void *unused) { return unused; }

static void be_child(void)
{
	pthread_t thread;
	alarm(60);
	for (int turn = 0; turn < CALLS; turn++)
		if (!calls[turn]()) _exit(10 + turn);
	if (pthread_create(&thread, NULL, ends_at_once, NULL) || pthread_join(thread, NULL)) _exit(30);
	int child = fork(), status;
	if (child == 0) _exit(!poll_many());
	_exit(child < 0 || waitpid(child, &status, 0) != child || status ? 31 : 0);
}
int main(void)
{
	pthread_t threads[THREADS];
	int failed = 0, status;
	long beside = 0;
	if (pipe(ends)) return 1;
	for (long index = 0; index < THREADS; index++)
		if (pthread_create(&threads[index], NULL, busy, (void *)(index * 2))) return 2;
	for (int round = 0; round < CHILDREN; round++) {
		int child = fork();
		if (child == 0) be_child();
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			failed++;
			printf("child %d: status %#x\n", round, status);
		}
	}
	done = 1;
	for (int index = 0; index < THREADS; index++) {
		void *come;
		pthread_join(threads[index], &come);
		beside += (long)come;
	}
	printf("%d of %d children failed, %ld calls beside them\n", failed, CHILDREN, beside);
	return 0;
}
