// A program in C, compiled by the host's compiler, and the same on both sides.
// A thread waits for a set while another adds to it, changes it and takes from it: what was added meanwhile ends the wait.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

static int set, outer;

static void *told(const char *format, ...)
{
	char *text;
	va_list arguments;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0) return 0;
	va_end(arguments);
	return text;
}

static void *waits(void *on)
{
	struct epoll_event event = {0};
	int found = epoll_wait(*(int *)on, &event, 1, 10000);
	return told("%d found, events %x, data %u", found, event.events, event.data.u32);
}

static void *polls(void *on)
{
	struct pollfd wanted = {.fd = *(int *)on, .events = POLLIN};
	int found = poll(&wanted, 1, 10000);
	return told("poll %d, events %x", found, wanted.revents);
}

static void *selects(void *on)
{
	struct timeval limit = {10, 0};
	fd_set wanted;
	FD_ZERO(&wanted);
	FD_SET(*(int *)on, &wanted);
	return told("select %d", select(*(int *)on + 1, &wanted, 0, 0, &limit));
}

static pthread_t begin(void *(*what)(void *), int *on)
{
	pthread_t thread;
	pthread_create(&thread, 0, what, on);
	usleep(100000);
	return thread;
}

static void end(pthread_t thread)
{
	void *text;
	pthread_join(thread, &text);
	puts(text);
}

static void put(int operation, int descriptor, unsigned events, unsigned data)
{
	struct epoll_event event = {.events = events, .data.u32 = data};
	if (epoll_ctl(set, operation, descriptor, &event) < 0) perror("epoll_ctl");
}

int main(void)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	set = epoll_create1(0), outer = epoll_create1(0);
	int ready = eventfd(1, 0), other = eventfd(0, 0), quiet = eventfd(0, 0);
	put(EPOLL_CTL_ADD, quiet, EPOLLIN, 1);

	puts("== added, and ready already");
	pthread_t thread = begin(waits, &set);
	put(EPOLL_CTL_ADD, ready, EPOLLIN, 2);
	end(thread);
	put(EPOLL_CTL_DEL, ready, 0, 0);

	puts("== added, and ready later");
	thread = begin(waits, &set);
	put(EPOLL_CTL_ADD, other, EPOLLIN | EPOLLET, 3);
	usleep(50000);
	eventfd_write(other, 1);
	end(thread);

	puts("== armed again");
	put(EPOLL_CTL_ADD, ready, EPOLLIN | EPOLLONESHOT, 4);
	puts(waits(&set));
	thread = begin(waits, &set);
	put(EPOLL_CTL_MOD, ready, EPOLLIN | EPOLLONESHOT, 5);
	end(thread);

	puts("== other events wanted");
	put(EPOLL_CTL_MOD, ready, 0, 0);
	thread = begin(waits, &set);
	put(EPOLL_CTL_MOD, ready, EPOLLOUT, 6);
	end(thread);
	put(EPOLL_CTL_MOD, ready, 0, 0);

	puts("== a set in a set, poll and select");
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
	epoll_ctl(outer, EPOLL_CTL_ADD, set, &event);
	pthread_t threads[] = {begin(waits, &outer), begin(polls, &set), begin(selects, &set)};
	put(EPOLL_CTL_MOD, ready, EPOLLIN, 8);
	for (int i = 0; i < 3; i++) end(threads[i]);
	return 0;
}
