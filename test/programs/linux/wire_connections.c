// Many connections to the echo service of the wire's peer, in three rounds: some are busy, the others idle. When they
// are gone, the memory that they took is free again but for a little, and further rounds take no more.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ECHO = 7, MESSAGES = 3, TEXT = 64, GIVEN_UP = 64 };
// What may be kept of connections that are gone, in KiB: of few, and of each of many. What a further round may take in
// addition. Of MANY, all are gone once the time is over in which an address and port stay in use (TIME_WAIT, 60 s).
static const long KEPT = 4 << 10, KEPT_EACH = 2, GROWN = 2 << 10;
enum { MANY = 2000, PATIENCE = 90, SETTLED = 64, LOOKS = 20 };

static void fail(const char *what, int which) {
    printf("%s %d: %s\n", what, which, strerror(errno));
    exit(1);
}

static long free_now(void) {
    char line[128];
    long free = -1;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "MemFree: %ld", &free);
    fclose(file);
    return free;
}

// Free memory in KiB, once what was closed has been given back: it rises no more.
static long free_memory(int patience) {
    sleep(patience);
    long free = free_now(), before;
    for (int look = 0; look < LOOKS; look++) {
        before = free;
        sleep(1);
        free = free_now();
        if (free - before < SETTLED)
            break;
    }
    return free;
}

static int text(char *to, int message, int which) { return snprintf(to, TEXT, "message %d of %d", message, which); }

static void send_all(const int *sockets, int busy, int message) {
    char sent[TEXT];
    for (int i = 0; i < busy; i++) {
        int length = text(sent, message, i);
        if (send(sockets[i], sent, length, 0) != length)
            fail("send", i);
    }
}

static void receive_all(const int *sockets, int busy, int message) {
    char wanted[TEXT], got[TEXT];
    for (int i = 0; i < busy; i++) {
        int length = text(wanted, message, i);
        if (recv(sockets[i], got, length, MSG_WAITALL) != length || memcmp(wanted, got, length))
            fail("receive", i);
    }
}

// Connections that are given up with bytes on the way: the memory that those lie in must wait for the card.
static void give_up(const struct sockaddr_in *peer) {
    static char bytes[100000];
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    for (int i = 0; i < GIVEN_UP; i++) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(one, (const void *)peer, sizeof *peer))
            fail("connect to give up", i);
        if (send(one, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            fail("send to give up", i);
        if (connect(one, &none, sizeof none))
            fail("give up", i);
        close(one);
    }
}

static void one_round(int *sockets, int all, int busy) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(ECHO)};
    inet_pton(AF_INET, "10.0.2.2", &peer.sin_addr);
    for (int i = 0; i < all; i++) {
        if ((sockets[i] = socket(AF_INET, SOCK_STREAM, 0)) < 0)
            fail("socket", i);
        if (connect(sockets[i], (void *)&peer, sizeof peer))
            fail("connect", i);
    }
    for (int message = 0; message < MESSAGES; message++) {
        send_all(sockets, busy, message);
        receive_all(sockets, busy, message);
    }
    for (int i = 0; i < all; i++)
        close(sockets[i]);
    give_up(&peer);
}

int main(int count, char **words) {
    int all = count > 1 ? atoi(words[1]) : 3000, busy = count > 2 ? atoi(words[2]) : 1000;
    struct rlimit limit = {all + 16, all + 16};
    if (setrlimit(RLIMIT_NOFILE, &limit))
        fail("setrlimit", all);
    int *sockets = calloc(all, sizeof *sockets);
    int patience = all < MANY ? 1 : PATIENCE;
    long before = free_memory(1);
    one_round(sockets, all, busy);
    long first = free_memory(patience);
    one_round(sockets, all, busy);
    long second = free_memory(patience);
    one_round(sockets, all, busy);
    long third = free_memory(patience);
    printf("%d connections, %d busy, three times\n", all, busy);
    if (before - first > KEPT + KEPT_EACH * all)
        printf("%ld KiB were not given back\n", before - first);
    if (first - second > GROWN)
        printf("%ld KiB more after the second round\n", first - second);
    if (second - third > GROWN)
        printf("%ld KiB more after the third round, %ld after the second\n", second - third, first - second);
    return 0;
}
