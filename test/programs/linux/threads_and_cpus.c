/* Two threads that compute have a CPU each, where the machine has two. The argument is how many milliseconds each computes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20 };

/* Which CPU the second thread had. */
static atomic_uint others;

static void fail(const char *what)
{
	printf("%s failed\n", what);
	exit(1);
}

static uint64_t milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static unsigned cpu_after(uint64_t length)
{
	unsigned cpu;
	for (uint64_t end = milliseconds() + length; milliseconds() < end;);
	syscall(SYS_getcpu, &cpu, 0, 0);
	return cpu;
}

static void *run(void *length)
{
	atomic_store(&others, cpu_after(*(uint64_t *)length));
	return 0;
}

int main(int count, char **arguments)
{
	uint64_t length = count > 1 ? strtoul(arguments[1], 0, 10) : 40;
	int has_two = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, 0, run, &length)) fail("a thread");
		unsigned own = cpu_after(length);
		pthread_join(thread, 0);
		if (has_two && own == atomic_load(&others)) fail("one CPU for both");
		/* A thread that has ended has left its CPU when the next one begins. */
		usleep(20000);
	}
	printf("each has a CPU\n");
	return 0;
}
