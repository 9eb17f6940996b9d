/*
 * The network card of a server that is asked from outside (tool/develop/src/bench/served.rs). Linux gets the address
 * that QEMU's network `user` leads a forwarded port to; ExOS has it by DHCP, and has no such calls.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void set_card(int any, unsigned long call, const char *address)
{
	struct ifreq request = { .ifr_name = "eth0" };
	struct sockaddr_in *place = (struct sockaddr_in *)&request.ifr_addr;
	if (address) {
		place->sin_family = AF_INET;
		inet_pton(AF_INET, address, &place->sin_addr);
	} else {
		request.ifr_flags = IFF_UP;
	}
	ioctl(any, call, &request);
}

static void bring_card_up(void)
{
	int any = (int)checked(socket(AF_INET, SOCK_DGRAM, 0), "socket");
	set_card(any, SIOCSIFADDR, "10.0.2.15");
	set_card(any, SIOCSIFNETMASK, "255.255.255.0");
	set_card(any, SIOCSIFFLAGS, NULL);
	close(any);
}
