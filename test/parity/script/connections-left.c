// Connections that were closed before anybody accepted them, by programs that went on, that ended and that were killed:
// what was sent arrives, then the end; who it was is known; messages keep their borders, and connections their order; what is sent just before the end is read before it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_un name = {.sun_family = AF_UNIX};

static int listener(int kind) {
    int listening = socket(AF_UNIX, kind, 0);
    unlink(name.sun_path);
    if (bind(listening, (void *)&name, sizeof name) || listen(listening, 50)) exit(1);
    return listening;
}
static int connected(int kind) {
    int socket_ = socket(AF_UNIX, kind, 0);
    if (connect(socket_, (void *)&name, sizeof name)) printf("connect: %s\n", strerrorname_np(errno));
    return socket_;
}
static char bytes[100000], other[100000];

static void take(int listening, pid_t who) {
    int open = accept(listening, NULL, NULL);
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    getsockopt(open, SOL_SOCKET, SO_PEERCRED, &peer, &length);
    long got = 0, pieces = 0;
    ssize_t now;
    while ((now = read(open, other + got, sizeof other - got)) > 0) got += now, pieces++;
    printf("accepted %d, its maker is %d %d, read %ld, right %d, then %zd; ", open >= 0, peer.pid == who, peer.uid == getuid(), got, !memcmp(bytes, other, got), now);
    now = write(open, "back", 4);
    printf("back %zd %s\n", now, now < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
    close(open);
}

static void *send_and_close(void *end) {
    if (write(*(int *)end, bytes, 512) != 512) exit(1);
    close(*(int *)end);
    return NULL;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    char folder[] = "/tmp/left-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    strcpy(name.sun_path, "socket");
    for (int i = 0; i < 100000; i++) bytes[i] = i * 7 % 251;
    int listening = listener(SOCK_STREAM);
    static const int counts[] = {0, 5, 4096, 40000};
    for (int i = 0; i < 4; i++) {
        int made = connected(SOCK_STREAM);
        if (write(made, bytes, counts[i]) != counts[i]) return 1;
        close(made);
        take(listening, getpid());
    }
    for (int how = 0; how < 3; how++) {
        pid_t child = fork();
        if (child == 0) {
            int made = connected(SOCK_STREAM);
            if (write(made, bytes, 30000) != 30000) _exit(1);
            if (how == 1) kill(getpid(), SIGKILL);
            if (how == 2) execl("/bin/true", "true", NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        struct pollfd ready = {listening, POLLIN, 0};
        printf("%d ", poll(&ready, 1, 0));
        take(listening, child);
    }
    fflush(stdout);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            char text[20];
            int made = connected(SOCK_STREAM);
            _exit(write(made, text, sprintf(text, "number %d", i)) < 0);
        }
        waitpid(child, NULL, 0);
    }
    for (int i = 0; i < 20; i++) {
        int open = accept(listening, NULL, NULL);
        ssize_t got = read(open, other, sizeof other);
        printf("%.*s, ", (int)got, other);
        close(open);
    }
    fcntl(listening, F_SETFL, O_NONBLOCK);
    int nobody = accept(listening, NULL, NULL);
    printf("then %d %s\n", nobody, strerrorname_np(errno));
    // A child has it still when its maker has closed it.
    int made = connected(SOCK_STREAM), ends[2];
    if (pipe(ends)) return 1;
    fflush(stdout);
    if (fork() == 0) {
        char byte;
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0 || write(made, bytes, 77) != 77) _exit(1);
        _exit(0);
    }
    close(made), close(ends[1]);
    wait(NULL);
    take(listening, getpid());
    // Nobody accepts: whoever listens there next is asked anew.
    close(connected(SOCK_STREAM));
    close(listening);
    listening = listener(SOCK_SEQPACKET);
    made = connected(SOCK_SEQPACKET);
    if (send(made, "one", 3, 0) < 0 || send(made, "two words", 9, 0) < 0 || send(made, "", 0, 0) < 0 || send(made, bytes, 20000, 0) < 0) return 1;
    close(made);
    int open = accept(listening, NULL, NULL);
    for (int i = 0; i < 5; i++) {
        ssize_t got = recv(open, other, sizeof other, 0);
        printf("message of %zd: %.*s\n", got, got < 10 ? (int)got : 0, other);
    }
    // As much as it takes.
    close(open), close(listening);
    listening = listener(SOCK_STREAM);
    made = connected(SOCK_STREAM);
    fcntl(made, F_SETFL, O_NONBLOCK);
    long sent = 0, got = 0;
    for (ssize_t now; (now = send(made, bytes + sent % 251, 512, 0)) > 0;) sent += now;
    close(made);
    open = accept(listening, NULL, NULL);
    for (ssize_t now; (now = read(open, other, 1000)) > 0; got += now)
        if (memcmp(other, bytes + got % 251, now)) puts("something else");
    printf("all of it: %d\n", got == sent && sent > 10000);
    // What is sent just before the end is read before the end.
    int lost = 0;
    for (int i = 0; i < 400; i++) {
        pthread_t sender;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || pthread_create(&sender, NULL, send_and_close, &ends[0])) return 1;
        lost += recv(ends[1], other, sizeof other, 0) != 512;
        pthread_join(sender, NULL);
        close(ends[1]);
    }
    printf("lost: %d\n", lost);
    unlink("socket"), chdir("/"), rmdir(folder);
}
