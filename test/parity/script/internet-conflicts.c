// Which sockets may be bound beside others: pairs of addresses, families and reuse flags; listeners; ports below 1024.
#include "../internet.h"

struct place { int family; const char *address; int only; };
static const struct place places[] = {
    {AF_INET, "127.0.0.1", 0}, {AF_INET, "0.0.0.0", 0}, {AF_INET6, "::1", 0}, {AF_INET6, "::", 0}, {AF_INET6, "::", 1}, {AF_INET6, "::ffff:127.0.0.1", 0}, {AF_INET6, "::ffff:0.0.0.0", 0},
};
enum { PLACES = sizeof places / sizeof *places };

static int bind_at(int made, const struct place *place, int port) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (place->family == AF_INET) return inet_pton(AF_INET, place->address, &v4.sin_addr), bind(made, (void *)&v4, sizeof v4);
    return inet_pton(AF_INET6, place->address, &v6.sin6_addr), bind(made, (void *)&v6, sizeof v6);
}

static int make(int kind, const struct place *place, int reuse) {
    int made = socket(place->family, kind, 0);
    if (place->family == AF_INET6) set_to(made, IPPROTO_IPV6, IPV6_V6ONLY, place->only);
    if (reuse & 1) set_to(made, SOL_SOCKET, SO_REUSEADDR, 1);
    if (reuse & 2) set_to(made, SOL_SOCKET, SO_REUSEPORT, 1);
    return made;
}

static void pairs(int kind, int listens) {
    for (int first = 0; first < PLACES; first++)
        for (int second = 0; second < PLACES; second++) {
            printf("%d%s %s%s and %s%s:", kind, listens ? " listening" : "", places[first].address, places[first].only ? " only" : "", places[second].address, places[second].only ? " only" : "");
            for (int turn = 0; turn < 8; turn++) {
                int reuse = (int[]){0, 5, 10, 15, 7, 13, 3, 12}[turn];
                int one = make(kind, &places[first], reuse & 3), two = make(kind, &places[second], reuse >> 2);
                if (bind_at(one, &places[first], 0)) printf(" first %s", strerrorname_np(errno));
                if (listens && listen(one, 1)) printf(" unheard %s", strerrorname_np(errno));
                int failed = bind_at(two, &places[second], port_of(one));
                printf(" %s", failed ? errno == EADDRINUSE ? "-" : strerrorname_np(errno) : "+");
                if (!failed && listens) printf("%s", listen(two, 1) ? errno == EADDRINUSE ? "-" : "?" : "+");
                close(one), close(two);
            }
            printf("\n");
        }
}

static void low_ports(void) {
    for (int port = 1; port < 1100; port += 1022) {
        int one = socket(family, SOCK_STREAM, 0), two = socket(family, SOCK_DGRAM, 0);
        struct sockaddr_storage name;
        socklen_t bytes = name_of(&name, port);
        printf("user %d, port %d: %s", getuid(), port, said(bind(one, (void *)&name, bytes)));
        printf(" %s\n", said(bind(two, (void *)&name, bytes)));
        close(one), close(two);
    }
}

int main(void) {
    begin();
    pairs(SOCK_STREAM, 0), pairs(SOCK_STREAM, 1), pairs(SOCK_DGRAM, 0);
    BOTH_FAMILIES low_ports();
    return 0;
}
