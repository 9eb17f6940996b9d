// A program in C, compiled by the host's compiler, and the same on both sides.
// /proc/PID/io: bytes and calls of reads and writes, of all threads, and of a child that begins at 0.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct counts { long read, written, reads, writes; };
static struct counts of(pid_t process)
{
	char path[64], text[512];
	struct counts counts = {0};
	snprintf(path, sizeof path, "/proc/%d/io", process);
	int file = open(path, O_RDONLY);
	ssize_t length = read(file, text, sizeof text - 1);
	text[length < 0 ? 0 : length] = 0;
	close(file);
	sscanf(text, "rchar: %ld\nwchar: %ld\nsyscr: %ld\nsyscw: %ld", &counts.read, &counts.written, &counts.reads, &counts.writes);
	return counts;
}
static char bytes[1000];
static int ends[2];
static void *writes(void *unused)
{
	for (int i = 0; i < 5; i++)
		if (write(ends[1], bytes, 100) != 100) return ends;
	return unused;
}
static void difference(const char *what, struct counts before, struct counts after)
{
	printf("%s: wrote %ld by %ld, reads %ld\n", what, after.written - before.written, after.writes - before.writes, after.reads - before.reads);
}
int main(void)
{
	struct iovec pieces[2] = {{bytes, 30}, {bytes, 70}};
	pthread_t thread;
	setvbuf(stdout, NULL, _IOFBF, 4096);
	if (pipe(ends)) return 9;
	struct counts before = of(getpid());
	for (int i = 0; i < 3; i++)
		if (write(ends[1], bytes, 200) != 200) return 9;
	(void)!writev(ends[1], pieces, 2);
	(void)!read(ends[0], bytes, 50);
	(void)!read(-1, bytes, 50);
	(void)!pread(ends[0], bytes, 50, 0);
	struct counts after = of(getpid());
	difference("calls", before, after);
	before = after;
	pthread_create(&thread, NULL, writes, NULL);
	pthread_join(thread, NULL);
	after = of(getpid());
	difference("a thread that ended", before, after);
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		struct counts own = of(getpid());
		printf("a child began with %ld written by %ld\n", own.written, own.writes);
		return 0;
	}
	waitpid(child, NULL, 0);
	return 0;
}
