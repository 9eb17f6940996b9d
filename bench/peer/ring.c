/*
 * A token that goes round between processes by pipes: the context switches of l4linux-sosp97 Table 3. What the pipes cost
 * without switching is the figure "alone" of this program, which the reader subtracts.
 */
#include "harness.h"

#include <signal.h>
#include <sys/wait.h>

#define ROUNDS 8
#define MOST 8

static int pipes[MOST][2];
static int size;

static void pass(int from, int to)
{
	char token;
	checked(read(pipes[from][0], &token, 1), "read");
	checked(write(pipes[to][1], &token, 1), "write");
}

/* The first process begins a round and ends it. */
static void rounds(void)
{
	char token = 0;
	for (int round = 0; round < ROUNDS; round++) {
		checked(write(pipes[1 % size][1], &token, 1), "write");
		checked(read(pipes[0][0], &token, 1), "read");
	}
}

static void ring(const char *name, int processes)
{
	pid_t children[MOST];
	size = processes;
	for (int index = 0; index < size; index++)
		checked(pipe(pipes[index]), "pipe");
	for (int index = 1; index < size; index++) {
		children[index] = (pid_t)checked(fork(), "fork");
		while (children[index] == 0)
			pass(index, (index + 1) % size);
	}
	measure(name, (uint64_t)(ROUNDS * size), rounds);
	for (int index = 1; index < size; index++) {
		kill(children[index], SIGKILL);
		waitpid(children[index], NULL, 0);
	}
	for (int index = 0; index < size; index++) {
		close(pipes[index][0]);
		close(pipes[index][1]);
	}
}

int main(void)
{
	begin();
	ring("alone", 1);
	ring("ring-2", 2);
	ring("ring-8", 8);
	return 0;
}
