// A program in C, compiled by the host's compiler, and the same on both sides.
// EPOLLEXCLUSIVE: one event reaches one of several sets. What the flag may not be combined with.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAITERS = 6 };
static int *counts;

static void start(int watched, unsigned how, int timeout, int takes)
{
	for (int index = 0; index < WAITERS; index++) {
		if (fork()) continue;
		struct epoll_event event = {.events = EPOLLIN | how};
		int set = epoll_create1(0);
		if (epoll_ctl(set, EPOLL_CTL_ADD, watched, &event)) perror("add");
		while (epoll_wait(set, &event, 1, timeout) == 1) {
			__atomic_add_fetch(counts, 1, __ATOMIC_SEQ_CST);
			char bytes[8];
			if (takes && read(watched, bytes, sizeof bytes) < 0) break;
			if (!takes) break;
		}
		_exit(0);
	}
	usleep(400000);
}
// Each waiter opens the FIFO for itself.
static void start_at_fifo(const char *name, unsigned how, int timeout)
{
	for (int index = 0; index < WAITERS; index++) {
		if (fork()) continue;
		struct epoll_event event = {.events = EPOLLIN | how};
		int set = epoll_create1(0), fifo = open(name, O_RDONLY | O_NONBLOCK);
		if (fifo < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fifo, &event)) perror("add");
		if (epoll_wait(set, &event, 1, timeout) == 1) __atomic_add_fetch(counts, 1, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	usleep(400000);
}
static int finish(void)
{
	while (wait(NULL) > 0) {}
	int count = *counts;
	*counts = 0;
	return count;
}
static int attempt(int operation, unsigned events, int target)
{
	struct epoll_event event = {.events = EPOLLIN};
	int set = epoll_create1(0);
	if (operation == EPOLL_CTL_MOD) epoll_ctl(set, EPOLL_CTL_ADD, target, &event);
	event.events = events;
	int failed = epoll_ctl(set, operation, target, &event);
	int number = failed ? errno : 0;
	close(set);
	return number;
}
int main(void)
{
	int ends[2], pair[2];
	char byte = 'x';
	setvbuf(stdout, NULL, _IONBF, 0);
	counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 9;
	start(ends[0], EPOLLET | EPOLLEXCLUSIVE, 900, 0);
	if (write(ends[1], &byte, 1) != 1) return 9;
	printf("a pipe, edge: %d\n", finish());
	if (read(ends[0], &byte, 1) != 1) return 9;
	start(pair[0], EPOLLEXCLUSIVE, 900, 1);
	if (write(pair[1], &byte, 1) != 1) return 9;
	printf("datagrams, level: %d\n", finish());
	mkfifo("fifo", 0600);
	int fifo = open("fifo", O_RDWR);
	start_at_fifo("fifo", EPOLLET | EPOLLEXCLUSIVE, 900);
	if (write(fifo, &byte, 1) != 1) return 9;
	printf("a FIFO opened by each, edge: %d\n", finish());
	if (read(fifo, &byte, 1) != 1) return 9;
	start_at_fifo("fifo", 0, 900);
	if (write(fifo, &byte, 1) != 1) return 9;
	printf("a FIFO, not exclusive: %d\n", finish());
	unlink("fifo");
	start(ends[0], 0, 900, 0);
	if (write(ends[1], &byte, 1) != 1) return 9;
	printf("not exclusive: %d\n", finish());
	// What is there already reaches all who come.
	start(ends[0], EPOLLEXCLUSIVE, 900, 0);
	printf("there already: %d\n", finish());
	printf("add %d, again %d, modify %d\n", attempt(EPOLL_CTL_ADD, EPOLLIN | EPOLLEXCLUSIVE, ends[0]),
	       attempt(EPOLL_CTL_MOD, EPOLLIN, ends[0]), attempt(EPOLL_CTL_MOD, EPOLLIN | EPOLLEXCLUSIVE, ends[0]));
	printf("one shot %d, half closed %d, priority %d\n", attempt(EPOLL_CTL_ADD, EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE, ends[0]),
	       attempt(EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE, ends[0]),
	       attempt(EPOLL_CTL_ADD, EPOLLIN | EPOLLPRI | EPOLLEXCLUSIVE, ends[0]));
	printf("a set in a set %d\n", attempt(EPOLL_CTL_ADD, EPOLLIN | EPOLLEXCLUSIVE, epoll_create1(0)));
	return 0;
}
