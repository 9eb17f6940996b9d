/*
 * Two processes that exchange something: exokernel-sosp95 Table 8, xok-exos-sosp97 Table 2, l4linux-sosp97 Table 3. One way is
 * half a round trip; a call is a round trip that comes back with a counter.
 */
#include "harness.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ROUNDS 16
#define PARTIES 5
#define PAGES_OF_8K 8192
#define CHUNK 65536

/* Both directions, as the parent has them. */
static int out[2], back[2];
static char buffer[CHUNK];
/* Shared: odd while it is the child's turn. */
static volatile uint32_t *turn;

static void transfer_all(ssize_t (*call)(int, void *, size_t), int descriptor, size_t size)
{
	for (size_t done = 0; done < size;)
		done += (size_t)checked(call(descriptor, buffer + done, size - done), "pipe");
}

static ssize_t writing(int descriptor, void *bytes, size_t size)
{
	return write(descriptor, bytes, size);
}

/* What the child does until it is killed: sends back what it gets, the first word counted up. */
static void echo(size_t size)
{
	for (;;) {
		transfer_all(read, out[0], size);
		++*(uint64_t *)buffer;
		transfer_all(writing, back[1], size);
	}
}

static void round_trips(size_t size)
{
	for (int round = 0; round < ROUNDS; round++) {
		transfer_all(writing, out[1], size);
		transfer_all(read, back[0], size);
	}
}

static void bytes(void)
{
	round_trips(1);
}

static void words(void)
{
	round_trips(8);
}

static void pages(void)
{
	round_trips(PAGES_OF_8K);
}

static void echo_bytes(void)
{
	echo(1);
}

static void echo_words(void)
{
	echo(8);
}

static void echo_pages(void)
{
	echo(PAGES_OF_8K);
}

/* Takes whole chunks and says so, once for all of a sample. */
static void swallow(void)
{
	for (;;) {
		for (int round = 0; round < ROUNDS; round++)
			transfer_all(read, out[0], CHUNK);
		transfer_all(writing, back[1], 1);
	}
}

static void chunks(void)
{
	for (int round = 0; round < ROUNDS; round++)
		transfer_all(writing, out[1], CHUNK);
	transfer_all(read, back[0], 1);
}

/* A pipe to oneself: what the pipes of a ring cost without the switching. */
static void alone(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		checked(write(out[1], buffer, 1), "write");
		checked(read(out[0], buffer, 1), "read");
	}
}

static void yield_turns(void)
{
	for (;;) {
		while (!(*turn & 1))
			sched_yield();
		++*turn;
	}
}

static void yields(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		++*turn;
		while (*turn & 1)
			sched_yield();
	}
}

static void futex_wait(uint32_t parity)
{
	for (;;) {
		uint32_t seen = *turn;
		if ((seen & 1) == parity)
			return;
		syscall(SYS_futex, turn, FUTEX_WAIT, seen, NULL);
	}
}

static void pass_turn(void)
{
	++*turn;
	syscall(SYS_futex, turn, FUTEX_WAKE, 1);
}

static void futex_turns(void)
{
	for (;;) {
		futex_wait(1);
		pass_turn();
	}
}

static void futexes(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		pass_turn();
		futex_wait(0);
	}
}

/* Waits until all processes have come to the barrier: the last of them wakes the others. */
static void barrier(void)
{
	uint32_t round = turn[1];
	if (__atomic_add_fetch(&turn[0], 1, __ATOMIC_SEQ_CST) == PARTIES) {
		turn[0] = 0;
		__atomic_add_fetch(&turn[1], 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, turn + 1, FUTEX_WAKE, PARTIES);
		return;
	}
	while (turn[1] == round)
		syscall(SYS_futex, turn + 1, FUTEX_WAIT, round, NULL);
}

static void barriers(void)
{
	for (int round = 0; round < ROUNDS; round++)
		barrier();
}

static void barriers_for_ever(void)
{
	for (;;)
		barrier();
}

static void open_pipes(void)
{
	checked(pipe(out), "pipe");
	checked(pipe(back), "pipe");
}

static void close_pipes(void)
{
	for (int end = 0; end < 2; end++) {
		close(out[end]);
		close(back[end]);
	}
}

/* Measures `body` while so many children do `partner`. */
static void with_children(const char *name, int count, uint64_t operations, operation *partner, operation *body)
{
	pid_t children[PARTIES];
	open_pipes();
	*turn = 0;
	for (int index = 0; index < count; index++) {
		children[index] = (pid_t)checked(fork(), "fork");
		if (children[index] == 0) {
			partner();
			_exit(0);
		}
	}
	measure(name, operations, body);
	for (int index = 0; index < count; index++) {
		kill(children[index], SIGKILL);
		waitpid(children[index], NULL, 0);
	}
	close_pipes();
}

static void with_child(const char *name, uint64_t operations, operation *partner, operation *body)
{
	with_children(name, 1, operations, partner, body);
}

int main(void)
{
	begin();
	turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	checked(turn == MAP_FAILED ? -1 : 0, "mmap");
	open_pipes();
	measure("alone", ROUNDS, alone);
	close_pipes();
	with_child("pipe-byte", 2 * ROUNDS, echo_bytes, bytes);
	with_child("pipe-word", 2 * ROUNDS, echo_words, words);
	with_child("pipe-call", ROUNDS, echo_words, words);
	with_child("pipe-8k", 2 * ROUNDS, echo_pages, pages);
	with_child("pipe-64k", ROUNDS, swallow, chunks);
	with_child("yield", 2 * ROUNDS, yield_turns, yields);
	with_child("futex", 2 * ROUNDS, futex_turns, futexes);
	with_children("barrier", PARTIES - 1, ROUNDS, barriers_for_ever, barriers);
	return 0;
}
