// A process waits in poll, select, epoll or read for a connection that another process, or another thread, shuts: to
// read, or both ways. The waiter is told at once.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void checked(long result, const char *what, int line)
{
	if (result < 0) printf("line %d: %s: %s\n", line, what, strerror(errno)), exit(1);
}
#define CHECK(what) checked(what, #what, __LINE__)
static int own, how;

static void *shuts(void *unused)
{
	usleep(50000), CHECK(shutdown(own, how));
	return unused;
}
static void waits(int kind)
{
	struct pollfd polled = {own, POLLIN | POLLRDHUP, 0};
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | (kind == 3 ? EPOLLET : 0)};
	struct timeval patience = {3, 0};
	fd_set set;
	char room;
	int found, poller;
	switch (kind) {
	case 0:
		found = poll(&polled, 1, 3000), printf("poll %d %x\n", found, polled.revents);
		break;
	case 1:
		FD_ZERO(&set);
		FD_SET(own, &set);
		printf("select %d\n", select(own + 1, &set, NULL, NULL, &patience));
		break;
	case 4:
		printf("read %zd\n", read(own, &room, 1));
		break;
	default:
		CHECK(poller = epoll_create1(0)), CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, own, &event)), event.events = 0;
		found = epoll_wait(poller, &event, 1, 3000), printf("epoll %d %x\n", found, event.events), close(poller);
	}
}

int main(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof at;
	int listener, other;
	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(listener = socket(AF_INET, SOCK_STREAM, 0)), CHECK(bind(listener, (void *)&at, sizeof at));
	CHECK(listen(listener, 8)), CHECK(getsockname(listener, (void *)&at, &bytes));
	for (int kind = 0; kind < 5; kind++) for (int by = 0; by < 2; by++) for (how = SHUT_RD; how <= SHUT_RDWR; how += SHUT_RDWR - SHUT_RD) {
		CHECK(other = socket(AF_INET, SOCK_STREAM, 0)), CHECK(connect(other, (void *)&at, sizeof at));
		CHECK(own = accept(listener, NULL, NULL));
		printf("%s, %s: ", how == SHUT_RD ? "to read" : "both", by ? "thread" : "process");
		pthread_t thread;
		pid_t child = 0;
		if (by) pthread_create(&thread, NULL, shuts, NULL);
		else if ((child = fork()) == 0) shuts(NULL), _exit(0);
		waits(kind);
		if (by) pthread_join(thread, NULL);
		else waitpid(child, NULL, 0);
		close(own), close(other);
	}
	return 0;
}
