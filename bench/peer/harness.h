/*
 * How every program of this folder measures and reports.
 *
 * The programs are written for Linux and run unmodified there and under ExOS. Each reports lines that begin with
 * "bench: "; `./chitin bench` reads them:
 *
 *     bench: calibration TICKS         what the loop of known length took by the time stamp counter
 *     bench: figure NAME N T1 T2 ...   N operations took T1, again T2, ...; instructions or nanoseconds
 *     bench: absent NAME WHY           this system cannot do it
 *
 * On the counting clock the time stamp counter counts the instructions of the machine, and the calibration loop takes
 * exactly CALIBRATION of them: that is how a program knows which clock it has. Otherwise it reports nanoseconds. What
 * measuring nothing takes is reported first, as "overhead"; the reader subtracts it.
 *
 * Each sample stands between two marks, instructions that do nothing and that bench/plugin/events.c looks for.
 */
#include "checked.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Instructions from one reading of the counter to the next, the second included, with 100,000 rounds between. */
#define CALIBRATION 200003
#define SAMPLES 11
/* Nanoseconds that a sample takes at least by the wall clock. */
#define SHORTEST_SAMPLE 1000000
/* Even of nothing. */
#define MOST_ROUNDS (1 << 24)

/* The marks: a NOP whose displacement is one of three numbers. The third says that all samples of a figure are made. */
#define MARK_BEGIN() asm volatile(".byte 0x0f, 0x1f, 0x80, 0x01, 0x42, 0x48, 0x43" ::: "memory")
#define MARK_END() asm volatile(".byte 0x0f, 0x1f, 0x80, 0x02, 0x42, 0x48, 0x43" ::: "memory")
#define MARK_FIGURE() asm volatile(".byte 0x0f, 0x1f, 0x80, 0x03, 0x42, 0x48, 0x43" ::: "memory")

typedef void operation(void);

static int counting;

static inline uint64_t ticks(void)
{
	uint32_t low, high;
	asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

static uint64_t now(void)
{
	struct timespec time;
	if (counting)
		return ticks();
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The loop of known length: CALIBRATION instructions by the counting clock, any number by another. */
static uint64_t calibration_loop(void)
{
	uint32_t low, high, first;
	asm volatile("rdtsc\n\tmov %%eax, %2\n\tmov $100000, %%ecx\n1:\tdec %%ecx\n\tjnz 1b\n\trdtsc"
		     : "=a"(low), "=d"(high), "=&r"(first)::"rcx", "memory");
	return low - first;
}

static void nothing(void)
{
}

static uint64_t sample(operation *body, uint64_t rounds)
{
	uint64_t begun, ended;
	MARK_BEGIN();
	begun = now();
	for (uint64_t round = 0; round < rounds; round++)
		body();
	ended = now();
	MARK_END();
	return ended - begun;
}

/* Rounds of `body` that make one sample long enough for the wall clock. */
static uint64_t rounds_of(operation *body)
{
	uint64_t rounds = 1;
	if (counting)
		return 1;
	for (;;) {
		uint64_t begun = now(), taken;
		for (uint64_t round = 0; round < rounds; round++)
			body();
		taken = now() - begun;
		if (taken >= SHORTEST_SAMPLE || rounds >= MOST_ROUNDS)
			return rounds;
		rounds *= 2;
	}
}

/* Measures `body`, which does `operations` of what `name` says; `before`, which is not measured, runs before each
 * sample, which then is one round. */
static void measure_after(operation *before, const char *name, uint64_t operations, operation *body)
{
	uint64_t samples[SAMPLES], rounds;
	if (before)
		before();
	body();
	rounds = before ? 1 : rounds_of(body);
	for (int index = 0; index < SAMPLES; index++) {
		if (before)
			before();
		samples[index] = sample(body, rounds);
	}
	MARK_FIGURE();
	printf("bench: figure %s %lu", name, (unsigned long)(operations * rounds));
	for (int index = 0; index < SAMPLES; index++)
		printf(" %lu", (unsigned long)samples[index]);
	printf("\n");
	fflush(stdout);
}

__attribute__((unused)) static void measure(const char *name, uint64_t operations, operation *body)
{
	measure_after(NULL, name, operations, body);
}

__attribute__((unused)) static void absent(const char *name, const char *why)
{
	printf("bench: absent %s %s\n", name, why);
	fflush(stdout);
}

/* The first thing in every program: which clock is this, and what does measuring take? */
static void begin(void)
{
	uint64_t least = UINT64_MAX;
	for (int index = 0; index < 5; index++) {
		uint64_t taken = calibration_loop();
		least = taken < least ? taken : least;
	}
	counting = least == CALIBRATION;
	printf("bench: calibration %lu\n", (unsigned long)least);
	measure_after(nothing, "overhead", 1, nothing);
}
