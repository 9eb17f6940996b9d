/*
 * Two processes of one machine that talk by Internet sockets over 127.0.0.1: a byte there and back by TCP and by UDP, a
 * whole connection, much data one way, and requests of 1 KB to a server of HTTP with epoll, and to Debian's nginx.
 */
#include "harness.h"
#include "loopback.h"
#include "nginx.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROUNDS 16
#define CONNECTIONS 4
#define CHUNK 65536
#define CLIENTS 8
#define PORT 8080

static const char request[] = "GET /document HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
static char response[512 + DOCUMENT];
static size_t response_size;
/* Both ends of kept connections. */
static int clients[CLIENTS], served[CLIENTS];

/* The parent's end, the child's, and the listener of both. */
static int near, far, listening;
static struct sockaddr_in place;
static char buffer[CHUNK];

static void move_all(ssize_t (*call)(int, void *, size_t), int descriptor, size_t size)
{
	for (size_t done = 0; done < size;)
		done += (size_t)checked(call(descriptor, buffer + done, size - done), "socket");
}

static ssize_t writing(int descriptor, void *bytes, size_t size)
{
	return write(descriptor, bytes, size);
}

static void echo(void)
{
	for (;;) {
		move_all(read, far, 1);
		move_all(writing, far, 1);
	}
}

static void round_trips(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		move_all(writing, near, 1);
		move_all(read, near, 1);
	}
}

/* Takes whole chunks and says so, once for all of a sample. */
static void swallow(void)
{
	for (;;) {
		for (int round = 0; round < ROUNDS; round++)
			move_all(read, far, CHUNK);
		move_all(writing, far, 1);
	}
}

static void chunks(void)
{
	for (int round = 0; round < ROUNDS; round++)
		move_all(writing, near, CHUNK);
	move_all(read, near, 1);
}

static void serve(void)
{
	for (;;) {
		int one = (int)checked(accept(listening, NULL, NULL), "accept");
		move_all(read, one, 1);
		move_all(writing, one, 1);
		close(one);
	}
}

static void connections(void)
{
	for (int round = 0; round < CONNECTIONS; round++) {
		int one = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
		checked(connect(one, (struct sockaddr *)&place, sizeof place), "connect");
		move_all(writing, one, 1);
		move_all(read, one, 1);
		close(one);
	}
}

/* One request after the other, as they become ready. A request comes whole. */
static void serve_documents(void)
{
	struct epoll_event events[CLIENTS], event = { .events = EPOLLIN };
	char text[512];
	int poller = (int)checked(epoll_create1(0), "epoll_create1");
	for (int each = 0; each < CLIENTS; each++) {
		event.data.fd = served[each];
		checked(epoll_ctl(poller, EPOLL_CTL_ADD, served[each], &event), "epoll_ctl");
	}
	for (;;) {
		int ready = (int)checked(epoll_wait(poller, events, CLIENTS, -1), "epoll_wait");
		for (int each = 0; each < ready; each++) {
			ssize_t got = checked(read(events[each].data.fd, text, sizeof text), "read");
			if (got > 13 && memcmp(text, "GET /document", 13) == 0)
				checked(write(events[each].data.fd, response, response_size), "write");
		}
	}
}

static void documents(void)
{
	for (int round = 0; round < ROUNDS / CLIENTS; round++) {
		for (int each = 0; each < CLIENTS; each++)
			checked(write(clients[each], request, sizeof request - 1), "write");
		for (int each = 0; each < CLIENTS; each++)
			move_all(read, clients[each], response_size);
	}
}

static int bound(int kind)
{
	socklen_t bytes = sizeof place;
	int made = (int)checked(socket(AF_INET, kind, 0), "socket");
	place = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	checked(bind(made, (struct sockaddr *)&place, bytes), "bind");
	checked(getsockname(made, (struct sockaddr *)&place, &bytes), "getsockname");
	return made;
}

static void open_stream(void)
{
	int on = 1;
	near = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
	checked(connect(near, (struct sockaddr *)&place, sizeof place), "connect");
	far = (int)checked(accept(listening, NULL, NULL), "accept");
	setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void open_datagrams(void)
{
	far = bound(SOCK_DGRAM);
	struct sockaddr_in other = place;
	near = bound(SOCK_DGRAM);
	checked(connect(far, (struct sockaddr *)&place, sizeof place), "connect");
	checked(connect(near, (struct sockaddr *)&other, sizeof other), "connect");
}

static void open_documents(void)
{
	int head = snprintf(response, 128, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", DOCUMENT);
	memset(response + head, 'd', DOCUMENT);
	response_size = (size_t)head + DOCUMENT;
	for (int each = 0; each < CLIENTS; each++) {
		clients[each] = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
		checked(connect(clients[each], (struct sockaddr *)&place, sizeof place), "connect");
		served[each] = (int)checked(accept(listening, NULL, NULL), "accept");
	}
}

/* A whole response has a head and the document. */
static void first_response(int from)
{
	char *end = NULL;
	for (response_size = 0; !end || (size_t)(end + 4 + DOCUMENT - response) > response_size;) {
		ssize_t got = checked(read(from, response + response_size, sizeof response - 1 - response_size), "read");
		response_size += (size_t)got;
		response[response_size] = 0;
		end = strstr(response, "\r\n\r\n");
		if (got == 0 || strncmp(response, "HTTP/1.1 200", 12) != 0) {
			errno = EPROTO;
			checked(-1, "nginx");
		}
	}
}

static pid_t open_nginx(void)
{
	pid_t child = (pid_t)checked(fork(), "fork");
	if (child == 0)
		run_nginx("127.0.0.1:8080", "document");
	place.sin_port = htons(PORT);
	for (int each = 0, tries = 0; each < CLIENTS; tries++) {
		clients[each] = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
		if (connect(clients[each], (struct sockaddr *)&place, sizeof place) == 0) {
			each++;
			continue;
		}
		checked(tries < 1000 ? 0 : -1, "nginx");
		close(clients[each]);
		usleep(10000);
	}
	checked(write(clients[0], request, sizeof request - 1), "write");
	first_response(clients[0]);
	return child;
}

static void with_child(const char *name, uint64_t operations, operation *partner, operation *body)
{
	pid_t child = (pid_t)checked(fork(), "fork");
	if (child == 0) {
		partner();
		_exit(0);
	}
	measure(name, operations, body);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	begin();
	bring_up();
	listening = bound(SOCK_STREAM);
	checked(listen(listening, 16), "listen");
	open_stream();
	with_child("tcp-byte", ROUNDS, echo, round_trips);
	with_child("tcp-64k", ROUNDS, swallow, chunks);
	close(near);
	close(far);
	with_child("connection", CONNECTIONS, serve, connections);
	open_documents();
	with_child("http-document", ROUNDS, serve_documents, documents);
	pid_t nginx = open_nginx();
	measure("http-nginx", ROUNDS, documents);
	kill(nginx, SIGKILL);
	waitpid(nginx, NULL, 0);
	open_datagrams();
	with_child("udp-byte", ROUNDS, echo, round_trips);
	return 0;
}
