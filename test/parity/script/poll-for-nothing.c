/* Who waits for nothing in particular is told of ends and errors all the same, at once: by poll, select's like and epoll. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT = 8000 };

static int ours, theirs, extra;

static void make_pipe_of(int kept)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	ours = ends[kept];
	theirs = ends[!kept];
}

static void reader(void) { make_pipe_of(0); }
static void writer(void) { make_pipe_of(1); }

static void pair_of(int kind)
{
	int ends[2];
	if (socketpair(AF_UNIX, kind, 0, ends) != 0)
		exit(1);
	ours = ends[0];
	theirs = ends[1];
}

static void stream_pair(void) { pair_of(SOCK_STREAM); }
static void packet_pair(void) { pair_of(SOCK_SEQPACKET); }

static void full_pair(void)
{
	static char bytes[4096];
	pair_of(SOCK_STREAM);
	fcntl(ours, F_SETFL, O_NONBLOCK);
	while (write(ours, bytes, sizeof bytes) > 0)
		;
}

static void tcp(void)
{
	struct sockaddr_in here = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
	socklen_t size = sizeof here;
	struct linger at_once = { 1, 0 };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	bind(listener, (void *)&here, sizeof here);
	listen(listener, 1);
	getsockname(listener, (void *)&here, &size);
	ours = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ours, (void *)&here, sizeof here) != 0)
		exit(1);
	theirs = accept(listener, NULL, NULL);
	setsockopt(theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(listener);
}

static void terminal(void)
{
	ours = posix_openpt(O_RDWR | O_NOCTTY);
	grantpt(ours);
	unlockpt(ours);
	theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
}

static void child_of(void)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	ours = ends[0];
	theirs = ends[1];
	extra = dup(theirs);
}

static unsigned by_poll(int events)
{
	struct pollfd one = { ours, events, 0 };
	return poll(&one, 1, LIMIT) == 1 ? (unsigned short)one.revents : 0xdead;
}

static unsigned by_epoll(int events)
{
	struct epoll_event one = { events, { 0 } };
	int set = epoll_create1(0);
	epoll_ctl(set, EPOLL_CTL_ADD, ours, &one);
	unsigned found = epoll_wait(set, &one, 1, LIMIT) == 1 ? one.events : 0xdead;
	close(set);
	return found;
}

static unsigned by_nested_epoll(int events)
{
	struct epoll_event one = { events, { 0 } };
	int set = epoll_create1(0);
	epoll_ctl(set, EPOLL_CTL_ADD, ours, &one);
	struct pollfd outer = { set, POLLIN, 0 };
	unsigned found = poll(&outer, 1, LIMIT) == 1 ? (unsigned short)outer.revents : 0xdead;
	close(set);
	return found;
}

/* The other side closes a little later. It lives on: its end would be a signal, which wakes, too. */
static void look(const char *name, void (*make)(void), const char *way, unsigned (*wait_for)(int), int events)
{
	struct timespec before, after;
	extra = -1;
	make();
	pid_t child = fork();
	if (child == 0) {
		close(ours);
		usleep(50000);
		close(theirs);
		close(extra);
		while (1)
			pause();
	}
	close(theirs);
	if (extra >= 0)
		close(extra);
	clock_gettime(CLOCK_MONOTONIC, &before);
	unsigned found = wait_for(events);
	clock_gettime(CLOCK_MONOTONIC, &after);
	int is_late = after.tv_sec - before.tv_sec > LIMIT / 2000;
	printf("%s, %s for %#x: %#x%s\n", name, way, events, found, is_late ? ", late" : "");
	fflush(stdout);
	close(ours);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* An end that was told of by an edge is no news: who waits on takes no time of the CPU. */
static void rest_after_an_end(void)
{
	struct epoll_event one = { EPOLLIN | EPOLLET, { 0 } };
	struct timespec before, used;
	int set = epoll_create1(0);
	reader();
	close(theirs);
	epoll_ctl(set, EPOLL_CTL_ADD, ours, &one);
	int first = epoll_wait(set, &one, 1, LIMIT);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	int second = epoll_wait(set, &one, 1, 1000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	double seconds = used.tv_sec - before.tv_sec + 1e-9 * (used.tv_nsec - before.tv_nsec);
	printf("edges: %d, %#x, then %d%s\n", first, one.events, second, seconds > 0.5 ? ", busy" : "");
}

int main(void)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} kinds[] = {
		{ "reader", reader }, { "writer", writer }, { "pair", stream_pair }, { "packets", packet_pair },
		{ "full pair", full_pair }, { "tcp", tcp }, { "terminal", terminal }, { "copies", child_of },
	};
	static const int wanted[] = { 0, POLLPRI, POLLRDHUP };
	for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
		for (size_t which = 0; which < sizeof wanted / sizeof *wanted; which++) {
			look(kinds[kind].name, kinds[kind].make, "poll", by_poll, wanted[which]);
			look(kinds[kind].name, kinds[kind].make, "epoll", by_epoll, wanted[which]);
			look(kinds[kind].name, kinds[kind].make, "nested epoll", by_nested_epoll, wanted[which]);
		}
	look("reader", reader, "poll", by_poll, POLLOUT);
	look("reader", reader, "epoll", by_epoll, POLLOUT);
	look("writer", writer, "poll", by_poll, POLLIN);
	look("writer", writer, "epoll", by_epoll, POLLIN);
	look("writer", writer, "epoll", by_epoll, (int)EPOLLET);
	rest_after_an_end();
	return 0;
}
