// A card that is reset (ethtool(8), ETHTOOL_RESET): the keeper of the wire ends as a panic would end it. Connections to
// other machines are reset, sockets that listen do so again, and other sockets notice nothing. Three times; then 12
// times more, with bytes on the way, and no memory is lost. The peer is that of ./chitin wire: port 7 echoes, port 20
// calls a port of this machine.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "wire_peer.h"

enum { ECHO = 7, CALLER = 20, NAMES = 53, OWN = 4000, ROUNDS = 3, FIRST = 1, MANY = 12 };
// A connection that is not freed keeps some 55 KiB, ten of them 550. The server may grow once by less than this, in KiB.
static const long LEFT = 300;

static int connected(int port) {
    struct sockaddr_in end = end_of(peer_address, port);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (void *)&end, sizeof end))
        printf("connect to %d: %s\n", port, strerror(errno)), exit(1);
    return one;
}

// Whether it echoes.
static int echoes(int one) {
    char got[6] = "";
    return send(one, "hello", 5, MSG_NOSIGNAL) == 5 && recv(one, got, 5, MSG_WAITALL) == 5 && !strcmp(got, "hello");
}

// A connection that the peer makes to the listener.
static int called(int listener) {
    char line[16] = "";
    struct pollfd look = {listener, POLLIN, 0};
    int caller = connected(CALLER);
    dprintf(caller, "%d 1\n", OWN);
    int one = poll(&look, 1, 10000) == 1 ? accept(listener, NULL, NULL) : -1;
    int came = one >= 0 && recv(one, line, 7, MSG_WAITALL) == 7 && !strcmp(line, "called\n");
    close(one), close(caller);
    return came;
}

static const char *reset(const char *device) {
    struct ethtool_value value = {.cmd = ETHTOOL_RESET, .data = ETH_RESET_ALL};
    struct ifreq request = {.ifr_data = (void *)&value};
    int one = socket(AF_INET, SOCK_DGRAM, 0);
    strcpy(request.ifr_name, device);
    int outcome = ioctl(one, SIOCETHTOOL, &request);
    int error = errno;
    close(one);
    return outcome ? strerror(error) : "done";
}

// The reset comes about after the call: the next bytes of an idle connection say so.
static const char *ending(int one) {
    char byte;
    struct pollfd look = {one, POLLIN, 0};
    if (poll(&look, 1, 10000) != 1)
        return "nothing";
    return recv(one, &byte, 1, 0) < 0 ? strerrorname_np(errno) : "bytes";
}

static void one_round(int listener, int datagrams) {
    int idle = connected(ECHO), asleep = connected(ECHO), sending = connected(ECHO), status;
    int echoed = echoes(idle) + echoes(asleep) + echoes(sending);
    printf("echoes %d, called %d", echoed, called(listener));
    // One that waits to be accepted is lost with the others.
    int caller = connected(CALLER);
    struct pollfd look = {listener, POLLIN, 0};
    dprintf(caller, "%d 1\n", OWN);
    printf(", waits %d", poll(&look, 1, 10000));
    fflush(stdout);
    if (!fork()) {
        char byte;
        long got = recv(asleep, &byte, 1, 0);
        _exit(got < 0 && errno == ECONNRESET ? 7 : 1);
    }
    usleep(100000);
    printf(", reset %s\n", reset("eth0"));
    printf("idle %s", ending(idle));
    wait(&status);
    printf(", asleep %d", WEXITSTATUS(status));
    ending(sending);
    printf(", write %s", send(sending, "x", 1, MSG_NOSIGNAL) < 0 ? strerrorname_np(errno) : "done");
    printf(", caller %s\n", ending(caller));
    close(idle), close(asleep), close(sending), close(caller);
    double begun = seconds();
    int again = connected(ECHO);
    printf("again %d%s", echoes(again), seconds() - begun < 10 ? "" : " late");
    printf(", called %d", called(listener));
    // A question by DNS.
    static const char query[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1";
    struct sockaddr_in end = end_of(peer_address, NAMES);
    char got[64] = "";
    sendto(datagrams, query, 24, 0, (void *)&end, sizeof end);
    struct pollfd answer = {datagrams, POLLIN, 0};
    int is_answered = poll(&answer, 1, 5000) == 1 && recv(datagrams, got, sizeof got, 0) > 24 && !memcmp(got, query, 2);
    printf(", datagram %d\n", is_answered);
    close(again);
}

static long free_memory(void) {
    char line[128];
    long free = -1;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "MemFree: %ld", &free);
    fclose(file);
    return free;
}

// Resets with bytes on the way in both directions.
static void many_resets(void) {
    static char bytes[256 << 10];
    long before = 0;
    for (int round = 0; round < MANY; round++) {
        int one = connected(ECHO);
        if (!echoes(one))
            printf("no echo in round %d\n", round);
        fcntl(one, F_SETFL, O_NONBLOCK);
        send(one, bytes, sizeof bytes, MSG_NOSIGNAL);
        usleep(20000);
        reset("eth0");
        for (struct pollfd look = {one, 0, 0}; poll(&look, 1, 10000) == 0;)
            printf("no end in round %d\n", round);
        close(one);
        if (round == FIRST)
            before = free_memory();
    }
    long left = before - free_memory();
    printf("many resets: %s\n", left < LEFT ? "all memory is back" : "memory is lost");
    if (left >= LEFT)
        printf("%ld KiB of %d resets\n", left, MANY - FIRST);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sockaddr_in here = end_of("0.0.0.0", OWN);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0), status;
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 5))
        printf("listener: %s\n", strerror(errno));
    for (int round = 0; round < ROUNDS; round++)
        one_round(listener, datagrams);
    many_resets();
    if (!fork()) {
        printf("of another user: %s\n", setuid(1000) ? "?" : reset("eth0"));
        exit(0);
    }
    wait(&status);
    printf("of no device: %s, of loopback: %s\n", reset("eth7"), reset("lo"));
    return 0;
}
