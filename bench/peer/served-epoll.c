/*
 * A server of HTTP with epoll at port 80 of a card: two documents, of 1 KB and 64 KiB, and connections that are kept.
 * A request comes whole.
 */
#include "checked.h"

#include "card.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>

#define EVENTS 64

static struct {
	const char *request;
	size_t bytes, size;
	char response[128 + 65536];
} documents[] = { { .request = "GET /index.html", .bytes = 1024 }, { .request = "GET /large.html", .bytes = 65536 } };

static void make_responses(void)
{
	for (int each = 0; each < 2; each++) {
		int head = snprintf(documents[each].response, 128,
				    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
				    documents[each].bytes);
		memset(documents[each].response + head, 'd', documents[each].bytes);
		documents[each].size = (size_t)head + documents[each].bytes;
	}
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
	if (got <= 0)
		close(descriptor);
	for (int each = 0; each < 2; each++)
		if (got > 15 && memcmp(text, documents[each].request, 15) == 0)
			checked(write(descriptor, documents[each].response, documents[each].size), "write");
}

int main(void)
{
	struct epoll_event events[EVENTS];
	int on = 1, listening, poller = (int)checked(epoll_create1(0), "epoll_create1");
	bring_card_up();
	make_responses();
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
