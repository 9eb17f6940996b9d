// Unix-domain sockets by name: who wrote a datagram is told whichever call wrote it, sockets of another kind are refused, the same
// abstract name can stand for one socket of each kind, and a place (O_PATH) is no socket.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
static struct sockaddr_un name_of(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path + (*path == '@'), path + (*path == '@'));
    return name;
}
static socklen_t length_of(const char *path) { return offsetof(struct sockaddr_un, sun_path) + strlen(path) + (*path != '@'); }

static int bound(int kind, const char *path) {
    int fresh = socket(AF_UNIX, kind, 0);
    struct sockaddr_un name = name_of(path);
    tell(path, bind(fresh, (void *)&name, length_of(path)));
    if (kind != SOCK_DGRAM) tell("listen", listen(fresh, 5));
    return fresh;
}
static long join(int from, const char *path) {
    struct sockaddr_un name = name_of(path);
    return connect(from, (void *)&name, length_of(path));
}
static void take(const char *what, int from) {
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    char bytes[100] = {0};
    ssize_t got = recvfrom(from, bytes, sizeof bytes - 1, 0, (void *)&name, &length);
    printf("%s: %zd %s from %d bytes of name, %s\n", what, got, bytes, length, length > 2 ? name.sun_path + (name.sun_path[0] == 0) : "nobody");
}

static void writers(int to, const char *path, const char *own) {
    int from = bound(SOCK_DGRAM, own);
    tell("join", join(from, path));
    struct iovec pieces[] = {{"in ", 3}, {"pieces", 6}};
    int file = open("file", O_CREAT | O_RDWR, 0600), pipes[2];
    if (pipe(pipes) || write(file, "by sendfile", 11) != 11 || write(pipes[1], "by splice", 9) != 9) exit(1);
    tell("write", write(from, "by write", 8)), take("write", to);
    tell("writev", writev(from, pieces, 2)), take("writev", to);
    tell("send", send(from, "by send", 7, 0)), take("send", to);
    off_t start = 0;
    tell("sendfile", sendfile(from, file, &start, 11)), take("sendfile", to);
    tell("splice", splice(pipes[0], NULL, from, NULL, 9, 0)), take("splice", to);
    tell("empty", send(from, "", 0, 0)), take("empty", to);
    close(from);
}

int main(void) {
    char folder[] = "/tmp/named-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int stream = bound(SOCK_STREAM, "stream"), packets = bound(SOCK_SEQPACKET, "packets"), datagrams = bound(SOCK_DGRAM, "datagrams");
    static const int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
    static const char *names[] = {"stream", "packets", "datagrams", "file", "nothing"};
    close(open("file", O_CREAT | O_RDWR, 0600));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 5; j++) {
            int one = socket(AF_UNIX, kinds[i], 0);
            tell(names[j], join(one, names[j]));
            close(one);
        }
    writers(datagrams, "datagrams", "writer");
    // One abstract name for each kind.
    char abstract[40], other[80];
    sprintf(abstract, "@chitin-%d", getpid()), sprintf(other, "%s-other", abstract);
    int ends[3];
    for (int i = 0; i < 3; i++) {
        struct sockaddr_un name = name_of(abstract);
        ends[i] = socket(AF_UNIX, kinds[i], 0);
        tell("abstract", bind(ends[i], (void *)&name, length_of(abstract)));
        int again = socket(AF_UNIX, kinds[i], 0);
        tell("again", bind(again, (void *)&name, length_of(abstract)));
        close(again);
        if (i < 2) listen(ends[i], 1);
    }
    for (int i = 0; i < 3; i++) {
        int one = socket(AF_UNIX, kinds[i], 0), none = socket(AF_UNIX, kinds[i], 0);
        tell("join", join(one, abstract));
        tell("join nothing", join(none, other));
        tell("write", write(one, "hello", 5));
        char bytes[6] = {0};
        tell("read", read(i < 2 ? accept(ends[i], NULL, NULL) : ends[2], bytes, 5));
        puts(bytes);
    }
    close(ends[1]);
    tell("join what is closed", join(socket(AF_UNIX, SOCK_SEQPACKET, 0), abstract));
    int place = open("file", O_PATH), file = open("file", O_RDONLY);
    tell("accept of a place", accept(place, NULL, NULL));
    tell("accept of a file", accept(file, NULL, NULL));
    tell("send to a place", send(place, "x", 1, 0));
    tell("listen at a place", listen(place, 1));
    tell("shutdown of a place", shutdown(place, 2));
    return close(stream) | close(packets) | chdir("/");
}
