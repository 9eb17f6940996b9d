// Who listens closes its ends of connections first, while those that connected still have theirs: what these were made of is
// not its own to give up, and its next children begin with memory that nobody takes from them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 6

static struct sockaddr_un address = {AF_UNIX, "listener"};

static void need(int is_so, const char *what) {
    if (!is_so) {
        perror(what);
        exit(1);
    }
}

// Somebody's child connects, who is no child here, says so, and keeps its end until it is told to end.
static void connected(int told[2]) {
    pid_t child = fork();
    need(child >= 0, "fork of who connects");
    if (child == 0) {
        char end;
        if (fork() != 0) _exit(0);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        need(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        need(write(fd, "x", 1) == 1, "write");
        _exit(read(told[0], &end, 1) != 1);
    }
    need(waitpid(child, NULL, 0) == child, "its parent");
}

// So many children at once: all have begun before the first may end.
static void children(const int hold[2], int count) {
    char byte = 0;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        need(child >= 0, "fork");
        if (child == 0) _exit(read(hold[0], &byte, 1) == 1 ? 7 : 1);
    }
    for (int i = 0; i < count; i++) need(write(hold[1], &byte, 1) == 1, "write to a child");
    for (int i = 0; i < count; i++) {
        int status;
        need(wait(&status) > 0 && WEXITSTATUS(status) == 7, "its end");
    }
}

int main(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    need(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    need(listen(listener, 8) == 0, "listen");
    int hold[2], told[2];
    need(pipe(hold) == 0 && pipe(told) == 0, "the first pipes");
    for (int round = 0; round < 12; round++) {
        int pipe_ends[2], accepted[CONNECTIONS];
        char byte = 0;
        for (int i = 0; i < CONNECTIONS; i++) connected(told);
        for (int i = 0; i < CONNECTIONS; i++) {
            accepted[i] = accept(listener, NULL, NULL);
            need(accepted[i] >= 0 && read(accepted[i], &byte, 1) == 1, "accept");
        }
        for (int i = 0; i < CONNECTIONS; i++) close(accepted[i]);
        usleep(10000);
        for (int i = 0; i < CONNECTIONS; i++) need(write(told[1], &byte, 1) == 1, "write to who connected");
        usleep(50000);
        children(hold, 2 + round % 3);
        need(pipe(pipe_ends) == 0, "another pipe");
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        children(hold, 4);
    }
    puts("all begun, all ended");
    return 0;
}
