// A server that is flooded with SYNs of forged addresses, has clients that never finish their request, others that are
// half-closed, and many that it closed first (TIME_WAIT): good clients are served all the same. The peer is that of
// ./chitin wire: port 21 sends 64 forged SYNs before each of its calls, port 7 echoes.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "wire_peer.h"

enum { FLOODER = 21, CALLER = 20, OWN = 4000, CALLS = 64, TURNS = 3, SLOW = 200, SECONDS = 30 };

static void ask(int port, int calls) {
    struct sockaddr_in end = end_of(peer_address, port);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (void *)&end, sizeof end))
        printf("connect to %d: %s\n", port, strerror(errno)), exit(1);
    dprintf(one, "%d %d\n", OWN, calls);
    close(one);
}

// Serves calls until so many came or the time is over: how many were whole.
static int serve(int listener, int calls, int keeps) {
    int good = 0;
    double end = seconds() + SECONDS;
    while (good < calls && seconds() < end) {
        struct pollfd look = {listener, POLLIN, 0};
        if (poll(&look, 1, 1000) < 1)
            continue;
        int one = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (one < 0)
            continue;
        char line[8] = "";
        look = (struct pollfd){one, POLLIN, 0};
        good += poll(&look, 1, 5000) == 1 && recv(one, line, 7, 0) == 7 && !memcmp(line, "called\n", 7);
        // One that is half-closed stays; the others end here first.
        if (!keeps)
            close(one);
    }
    return good;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sockaddr_in here = end_of("0.0.0.0", OWN);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), good = 0;
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 128))
        printf("listener: %s\n", strerror(errno));
    ask(CALLER, CALLS);
    printf("without a flood: %d of %d\n", serve(listener, CALLS, 0), CALLS);
    // Connections that stay half-closed: the peer has ended its side.
    ask(CALLER, CALLS);
    printf("half-closed: %d of %d\n", serve(listener, CALLS, 1), CALLS);
    // Slow ones of its own machine, which say nothing.
    for (int each = 0; each < SLOW; each++) {
        struct sockaddr_in own = end_of("127.0.0.1", OWN);
        if (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&own, sizeof own))
            printf("slow: %s\n", strerror(errno)), exit(1);
        if (accept(listener, NULL, NULL) < 0)
            printf("slow, accepted: %s\n", strerror(errno)), exit(1);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        ask(FLOODER, CALLS);
        good += serve(listener, CALLS, 0);
    }
    printf("flooded: %s of the good clients\n", good * 10 >= CALLS * TURNS * 9 ? "nine tenths or more" : "less than nine tenths");
    if (good * 10 < CALLS * TURNS * 9)
        printf("%d of %d\n", good, CALLS * TURNS);
    return 0;
}
