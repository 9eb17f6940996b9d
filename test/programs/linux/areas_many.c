// Tens of thousands of areas at once, changed and taken away by single calls: no process is taken for one that keeps its
// CPU because it has many.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREAS = 20000, PAGE = 4096 };

static const unsigned long bytes = 2ul * AREAS * PAGE;

static void cut(char *start) {
	for (long i = 0; i < AREAS; i++) {
		if (mprotect(start + i * 2 * PAGE, PAGE, PROT_READ)) printf("area %ld\n", i);
	}
}

// Areas of one file.
static char *make_of_file(void) {
	int file = open("/tmp/areas", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || ftruncate(file, bytes)) return perror("/tmp/areas"), NULL;
	char *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE, file, 0);
	close(file);
	unlink("/tmp/areas");
	cut(start);
	return start;
}

static char *make(void) {
	char *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (long i = 0; i < AREAS; i++) {
		if (mprotect(start + i * 2 * PAGE, PAGE, PROT_READ | PROT_WRITE)) return printf("area %ld\n", i), start;
		start[i * 2 * PAGE] = 1;
	}
	return start;
}
int main(void) {
	setbuf(stdout, NULL);
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
	start = make_of_file();
	printf("of a file: removed %d\n", munmap(start, bytes));
	start = make_of_file();
	printf("of a file: replaced %d", mmap(start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
	cut(start);
	printf(", advised %d", madvise(start, bytes, MADV_DONTNEED) + madvise(start, bytes, MADV_DONTFORK));
	printf(", unlocked %d", munlock(start, bytes));
	printf(", cut %d\n", mremap(start, bytes, PAGE, 0) == start);
	munmap(start, PAGE);
	start = make();
	char *one = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("moved to %d", mremap(one, PAGE, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start);
	printf(", removed %d\n", munmap(start, bytes));
	start = sbrk(bytes + PAGE);
	cut((char *)(((unsigned long)start + PAGE - 1) / PAGE * PAGE));
	printf("heap cut %d\n", brk(start));
	return 0;
}
