// A sleeper in poll that asks for urgent data, and has a handler of SIGURG: poll reports the data that the signal told
// of, and is seldom interrupted by it. On Linux the signal comes a moment before the data can be seen.
#include "../internet.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 2000 };

static volatile sig_atomic_t signals;

static void handler(int signal) { (void)signal, signals++; }

// An urgent byte for each plain one that comes.
static void answer(int socket) {
    char byte;
    while (recv(socket, &byte, 1, 0) == 1) send(socket, &byte, 1, MSG_OOB);
    _exit(0);
}

int main(void) {
    int ends[2], interrupted = 0, wrong = 0, missing = 0;
    struct sigaction action = {.sa_handler = handler};
    begin();
    family = AF_INET;
    connection(ends);
    if (!fork()) close(ends[1]), answer(ends[0]);
    close(ends[0]);
    sigaction(SIGURG, &action, 0);
    fcntl(ends[1], F_SETOWN, getpid());
    for (int round = 0; round < ROUNDS; round++) {
        char sent = 'a' + round % 26, come = 0;
        struct pollfd look = {ends[1], POLLPRI, 0};
        send(ends[1], &sent, 1, 0);
        int found = poll(&look, 1, 10000);
        if (found < 0) interrupted++, found = poll(&look, 1, 10000);
        wrong += found != 1 || look.revents != POLLPRI;
        missing += recv(ends[1], &come, 1, MSG_OOB) != 1 || come != sent;
    }
    printf("interrupted %s, wrong %d, missing %d", interrupted > ROUNDS / 4 ? "often" : "seldom", wrong, missing);
    printf(", signals %s\n", signals > ROUNDS / 2 ? "came" : "few");
    close(ends[1]);
    wait(0);
    return 0;
}
