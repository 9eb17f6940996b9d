// A program in C, compiled by the host's compiler, and the same on both sides.
// Shared anonymous memory that mremap cuts, moves and lets grow again shows the old pages. remap_file_pages.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
static char *place(int pages)
{
	return mmap(0, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static char *lettered(int pages)
{
	char *at = mmap(place(4 * pages), pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int page = 0; page < pages; page++) memset(at + page * PAGE, 'a' + page, PAGE);
	munmap(at + pages * PAGE, 3 * pages * PAGE);
	return at;
}
static void show(const char *what, const char *at, int pages)
{
	printf("%s: ", what);
	if (at == MAP_FAILED) {
		puts(strerrorname_np(errno));
		return;
	}
	for (int page = 0; page < pages; page++) printf("%c%c", at[page * PAGE], at[page * PAGE + PAGE - 1]);
	puts("");
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	char *at = lettered(4);
	at = mremap(at, 4 * PAGE, 2 * PAGE, 0);
	at = mremap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	show("cut and grown", at, 4);
	at = mremap(at, 4 * PAGE, 3 * PAGE, 0);
	at = mremap(at, 3 * PAGE, 1 * PAGE, 0);
	at = mremap(at, 1 * PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	show("cut twice, grown by one", at, 2);
	at = mremap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	show("grown to the end", at, 4);
	char *other = place(4);
	at = mremap(at, 4 * PAGE, PAGE, 0);
	at = mremap(at, PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other);
	show("moved and grown", at, 4);
	memset(at + 3 * PAGE, 'z', PAGE);
	pid_t child = fork();
	if (!child) {
		show("a child", at, 4);
		memset(at + 2 * PAGE, 'y', PAGE);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	show("after the child", at, 4);
	at = mremap(at, 4 * PAGE, 2 * PAGE, 0);
	mprotect(at, 2 * PAGE, PROT_READ);
	at = mremap(at, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	show("read only", at, 4);
	munmap(at, 4 * PAGE);
	for (int round = 0; round < 2000; round++) {
		at = lettered(4);
		mremap(at, 4 * PAGE, PAGE, 0);
		munmap(at, PAGE);
	}
	puts("many were cut and unmapped");

	int file = open("file", O_RDWR | O_CREAT, 0600);
	char bytes[4 * PAGE];
	for (int page = 0; page < 4; page++) memset(bytes + page * PAGE, '0' + page, PAGE);
	if (write(file, bytes, sizeof bytes) != sizeof bytes) return 9;
	at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	printf("other pages: %d\n", remap_file_pages(at, 2 * PAGE, 0, 2, 0));
	show("of the file", at, 4);
	at[0] = 'x';
	if (pread(file, bytes, 1, 2 * PAGE) != 1) return 9;
	printf("written %c\n", bytes[0]);
	int wrong = remap_file_pages(at, PAGE, PROT_READ, 0, 0);
	printf("with a protection: %d %s\n", wrong, strerrorname_np(errno));
	wrong = remap_file_pages(lettered(1), PAGE, 0, 0, 0);
	printf("of no file: %d\n", wrong != 0 && errno != EINVAL);
	wrong = remap_file_pages(place(1), PAGE, 0, 0, 0);
	printf("private: %d %s\n", wrong, strerrorname_np(errno));
	return 0;
}
