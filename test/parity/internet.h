// Names, listeners and connections of the parity scripts on Internet sockets; results by name.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

static UNUSED int family = AF_INET;

// A number, or the name of the error that a negative one stands for.
static UNUSED const char *said(long value) {
    static char text[8][32];
    static int at;
    char *to = text[at++ % 8];
    if (value < 0) return strerrorname_np(errno);
    snprintf(to, 32, "%ld", value);
    return to;
}

// The name of the loopback device with a port.
static UNUSED socklen_t name_of(struct sockaddr_storage *name, int port) {
    memset(name, 0, sizeof *name);
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (void *)name;
        v4->sin_family = AF_INET, v4->sin_port = htons(port), v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (void *)name;
    v6->sin6_family = AF_INET6, v6->sin6_port = htons(port), v6->sin6_addr = in6addr_loopback;
    return sizeof *v6;
}

static UNUSED int port_of(int socket) {
    struct sockaddr_in6 name = {0};
    socklen_t bytes = sizeof name;
    getsockname(socket, (void *)&name, &bytes);
    return ntohs(name.sin6_port);
}

static UNUSED int bound(int kind) {
    struct sockaddr_storage name;
    int made = socket(family, kind, 0);
    socklen_t bytes = name_of(&name, 0);
    if (bind(made, (void *)&name, bytes)) printf("not bound: %s\n", strerrorname_np(errno)), exit(1);
    return made;
}

static UNUSED int listener(int backlog) {
    int made = bound(SOCK_STREAM);
    if (listen(made, backlog)) printf("no listener: %s\n", strerrorname_np(errno)), exit(1);
    return made;
}

static UNUSED int connect_to(int made, int port) {
    struct sockaddr_storage name;
    socklen_t bytes = name_of(&name, port);
    return connect(made, (void *)&name, bytes);
}

static UNUSED int connected_to(int listener) {
    int made = socket(family, SOCK_STREAM, 0);
    if (connect_to(made, port_of(listener))) printf("no connection: %s\n", strerrorname_np(errno)), exit(1);
    return made;
}

// Both ends of a connection.
static UNUSED void connection(int ends[2]) {
    int listening = listener(5);
    ends[0] = connected_to(listening), ends[1] = accept(listening, 0, 0);
    close(listening);
}

// What poll reports at once, of these events.
static UNUSED int events(int socket, int wanted) {
    struct pollfd one = {socket, wanted, 0};
    poll(&one, 1, 0);
    return one.revents;
}

// The same within two seconds.
static UNUSED int events_soon(int socket, int wanted) {
    struct pollfd one = {socket, wanted, 0};
    poll(&one, 1, 2000);
    return one.revents;
}

#define ALL_EVENTS (POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

static UNUSED int number_of(int socket, int level, int name) {
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(socket, level, name, &value, &bytes) ? -errno : value;
}

static UNUSED const char *error_of(int socket) {
    int error = number_of(socket, SOL_SOCKET, SO_ERROR);
    return error ? strerrorname_np(error) : "none";
}

static UNUSED int set_to(int socket, int level, int name, int value) { return setsockopt(socket, level, name, &value, sizeof value); }

static UNUSED long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Begins a script: an end in time, no signal of broken pipes, lines in order.
static UNUSED void begin(void) {
    alarm(60);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, 0, _IONBF, 0);
}

#define BOTH_FAMILIES for (int turn = 0; turn < 2 && (family = turn ? AF_INET6 : AF_INET, printf("family %d\n", family)); turn++)

// The checksum of the Internet over some bytes.
static UNUSED unsigned short sum_of(const unsigned char *bytes, int count) {
    unsigned sum = 0;
    for (int at = 0; at < count; at += 2) sum += bytes[at] | (at + 1 < count ? bytes[at + 1] << 8 : 0);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

// Writes a request for an echo of 24 bytes, and gives its length.
static UNUSED int request(unsigned char *to, int identifier, int sequence) {
    memset(to, 0, 24);
    to[0] = family == AF_INET ? 8 : 128;
    to[4] = identifier >> 8, to[5] = identifier, to[7] = sequence;
    memcpy(to + 8, "0123456789abcdef", 16);
    unsigned short sum = sum_of(to, 24);
    if (family == AF_INET) memcpy(to + 2, &sum, 2);
    return 24;
}
