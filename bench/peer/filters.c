/*
 * Classification by Linux (exokernel-sosp95, Table 7): what sending a frame to the loopback takes with ten packet
 * sockets whose filters look for ports of TCP, and without any. Each filter keeps nothing of what it accepts, so that
 * nothing is copied. The frame is for another machine, so that IP drops it.
 */
#include "harness.h"
#include "loopback.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define FILTERS 10
#define FIRST 8000
#define TAKEN 8005
#define FREE 9000
#define ADDRESS 0x0a000001

static unsigned char frame[54] = {
	2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0,
	0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10,
};
static int sender;

static void send_frame(void)
{
	checked(write(sender, frame, sizeof frame), "write");
}

static void send_to(const char *name, unsigned port)
{
	frame[36] = (unsigned char)(port >> 8);
	frame[37] = (unsigned char)port;
	measure(name, 1, send_frame);
}

static int on_loopback(int protocol)
{
	struct sockaddr_ll place = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol) };
	int made = (int)checked(socket(AF_PACKET, SOCK_RAW, 0), "socket");
	place.sll_ifindex = (int)if_nametoindex("lo");
	checked(bind(made, (struct sockaddr *)&place, sizeof place), "bind");
	return made;
}

/* One filter, attached before the socket hears anything. */
static void add_filter(unsigned port)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 9),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 7),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 30),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ADDRESS, 0, 3),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { .len = sizeof code / sizeof code[0], .filter = code };
	int made = on_loopback(ETH_P_IP);
	checked(setsockopt(made, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), "SO_ATTACH_FILTER");
}

int main(void)
{
	begin();
	bring_up();
	sender = on_loopback(0);
	send_to("no-filters", TAKEN);
	for (unsigned port = FIRST; port < FIRST + FILTERS; port++)
		add_filter(port);
	send_to("ten-filters", TAKEN);
	send_to("ten-filters-missed", FREE);
	return 0;
}
