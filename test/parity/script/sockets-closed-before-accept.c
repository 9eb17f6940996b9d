// A listener closes while processes sleep over connections that no process has accepted: each is told.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 40, CLIENTS = 3 };
static const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "listener"};

static void wait_for_an_answer(int tells) {
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    char byte = 'x';
    if (connect(one, (const void *)&name, sizeof name) || write(tells, &byte, 1) != 1) _exit(2);
    long got = read(one, &byte, 1);
    _exit(got == 0 || errno == ECONNRESET ? 0 : 3);
}

static int round_of(int number) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), ready[2], told = 0;
    char byte;
    unlink(name.sun_path);
    if (bind(listener, (const void *)&name, sizeof name) || listen(listener, CLIENTS) || pipe(ready)) abort();
    for (int i = 0; i < CLIENTS; i++)
        if (!fork()) close(listener), wait_for_an_answer(ready[1]);
    for (int i = 0; i < CLIENTS; i++)
        if (read(ready[0], &byte, 1) != 1) abort();
    usleep(number % 7 * 300);
    close(listener), close(ready[0]), close(ready[1]);
    for (int i = 0, status; i < CLIENTS; i++) told += wait(&status) > 0 && status == 0;
    return told;
}

int main(void) {
    int told = 0;
    for (int i = 0; i < ROUNDS; i++) told += round_of(i);
    printf("%d of %d were told\n", told, ROUNDS * CLIENTS);
}
