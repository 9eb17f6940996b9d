// Thousands of event counters and pipes in an epoll set, and one after the other has news: each look goes through the
// whole set. All looks together take hundreds of slices, most of which end within one. The output is Linux's.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(what) checked(what, #what, __LINE__)
enum { COUNT = 4000, PIPES = 400, WAKES = 1600, STEP = 1013 };
static void checked(long result, const char *what, int line)
{
	if (result < 0) printf("line %d: %s: %s\n", line, what, strerror(errno)), exit(1);
}
static int set, in[COUNT], out[COUNT];

static void put(int which)
{
	if (which % (COUNT / PIPES) != 0) {
		CHECK(in[which] = out[which] = eventfd(0, EFD_NONBLOCK));
	} else {
		int ends[2];
		CHECK(pipe(ends));
		in[which] = ends[0], out[which] = ends[1];
	}
	struct epoll_event event = {.events = EPOLLIN | (which % 3 ? 0 : EPOLLET), .data.u32 = which};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, in[which], &event));
}

int main(void)
{
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = COUNT + PIPES + 16;
	if (limit.rlim_max < limit.rlim_cur) limit.rlim_max = limit.rlim_cur;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit));
	CHECK(set = epoll_create1(0));
	for (int which = 0; which < COUNT; which++) put(which);
	unsigned long told = 0;
	for (int wake = 0; wake < WAKES; wake++) {
		int which = wake * STEP % COUNT;
		unsigned long word = 1;
		CHECK(write(out[which], &word, 8));
		struct epoll_event event = {0};
		int come = epoll_wait(set, &event, 1, 10000);
		if (come != 1 || event.data.u32 != (unsigned)which) printf("wake %d: %d of %u\n", wake, come, event.data.u32);
		CHECK(read(in[which], &word, 8));
		told += come;
	}
	printf("%lu of %d were told\n", told, WAKES);
	struct epoll_event event;
	printf("then %d\n", epoll_wait(set, &event, 1, 0));
	for (int which = 0; which < COUNT; which++) close(in[which]), out[which] != in[which] && close(out[which]);
	printf("closed, %d\n", epoll_wait(set, &event, 1, 0));
	return 0;
}
