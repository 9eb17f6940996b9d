// A thread closes, while another one forks, what the child may have: the child has it open, or not at all.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 100, FORKS_TAKE = 200000 };

static atomic_int turn, taken, done;
static int closed[2];

// Closes the two descriptors of each turn, at another moment of the fork each time.
static void *closes(void *unused)
{
	unsigned seed = 1;
	for (int seen = 0; !done;) {
		if (turn == seen) {
			sched_yield();
			continue;
		}
		seen = turn;
		seed = seed * 1103515245 + 12345;
		for (unsigned wait = seed >> 8; wait % FORKS_TAKE; wait--) __asm__ volatile("");
		close(closed[0]);
		close(closed[1]);
		taken = seen;
	}
	return unused;
}
// The child says by its status which of the two it has: 1, 2.
static int child(const int have[2], int is_file)
{
	char byte = 'x';
	int status = write(have[0], &byte, 1) == 1 ? 1 : errno == EBADF ? 0 : 4;
	errno = 0;
	long got = is_file ? pwrite(have[1], &byte, 1, 0) : write(have[1], &byte, 1);
	return status | (got == 1 ? 2 : errno == EBADF ? 0 : 8);
}
static void rounds(const char *name, int sockets, int is_file)
{
	int wrong = 0;
	for (int round = 0; round < ROUNDS; round++) {
		int pipes[2][2], status;
		char path[] = "/tmp/closed-beside-XXXXXX", bytes[4];
		for (int index = 0; index < 2; index++)
			if (sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, pipes[index]) : pipe(pipes[index])) exit(1);
		if (is_file) {
			close(pipes[1][1]);
			pipes[1][1] = mkstemp(path);
			unlink(path);
		}
		closed[0] = pipes[0][1], closed[1] = pipes[1][1];
		turn++;
		int made = fork();
		if (made == 0) _exit(child(closed, is_file));
		while (taken != turn) sched_yield();
		if (made < 0 || waitpid(made, &status, 0) != made || !WIFEXITED(status)) exit(2);
		int has = WEXITSTATUS(status);
		for (int index = 0; index < 2 - is_file; index++)
			if (read(pipes[index][0], bytes, 4) != (has >> index & 1)) wrong++;
		if (has > 3) wrong++;
		close(pipes[0][0]), close(pipes[1][0]);
	}
	printf("%s: %d wrong\n", name, wrong);
	fflush(stdout);
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, closes, NULL);
	rounds("pipes", 0, 0);
	rounds("sockets", 1, 0);
	rounds("a pipe and a file", 0, 1);
	done = 1;
	pthread_join(thread, NULL);
	return 0;
}
