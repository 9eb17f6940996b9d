// A program in C, compiled by the host's compiler, and the same on both sides.
// Links and folders below /proc: what a descriptor is open for, what dots behind links lead to, permissions, and a folder that tells of itself.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST 40
static void show(const char *path)
{
	struct stat status, followed;
	int found = lstat(path, &status), leads = stat(path, &followed);
	printf("%s: %o %o\n", path, found ? 0 : status.st_mode, leads ? 0 : followed.st_mode & S_IFMT);
}
/* Descriptors from FIRST on, each with what it is open for; others are whoever's began this program. */
static void list(const char *who, int number)
{
	char path[64];
	sprintf(path, "/proc/%d/fd", number);
	int folder = fcntl(open(path, O_RDONLY | O_DIRECTORY), F_DUPFD, FIRST);
	DIR *stream = fdopendir(folder);
	printf("%s:", who);
	for (struct dirent *entry; (entry = readdir(stream));) {
		struct stat status;
		if (atoi(entry->d_name) < FIRST || atoi(entry->d_name) > FIRST + 20) continue;
		if (fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW)) exit(9);
		printf(" %s %o", entry->d_name, status.st_mode);
	}
	puts("");
	closedir(stream);
}
/* Closes all from FIRST on while it reads which they are: each is met once. */
static void close_all(void)
{
	DIR *stream = opendir("/proc/self/fd");
	for (int number = FIRST; number < FIRST + 300; number++) dup2(1, number);
	int met = 0;
	for (struct dirent *entry; (entry = readdir(stream));)
		if (atoi(entry->d_name) >= FIRST && atoi(entry->d_name) < FIRST + 300 && close(atoi(entry->d_name)) == 0) met++;
	printf("closed %d\n", met);
	closedir(stream);
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_PATH, O_WRONLY | O_APPEND};
	close(open("file", O_CREAT | O_WRONLY, 0600));
	for (int index = 0; index < 5; index++) dup2(open("file", flags[index]), FIRST + index);
	list("own", getpid());
	int ready[2], status;
	char c;
	if (pipe(ready)) return 9;
	pid_t child = fork();
	if (!child) {
		close(FIRST + 1);
		list("child", getpid());
		if (write(ready[1], "x", 1) != 1) exit(9);
		pause();
	}
	if (read(ready[0], &c, 1) != 1) return 9;
	char path[64];
	for (int index = 0; index < 5; index++) {
		struct stat of_child;
		sprintf(path, "/proc/%d/fd/%d", child, FIRST + index);
		printf("child's %d: %o\n", FIRST + index, lstat(path, &of_child) ? 0 : of_child.st_mode);
	}
	kill(child, 9);
	waitpid(child, &status, 0);
	close_all();
	const char *paths[] = {
		"/proc/self", "/proc/self/", "/proc/self/.", "/proc/self/..", "/proc/self/fd", "/proc/self/fd/.", "/proc/self/fd/..",
		"/proc/self/fd/../fd", "/proc/self/fd/../../self", "/proc/self/cwd", "/proc/self/cwd/.", "/proc/self/root",
		"/proc/self/fdinfo", "/proc/self/ns", "/proc/self/task", "/proc/self/environ", "/proc/self/auxv", "/proc/self/personality",
		"/proc/self/cmdline", "/proc/mounts", "/proc/net", "/proc/thread-self", "/proc/.", "/proc/..",
	};
	for (unsigned index = 0; index < sizeof paths / sizeof *paths; index++) show(paths[index]);
	char text[64];
	printf("mounts lead to %.*s\n", (int)readlink("/proc/mounts", text, sizeof text), text);
	printf("read %d\n", (int)(read(open("/proc/mounts", O_RDONLY), text, sizeof text) > 0));
	chdir("/proc/self/cwd/..");
	printf("%s\n", getcwd(text, sizeof text));
	return 0;
}
