// SIGURG: the owner of a stream's socket gets it when urgent data comes, with the flag O_ASYNC or without.
#include "../internet.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t urgent, plain, by_kernel;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    if (signal == SIGURG) urgent++, by_kernel = information->si_code == SI_KERNEL;
    else plain++;
}

static void await(volatile sig_atomic_t *count) {
    for (int turn = 0; turn < 2000 && !*count; turn++) usleep(1000);
}

static void say(const char *what, int socket) {
    char byte = '-';
    long got = recv(socket, &byte, 1, MSG_OOB);
    printf("  %s: urgent %d, by the kernel %d, plain %d, byte %ld %c\n", what, urgent > 0, by_kernel, plain > 0, got, byte);
    urgent = plain = by_kernel = 0;
}

static void *send_later(void *socket) {
    usleep(30000);
    send(*(int *)socket, "z", 1, MSG_OOB);
    return 0;
}

static void owners(void) {
    int ends[2];
    connection(ends);
    send(ends[0], "a", 1, MSG_OOB);
    usleep(20000);
    say("without an owner", ends[1]);
    printf("  owner %s\n", said(fcntl(ends[1], F_SETOWN, getpid())));
    send(ends[0], "plain", 5, 0);
    usleep(20000);
    printf("  plain data: urgent %d, plain %d\n", urgent, plain);
    send(ends[0], "b", 1, MSG_OOB);
    await(&urgent);
    say("with an owner", ends[1]);
    fcntl(ends[1], F_SETFL, fcntl(ends[1], F_GETFL) | O_ASYNC);
    send(ends[0], "c", 1, MSG_OOB);
    await(&urgent), await(&plain);
    say("asynchronous", ends[1]);
    fcntl(ends[1], F_SETSIG, SIGRTMIN);
    send(ends[0], "d", 1, MSG_OOB);
    await(&urgent);
    urgent = 0;
    fcntl(ends[1], F_SETFL, fcntl(ends[1], F_GETFL) & ~O_ASYNC);
    pthread_t thread;
    pthread_create(&thread, 0, send_later, &ends[0]);
    struct timespec time = {10, 0};
    printf("  a sleeper is woken: %d\n", nanosleep(&time, 0) != 0);
    pthread_join(thread, 0);
    await(&urgent);
    say("asleep", ends[1]);
    pid_t child = fork();
    if (!child) usleep(20000), send(ends[0], "e", 1, MSG_OOB), _exit(0);
    while (!urgent && usleep(1000) == 0) {}
    waitpid(child, 0, 0);
    await(&urgent);
    say("from a child", ends[1]);
    printf("  nobody %s\n", said(fcntl(ends[1], F_SETOWN, 0)));
    send(ends[0], "f", 1, MSG_OOB);
    usleep(20000);
    say("no owner again", ends[1]);
    close(ends[0]), close(ends[1]);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    begin();
    sigaction(SIGURG, &action, 0), sigaction(SIGIO, &action, 0), sigaction(SIGRTMIN, &action, 0);
    sigset_t no_child;
    sigemptyset(&no_child), sigaddset(&no_child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &no_child, 0);
    BOTH_FAMILIES owners();
    return 0;
}
