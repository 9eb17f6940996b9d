// The way to one address by netlink: kinds, devices, source addresses, flags, and what leads nowhere or is no question.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int netlink;

static void tell(const struct nlmsghdr *answer, int family) {
    const struct rtmsg *way = NLMSG_DATA(answer);
    char text[64];
    printf("kind %d, family %d, %d bits, table %d, scope %d, flags %x:", way->rtm_type, way->rtm_family, way->rtm_dst_len,
           way->rtm_table, way->rtm_scope, way->rtm_flags);
    const struct rtattr *each[RTA_MAX + 1] = {0};
    int left = RTM_PAYLOAD(answer);
    for (const struct rtattr *one = RTM_RTA(way); RTA_OK(one, left); one = RTA_NEXT(one, left))
        if (one->rta_type <= RTA_MAX) each[one->rta_type] = one;
    printf(" to %s", each[RTA_DST] ? inet_ntop(family, RTA_DATA(each[RTA_DST]), text, sizeof text) : "?");
    printf(" from %s", each[RTA_PREFSRC] ? inet_ntop(family, RTA_DATA(each[RTA_PREFSRC]), text, sizeof text) : "?");
    printf(" by device %d, router %d\n", each[RTA_OIF] ? *(int *)RTA_DATA(each[RTA_OIF]) : -1, !!each[RTA_GATEWAY]);
}

static void ask(int family, const char *to, int bytes) {
    struct {
        struct nlmsghdr head;
        struct rtmsg way;
        char attributes[64];
    } question = {.head = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = 1},
                  .way = {.rtm_family = family, .rtm_dst_len = 8 * bytes}};
    question.head.nlmsg_len = NLMSG_LENGTH(sizeof question.way);
    if (bytes) {
        struct rtattr *one = (struct rtattr *)question.attributes;
        *one = (struct rtattr){RTA_LENGTH(bytes), RTA_DST};
        inet_pton(family, to, RTA_DATA(one));
        question.head.nlmsg_len += RTA_SPACE(bytes);
    }
    char answer[4096];
    send(netlink, &question, question.head.nlmsg_len, 0);
    ssize_t length = recv(netlink, answer, sizeof answer, 0);
    const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
    printf("%s: ", bytes ? to : "nothing");
    if (length < (ssize_t)sizeof *head) puts("no answer");
    else if (head->nlmsg_type == NLMSG_ERROR) puts(strerrorname_np(-((const struct nlmsgerr *)NLMSG_DATA(head))->error));
    else tell(head, family);
}

int main(void) {
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(any, SIOCSIFFLAGS, &loopback);
    netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    ask(AF_INET, "127.0.0.1", 4), ask(AF_INET, "127.3.2.1", 4), ask(AF_INET, "10.1.2.3", 4);
    ask(AF_INET6, "::1", 16), ask(AF_INET6, "2001:db8::1", 16);
    ask(AF_INET, "127.0.0.1", 2), ask(AF_INET6, "::1", 4);
    return 0;
}
