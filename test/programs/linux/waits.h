// Waits for COUNT descriptors at once, by each call that Linux has for it. Programs define COUNT before they include it.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#define CHECK(what) do { if ((what) < 0) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)
enum { LEVEL, EDGE, POLL, SELECT, WAYS };
static const char *const names[] = {"epoll", "epoll by edge", "poll", "select"};
/* Descriptors that are waited for, or -1 where one is closed; what belongs to each; and the set of epoll. */
static int from[COUNT], to[COUNT], set = -1;

static long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}
static unsigned seed = 1;
static unsigned draw(unsigned below) { seed = seed * 1103515245 + 12345; return (seed >> 16) % below; }

/* Waits so many milliseconds; `ready` gets the places that are ready, in order, and the result says how many. */
static int waits(int way, int patience, int ready[COUNT])
{
	int found = 0, result;
	if (way <= EDGE) {
		struct epoll_event events[COUNT];
		CHECK(result = epoll_wait(set, events, COUNT, patience));
		for (int i = 0; i < result; i++) ready[found++] = events[i].data.fd;
	} else if (way == POLL) {
		struct pollfd polled[COUNT];
		for (int i = 0; i < COUNT; i++) polled[i] = (struct pollfd){from[i], POLLIN, 0};
		CHECK(result = poll(polled, COUNT, patience));
		for (int i = 0; i < COUNT; i++) if (polled[i].revents) ready[found++] = i;
	} else {
		fd_set read;
		FD_ZERO(&read);
		for (int i = 0; i < COUNT; i++) if (from[i] >= 0) FD_SET(from[i], &read);
		struct timeval time = {patience / 1000, patience % 1000 * 1000};
		CHECK(result = select(FD_SETSIZE, &read, NULL, NULL, &time));
		for (int i = 0; i < COUNT; i++) if (from[i] >= 0 && FD_ISSET(from[i], &read)) ready[found++] = i;
	}
	return found;
}
