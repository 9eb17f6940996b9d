// The order in which calls on sockets check what they get, for what is no socket and for sockets of all kinds; reads
// and writes of no bytes; names of no length.
#include "../internet.h"
#include <linux/netlink.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#define BAD ((void *)-1)

static const char *const names[] = {"closed", "file", "pipe", "folder", "place", "event", "stream", "datagram", "packets", "pair", "datagrams", "listener", "tcp", "tcp6", "waiting", "joined", "udp", "udp6", "netlink"};
enum { KINDS = sizeof names / sizeof *names, LAST = 99 };
static int fds[KINDS];
static struct sockaddr_un here = {AF_UNIX, "name"}, missing = {AF_UNIX, "missing"};
static struct sockaddr_storage room;
static char bytes[64];

static void nonblocking(int fd) { fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK); }

static void make(void) {
    int pair[2], kind = 0;
    fds[kind++] = LAST;
    fds[kind++] = open("/dev/null", O_RDWR);
    if (pipe(pair)) exit(1);
    fds[kind++] = pair[1];
    fds[kind++] = open(".", O_RDONLY);
    fds[kind++] = open(".", O_PATH);
    fds[kind++] = eventfd(0, EFD_NONBLOCK);
    for (int of = SOCK_STREAM; of <= SOCK_DGRAM; of++) fds[kind++] = socket(AF_UNIX, of, 0);
    fds[kind++] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    for (int of = SOCK_STREAM; of <= SOCK_DGRAM; of++) socketpair(AF_UNIX, of, 0, pair), fds[kind++] = pair[0];
    unlink("name");
    fds[kind] = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(fds[kind], (void *)&here, sizeof here), listen(fds[kind++], 3);
    fds[kind++] = socket(AF_INET, SOCK_STREAM, 0);
    fds[kind++] = socket(AF_INET6, SOCK_STREAM, 0);
    fds[kind++] = listener(5);
    fds[kind] = connected_to(fds[kind - 1]), kind++;
    fds[kind++] = socket(AF_INET, SOCK_DGRAM, 0);
    fds[kind++] = socket(AF_INET6, SOCK_DGRAM, 0);
    fds[kind++] = socket(AF_NETLINK, SOCK_RAW, 0);
    for (kind = 6; kind < KINDS; kind++) nonblocking(fds[kind]);
}

// A call on fresh ones of each kind, from one kind to another: what each gives, by runs of the same.
#define FROM_TO(first, last, call) do { \
    const char *before = ""; \
    make(), printf("%s\n   ", #call); \
    for (int kind = first; kind <= last; kind++) { \
        int fd = fds[kind]; \
        char text[40]; \
        snprintf(text, sizeof text, "%s", said(call)); \
        if (strcmp(before, text)) printf(" | %s:", before = strdup(text)); \
        printf(" %s", names[kind]); \
    } \
    printf("\n"); \
    for (int fd = 3; fd < LAST; fd++) close(fd); \
} while (0)
#define EACH(call) FROM_TO(0, KINDS - 1, call)
// Netlink, whose names and messages are others, left out.
#define MOST(call) FROM_TO(0, KINDS - 2, call)
// Those of the machine alone.
#define LOCAL(call) FROM_TO(0, 11, call)

static socklen_t *length(int value) {
    static socklen_t kept;
    kept = value;
    return &kept;
}

static void named(void) {
    struct sockaddr_in unknown = {.sin_family = 77}, v4 = {.sin_family = AF_INET, .sin_port = 0x100, .sin_addr = {0x100007f}}, unspecified = {.sin_family = 0};
    EACH(bind(fd, 0, 0));
    EACH(bind(fd, BAD, 16));
    EACH(bind(fd, BAD, 1));
    EACH(bind(fd, BAD, -1));
    EACH(bind(fd, BAD, 129));
    EACH(bind(fd, (void *)&unknown, 16));
    EACH(bind(fd, (void *)&unspecified, 16));
    EACH(bind(fd, (void *)&v4, 8));
    EACH(bind(fd, (void *)&v4, 2));
    MOST(connect(fd, 0, 0));
    FROM_TO(6, KINDS - 1, connect(fd, BAD, 16));
    FROM_TO(6, KINDS - 1, connect(fd, BAD, 1));
    FROM_TO(6, KINDS - 1, connect(fd, BAD, -1));
    FROM_TO(6, KINDS - 1, connect(fd, BAD, 129));
    LOCAL(connect(fd, (void *)&unknown, 16));
    LOCAL(connect(fd, (void *)&v4, 8));
    LOCAL(connect(fd, (void *)&missing, sizeof missing));
    EACH(connect(fd, (void *)&unspecified, 16));
    EACH(listen(fd, 1));
    EACH(accept(fd, 0, 0));
    EACH(accept4(fd, 0, 0, 1));
    EACH(getsockname(fd, (void *)&room, length(-1)));
    EACH(getsockname(fd, 0, 0));
    EACH(getsockname(fd, 0, length(16)));
    EACH(getsockname(fd, 0, length(-1)));
    EACH(getpeername(fd, (void *)&room, length(-1)));
    EACH(getpeername(fd, 0, 0));
    EACH(getpeername(fd, 0, length(16)));
    EACH(shutdown(fd, 3));
    EACH(shutdown(fd, -1));
    EACH(shutdown(fd, 1));
}

static void kinds(void) {
    static const int families[] = {AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, 46}, protocols[] = {0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP};
    for (unsigned family = 0; family < 6; family++)
        for (int kind = 0; kind < 7; kind++)
            for (unsigned at = 0; at < (families[family] == AF_NETLINK ? 1 : 4); at++) {
                int pair[2];
                // Who may send echoes without being user 0 is the machine's affair.
                if (kind == SOCK_DGRAM && protocols[at] == IPPROTO_ICMP) continue;
                printf("%d %d %d: %s\n", families[family], kind, protocols[at], said(socketpair(families[family], kind, protocols[at], pair)));
            }
}

static void messages(void) {
    struct iovec piece = {bytes, 3}, negative = {bytes, -1};
    struct msghdr fine = {.msg_iov = &piece, .msg_iovlen = 1}, less = {.msg_iov = &negative, .msg_iovlen = 1};
    struct msghdr short_name = {.msg_name = &room, .msg_namelen = -1, .msg_iov = &piece, .msg_iovlen = 1};
    struct sockaddr_in unknown = {.sin_family = 77};
    FROM_TO(6, KINDS - 1, sendmsg(fd, &less, 0));
    FROM_TO(6, KINDS - 1, recvmsg(fd, &less, 0));
    FROM_TO(6, KINDS - 1, sendmsg(fd, &short_name, 0));
    FROM_TO(6, KINDS - 1, recvmsg(fd, &short_name, 0));
    FROM_TO(0, 0, sendmsg(fd, BAD, 0));
    FROM_TO(0, 0, recvmsg(fd, BAD, 0));
    FROM_TO(0, 5, recvmsg(fd, &fine, MSG_OOB));
    LOCAL(sendto(fd, bytes, 3, 0, (void *)&here, 0));
    LOCAL(sendto(fd, bytes, 3, 0, (void *)&unknown, 16));
    MOST(recvfrom(fd, bytes, 0, 0, 0, 0));
    FROM_TO(6, KINDS - 1, read(fd, bytes, 0));
    FROM_TO(6, KINDS - 1, writev(fd, &piece, 0));
    FROM_TO(0, KINDS - 2, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, bytes, -1));
    FROM_TO(0, KINDS - 2, getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, bytes, length(-1)));
    FROM_TO(0, KINDS - 2, getsockopt(fd, SOL_SOCKET, 999, bytes, BAD));
}

// What the caller is told of names that it does not want, or that are none; reads of no bytes that take nothing away.
static void told(void) {
    int ends[2];
    struct iovec piece = {bytes, 3};
    struct msghdr message = {.msg_namelen = 77, .msg_iov = &piece, .msg_iovlen = 1};
    for (int turn = 0; turn < 3; turn++) {
        if (turn < 2) socketpair(AF_UNIX, turn ? SOCK_DGRAM : SOCK_STREAM, 0, ends);
        else connection(ends);
        if (write(ends[1], "12345678", 8) != 8 || write(ends[1], "9", 1) != 1 || write(ends[1], "9", 1) != 1) exit(1);
        message.msg_name = 0, message.msg_namelen = 77;
        printf("read of nothing %s, of no bytes %s", said(read(ends[0], bytes, 0)), said(turn == 1 ? 0 : recv(ends[0], bytes, 0, 0)));
        printf(", message %s", said(recvmsg(ends[0], &message, 0)));
        printf(" with a name of %d", message.msg_namelen);
        printf(", by a wrong length %s", said(recvfrom(ends[0], bytes, 1, 0, (void *)&room, length(-1))));
        printf(", to a wrong place %s", said(recvfrom(ends[0], bytes, 1, 0, BAD, length(16))));
        message.msg_name = &room;
        if (write(ends[1], "123", 3) != 3) exit(1);
        printf(", message %s", said(recvmsg(ends[0], &message, 0)));
        printf(" with a name of %d\n", message.msg_namelen);
        close(ends[0]), close(ends[1]);
    }
    int udp = bound(SOCK_DGRAM);
    connect_to(udp, port_of(udp)), nonblocking(udp);
    printf("datagram: sent %s", said(write(udp, "12", 2)));
    printf(", read of nothing %s", said(read(udp, bytes, 0)));
    printf(", read %s", said(read(udp, bytes, 9)));
    printf(", written of nothing %s", said(writev(udp, &piece, 0)));
    printf(", read %s\n", said(read(udp, bytes, 9)));
}

int main(void) {
    begin();
    named();
    kinds();
    messages();
    told();
    return 0;
}
