// Groups and broadcasts on the loopback device, and the requests that name it.
#include "../internet.h"
#include <ifaddrs.h>
#include <net/if.h>

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
    groups(), devices();
    return 0;
}
