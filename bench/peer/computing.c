/*
 * Work that waits for nothing, on a machine with two CPUs: by one thread, and by two at once, of which each does as much. The
 * second row is reported for one of two pieces of work: with a CPU for each thread it takes half of the first.
 */
#include <pthread.h>

#include "harness.h"

#define ROUNDS 20000000

static void *work(void *argument)
{
	long rounds = ROUNDS;
	asm volatile("1:\tdec %0\n\tjnz 1b" : "+r"(rounds));
	return argument;
}

static void one(void)
{
	work(NULL);
}

static void two(void)
{
	pthread_t thread;
	checked(-pthread_create(&thread, NULL, work, NULL), "a thread");
	work(NULL);
	checked(-pthread_join(thread, NULL), "its end");
}

int main(void)
{
	begin();
	measure("one-thread", 1, one);
	measure("two-threads", 2, two);
	return 0;
}
