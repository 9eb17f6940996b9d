// Many connections in an epoll set in which nothing happens for many looks. Then whatever can happen to one does: each
// is told, once, with the events that Linux tells.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) checked(what, #what, __LINE__)
enum { COUNT = 200, LOOKS = 40 };
static void checked(long result, const char *what, int line)
{
	if (result < 0) printf("line %d: %s: %s\n", line, what, strerror(errno)), exit(1);
}
static struct sockaddr_in at = {.sin_family = AF_INET};
static int listener, set, own[COUNT], other[COUNT];

static void watch(int to, int operation, int number, unsigned events, int data)
{
	struct epoll_event event = {.events = events, .data.fd = data};
	CHECK(epoll_ctl(to, operation, number, &event));
}
static void connects(int which)
{
	CHECK(other[which] = socket(AF_INET, SOCK_STREAM, 0));
	CHECK(connect(other[which], (void *)&at, sizeof at));
	CHECK(own[which] = accept4(listener, NULL, NULL, SOCK_NONBLOCK));
}
static void settle(int in)
{
	struct epoll_event events[COUNT];
	for (int look = 0; look < LOOKS; look++) {
		int found = epoll_wait(in, events, COUNT, 0);
		if (found != 0) printf("settling: %d events, first %d %x\n", found, events[0].data.fd, events[0].events), exit(1);
	}
}
static int by_number(const void *a, const void *b)
{
	return ((const struct epoll_event *)a)->data.fd - ((const struct epoll_event *)b)->data.fd;
}
static void told(const char *what, int in)
{
	struct epoll_event events[2 * COUNT];
	int found = epoll_wait(in, events, 2 * COUNT, 3000);
	printf("%s: %d", what, found);
	if (found > 0) qsort(events, found, sizeof *events, by_number);
	for (int one = 0; one < found && one < 8; one++) printf(" %d:%x", events[one].data.fd, events[one].events);
	printf("\n");
}
static void drains(int which)
{
	char room[4096];
	while (read(own[which], room, sizeof room) > 0) {}
}
/* The same description once more, by a message of the process to itself. */
static int again(int number)
{
	int pair[2], came;
	char room[CMSG_SPACE(sizeof came)] = {0}, byte = 0;
	struct iovec one = {&byte, 1};
	struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof came), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &number, sizeof number);
	CHECK(sendmsg(pair[0], &message, 0)), CHECK(recvmsg(pair[1], &message, 0));
	memcpy(&came, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof came);
	close(pair[0]), close(pair[1]);
	return came;
}
/* What another process does after a while. */
static pid_t later(void (*action)(int), int argument)
{
	pid_t child = fork();
	if (child == 0) usleep(50000), action(argument), _exit(0);
	return child;
}
static void sends(int which) { CHECK(write(other[which], "late", 4)); }
static void shuts(int which) { CHECK(shutdown(own[which], SHUT_RD)); }
static void connects_once(int unused) { (void)unused; CHECK(connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, sizeof at)); }
static void *waits(void *unused)
{
	struct epoll_event event;
	if (epoll_wait(set, &event, 1, 3000) != 1) printf("a thread waited in vain\n");
	return unused;
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	CHECK(bind(listener, (void *)&at, sizeof at));
	CHECK(listen(listener, COUNT));
	socklen_t bytes = sizeof at;
	CHECK(getsockname(listener, (void *)&at, &bytes));
	CHECK(set = epoll_create1(0));
	for (int which = 0; which < COUNT; which++) connects(which), watch(set, EPOLL_CTL_ADD, own[which], EPOLLIN | EPOLLRDHUP, which);
	watch(set, EPOLL_CTL_ADD, listener, EPOLLIN, 1000);

	settle(set);
	CHECK(write(other[3], "x", 1)), CHECK(write(other[70], "x", 1)), CHECK(write(other[199], "x", 1));
	told("bytes for three", set), told("still there", set);
	drains(3), drains(70), drains(199);
	settle(set);
	waitpid(later(sends, 10), NULL, 0);
	told("bytes of another process", set), drains(10), settle(set);
	pid_t child = later(sends, 11);
	told("while it waits", set), drains(11), waitpid(child, NULL, 0), settle(set);
	for (int which = 0; which < COUNT; which++) CHECK(write(other[which], "x", 1));
	told("bytes for all", set);
	for (int which = 0; which < COUNT; which++) drains(which);
	settle(set);

	struct linger now = {1, 0};
	CHECK(setsockopt(other[22], SOL_SOCKET, SO_LINGER, &now, sizeof now));
	CHECK(shutdown(other[20], SHUT_WR)), CHECK(close(other[21])), CHECK(close(other[22]));
	told("half a close, a close, a reset", set);
	for (int which = 20; which < 23; which++) CHECK(close(own[which]));
	settle(set);
	child = later(shuts, 23);
	told("no more to read, by another process", set), waitpid(child, NULL, 0);
	CHECK(close(own[23])), settle(set);
	CHECK(shutdown(own[24], SHUT_RDWR)), told("shut both ways", set), CHECK(close(own[24])), settle(set);
	child = later(connects_once, 0);
	told("a connection", set), waitpid(child, NULL, 0);
	CHECK(own[20] = accept4(listener, NULL, NULL, SOCK_NONBLOCK)), settle(set);

	int least = 10;
	CHECK(setsockopt(own[30], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
	CHECK(write(other[30], "12345", 5)), settle(set), least = 1;
	CHECK(setsockopt(own[30], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
	told("fewer bytes are enough", set), drains(30), settle(set);

	int twin;
	CHECK(twin = dup(own[31])), watch(set, EPOLL_CTL_ADD, twin, EPOLLIN, 531), settle(set);
	CHECK(write(other[31], "x", 1)), told("a descriptor and its twin", set), drains(31);
	CHECK(close(twin)), settle(set);
	CHECK(write(other[31], "x", 1)), told("without the twin's number", set), drains(31);
	watch(set, EPOLL_CTL_DEL, own[35], 0, 0), CHECK(write(other[35], "x", 1)), settle(set), drains(35);
	twin = again(own[36]), CHECK(close(own[36])), own[36] = twin, settle(set);
	CHECK(write(other[36], "x", 1)), told("a descriptor that came in a message", set), drains(36), settle(set);
	CHECK(close(own[36])), settle(set);
	int before = own[32];
	CHECK(close(own[32])), settle(set), connects(32);
	CHECK(dup2(own[32], before)), CHECK(close(own[32])), own[32] = before;
	CHECK(write(other[32], "x", 1)), settle(set);
	watch(set, EPOLL_CTL_ADD, own[32], EPOLLIN, 532), told("a new one under an old number", set), drains(32), settle(set);
	watch(set, EPOLL_CTL_MOD, own[33], EPOLLOUT, 33), told("asked for room", set);
	watch(set, EPOLL_CTL_MOD, own[33], EPOLLIN | EPOLLONESHOT, 33), settle(set);
	CHECK(write(other[33], "x", 1)), told("once", set), settle(set);
	watch(set, EPOLL_CTL_MOD, own[33], EPOLLIN | EPOLLONESHOT, 33), told("once more", set), drains(33), settle(set);

	watch(set, EPOLL_CTL_MOD, own[34], EPOLLIN | EPOLLOUT | EPOLLET, 34), told("by edge, at first", set), settle(set);
	static char much[1 << 16];
	while (write(own[34], much, sizeof much) > 0) {}
	settle(set), CHECK(fcntl(other[34], F_SETFL, O_NONBLOCK));
	while (read(other[34], much, sizeof much) > 0) {}
	told("by edge, room", set), settle(set);
	CHECK(write(other[34], "x", 1)), told("by edge, bytes", set), settle(set);
	CHECK(write(other[34], "x", 1)), told("by edge, more bytes", set), settle(set), drains(34);

	int second, outer;
	CHECK(second = epoll_create1(0)), CHECK(outer = epoll_create1(0));
	for (int which = 40; which < 80; which++) watch(second, EPOLL_CTL_ADD, own[which], EPOLLIN, which);
	watch(outer, EPOLL_CTL_ADD, set, EPOLLIN, 2000), settle(set), settle(second), settle(outer);
	CHECK(write(other[41], "x", 1)), told("of two sets the first", set), told("and the second", second);
	told("around the first", outer), drains(41), settle(outer);
	struct pollfd polled = {set, POLLIN, 0};
	child = later(sends, 42);
	printf("poll of a set: %d", poll(&polled, 1, 3000)), printf(" %x\n", polled.revents), waitpid(child, NULL, 0);
	drains(42), settle(outer), settle(second), child = later(sends, 43);
	told("around the first, later", outer), waitpid(child, NULL, 0), drains(43), settle(outer), settle(second);

	CHECK(child = fork());
	if (child == 0) {
		settle(set), CHECK(write(other[50], "x", 1)), told("in a child", set), drains(50), settle(set);
		_exit(0);
	}
	waitpid(child, NULL, 0), settle(set), CHECK(write(other[51], "x", 1)), told("after the child", set), drains(51);
	settle(set);
	pthread_t threads[2];
	for (int one = 0; one < 2; one++) pthread_create(&threads[one], NULL, waits, NULL);
	usleep(50000), CHECK(write(other[52], "x", 1));
	for (int one = 0; one < 2; one++) pthread_join(threads[one], NULL);
	drains(52), settle(set);
	return 0;
}
