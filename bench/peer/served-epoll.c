/*
 * A server of HTTP with epoll at port 80 of a card: one document of 1 KB, connections that are kept. A request comes
 * whole.
 */
#include "checked.h"

#include "card.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>

#define DOCUMENT 1024
#define EVENTS 64

static char response[512 + DOCUMENT];
static size_t response_size;

static void make_response(void)
{
	int head = snprintf(response, 128, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", DOCUMENT);
	memset(response + head, 'd', DOCUMENT);
	response_size = (size_t)head + DOCUMENT;
}

static int listening_socket(void)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_port = htons(80) };
	int on = 1, made = (int)checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
	setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	checked(bind(made, (struct sockaddr *)&place, sizeof place), "bind");
	checked(listen(made, EVENTS), "listen");
	return made;
}

static void watch(int poller, int descriptor)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = descriptor };
	checked(epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
}

/* Answers a request; closes a connection that the client has closed. */
static void answer(int descriptor)
{
	char text[512];
	ssize_t got = read(descriptor, text, sizeof text);
	if (got > 15 && memcmp(text, "GET /index.html", 15) == 0)
		checked(write(descriptor, response, response_size), "write");
	else if (got <= 0)
		close(descriptor);
}

int main(void)
{
	struct epoll_event events[EVENTS];
	int on = 1, listening, poller = (int)checked(epoll_create1(0), "epoll_create1");
	bring_card_up();
	make_response();
	listening = listening_socket();
	watch(poller, listening);
	for (;;) {
		int ready = (int)checked(epoll_wait(poller, events, EVENTS, -1), "epoll_wait");
		for (int each = 0; each < ready; each++) {
			if (events[each].data.fd != listening) {
				answer(events[each].data.fd);
				continue;
			}
			int one = (int)checked(accept(listening, NULL, NULL), "accept");
			setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
			watch(poller, one);
		}
	}
}
