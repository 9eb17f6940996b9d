/*
 * User 0 binds a name and listens; a child that becomes another user accepts, as masters and workers of servers do.
 * Users connect before it has become that, and after; with the listening socket inherited, and without. The first one
 * becomes another user while its connection waits. The output is Linux's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_un name = {AF_UNIX, "/tmp/worker"};

static void serve(int listener, int user, int start) {
    char byte, words[64];
    read(start, &byte, 1);
    if (setresuid(user, user, user)) perror("setresuid");
    for (;;) {
        int one = accept(listener, NULL, NULL);
        struct ucred peer;
        socklen_t length = sizeof peer;
        ssize_t got = read(one, words, sizeof words);
        getsockopt(one, SOL_SOCKET, SO_PEERCRED, &peer, &length);
        snprintf(words, sizeof words, "%zd bytes from user %d", got, peer.uid);
        write(one, words, strlen(words));
        close(one);
    }
}

/* Connects in a child; `start`: the server begins once the connection is there and the child is user `later`. */
static void connect_as(int user, int listener, int keeps, int start, int later) {
    fflush(stdout);
    if (fork() == 0) {
        char words[64] = "";
        alarm(20);
        if (!keeps) close(listener);
        if (user && setresuid(user, user, user)) perror("setresuid");
        int one = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(one, (struct sockaddr *)&name, sizeof name)) printf("%s\n", strerrorname_np(errno));
        write(one, "hello", 5);
        if (later && setresuid(later, later, later)) perror("setresuid");
        if (start >= 0) write(start, "", 1);
        ssize_t got = read(one, words, sizeof words - 1);
        printf("user %d, %s: %s\n", user, keeps ? "inherited" : "closed", got < 0 ? strerrorname_np(errno) : words);
        fflush(stdout);
        _exit(0);
    }
    int status;
    wait4(-1, &status, 0, NULL);
    if (WIFSIGNALED(status)) printf("user %d: ended by signal %d\n", user, WTERMSIG(status));
}

static int make_listener(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(name.sun_path);
    bind(listener, (struct sockaddr *)&name, sizeof name);
    chmod(name.sun_path, 0666);
    listen(listener, 5);
    return listener;
}

static void round_of(int listener, int worker, int later) {
    int start[2];
    pipe(start);
    printf("worker %d, the first becomes %d\n", worker, later);
    fflush(stdout);
    pid_t server = fork();
    if (server == 0) serve(listener, worker, start[0]);
    static const int users[] = {0, 33, 1000};
    connect_as(0, listener, 0, start[1], later);
    for (int index = 0; index < 6; index++) connect_as(users[index % 3], listener, index < 3, -1, 0);
    kill(server, SIGKILL);
    int status;
    waitpid(server, &status, 0);
    close(listener), close(start[0]), close(start[1]);
}

/* A daemon: who made the listener has ended. */
static void daemon_round(int worker, int later) {
    int over[2];
    char byte;
    pipe(over);
    if (fork() == 0) {
        int listener = make_listener();
        pid_t maker = getpid();
        if (fork()) _exit(0);
        while (getppid() == maker) usleep(1000);
        round_of(listener, worker, later);
        _exit(0);
    }
    close(over[1]);
    wait(NULL);
    read(over[0], &byte, 1);
    close(over[0]);
}

int main(void) {
    round_of(make_listener(), 33, 0);
    round_of(make_listener(), 33, 33);
    round_of(make_listener(), 33, 1000);
    round_of(make_listener(), 0, 1000);
    daemon_round(33, 1000);
    return 0;
}
