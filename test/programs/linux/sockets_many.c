// Many sockets of TCP in one wait: epoll by level and by edge, poll and select. Idle ones take no time of the CPU. Then
// another process sends on them in random order, opens new ones, shuts and closes them, and no wake-up is lost.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if ((what) < 0) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)
enum { COUNT = 100, TURNS = 400, PATIENCE = 5000 };
static struct sockaddr_in at = {.sin_family = AF_INET};
static int listener, served[2 * COUNT], count;

static long used(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}
static int connects(void)
{
	int number;
	CHECK(number = socket(AF_INET, SOCK_STREAM, 0));
	CHECK(connect(number, (void *)&at, sizeof at));
	return number;
}

/* What a wait of the server is made of: the same for all kinds. */
enum kind { LEVEL, EDGE, POLL, SELECT };
static const char *const names[] = {"epoll", "epoll by edge", "poll", "select"};
static int set = -1;
static void watch(enum kind kind, int number)
{
	struct epoll_event event = {.events = EPOLLIN | (kind == EDGE ? EPOLLET | EPOLLOUT : 0), .data.fd = number};
	if (kind <= EDGE) CHECK(epoll_ctl(set, EPOLL_CTL_ADD, number, &event));
}
static int waits(enum kind kind, int patience, int ready[2 * COUNT + 1])
{
	int all[2 * COUNT + 1], found = 0, result;
	memcpy(all, served, count * sizeof *all);
	all[count] = listener;
	if (kind <= EDGE) {
		struct epoll_event events[2 * COUNT + 1];
		CHECK(result = epoll_wait(set, events, 2 * COUNT + 1, patience));
		for (int at = 0; at < result; at++) ready[found++] = events[at].data.fd;
	} else if (kind == POLL) {
		struct pollfd polled[2 * COUNT + 1];
		for (int at = 0; at <= count; at++) polled[at] = (struct pollfd){all[at], POLLIN, 0};
		CHECK(result = poll(polled, count + 1, patience));
		for (int at = 0; at <= count; at++) if (polled[at].revents) ready[found++] = all[at];
	} else {
		fd_set read;
		FD_ZERO(&read);
		for (int at = 0; at <= count; at++) FD_SET(all[at], &read);
		struct timeval time = {patience / 1000, patience % 1000 * 1000};
		CHECK(result = select(FD_SETSIZE, &read, NULL, NULL, &time));
		for (int at = 0; at <= count; at++) if (FD_ISSET(all[at], &read)) ready[found++] = all[at];
	}
	return found;
}
static void accepts(enum kind kind)
{
	int number;
	CHECK(number = accept4(listener, NULL, NULL, SOCK_NONBLOCK));
	served[count++] = number;
	watch(kind, number);
}
static void drops(int number)
{
	for (int at = 0; at < count; at++) if (served[at] == number) served[at] = served[--count];
	close(number);
}

static unsigned seed = 1;
static unsigned draw(unsigned below) { seed = seed * 1103515245 + 12345; return (seed >> 16) % below; }
/* Sends a byte on one of them, waits for its echo; at times ends one and opens another in its place. */
static void customer(void)
{
	int own[COUNT];
	for (int at = 0; at < COUNT; at++) own[at] = connects();
	char go;
	for (int turn = 0; read(0, &go, 1) == 1 && turn < 4; turn++) {
		for (int round = 0; round < TURNS; round++) {
			int at = draw(COUNT);
			char sent = 'a' + draw(26), got = 0;
			CHECK(write(own[at], &sent, 1));
			struct pollfd all[COUNT];
			for (int one = 0; one < COUNT; one++) all[one] = (struct pollfd){own[one], POLLIN, 0};
			int come = poll(all, COUNT, PATIENCE);
			if (come != 1 || !all[at].revents) printf("turn %d: %d answers\n", round, come), exit(1);
			CHECK(read(own[at], &got, 1));
			if (got != sent) printf("turn %d: %d for %d\n", round, got, sent), exit(1);
			if (round % 20 == 7) {
				if (round % 40 == 7) shutdown(own[at], SHUT_WR);
				close(own[at]);
				own[at] = connects();
			}
		}
	}
	exit(0);
}

int main(int arguments, char **argument)
{
	/* Where the clock counts instructions: the time of the host means nothing. */
	int idle = arguments > 1 && !strcmp(argument[1], "timed");
	setvbuf(stdout, NULL, _IONBF, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(listener = socket(AF_INET, SOCK_STREAM, 0));
	CHECK(bind(listener, (void *)&at, sizeof at));
	CHECK(listen(listener, 2 * COUNT));
	socklen_t bytes = sizeof at;
	CHECK(getsockname(listener, (void *)&at, &bytes));
	int go[2];
	CHECK(pipe(go));
	pid_t child = fork();
	if (child == 0) {
		dup2(go[0], 0);
		close(go[0]), close(go[1]), close(listener);
		customer();
	}
	close(go[0]);
	while (count < COUNT) accepts(POLL);
	for (enum kind kind = LEVEL; kind <= SELECT; kind++) {
		int ready[2 * COUNT + 1], came = 0, ended = 0, echoed = 0, lost = 0;
		if (kind <= EDGE) {
			CHECK(set = epoll_create1(0));
			watch(LEVEL, listener);
			for (int at = 0; at < count; at++) watch(kind, served[at]);
			if (kind == EDGE) waits(kind, 0, ready);
		}
		long before = used();
		int found = waits(kind, 1000, ready);
		long spent = used() - before;
		if (!idle || spent < 5000000) printf("%s: %d events in a second, idle\n", names[kind], found);
		else printf("%s: %d events in a second, %ld us\n", names[kind], found, spent / 1000);
		CHECK(write(go[1], "", 1));
		while (echoed < TURNS || ended < TURNS / 20 || came < TURNS / 20) {
			found = waits(kind, PATIENCE, ready);
			if (found == 0 && ++lost) break;
			for (int at = 0; at < found; at++) {
				char room[8];
				if (ready[at] == listener) {
					accepts(kind), came++;
					continue;
				}
				ssize_t got = read(ready[at], room, sizeof room);
				if (got > 0) {
					echoed += got;
					CHECK(write(ready[at], room, got));
				} else if (got == 0) {
					drops(ready[at]), ended++;
				}
			}
		}
		printf("%s: %d echoes, %d came, %d ended, %d lost\n", names[kind], echoed, came, ended, lost);
		if (set >= 0) close(set), set = -1;
	}
	int status;
	close(go[1]);
	waitpid(child, &status, 0);
	printf("the customer ended with %d\n", WEXITSTATUS(status));
	return 0;
}
