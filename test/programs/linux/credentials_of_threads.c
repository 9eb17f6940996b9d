// Credentials of one thread (credentials(7)): a bare system call changes those of the calling thread alone. Files, signals,
// /proc, forks, threads that it makes, and what it executes follow them; the other threads keep theirs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t turn;
static pid_t victim, changed;

static const char *outcome(long value) { return value < 0 ? strerrorname_np(errno) : "ok"; }

static long reads(const char *path) {
	char bytes[8];
	int file = open(path, O_RDONLY);
	if (file < 0) return -1;
	long got = read(file, bytes, sizeof bytes);
	close(file);
	return got;
}
static void lines(const char *path) {
	char line[200];
	FILE *file = fopen(path, "r");
	if (!file) return (void)printf("%s\n", outcome(-1));
	while (fgets(line, sizeof line, file))
		if (!strncmp(line, "Uid", 3) || !strncmp(line, "Gid", 3) || !strncmp(line, "Groups", 6)) printf("  %s", line);
		else if (!strncmp(line, "CapEff", 6)) printf("  %s\n", strtoull(line + 7, NULL, 16) ? "capable" : "not capable");
	fclose(file);
}
static void show(const char *name) {
	uid_t users[3];
	gid_t groups[20];
	getresuid(users, users + 1, users + 2);
	printf("%s: users %d %d %d group %d, %d groups\n", name, users[0], users[1], users[2], getegid(), getgroups(20, groups));
	errno = 0, printf("  secret %s", outcome(reads("secret")));
	errno = 0, printf(", of user %s", outcome(reads("of-user")));
	errno = 0, printf(", again %s", outcome(reads("secret")));
	errno = 0, printf(", access %s", outcome(access("secret", R_OK)));
	int made = open("made", O_CREAT | O_EXCL | O_WRONLY, 0600);
	struct stat status = {0};
	errno = 0, printf(", made %s", outcome(made));
	if (made >= 0) fstat(made, &status), unlink("made"), close(made), printf(" by %d.%d", status.st_uid, status.st_gid);
	errno = 0, printf(", kill %s", outcome(kill(victim, 0)));
	errno = 0, printf(", chown %s", outcome(chown("plain", 0, 0)));
	errno = 0, printf(", setgroups %s\n", outcome(syscall(SYS_setgroups, 2, (gid_t[]){7, 8})));
	fflush(stdout);
}
static void *of_changed(void *argument) {
	show(argument);
	return NULL;
}
static void *run(void *argument) {
	(void)argument;
	char path[100];
	changed = gettid();
	syscall(SYS_setgroups, 1, (gid_t[]){50});
	syscall(SYS_setresgid, 1000, 1000, 1000);
	printf("changes: %s\n", outcome(syscall(SYS_setresuid, 1000, 1000, 1000)));
	show("changed");
	printf("back: %s\n", outcome(syscall(SYS_setresuid, 0, 0, 0)));
	pthread_t further;
	pthread_create(&further, NULL, of_changed, "its thread");
	pthread_join(further, NULL);
	fflush(stdout);
	if (fork() == 0) {
		show("its child");
		printf("  back: %s\n", outcome(setresuid(0, 0, 0)));
		fflush(stdout);
		if (fork() == 0) show("its grandchild"), _exit(0);
		wait(NULL);
		execl("/proc/self/exe", "self", "executed", (char *)NULL);
		_exit(1);
	}
	wait(NULL);
	sprintf(path, "/proc/self/task/%d/status", changed);
	lines(path);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	return NULL;
}
static void *on_files(void *argument) {
	(void)argument;
	printf("setfsuid %ld", syscall(SYS_setfsuid, 1000));
	printf(" %ld", syscall(SYS_setfsuid, -1));
	errno = 0, printf(", secret %s\n", outcome(reads("secret")));
	return NULL;
}
static void *executes(void *argument) {
	(void)argument;
	syscall(SYS_setresuid, 1000, 1000, 1000);
	execl("/proc/self/exe", "self", "executed", (char *)NULL);
	return NULL;
}
static void *waits(void *argument) {
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	show(argument);
	return NULL;
}
static void *keeps(void *argument) {
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	printf("keeps: secret %s\n", outcome(reads("secret")));
	return argument;
}
int main(int count, char **arguments) {
	if (count > 1) return show(arguments[1]), lines("/proc/self/status"), 0;
	if (getuid() != 0) return puts("not user 0"), 1;
	setbuf(stdout, NULL);
	if (mkdir("/tmp/credentials", 0777) || chdir("/tmp/credentials")) return 1;
	chmod(".", 0777);
	umask(0);
	close(open("secret", O_CREAT | O_RDWR, 0600));
	close(open("plain", O_CREAT | O_RDWR, 0666));
	close(open("of-user", O_CREAT | O_RDWR, 0600));
	chown("of-user", 1000, 1000);
	syscall(SYS_setgroups, 0, NULL);
	if ((victim = fork()) == 0) pause(), _exit(0);
	pthread_barrier_init(&turn, NULL, 2);
	pthread_t one;
	pthread_create(&one, NULL, run, NULL);
	pthread_barrier_wait(&turn);
	show("first");
	lines("/proc/self/status");
	if (fork() == 0) show("child of the first"), _exit(0);
	wait(NULL);
	pthread_barrier_wait(&turn);
	pthread_join(one, NULL);
	show("without it");
	pthread_create(&one, NULL, on_files, NULL);
	pthread_join(one, NULL);
	printf("setfsuid of the first: %ld\n", syscall(SYS_setfsuid, -1));
	fflush(stdout);

	// The first changes, another thread does not.
	if (fork() == 0) {
		pthread_create(&one, NULL, keeps, NULL);
		pthread_barrier_wait(&turn);
		syscall(SYS_setresuid, 1000, 1000, 1000);
		show("first changed");
		pthread_barrier_wait(&turn);
		pthread_join(one, NULL);
		show("left alone");
		printf("back: %s\n", outcome(syscall(SYS_setresuid, 0, 0, 0)));
		_exit(0);
	}
	wait(NULL);
	// All threads change by the C library.
	if (fork() == 0) {
		pthread_create(&one, NULL, waits, "other of all");
		pthread_barrier_wait(&turn);
		printf("all: %s", outcome(setresgid(1000, 1000, 1000)));
		printf(" %s\n", outcome(setresuid(1000, 1000, 1000)));
		pthread_barrier_wait(&turn);
		pthread_join(one, NULL);
		show("first of all");
		_exit(0);
	}
	wait(NULL);
	if (fork() == 0) {
		pthread_create(&one, NULL, executes, NULL);
		pthread_join(one, NULL);
		_exit(1);
	}
	wait(NULL);
	show("last");
	kill(victim, SIGKILL);
	return 0;
}
