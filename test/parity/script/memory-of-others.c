// A program in C, compiled by the host's compiler, and the same on both sides.
// process_vm_readv and process_vm_writev of eight megabytes in odd pieces, up to memory that is not there.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (8ul << 20)
#define PAGE 4096ul
static unsigned sum(const unsigned char *bytes, unsigned long count)
{
	unsigned total = 0;
	for (unsigned long index = 0; index < count; index++) total = total * 31 + bytes[index];
	return total;
}
static void fill(unsigned char *bytes, unsigned seed)
{
	for (unsigned long index = 0; index < BYTES; index++) bytes[index] = (index * seed) >> 7;
}
int main(void)
{
	unsigned char *theirs = mmap(0, BYTES + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *own = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int go[2], done[2];
	char byte = 'x';
	setvbuf(stdout, NULL, _IONBF, 0);
	munmap(theirs + BYTES + PAGE, PAGE);
	mprotect(theirs + BYTES, PAGE, PROT_READ);
	if (pipe(go) || pipe(done)) return 9;
	pid_t child = fork();
	if (!child) {
		fill(theirs, 77);
		if (write(done[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(9);
		printf("the child has %x\n", sum(theirs, BYTES));
		if (write(done[1], &byte, 1) != 1) _exit(9);
		pause();
	}
	if (read(done[0], &byte, 1) != 1) return 9;
	struct iovec here[3] = {{own, 5}, {own + 5, 1000003}, {own + 1000008, BYTES - 1000008}};
	struct iovec there[2] = {{theirs, 3 << 20}, {theirs + (3 << 20), BYTES - (3 << 20)}};
	printf("read %zd", process_vm_readv(child, here, 3, there, 2, 0));
	printf(" %x\n", sum(own, BYTES));
	fill(own, 91);
	printf("written %zd %x\n", process_vm_writev(child, here, 3, there, 2, 0), sum(own, BYTES));
	if (write(go[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) return 9;
	struct iovec beyond = {theirs + BYTES - 100, PAGE + 200}, much = {own, PAGE + 200}, none = {(void *)8, 100};
	printf("read to the end %zd\n", process_vm_readv(child, &much, 1, &beyond, 1, 0));
	ssize_t result = process_vm_writev(child, &much, 1, &none, 1, 0);
	printf("nowhere %zd %s\n", result, strerrorname_np(errno));
	result = process_vm_writev(child, &none, 1, &beyond, 1, 0);
	printf("from nowhere %zd %s\n", result, strerrorname_np(errno));
	printf("nothing %zd\n", process_vm_writev(child, NULL, 0, &beyond, 1, 0));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	result = process_vm_readv(child, &much, 1, &beyond, 1, 0);
	printf("gone %zd %s\n", result, strerrorname_np(errno));
	return 0;
}
