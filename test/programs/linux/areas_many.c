// Tens of thousands of areas at once, changed and taken away by single calls: no process is taken for one that keeps its
// CPU because it has many.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREAS = 20000, PAGE = 4096 };

static char *make(void) {
	char *start = mmap(NULL, 2ul * AREAS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (long i = 0; i < AREAS; i++) {
		if (mprotect(start + i * 2 * PAGE, PAGE, PROT_READ | PROT_WRITE)) return printf("area %ld\n", i), start;
		start[i * 2 * PAGE] = 1;
	}
	return start;
}
int main(void) {
	setbuf(stdout, NULL);
	unsigned long bytes = 2ul * AREAS * PAGE;
	char *start = make();
	printf("changed %d", mprotect(start, bytes, PROT_READ));
	long sum = 0;
	for (long i = 0; i < 2 * AREAS; i += 2) sum += start[i * PAGE];
	printf(", sum %ld\n", sum);
	printf("removed %d\n", munmap(start, bytes));
	start = make();
	// A gap in the middle: what lies before it has changed.
	munmap(start + AREAS / 2 * 2 * PAGE, PAGE);
	int outcome = mprotect(start, bytes, PROT_READ);
	printf("with a gap %d %s", outcome, strerrorname_np(errno));
	printf(", before it %d\n", mprotect(start, AREAS / 2 * 2 * PAGE, PROT_READ));
	printf("removed %d\n", munmap(start, bytes));
	return 0;
}
