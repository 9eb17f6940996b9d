// udplite(7): its ports are its own, its options too.
#include "../internet.h"

enum { UDP_LITE = 136, SEND_COVERAGE = 10, RECEIVE_COVERAGE = 11 };

static int lite(int protocol, int port) {
    struct sockaddr_storage name;
    int made = socket(family, SOCK_DGRAM, protocol);
    socklen_t bytes = name_of(&name, port);
    if (made < 0 || bind(made, (void *)&name, bytes)) printf("protocol %d: %s\n", protocol, strerrorname_np(errno));
    return made;
}

static void options(int one, int level) {
    static const int values[] = {0, 1, 7, 8, 9, 1000, 65535, 65536, -1};
    for (int name = SEND_COVERAGE; name <= RECEIVE_COVERAGE; name++)
        for (unsigned each = 0; each < sizeof values / sizeof *values; each++) {
            int value = values[each], outcome = setsockopt(one, level, name, &value, sizeof value);
            socklen_t size = sizeof value;
            printf("%d %d := %d: %d %s", level, name, values[each], outcome, outcome ? strerror(errno) : "");
            outcome = getsockopt(one, level, name, &value, &size);
            printf(", is %d, %d\n", outcome, outcome ? 0 : value);
        }
}

static void exchange(void) {
    enum { PORT = 4077 };
    struct sockaddr_storage from;
    socklen_t size = name_of(&from, PORT);
    char text[16] = "";
    int value = 0, taken = lite(UDP_LITE, PORT), other = lite(0, PORT);
    lite(UDP_LITE, PORT);
    int client = socket(family, SOCK_DGRAM, UDP_LITE);
    connect(client, (void *)&from, size);
    send(client, "lite", 4, 0);
    long received = recvfrom(taken, text, sizeof text, 0, (void *)&from, &size);
    printf("received %ld %s, ", received, text);
    sendto(taken, "back", 4, 0, (void *)&from, size);
    received = recv(client, text, sizeof text, 0);
    printf("%ld %s, other %s\n", received, text, said(recv(other, text, sizeof text, MSG_DONTWAIT)));
    size = sizeof value;
    getsockopt(client, SOL_SOCKET, SO_TYPE, &value, &size);
    printf("type %d, ", value);
    getsockopt(client, SOL_SOCKET, SO_PROTOCOL, &value, &size);
    printf("protocol %d\n", value);
    close(taken);
    send(client, "lost", 4, 0);
    printf("refused %s\n", said(recv(client, text, sizeof text, 0)));
    options(client, UDP_LITE), options(client, IPPROTO_UDP), options(other, UDP_LITE);
    close(client), close(other);
}

int main(void) {
    exchange();
    family = AF_INET6;
    exchange();
    printf("stream %s\n", said(socket(AF_INET, SOCK_STREAM, UDP_LITE)));
    return 0;
}
