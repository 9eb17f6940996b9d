// Up to 1,048,576 descriptors: duplicated, inherited, kept over execve, listed and closed.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 20, MANY = 20000 };

static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static int listed(void) {
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;
	while (readdir(folder)) count++;
	closedir(folder);
	return count - 3;
}

static void fill(int file) {
	int count = 0;
	while (dup(file) >= 0) count++;
	printf("filled to %d, %s\n", count + file + 1, strerrorname_np(errno));
}

int main(int count, char **arguments) {
	if (count > 1) {
		printf("after execve: %d listed, the last %d, one that execve closes %d\n", listed(), is_open(MOST - 1),
		       is_open(MANY / 2));
		return 0;
	}
	struct rlimit limit = { MOST, MOST }, beyond = { MOST + 1, MOST + 1 };
	int status, file = open("/dev/null", O_RDWR);
	printf("limit %d\n", setrlimit(RLIMIT_NOFILE, &limit));
	printf("beyond %d", setrlimit(RLIMIT_NOFILE, &beyond));
	printf(" %s\n", strerrorname_np(errno));
	printf("last %d", dup2(file, MOST - 1));
	printf(", behind %d", dup2(file, MOST));
	printf(" %s\n", strerrorname_np(errno));
	while (dup(file) < MANY - 1) {}
	fcntl(MANY / 2, F_SETFD, FD_CLOEXEC);
	printf("listed %d\n", listed());
	fflush(stdout);
	if (fork() == 0) {
		printf("the child: the last %d, the others %d\n", is_open(MOST - 1), is_open(MANY - 1));
		fflush(stdout);
		execl("/proc/self/exe", arguments[0], "again", (char *)NULL);
	}
	wait(&status);
	printf("ended %d\n", status);
	printf("to close at execve %d", close_range(1000, 2000, CLOSE_RANGE_CLOEXEC));
	printf(", %d\n", fcntl(1500, F_GETFD));
	printf("closed %d", close_range(file + 1, ~0u, 0));
	printf(", the last %d\n", is_open(MOST - 1));
	fill(file);
	fflush(stdout);
	if (fork() == 0) _exit(!is_open(MOST - 1));
	wait(&status);
	printf("the child has all: %d\n", status);
	return 0;
}
