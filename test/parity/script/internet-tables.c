// Tables of sockets and settings of the network below /proc: states, queues, users and numbers of this program's own sockets.
#include "../internet.h"
#include <sys/stat.h>

// The line of a table that has the number of a socket, but for what differs each time.
static void line(const char *what, const char *table, int number) {
    char name[64], text[512];
    struct stat status;
    fstat(number, &status);
    sprintf(name, "/proc/self/net/%s%s", table, family == AF_INET ? "" : "6");
    FILE *file = fopen(name, "r");
    int found = 0;
    while (file && fgets(text, sizeof text, file)) {
        char local[40], remote[40];
        unsigned port, other, state, sent, waiting, user;
        unsigned long node;
        if (sscanf(text, " %*d: %32[0-9A-F]:%X %32[0-9A-F]:%X %X %X:%X %*X:%*X %*X %u %*d %lu", local, &port, remote, &other, &state, &sent, &waiting, &user, &node) != 9 || node != status.st_ino) continue;
        found = 1;
        printf("%s: %s %s", what, local, remote);
        printf(", own port %d, other %d, state %u, sent %u", port == (unsigned)port_of(number), other != 0, state, sent);
        if (!strcmp(table, "tcp")) printf(", waiting %u", waiting);
        printf(", user %u", user);
        printf(family == AF_INET ? ", length %zu\n" : "\n", strlen(text));
    }
    if (!found) printf("%s: no line\n", what);
    if (file) fclose(file);
}

static void streams(void) {
    int fresh = socket(family, SOCK_STREAM, 0), only_bound = bound(SOCK_STREAM), listening = listener(5);
    line("fresh", "tcp", fresh), line("bound", "tcp", only_bound), line("listening", "tcp", listening);
    int near = connected_to(listening);
    line("one waits", "tcp", listening), line("connected", "tcp", near);
    int far = accept(listening, 0, 0);
    write(near, "waiting", 7);
    usleep(1000);
    line("accepted", "tcp", far), line("listening", "tcp", listening);
    close(fresh), close(only_bound), close(listening), close(near), close(far);
}

static void datagrams(void) {
    int fresh = socket(family, SOCK_DGRAM, 0), receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
    line("fresh", "udp", fresh), line("bound", "udp", receiver);
    connect_to(sender, port_of(receiver));
    line("connected", "udp", sender);
    close(fresh), close(receiver), close(sender);
}

static void settings(void) {
    static const char *names[] = {"core/somaxconn", "ipv4/ip_default_ttl", "ipv4/ip_unprivileged_port_start", "ipv4/ip_local_port_range", "ipv4/tcp_fin_timeout", "ipv4/tcp_keepalive_time", "ipv4/tcp_keepalive_intvl", "ipv4/tcp_keepalive_probes", "ipv4/tcp_syn_retries", "ipv4/tcp_timestamps", "ipv4/tcp_sack", "ipv4/tcp_window_scaling", "ipv4/ip_forward", "ipv4/conf/lo/forwarding", "ipv4/conf/all/rp_filter", "ipv6/bindv6only", "ipv6/conf/lo/disable_ipv6", "ipv6/conf/all/hop_limit", "ipv4/none", "none"};
    for (unsigned at = 0; at < sizeof names / sizeof *names; at++) {
        char path[128], text[64] = {0};
        sprintf(path, "/proc/sys/net/%s", names[at]);
        int file = open(path, O_RDONLY);
        long got = file < 0 ? -1 : read(file, text, 63);
        printf("%s: %s %s%s", names[at], said(got), text, got > 0 ? "" : "\n");
        close(file);
    }
    static const char *tables[] = {"arp", "dev", "icmp", "icmp6", "if_inet6", "igmp", "igmp6", "ipv6_route", "netlink", "netstat", "packet", "raw", "raw6", "route", "snmp", "sockstat", "sockstat6", "tcp", "tcp6", "udp", "udp6", "udplite", "unix"};
    for (unsigned at = 0; at < sizeof tables / sizeof *tables; at++) {
        char path[128], text[40] = {0};
        sprintf(path, "/proc/net/%s", tables[at]);
        FILE *file = fopen(path, "r");
        printf("%s: %s %s\n", tables[at], file ? "there" : strerrorname_np(errno), file && fgets(text, 12, file) && text[0] != '0' ? strtok(text, "\n") : "");
        if (file) fclose(file);
    }
}

int main(void) {
    begin();
    BOTH_FAMILIES streams(), datagrams();
    settings();
    return 0;
}
