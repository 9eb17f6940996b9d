// A set of semaphores is removed as soon as its waiters may run: an operation that the last change permitted has
// happened, all others get EIDRM. Several waiters get theirs in the order in which they came.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

static int set;
static int change(int number, int by, int flags)
{
	struct sembuf one = {number, by, flags};
	return semop(set, &one, 1);
}
static pid_t waits(int number, int by)
{
	pid_t child = fork();
	if (child == 0) _exit(change(number, by, 0) == 0 ? 0 : errno);
	return child;
}
static void settles(int number, int waiting)
{
	for (int look = 0; look < 5000 && semctl(set, number, GETNCNT) + semctl(set, number, GETZCNT) != waiting; look++) usleep(1000);
}
static const char *ended(pid_t child)
{
	int status;
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? "killed" : WEXITSTATUS(status) ? strerrorname_np(WEXITSTATUS(status)) : "done";
}
static void makes(void)
{
	set = semget(IPC_PRIVATE, 2, 0600);
	if (set < 0) printf("semget: %d\n", errno), exit(1);
}
static void nothing(int signal) { (void)signal; }

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	int lost = 0;
	for (int round = 0; round < 40; round++) {
		makes();
		pid_t child = waits(0, -1);
		settles(0, 1);
		change(0, 1, 0), semctl(set, 0, IPC_RMID);
		lost += strcmp(ended(child), "done") != 0;
	}
	printf("lost: %d\n", lost);
	makes();
	pid_t all[4];
	for (int at = 0; at < 4; at++) all[at] = waits(0, -1), settles(0, at + 1);
	change(0, 2, 0), semctl(set, 0, IPC_RMID);
	for (int at = 0; at < 4; at++) printf("waiter %d: %s\n", at, ended(all[at]));
	makes(), change(0, 1, 0), change(1, 3, 0);
	pid_t zero = waits(0, 0), both = fork();
	if (both == 0) {
		struct sembuf two[] = {{0, -1, 0}, {1, -4, 0}};
		_exit(semop(set, two, 2) == 0 ? 0 : errno);
	}
	settles(0, 1), settles(1, 1);
	change(1, 1, 0), semctl(set, 0, IPC_RMID);
	printf("two at once: %s\nfor zero: %s\n", ended(both), ended(zero));
	makes();
	pid_t set_all = waits(1, -5);
	settles(1, 1);
	semctl(set, 1, SETVAL, 7), printf("by SETVAL: %s, ", ended(set_all));
	printf("left %d\n", semctl(set, 1, GETVAL));
	pid_t undone = waits(0, -1);
	settles(0, 1);
	pid_t debtor = fork();
	if (debtor == 0) change(1, -1, SEM_UNDO), change(0, 0, SEM_UNDO), _exit(0);
	printf("debtor: %s, ", ended(debtor));
	printf("left %d\n", semctl(set, 1, GETVAL));
	pid_t dead = waits(0, -1);
	settles(0, 2), kill(dead, SIGKILL), printf("dead: %s\n", ended(dead));
	change(0, 1, 0), printf("living: %s, ", ended(undone));
	printf("left %d\n", semctl(set, 0, GETVAL));
	struct sigaction action = {.sa_handler = nothing};
	sigaction(SIGALRM, &action, NULL);
	alarm(1);
	int result = change(0, -1, 0);
	printf("interrupted: %d %s\n", result, strerrorname_np(errno));
	printf("waiting: %d\n", semctl(set, 0, GETNCNT));
	struct sembuf one = {0, -1, 0};
	result = semtimedop(set, &one, 1, &(struct timespec){0, 1000000});
	printf("late: %d %s\n", result, strerrorname_np(errno));
	pid_t large = fork();
	if (large == 0) {
		struct sembuf two[] = {{0, -1, 0}, {1, 32767, 0}};
		_exit(semop(set, two, 2) == 0 ? 0 : errno);
	}
	settles(0, 1), change(0, 1, 0), printf("too large: %s\n", ended(large));
	semctl(set, 0, IPC_RMID);
	return 0;
}
