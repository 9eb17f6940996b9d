/*
 * Programs that children of fork execute again and again: files that change in between, arguments of other sizes, children that
 * execute something else or nothing, that are killed, become another user, or have children themselves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is looked for in the file of the program, and changed there. */
static volatile char mark[] = "MARK:0:this is changed in the file";
static volatile int counter = 7;
static volatile int zeros[3000];

static int play(int argc, char **argv)
{
	size_t bytes = 0;
	for (int index = 0; index < argc; index++)
		bytes += strlen(argv[index]);
	for (int index = 0; index < 3000; index++)
		if (zeros[index])
			return 101;
	memset((void *)zeros, 0xff, sizeof zeros);
	counter++;
	mark[0] = 'x';
	printf("%s %d mark %c arguments %d\n", argv[1], counter, mark[5], (int)bytes);
	return fflush(stdout) ? 102 : 0;
}

static void wait_for(pid_t child)
{
	int status = 0;
	if (child < 0)
		printf("fork: %s\n", strerror(errno));
	else if (waitpid(child, &status, 0) != child)
		printf("wait: %s\n", strerror(errno));
	else if (status)
		printf("status %#x\n", status);
}

static pid_t run(const char *program, const char *word, const char *more)
{
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, "play", word, more, NULL);
		_exit(99);
	}
	return child;
}

static void copy(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	ssize_t got;
	while ((got = read(in, bytes, sizeof bytes)) > 0)
		if (write(out, bytes, (size_t)got) != got)
			exit(98);
	close(in);
	close(out);
}

/* Changes the mark in a file, without making it shorter. */
static void change(const char *program, char letter)
{
	int file = open(program, O_RDWR);
	struct stat status;
	fstat(file, &status);
	char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	for (off_t at = 0; at + 10 < status.st_size; at++)
		if (memcmp(bytes + at, "MARK:", 5) == 0 && memcmp(bytes + at + 6, ":this", 5) == 0)
			if (pwrite(file, &letter, 1, at + 5) != 1)
				exit(97);
	munmap(bytes, (size_t)status.st_size);
	close(file);
}

static void nothing(void)
{
	pid_t child = fork();
	if (child == 0) {
		counter = 1000;
		for (int index = 0; index < 3000; index++)
			zeros[index] = index;
		_exit(zeros[2999] == 2999 ? 0 : 1);
	}
	wait_for(child);
	printf("counter %d zero %d\n", counter, zeros[2999]);
}

static void grandchildren(void)
{
	pid_t child = fork();
	if (child == 0) {
		for (int round = 0; round < 4; round++)
			wait_for(run("./one", "grandchild", "x"));
		execl("./one", "./one", "play", "their-parent", NULL);
		_exit(99);
	}
	wait_for(child);
}

static void killed(void)
{
	pid_t child = fork();
	if (child == 0) {
		kill(getpid(), SIGKILL);
		_exit(0);
	}
	wait_for(child);
	child = fork();
	if (child == 0) {
		execl("./one", "./one", "die", NULL);
		_exit(99);
	}
	wait_for(child);
}

static void slow(void)
{
	pid_t child = fork();
	if (child == 0) {
		for (int round = 0; round < 6; round++)
			usleep(2000);
		execl("./one", "./one", "play", "after-sleep", NULL);
		_exit(99);
	}
	wait_for(child);
}

static void by_vfork(const char *program)
{
	pid_t child = vfork();
	if (child == 0) {
		execl(program, program, "play", "by-vfork", NULL);
		_exit(99);
	}
	wait_for(child);
}

int main(int argc, char **argv)
{
	static char large[20000];
	if (argc > 1 && !strcmp(argv[1], "play"))
		return play(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "die"))
		raise(SIGKILL);
	setvbuf(stdout, NULL, _IONBF, 0);
	copy("/proc/self/exe", "./one");
	copy("./one", "./two");
	memset(large, 'a', sizeof large - 1);
	for (int round = 0; round < 6; round++)
		wait_for(run("./one", "again", "x"));
	change("./one", '1');
	for (int round = 0; round < 4; round++)
		wait_for(run("./one", "changed", "x"));
	change("./one", '2');
	wait_for(run("./one", "changed-again", "x"));
	for (int round = 0; round < 4; round++)
		wait_for(run(round % 2 ? "./two" : "./one", "in-turn", "x"));
	for (int round = 0; round < 4; round++)
		wait_for(run("./one", "large", large));
	for (int round = 0; round < 4; round++)
		wait_for(run("./two", "again", "x"));
	unlink("./two");
	copy("./one", "./two");
	for (int round = 0; round < 3; round++)
		wait_for(run("./two", "made-anew", "x"));
	for (int round = 0; round < 3; round++) {
		wait_for(run("./one", "before", "x"));
		nothing();
		by_vfork("./one");
		by_vfork("./two");
		slow();
		killed();
		grandchildren();
	}
	pid_t together[8];
	for (int round = 0; round < 8; round++) {
		together[round] = run("./one", "together", "x");
		if (round % 2)
			wait_for(together[round - 1]), wait_for(together[round]);
	}
	unlink("./one");
	pid_t child = run("./one", "gone", "x");
	wait_for(child);
	return 0;
}
