/* Pages that come with the first touch, and copies that come with the first write after a fork: in sparse memory, under threads on all
 * CPUs, in memory that moves between two writes, and where there is no more memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

#define CHECK(condition)                                                                         \
	do {                                                                                     \
		if (!(condition)) {                                                              \
			printf("line %d: %s (%s)\n", __LINE__, #condition, strerror(errno));     \
			fflush(stdout);                                                          \
			_exit(1);                                                                \
		}                                                                                \
	} while (0)

static char *map(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static volatile uint64_t *word(char *region, size_t page)
{
	return (volatile uint64_t *)(region + page * PAGE + page % 512 * 8);
}

static int status_of(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

/* One page here and one there, so that each has tables of its own, or shares one with a page far from it. */
static void sparse(void)
{
	enum { COUNT = 200 };
	size_t bytes = 40ul << 30, places[COUNT];
	char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* As much at once is more than this machine has: parts are mapped, side by side. */
	size_t part = region == MAP_FAILED ? 64 * MIB : bytes;
	if (region == MAP_FAILED) {
		bytes = 6ul << 30;
		region = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		CHECK(region != MAP_FAILED);
		for (size_t at = 0; at < bytes; at += part)
			CHECK(mprotect(region + at, part, PROT_READ | PROT_WRITE) == 0);
	}
	uint64_t seed = 1;
	for (int i = 0; i < COUNT; i++) {
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
		/* Every fourth lies beside the one before. */
		places[i] = i % 4 == 3 ? (places[i - 1] + 1) % (bytes / PAGE) : (seed >> 20) % (bytes / PAGE);
	}
	for (int i = 0; i < COUNT; i++)
		*word(region, places[i]) += 1;
	for (int round = 0; round < 2; round++) {
		pid_t child = fork();
		CHECK(child >= 0);
		for (int i = round; i < COUNT; i += 2)
			*word(region, places[i]) += 10;
		for (int i = 0; i < COUNT; i++) {
			uint64_t found = *word(region, places[i]);
			CHECK(found % 10 >= 1 && found >= 1 + (i % 2 == round) * 10ul);
		}
		if (child == 0)
			_exit(0);
		CHECK(status_of(child) == 0);
	}
	for (int i = 0; i < COUNT; i += 2) {
		char *page = region + places[i] * PAGE;
		CHECK(madvise(page, PAGE, MADV_DONTNEED) == 0);
		CHECK(*word(region, places[i]) == 0);
		*word(region, places[i]) = 5;
	}
	for (int i = 0; i < COUNT; i += 2)
		CHECK(*word(region, places[i]) == 5);
	CHECK(munmap(region, bytes) == 0);
	puts("sparse memory");
}

/* From page to page, upwards, downwards, and over pages that are there already: nothing but zeros comes, and nothing twice. */
static void walks(void)
{
	enum { PAGES = 300 };
	char *region = map(PAGES * PAGE);
	for (size_t page = 0; page < PAGES; page += 7)
		*word(region, page) = page + 1;
	for (size_t page = 0; page < PAGES; page++) {
		CHECK(*word(region, page) == (page % 7 ? 0 : page + 1));
		*word(region, page) = page + 1;
	}
	for (size_t page = PAGES; page-- > 0;)
		for (size_t at = 0; at < 512; at++)
			CHECK(((uint64_t *)(region + page * PAGE))[at] == (at == page % 512 ? page + 1 : 0));
	CHECK(munmap(region + 100 * PAGE, 50 * PAGE) == 0);
	CHECK(mmap(region + 100 * PAGE, 50 * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == region + 100 * PAGE);
	for (size_t page = 95; page < 155; page++)
		CHECK(*word(region, page) == (page >= 100 && page < 150 ? 0 : page + 1));
	CHECK(munmap(region, PAGES * PAGE) == 0);
	puts("walks");
}

enum { WRITERS = 3, OWN_PAGES = 24, FORKS = 30 };
static char *shared_by_threads;
static atomic_int stop;

/* Writes its pages over and over. What it wrote last must be there still: no copy may be older than a write. */
static void *write_own_pages(void *argument)
{
	char *own = shared_by_threads + (uintptr_t)argument * OWN_PAGES * PAGE;
	for (uint64_t value = 1; !atomic_load(&stop); value++)
		for (size_t page = 0; page < OWN_PAGES; page++) {
			volatile uint64_t *words = (volatile uint64_t *)(own + page * PAGE);
			CHECK(words[0] == value - 1 && words[511] == value - 1);
			words[0] = value;
			words[511] = value;
		}
	return NULL;
}

/* In a child nothing moves any more, and of each page the first word was written first. */
static void is_still(void)
{
	uint64_t seen[WRITERS * OWN_PAGES];
	for (int round = 0; round < 3; round++)
		for (size_t page = 0; page < WRITERS * OWN_PAGES; page++) {
			volatile uint64_t *words = (volatile uint64_t *)(shared_by_threads + page * PAGE);
			CHECK(words[0] == words[511] || words[0] == words[511] + 1);
			CHECK(round == 0 || seen[page] == words[0]);
			seen[page] = words[0];
		}
	for (size_t page = 0; page < WRITERS * OWN_PAGES; page++)
		*(volatile uint64_t *)(shared_by_threads + page * PAGE) = page;
	for (size_t page = 0; page < WRITERS * OWN_PAGES; page++)
		CHECK(*(volatile uint64_t *)(shared_by_threads + page * PAGE) == page);
	_exit(0);
}

static void forks_under_threads(void)
{
	pthread_t threads[WRITERS];
	pid_t children[FORKS];
	shared_by_threads = map(WRITERS * OWN_PAGES * PAGE);
	for (uintptr_t i = 0; i < WRITERS; i++)
		CHECK(pthread_create(&threads[i], NULL, write_own_pages, (void *)i) == 0);
	for (int i = 0; i < FORKS; i++) {
		CHECK((children[i] = fork()) >= 0);
		if (children[i] == 0)
			is_still();
		/* Some end while others begin. */
		if (i >= 3)
			CHECK(status_of(children[i - 3]) == 0);
	}
	for (int i = FORKS - 3; i < FORKS; i++)
		CHECK(status_of(children[i]) == 0);
	atomic_store(&stop, 1);
	for (int i = 0; i < WRITERS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(munmap(shared_by_threads, WRITERS * OWN_PAGES * PAGE) == 0);
	puts("forks under threads");
}

static void are(char *region, size_t pages, uint64_t odd, uint64_t even)
{
	for (size_t page = 0; page < pages; page++)
		CHECK(*word(region, page) == page + (page % 2 ? odd : even));
}

/* Memory of which a half was copied after a fork moves, grows and shrinks; the other half is still the child's, too. */
static void half_copied_memory_moves(void)
{
	enum { PAGES = 40 };
	int pipes[2];
	char *region = map(PAGES * PAGE), *far = map(2 * PAGES * PAGE);
	for (size_t page = 0; page < PAGES; page++)
		*word(region, page) = page + 100;
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		CHECK(read(pipes[0], &byte, 1) == 1);
		are(region, PAGES, 100, 100);
		for (size_t page = 1; page < PAGES; page += 2)
			*word(region, page) = page + 900;
		char *moved = mremap(region, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far + PAGE);
		CHECK(moved == far + PAGE);
		are(moved, PAGES, 900, 100);
		_exit(0);
	}
	for (size_t page = 0; page < PAGES; page += 2)
		*word(region, page) = page + 500;
	char *moved = mremap(region, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far);
	CHECK(moved == far);
	are(moved, PAGES, 100, 500);
	CHECK(*word(moved, PAGES) == 0);
	for (size_t page = 0; page < PAGES; page++)
		*word(moved, page) = page + 700;
	CHECK(write(pipes[1], "x", 1) == 1);
	CHECK(status_of(child) == 0);
	are(moved, PAGES, 700, 700);
	CHECK(mremap(moved, 2 * PAGES * PAGE, PAGES / 2 * PAGE, 0) == moved);
	are(moved, PAGES / 2, 700, 700);
	CHECK(munmap(moved, PAGES / 2 * PAGE) == 0);
	CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
	puts("half-copied memory moves");
}

/* A limit refuses what is asked for, not what is there. */
static void limits(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char *region = map(8 * MIB);
		struct rlimit most = { 1, 1 };
		CHECK(setrlimit(RLIMIT_AS, &most) == 0);
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
		CHECK(mremap(region, 8 * MIB, 9 * MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
		for (size_t page = 0; page < 8 * MIB / PAGE; page++)
			*word(region, page) = page;
		pid_t grandchild = fork();
		CHECK(grandchild >= 0);
		for (size_t page = 0; page < 8 * MIB / PAGE; page++)
			*word(region, page) += 1;
		if (grandchild == 0)
			_exit(0);
		CHECK(status_of(grandchild) == 0);
		_exit(0);
	}
	CHECK(status_of(child) == 0);
	puts("limits");
}

/* Takes pages until there are none: by fresh ones, or by copies. */
static void take_all(int by_copies)
{
	size_t part = 32 * MIB;
	if (by_copies) {
		char *region = map(part);
		for (size_t page = 0; page < part / PAGE; page++)
			*word(region, page) = 1;
		while (1) {
			pid_t child = fork();
			if (child < 0)
				_exit(2);
			/* The parent stays and keeps the old pages; each child needs as many again. */
			if (child != 0) {
				int status = status_of(child);
				_exit(WIFSIGNALED(status) ? 3 : WEXITSTATUS(status));
			}
			for (size_t page = 0; page < part / PAGE; page++)
				*word(region, page) += 1;
		}
	}
	while (1) {
		char *region = mmap(NULL, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (region == MAP_FAILED)
			_exit(2);
		for (size_t page = 0; page < part / PAGE; page++)
			*word(region, page) = 1;
	}
}

/* Who wants more than there is is ended, or refused, and what it had is there again. */
static void no_more_memory(void)
{
	for (int by_copies = 0; by_copies < 2; by_copies++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			take_all(by_copies);
		int status = status_of(child);
		int was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		CHECK(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) >= 2));
		char *region = map(64 * MIB);
		for (size_t page = 0; page < 64 * MIB / PAGE; page++)
			*word(region, page) += page;
		CHECK(munmap(region, 64 * MIB) == 0);
	}
	puts("no more memory");
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	sparse();
	walks();
	forks_under_threads();
	half_copied_memory_moves();
	limits();
	no_more_memory();
	return 0;
}
