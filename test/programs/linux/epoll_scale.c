// The cost of an exchange over one connection of an epoll set, as the idle connections in the set grow a hundredfold: it
// stays the same, but for a few instructions. For a machine whose clock counts instructions.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if ((what) < 0) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)
enum { FEW = 4, MANY = 400, ROUNDS = 200 };
static struct sockaddr_in at = {.sin_family = AF_INET};
static int listener, set, first, made;

static void connects(void)
{
	int near, far;
	CHECK(near = socket(AF_INET, SOCK_STREAM, 0));
	CHECK(connect(near, (void *)&at, sizeof at));
	CHECK(far = accept(listener, NULL, NULL));
	struct epoll_event event = {.events = EPOLLIN, .data.fd = far};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, far, &event));
	if (!first) first = near;
}
static void serves(void)
{
	for (;;) {
		struct epoll_event event;
		char byte;
		CHECK(epoll_wait(set, &event, 1, -1));
		CHECK(read(event.data.fd, &byte, 1));
		if (byte == 'q') exit(0);
		CHECK(write(event.data.fd, &byte, 1));
	}
}
static long exchanges(void)
{
	struct timespec begin, end;
	char byte = 'x';
	for (int round = -ROUNDS; round < ROUNDS; round++) {
		if (round == 0) clock_gettime(CLOCK_MONOTONIC, &begin);
		CHECK(write(first, &byte, 1));
		CHECK(read(first, &byte, 1));
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) / ROUNDS;
}
static long with(int count)
{
	while (made < count) connects(), made++;
	pid_t child = fork();
	if (child == 0) serves();
	long cost = exchanges();
	CHECK(write(first, "q", 1));
	waitpid(child, NULL, 0);
	return cost;
}

int main(void)
{
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(listener = socket(AF_INET, SOCK_STREAM, 0));
	CHECK(bind(listener, (void *)&at, sizeof at));
	CHECK(listen(listener, 64));
	socklen_t bytes = sizeof at;
	CHECK(getsockname(listener, (void *)&at, &bytes));
	CHECK(set = epoll_create1(0));
	long few = with(FEW), many = with(MANY);
	if (many <= 2 * few) printf("a hundred times the connections, at most twice the cost\n");
	else printf("%d connections: %ld, %d: %ld\n", FEW, few, MANY, many);
	return 0;
}
