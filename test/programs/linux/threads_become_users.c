// Threads while their process becomes another user: what /proc says of it, signals to it, and calls on files.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int told;
static int go[2];

static void handle(int signal) { told = signal; }

static void look(const char *who) {
	char text[4096] = "";
	int file = open("/proc/self/status", O_RDONLY);
	if (file < 0 || read(file, text, sizeof text - 1) < 0) {
		printf("%s: %s\n", who, strerrorname_np(errno));
		return;
	}
	char *line = strstr(text, "Uid:");
	*strchr(line, '\n') = 0;
	close(file);
	int secret = open("/tmp/secret", O_RDONLY);
	printf("%s: %s, secret %s, kill %d\n", who, line, secret < 0 ? strerrorname_np(errno) : "opened", kill(getpid(), 0));
	fflush(stdout);
}

static void *change(void *unused) {
	printf("changed %d\n", setresuid(1000, 1000, 1000));
	look("the thread");
	return unused;
}

static void *await(void *unused) {
	char byte;
	if (read(go[0], &byte, 1) != 1) return NULL;
	look("the other thread");
	return unused;
}

int main(void) {
	pthread_t one, other;
	int status;
	signal(SIGUSR1, handle);
	if (pipe(go)) return 1;
	close(open("/tmp/secret", O_CREAT | O_RDWR, 0600));
	pthread_create(&other, NULL, await, NULL);
	pthread_create(&one, NULL, change, NULL);
	pthread_join(one, NULL);
	look("the first thread");
	if (write(go[1], "x", 1) != 1) return 1;
	pthread_join(other, NULL);
	look("after both");
	if (fork() == 0) _exit(kill(getppid(), SIGUSR1));
	while (!told) usleep(1000);
	wait(&status);
	printf("told by the child %d, status %x\n", told == SIGUSR1, status);
	return 0;
}
