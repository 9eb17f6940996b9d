// Many event counters, UDP sockets, or Unix sockets that listen, in one wait: epoll by level and by edge, poll and
// select. Idle ones take no time of the CPU where the clock counts instructions ("timed"). Then another process adds to
// them, sends to them or connects in random order. At last it shuts a UDP socket down. No wake-up is lost.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50, TURNS = 400, PATIENCE = 5000 };
#include "waits.h"

enum { COUNTERS, DATAGRAMS, LISTENERS, KINDS };
static const char *const kinds[] = {"counters", "datagrams", "listeners"};

static socklen_t name_of(int at, struct sockaddr_un *name)
{
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	return offsetof(struct sockaddr_un, sun_path) + 1 + sprintf(name->sun_path + 1, "many-%d", at);
}

static void makes(int kind, int at)
{
	if (kind == COUNTERS) {
		CHECK(from[at] = to[at] = eventfd(0, 0));
	} else if (kind == DATAGRAMS) {
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t length = sizeof address;
		CHECK(from[at] = socket(AF_INET, SOCK_DGRAM, 0));
		CHECK(to[at] = socket(AF_INET, SOCK_DGRAM, 0));
		CHECK(bind(from[at], (void *)&address, length));
		CHECK(getsockname(from[at], (void *)&address, &length));
		CHECK(connect(to[at], (void *)&address, length));
		CHECK(getsockname(to[at], (void *)&address, &length));
		CHECK(connect(from[at], (void *)&address, length));
	} else {
		struct sockaddr_un name;
		socklen_t length = name_of(at, &name);
		CHECK(from[at] = socket(AF_UNIX, SOCK_STREAM, 0));
		CHECK(bind(from[at], (void *)&name, length));
		CHECK(listen(from[at], 5));
		to[at] = -1;
	}
}

/* Changes one for each that it is asked for; -1: shuts one down. */
static void changer(int kind, int ask)
{
	signed char at;
	while (read(ask, &at, 1) == 1) {
		if (at < 0) CHECK(shutdown(from[0], SHUT_RD));
		else if (kind == COUNTERS) CHECK(eventfd_write(to[at], 1));
		else if (kind == DATAGRAMS) CHECK(send(to[at], "x", 1, 0));
		else {
			struct sockaddr_un name;
			socklen_t length = name_of(at, &name);
			int fd;
			CHECK(fd = socket(AF_UNIX, SOCK_STREAM, 0));
			CHECK(connect(fd, (void *)&name, length));
			close(fd);
		}
	}
	_exit(0);
}

static int takes(int kind, int fd)
{
	eventfd_t count = 0;
	char bytes[2];
	if (kind == COUNTERS) return eventfd_read(fd, &count) == 0 && count == 1;
	if (kind == DATAGRAMS) return recv(fd, bytes, 2, MSG_DONTWAIT) == 1;
	int accepted = accept(fd, NULL, NULL);
	return accepted >= 0 && close(accepted) == 0;
}

static void waits_for(int kind, int way, int timed)
{
	int ask[2], ready[COUNT], bad = 0;
	CHECK(set = epoll_create1(0));
	CHECK(pipe(ask));
	for (int i = 0; i < COUNT; i++) {
		makes(kind, i);
		struct epoll_event event = {.events = EPOLLIN | (way == EDGE ? EPOLLET : 0), .data.fd = i};
		CHECK(epoll_ctl(set, EPOLL_CTL_ADD, from[i], &event));
	}
	pid_t child = fork();
	if (child == 0) {
		close(ask[1]);
		changer(kind, ask[0]);
	}
	close(ask[0]);
	long before = now(CLOCK_PROCESS_CPUTIME_ID);
	int found = waits(way, 1000, ready);
	long spent = now(CLOCK_PROCESS_CPUTIME_ID) - before;
	if (!timed || spent < 5000000) printf("%s, %s: %d events in a second, idle\n", kinds[kind], names[way], found);
	else printf("%s, %s: %d events in a second, %ld us\n", kinds[kind], names[way], found, spent / 1000);
	for (int turn = 0; turn < TURNS; turn++) {
		signed char at = draw(COUNT);
		CHECK(write(ask[1], &at, 1));
		found = waits(way, PATIENCE, ready);
		bad += found != 1 || ready[0] != at || !takes(kind, from[(int)at]);
	}
	if (kind == DATAGRAMS) {
		CHECK(write(ask[1], "\xff", 1));
		bad += waits(way, PATIENCE, ready) != 1 || ready[0] != 0;
	}
	close(ask[1]);
	waitpid(child, NULL, 0);
	printf("%s, %s: %d changes, %d wrong\n", kinds[kind], names[way], TURNS, bad);
	for (int i = 0; i < COUNT; i++) {
		close(from[i]);
		if (kind == DATAGRAMS) close(to[i]);
	}
	close(set);
}

int main(int arguments, char **argument)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int kind = 0; kind < KINDS; kind++)
		for (int way = LEVEL; way < WAYS; way++) waits_for(kind, way, arguments > 1 && !strcmp(argument[1], "timed"));
}
