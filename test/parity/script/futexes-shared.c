// A program in C, compiled by the host's compiler, and the same on both sides.
// Futexes in memory that processes share: woken without a change of the word, counted, by bits, moved, with time limits; wrong addresses.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long futex(void *word, int operation, uint32_t value, long fourth, void *second, uint32_t third)
{
	long result = syscall(SYS_futex, word, operation, value, fourth, second, third);
	return result < 0 ? -errno : result;
}

static const char *told(long result)
{
	static char text[4][32];
	static int next;
	char *to = text[next++ % 4];
	if (result < 0) return strerrorname_np(-result);
	snprintf(to, 32, "%ld", result);
	return to;
}

// Wakes until so many were woken in all: who is to wait may not wait yet.
static long wake_in_all(uint32_t *word, int operation, long most, uint32_t bits)
{
	long woken = 0;
	for (int i = 0; i < 20000 && woken < most; i++) {
		long now = futex(word, operation, most - woken, 0, 0, bits);
		if (now < 0) return now;
		woken += now;
		usleep(1000);
	}
	return woken;
}

// Makes children that wait for words, and end with a number that tells how.
static void wait_in_children(int count, uint32_t *word, int operation, uint32_t (*bits)(int))
{
	for (int i = 0; i < count; i++)
		if (!fork()) {
			struct timespec limit = {30, 0};
			long result = futex(word, operation, 0, operation == FUTEX_WAIT ? (long)&limit : 0, 0, bits ? bits(i) : 0);
			_exit(result == 0 ? 10 + i : 1);
		}
}

static void ends(int count)
{
	int sum = 0, status;
	for (int i = 0; i < count; i++) if (wait(&status) > 0 && WIFEXITED(status)) sum += WEXITSTATUS(status);
	printf("ends: %d\n", sum);
}

static uint32_t bit_of(int index) { return 1u << index; }

static uint32_t *anonymous(void) { return mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }

static void counted(uint32_t *word, const char *what)
{
	printf("== %s\n", what);
	wait_in_children(3, word, FUTEX_WAIT, 0);
	printf("woken %s", told(wake_in_all(word, FUTEX_WAKE, 3, 0)));
	printf(", then %s\n", told(futex(word, FUTEX_WAKE, 9, 0, 0, 0)));
	ends(3);
	wait_in_children(3, word, FUTEX_WAIT_BITSET, bit_of);
	printf("by bits %s", told(wake_in_all(word, FUTEX_WAKE_BITSET, 2, 5)));
	printf(", then %s", told(futex(word, FUTEX_WAKE_BITSET, 9, 0, 0, 5)));
	printf(", the last %s\n", told(wake_in_all(word, FUTEX_WAKE, 1, 0)));
	ends(3);
}

static void moved(uint32_t *words)
{
	printf("== moved\n");
	wait_in_children(4, words, FUTEX_WAIT, 0);
	long moved = 0;
	for (int i = 0; i < 20000 && moved < 4; i++) {
		long now = futex(words, FUTEX_CMP_REQUEUE, 0, 4 - moved, words + 1024, 0);
		if (now < 0) break;
		moved += now;
		usleep(1000);
	}
	printf("moved %s, with another value %s", told(moved), told(futex(words, FUTEX_CMP_REQUEUE, 1, 1, words + 1024, 7)));
	printf(", left %s", told(futex(words, FUTEX_WAKE, 9, 0, 0, 0)));
	printf(", there %s", told(futex(words + 1024, FUTEX_WAKE, 1, 0, 0, 0)));
	printf(" and %s\n", told(futex(words + 1024, FUTEX_REQUEUE, 1, 9, words, 0)));
	printf("back %s\n", told(futex(words, FUTEX_WAKE, 9, 0, 0, 0)));
	ends(4);
	wait_in_children(1, words, FUTEX_WAIT, 0);
	usleep(200000);
	int set = FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0);
	printf("changed and woken %s", told(futex(words + 1024, FUTEX_WAKE_OP, 1, 1, words, set)));
	printf(", the word %u\n", words[0]);
	words[0] = 0;
	ends(1);
}

static void refused(uint32_t *word)
{
	printf("== refused\n");
	struct timespec little = {0, 20000000}, wrong = {0, 1000000000};
	printf("another value %s", told(futex(word, FUTEX_WAIT, 1, 0, 0, 0)));
	printf(", time %s, wrong time %s\n", told(futex(word, FUTEX_WAIT, 0, (long)&little, 0, 0)), told(futex(word, FUTEX_WAIT, 0, (long)&wrong, 0, 0)));
	void *none = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *gone = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(gone, 4096);
	printf("nowhere: %s %s", told(futex(gone, FUTEX_WAKE, 1, 0, 0, 0)), told(futex(none, FUTEX_WAKE, 1, 0, 0, 0)));
	printf(" %s %s\n", told(futex(gone, FUTEX_WAIT, 0, 0, 0, 0)), told(futex(none, FUTEX_WAIT, 0, 0, 0, 0)));
	printf("moved to nowhere: %s %s\n", told(futex(word, FUTEX_CMP_REQUEUE, 1, 1, gone, 0)), told(futex(word, FUTEX_CMP_REQUEUE, 1, 1, none, 0)));
	printf("odd address %s", told(futex((char *)word + 2, FUTEX_WAKE, 1, 0, 0, 0)));
	printf(", no bits %s", told(futex(word, FUTEX_WAKE_BITSET, 1, 0, 0, 0)));
	printf(", fewer than none %s", told(futex(word, FUTEX_CMP_REQUEUE, 1, -1, word + 1, 0)));
	printf(", clock %s\n", told(futex(word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, 0, 0, 0)));
}

static void interrupted(int number) { (void)number; }

static void killed(uint32_t *word)
{
	printf("== interrupted and killed\n");
	struct sigaction action = {.sa_handler = interrupted};
	sigaction(SIGUSR1, &action, 0);
	pid_t child = fork();
	if (!child) _exit(futex(word, FUTEX_WAIT, 0, 0, 0, 0) == -EINTR ? 3 : 4);
	usleep(300000);
	kill(child, SIGUSR1);
	ends(1);
	if (!(child = fork())) _exit(futex(word, FUTEX_WAIT, 0, 0, 0, 0) != 0);
	usleep(300000);
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	printf("woken of the dead: %s\n", told(futex(word, FUTEX_WAKE, 9, 0, 0, 0)));
}

// What libraries make of it: a lock, a condition, a barrier and a semaphore of several processes.
struct shared { pthread_mutex_t lock; pthread_cond_t condition; pthread_barrier_t barrier; sem_t semaphore; int turn, sum; };

static void by_library(struct shared *all)
{
	printf("== by the library\n");
	pthread_mutexattr_t of_lock;
	pthread_condattr_t of_condition;
	pthread_barrierattr_t of_barrier;
	pthread_mutexattr_init(&of_lock), pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&of_condition), pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED);
	pthread_barrierattr_init(&of_barrier), pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&all->lock, &of_lock), pthread_cond_init(&all->condition, &of_condition);
	pthread_barrier_init(&all->barrier, &of_barrier, 4), sem_init(&all->semaphore, 1, 0);
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			for (int round = 0; round < 50; round++) {
				pthread_mutex_lock(&all->lock);
				while (all->turn % 3 != i) pthread_cond_wait(&all->condition, &all->lock);
				all->turn++, all->sum += i;
				pthread_cond_broadcast(&all->condition);
				pthread_mutex_unlock(&all->lock);
			}
			pthread_barrier_wait(&all->barrier);
			sem_post(&all->semaphore);
			_exit(0);
		}
	pthread_barrier_wait(&all->barrier);
	for (int i = 0; i < 3; i++) sem_wait(&all->semaphore);
	printf("turns %d, sum %d\n", all->turn, all->sum);
	ends(3);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	uint32_t *words = anonymous();
	counted(words, "anonymous");
	char name[] = "futex-XXXXXX";
	int file = mkstemp(name);
	unlink(name);
	if (ftruncate(file, 8192)) return 1;
	uint32_t *of_file = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	counted(of_file + 512, "of a file");
	moved(words);
	refused(words);
	refused(malloc(64));
	killed(words);
	by_library(mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	return 0;
}
