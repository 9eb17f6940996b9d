/*
 * Virtual memory by mprotect and SIGSEGV: exokernel-sosp95 Table 10, after Appel and Li; page faults; mappings of files and
 * files that are read again, of l4linux-sosp97 Table 3.
 */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096
#define PAGES 100
#define SINGLES 16
#define FILE_BYTES (8 << 20)
#define BLOCK 65536

static char *region, *singles[SINGLES], *fresh, *block;
/* The pages of the region in a random order, the same each time. */
static int order[PAGES];
static volatile int turn;
static int file, page_map;

static char *map(size_t size)
{
	char *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	checked(place == MAP_FAILED ? -1 : 0, "mmap");
	return place;
}

static void shuffle(void)
{
	unsigned state = 1;
	for (int index = 0; index < PAGES; index++)
		order[index] = index;
	for (int index = PAGES - 1; index > 0; index--) {
		int other, kept = order[index];
		state = state * 1103515245 + 12345;
		other = (int)(state >> 16) % (index + 1);
		order[index] = order[other];
		order[other] = kept;
	}
}

static void protect(char *place, size_t pages, int protection)
{
	checked(mprotect(place, pages * PAGE, protection), "mprotect");
}

/* Some pages of the region, none beside another: each splits a mapping. */
static void prot1(void)
{
	for (int index = 0; index < SINGLES; index++)
		protect(region + (2 * index + 1) * PAGE, 1, PROT_READ);
}

/* Each page is a mapping of its own, so that nothing has to be split or joined. */
static void singles_writable(void)
{
	for (int index = 0; index < SINGLES; index++)
		protect(singles[index], 1, PROT_READ | PROT_WRITE);
}

static void prot1_alone(void)
{
	for (int index = 0; index < SINGLES; index++)
		protect(singles[index], 1, PROT_READ);
}

static void all_writable(void)
{
	protect(region, PAGES, PROT_READ | PROT_WRITE);
	for (int index = 0; index < PAGES; index++)
		region[index * PAGE] = 1;
}

static void prot100(void)
{
	protect(region, PAGES, PROT_READ);
}

static void unprot100(void)
{
	protect(region, PAGES, PROT_READ | PROT_WRITE);
}

/* Unprotects the page that was written, and protects the one written before it. */
static void exchange(int signal, siginfo_t *information, void *context)
{
	char *page = (char *)((uintptr_t)information->si_addr & -(uintptr_t)PAGE);
	(void)signal;
	(void)context;
	protect(page, 1, PROT_READ | PROT_WRITE);
	protect(region + order[(turn + PAGES - 1) % PAGES] * PAGE, 1, PROT_READ);
}

static void unprotect(int signal, siginfo_t *information, void *context)
{
	(void)signal;
	(void)context;
	protect((char *)((uintptr_t)information->si_addr & -(uintptr_t)PAGE), 1, PROT_READ | PROT_WRITE);
}

static void handle(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	checked(sigaction(SIGSEGV, &action, NULL), "sigaction");
}

static void write_in_order(void)
{
	for (turn = 0; turn < PAGES; turn++)
		*(volatile char *)(region + order[turn] * PAGE) = 2;
}

static void all_but_last_protected(void)
{
	all_writable();
	protect(region, PAGES, PROT_READ);
	protect(region + order[PAGES - 1] * PAGE, 1, PROT_READ | PROT_WRITE);
}

static void appel2(void)
{
	protect(region, PAGES, PROT_READ);
	write_in_order();
}

static void map_fresh(void)
{
	if (fresh)
		munmap(fresh, SINGLES * PAGE);
	fresh = map(SINGLES * PAGE);
	/* The tables are there: only pages are missing. */
	madvise(fresh, SINGLES * PAGE, MADV_NOHUGEPAGE);
	fresh[0] = 1;
}

static void touch_fresh(void)
{
	for (int index = 1; index < SINGLES; index++)
		*(volatile char *)(fresh + index * PAGE) = 1;
}

static pid_t sharer;

/* Makes every page of a region our own. */
static void write_region(char *region_written)
{
	for (int index = 0; index < SINGLES; index++)
		*(volatile char *)(region_written + index * PAGE) = 1;
}

/* A child that has all pages in common with us, and waits. A system may copy for a child at once what was written after the
 * last fork: those pages are made to be others than the ones that are measured. */
static void share(void)
{
	static char *others;
	if (sharer) {
		kill(sharer, SIGKILL);
		waitpid(sharer, NULL, 0);
	}
	if (!others)
		others = map(SINGLES * PAGE);
	write_region(fresh);
	sharer = (pid_t)checked(fork(), "fork");
	if (sharer == 0)
		_exit(0);
	waitpid(sharer, NULL, 0);
	write_region(others);
	sharer = (pid_t)checked(fork(), "fork");
	while (sharer == 0)
		pause();
	fresh[0] = 2;
}

static void dirty(void)
{
	uint64_t entry;
	for (int index = 0; index < SINGLES; index++) {
		off_t place = (off_t)((uintptr_t)(region + order[index] * PAGE) / PAGE * 8);
		checked(pread(page_map, &entry, 8, place), "pagemap");
	}
}

static char *map_file(size_t size)
{
	char *place = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	checked(place == MAP_FAILED ? -1 : 0, "mmap of a file");
	return place;
}

static void map_page(void)
{
	char *place = map_file(PAGE);
	*(volatile char *)place;
	munmap(place, PAGE);
}

static void map_whole(void)
{
	char *place = map_file(FILE_BYTES);
	*(volatile char *)place;
	munmap(place, FILE_BYTES);
}

static void reread(void)
{
	for (int offset = 0; offset < 16 * BLOCK; offset += BLOCK)
		checked(pread(file, block, BLOCK, offset), "pread");
}

static char *whole;

static void mapped_reread(void)
{
	uint64_t sum = 0;
	for (int offset = 0; offset < 16 * BLOCK; offset += 8)
		sum += *(volatile uint64_t *)(whole + offset);
	(void)sum;
}

static void make_file(void)
{
	file = (int)checked(open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0600), "open");
	block = map(BLOCK);
	memset(block, 1, BLOCK);
	for (int done = 0; done < FILE_BYTES; done += BLOCK)
		checked(write(file, block, BLOCK), "write");
}

static void protections(void)
{
	measure_after(all_writable, "prot1", SINGLES, prot1);
	measure_after(singles_writable, "prot1-alone", SINGLES, prot1_alone);
	measure_after(all_writable, "prot100", 1, prot100);
	measure_after(prot100, "unprot100", 1, unprot100);
	handle(exchange);
	measure_after(all_but_last_protected, "appel1", PAGES, write_in_order);
	handle(unprotect);
	measure_after(all_writable, "appel2", PAGES, appel2);
}

static void files(void)
{
	make_file();
	measure("map-4k", 1, map_page);
	measure("map-8m", 1, map_whole);
	measure("reread", 16, reread);
	whole = map_file(FILE_BYTES);
	measure("mapped-reread", 16, mapped_reread);
}

int main(void)
{
	begin();
	region = map(PAGES * PAGE);
	for (int index = 0; index < SINGLES; index++) {
		singles[index] = map(2 * PAGE);
		munmap(singles[index] + PAGE, PAGE);
		singles[index][0] = 1;
	}
	shuffle();
	protections();
	page_map = open("/proc/self/pagemap", O_RDONLY);
	if (page_map < 0)
		absent("dirty", "there is no /proc/self/pagemap");
	else
		measure("dirty", SINGLES, dirty);
	measure_after(map_fresh, "fresh-page", SINGLES - 1, touch_fresh);
	measure_after(share, "cow-page", SINGLES - 1, touch_fresh);
	kill(sharer, SIGKILL);
	waitpid(sharer, NULL, 0);
	files();
	return 0;
}
