// A program in C, compiled by the host's compiler, and the same on both sides.
// What a process is called below /proc when it writes over its arguments, and when its file is renamed, removed, or a file of memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void show_arguments(const char *when, pid_t process)
{
	char path[64], text[400];
	sprintf(path, "/proc/%d/cmdline", process);
	int file = open(path, O_RDONLY);
	int bytes = read(file, text, sizeof text);
	close(file);
	printf("%s: %d ", when, bytes);
	for (int at = 0; at < bytes; at++) putchar(text[at] ? text[at] : '|');
	puts("");
}
static void show_file(const char *when, pid_t process)
{
	char path[64], text[400];
	sprintf(path, "/proc/%d/exe", process);
	int bytes = readlink(path, text, sizeof text);
	printf("%s: %.*s\n", when, bytes < 0 ? 0 : bytes, text);
}
/* A child that has another title than its parent, and waits. */
static pid_t child_called(char *place, const char *title)
{
	int ready[2];
	char c;
	if (pipe(ready)) exit(9);
	pid_t child = fork();
	if (!child) {
		if (title) strcpy(place, title);
		if (write(ready[1], "x", 1) != 1) exit(9);
		for (;;) pause();
	}
	if (read(ready[0], &c, 1) != 1) exit(9);
	close(ready[0]);
	close(ready[1]);
	return child;
}
static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
static void titles(int count, char **arguments)
{
	pid_t own = getpid();
	char *first = arguments[0], *last = arguments[count - 1] + strlen(arguments[count - 1]);
	show_arguments("begun", own);
	strcpy(first, "x");
	show_arguments("shorter", own);
	memset(first, 't', 10);
	show_arguments("longer", own);
	memset(first, 0, last - first);
	strcpy(first, "title: of all");
	show_arguments("one title", own);
	pid_t child = child_called(first, "child's title");
	show_arguments("child", child);
	show_arguments("its parent", own);
	end(child);
	memset(first, 'q', last - first + 1);
	show_arguments("into the environment", own);
}
static void copy_of_itself(int to)
{
	static char some[1 << 16];
	int from = open("/proc/self/exe", O_RDONLY);
	for (ssize_t bytes; (bytes = read(from, some, sizeof some)) > 0;)
		if (write(to, some, bytes) != bytes) exit(9);
	close(from);
}
static void files(void)
{
	show_file("begun", getpid());
	if (rename("copy", "moved")) exit(9);
	show_file("renamed", getpid());
	pid_t child = child_called(NULL, NULL);
	show_file("child", child);
	unlink("moved");
	show_file("removed", getpid());
	show_file("child", child);
	end(child);
}
int main(int count, char **arguments)
{
	char *environment[] = {"FIRST=1", "SECOND=2", NULL};
	setvbuf(stdout, NULL, _IONBF, 0);
	if (count > 1 && !strcmp(arguments[1], "titles")) return titles(count, arguments), 0;
	if (count > 1 && !strcmp(arguments[1], "files")) return files(), 0;
	if (count > 1) return show_file("of memory", getpid()), 0;
	int copy = open("copy", O_CREAT | O_WRONLY, 0755), memory = memfd_create("program", MFD_CLOEXEC);
	copy_of_itself(copy);
	copy_of_itself(memory);
	close(copy);
	if (!fork()) execle("./copy", "/some/program", "titles", "two words", "four", NULL, environment);
	wait(NULL);
	if (!fork()) execle("./copy", "copy", "files", NULL, environment);
	wait(NULL);
	if (!fork()) fexecve(memory, (char *[]){"me", "memory", NULL}, environment);
	wait(NULL);
	return 0;
}
