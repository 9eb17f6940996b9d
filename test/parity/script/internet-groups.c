// Groups and broadcasts on the loopback device, and the requests that name it.
#include "../internet.h"
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/syscall.h>

static void groups(void) {
    int one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
    struct ip_mreq group = {{inet_addr("239.1.2.3")}, {htonl(INADDR_LOOPBACK)}}, wrong = {{inet_addr("10.1.2.3")}, {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in any = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_addr = group.imr_multiaddr};
    set_to(one, SOL_SOCKET, SO_REUSEADDR, 1), set_to(two, SOL_SOCKET, SO_REUSEADDR, 1);
    printf("bind %s", said(bind(one, (void *)&any, sizeof any)));
    any.sin_port = to.sin_port = htons(port_of(one));
    printf(" %s", said(bind(two, (void *)&any, sizeof any)));
    printf(", join %s", said(setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group)));
    printf(", again %s", said(setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group)));
    printf(", wrong %s", said(setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wrong, sizeof wrong)));
    printf(", short %s", said(setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, 3)));
    printf(", stream %s", said(setsockopt(stream, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group)));
    printf(", both %s\n", said(setsockopt(two, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group)));
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    char text[8];
    printf("device %s", said(setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &group.imr_interface, 4)));
    printf(", sent %s", said(sendto(sender, "all", 3, 0, (void *)&to, sizeof to)));
    printf(", one %s", said(recv(one, text, 8, MSG_DONTWAIT)));
    printf(", two %s", said(recv(two, text, 8, MSG_DONTWAIT)));
    printf(", leave %s", said(setsockopt(one, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group)));
    printf(", again %s", said(setsockopt(one, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group)));
    set_to(one, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    sendto(sender, "all", 3, 0, (void *)&to, sizeof to);
    printf(", one %s", said(recv(one, text, 8, MSG_DONTWAIT)));
    printf(", two %s\n", said(recv(two, text, 8, MSG_DONTWAIT)));
    to.sin_addr.s_addr = inet_addr("127.255.255.255");
    printf("broadcast %s", said(sendto(sender, "b", 1, 0, (void *)&to, sizeof to)));
    printf(", connect %s", said(connect(sender, (void *)&to, sizeof to)));
    set_to(sender, SOL_SOCKET, SO_BROADCAST, 1);
    printf(", allowed %s", said(sendto(sender, "b", 1, 0, (void *)&to, sizeof to)));
    printf(", one %s", said(recv(one, text, 8, MSG_DONTWAIT)));
    printf(", two %s\n", said(recv(two, text, 8, MSG_DONTWAIT)));
    close(one), close(two), close(sender), close(stream);
}

// A group by a request of any family; a stream takes one, too, which those that it accepts do not get.
static void groups_by_name(void) {
    static const int levels[] = {IPPROTO_IP, IPPROTO_IPV6};
    for (int turn = 0; turn < 2; turn++) {
        int one = socket(turn ? AF_INET6 : AF_INET, SOCK_DGRAM, 0), ends[2];
        struct group_req group = {.gr_interface = 1}, wrong, other;
        struct sockaddr_in *v4 = (void *)&group.gr_group;
        struct sockaddr_in6 *v6 = (void *)&group.gr_group;
        if (turn) v6->sin6_family = AF_INET6, inet_pton(AF_INET6, "ff02::1234", &v6->sin6_addr);
        else v4->sin_family = AF_INET, v4->sin_addr.s_addr = inet_addr("239.1.2.3");
        wrong = other = group;
        if (turn) ((struct sockaddr_in6 *)&wrong.gr_group)->sin6_addr = in6addr_loopback;
        else ((struct sockaddr_in *)&wrong.gr_group)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        other.gr_group.ss_family = 77;
        printf("join %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &group, sizeof group)));
        printf(", again %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &group, sizeof group)));
        printf(", wrong %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &wrong, sizeof wrong)));
        printf(", of another family %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &other, sizeof other)));
        printf(", short %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &group, 8)));
        group.gr_interface = 77;
        printf(", by no device %s", said(setsockopt(one, levels[turn], MCAST_JOIN_GROUP, &group, sizeof group)));
        group.gr_interface = 1;
        printf(", leave %s", said(setsockopt(one, levels[turn], MCAST_LEAVE_GROUP, &group, sizeof group)));
        printf(", again %s\n", said(setsockopt(one, levels[turn], MCAST_LEAVE_GROUP, &group, sizeof group)));
        close(one);
        if (turn) continue;
        int listening = listener(1);
        printf("listener %s", said(setsockopt(listening, levels[turn], MCAST_JOIN_GROUP, &group, sizeof group)));
        ends[0] = connected_to(listening), ends[1] = accept(listening, 0, 0);
        printf(", accepted %s\n", said(setsockopt(ends[1], levels[turn], MCAST_LEAVE_GROUP, &group, sizeof group)));
        close(ends[0]), close(ends[1]), close(listening);
    }
}

// The loopback device made up that is up, by ioctl and by netlink, with the right to do so and without.
static void made_up(const char *by) {
    struct { struct nlmsghdr head; struct ifinfomsg link; } ask = {{sizeof ask, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {.ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}};
    struct { struct nlmsghdr head; struct nlmsgerr error; char rest[64]; } told = {0};
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM, 0), link = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    ioctl(any, SIOCGIFFLAGS, &request);
    printf("%s: flags %s", by, said(ioctl(any, SIOCSIFFLAGS, &request)));
    printf(", asked %s", said(send(link, &ask, sizeof ask, 0)));
    recv(link, &told, sizeof told, 0);
    printf(", told %d %s\n", told.head.nlmsg_type, told.error.error ? strerrorname_np(-told.error.error) : "0");
    close(any), close(link);
}

static void devices(void) {
    static const unsigned long requests[] = {SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN, SIOCGIFMAP};
    for (int turn = 0; turn < 2; turn++) {
        int any = socket(turn ? AF_INET6 : AF_INET, turn ? SOCK_STREAM : SOCK_DGRAM, 0);
        for (unsigned at = 0; at < sizeof requests / sizeof *requests; at++) {
            struct ifreq request = {.ifr_name = "lo"}, none = {.ifr_name = "none0"};
            int outcome = ioctl(any, requests[at], &request);
            printf("%#lx %s", requests[at], said(outcome));
            if (!outcome && requests[at] != SIOCGIFMAP) for (int byte = 0; byte < 8; byte++) printf(" %02x", ((unsigned char *)&request.ifr_ifru)[byte]);
            printf("; none %s", said(ioctl(any, requests[at], &none)));
            printf("; nowhere %s\n", said(ioctl(any, requests[at], (void *)16)));
        }
        struct ifreq by_number = {.ifr_ifindex = 1}, room[4];
        printf("name %s", said(ioctl(any, SIOCGIFNAME, &by_number)));
        printf(" %s", by_number.ifr_name);
        by_number.ifr_ifindex = 99;
        printf(", number 99 %s", said(ioctl(any, SIOCGIFNAME, &by_number)));
        struct ifconf list = {.ifc_len = sizeof room, .ifc_req = room};
        printf(", list %s", said(ioctl(any, SIOCGIFCONF, &list)));
        printf(" %d %s", list.ifc_len, room[0].ifr_name);
        list.ifc_req = 0;
        printf(", length %s", said(ioctl(any, SIOCGIFCONF, &list)));
        printf(" %d, unknown %s\n", list.ifc_len, said(ioctl(any, 0x8999, &list)));
        close(any);
    }
    struct ifaddrs *all, *one;
    if (getifaddrs(&all)) { printf("getifaddrs %s\n", strerrorname_np(errno)); return; }
    for (one = all; one; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "", mask[INET6_ADDRSTRLEN] = "";
        int of = one->ifa_addr ? one->ifa_addr->sa_family : 0;
        if (of == AF_INET) inet_ntop(of, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text, sizeof text), inet_ntop(of, &((struct sockaddr_in *)one->ifa_netmask)->sin_addr, mask, sizeof mask);
        if (of == AF_INET6) inet_ntop(of, &((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, text, sizeof text), inet_ntop(of, &((struct sockaddr_in6 *)one->ifa_netmask)->sin6_addr, mask, sizeof mask);
        printf("%s family %d %s %s flags %#x\n", one->ifa_name, of, text, mask, one->ifa_flags);
    }
    freeifaddrs(all);
    struct if_nameindex *names = if_nameindex();
    for (int at = 0; names && names[at].if_index; at++) if (!strcmp(names[at].if_name, "lo")) printf("%u %s", names[at].if_index, names[at].if_name);
    printf(", lo is %u, none %u\n", if_nametoindex("lo"), if_nametoindex("none"));
}

int main(void) {
    begin();
    groups(), groups_by_name(), devices();
    made_up("user 0");
    unsigned head[2] = {_LINUX_CAPABILITY_VERSION_3, 0}, none[6] = {0};
    if (syscall(SYS_capset, head, none)) return 1;
    made_up("without rights");
    return 0;
}
