/* A fresh Linux has the loopback device, but down. */
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void bring_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = (int)checked(socket(AF_INET, SOCK_DGRAM, 0), "socket");
	ioctl(any, SIOCSIFFLAGS, &request);
	close(any);
}
