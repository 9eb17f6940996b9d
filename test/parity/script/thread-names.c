// Names of threads (PR_SET_NAME, pthread_setname_np of oneself and of others): a process bears the name of its first thread, a
// thread begins with its maker's, and a child of a thread bears that one's.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t turn;
static pid_t numbers[3];

static void show(const char *what, const char *path) {
    char name[100] = {0};
    int file = open(path, O_RDONLY);
    ssize_t got = read(file, name, sizeof name - 1);
    close(file);
    printf("%s: %zd %s", what, got, got > 0 ? name : "\n");
}
static void show_all(const char *what) {
    char path[100], own[17] = {0};
    puts(what);
    prctl(PR_GET_NAME, own);
    printf("own: %s\n", own);
    show("self", "/proc/self/comm");
    show("thread-self", "/proc/thread-self/comm");
    for (int i = 0; i < 3; i++) {
        sprintf(path, "/proc/self/task/%d/comm", numbers[i]);
        show("task", path);
    }
}

static void *run(void *argument) {
    long which = (long)argument;
    numbers[which] = gettid();
    char name[17] = {0};
    prctl(PR_GET_NAME, name);
    if (which == 1) printf("begins as %s\n", name);
    pthread_barrier_wait(&turn);
    if (which == 1) prctl(PR_SET_NAME, "first-worker-with-a-long-name");
    pthread_barrier_wait(&turn);
    if (which == 1) {
        show_all("in a thread");
        fflush(stdout);
        if (fork() == 0) {
            show("child", "/proc/self/comm");
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
    }
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    prctl(PR_SET_NAME, "maker");
    numbers[0] = getpid();
    pthread_barrier_init(&turn, NULL, 3);
    for (long i = 1; i < 3; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    char name[16] = {0};
    printf("%d ", pthread_setname_np(threads[2], "by another"));
    printf("%d %s\n", pthread_getname_np(threads[2], name, sizeof name), name);
    printf("%d ", pthread_getname_np(threads[1], name, sizeof name));
    printf("%s, too long %d\n", name, pthread_setname_np(threads[2], "sixteen letters!"));
    pthread_setname_np(pthread_self(), "main");
    show_all("in the first");
    pthread_barrier_wait(&turn);
    for (int i = 1; i < 3; i++) pthread_join(threads[i], NULL);
    fflush(stdout);
    char command[100];
    sprintf(command, "cut -d' ' -f2 /proc/%d/stat; head -1 /proc/%d/status", getpid(), getpid());
    return system(command);
}
