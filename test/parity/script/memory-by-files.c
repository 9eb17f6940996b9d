// A program in C, compiled by the host's compiler, and the same on both sides.
// /proc/PID/mem, pagemap, clear_refs and map_files, of the process itself and of its child.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
static void say(const char *what, long result)
{
	printf("%s %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
}
static int opened(pid_t process, const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", process, name);
	return open(path, flags);
}
static void memory_of(pid_t process, char *at)
{
	int file = opened(process, "mem", O_RDWR);
	char bytes[3 * PAGE];
	say("open", file < 0 ? -1 : 0);
	say("read", pread(file, bytes, 5, (off_t)at));
	printf("%.5s\n", bytes);
	say("write", pwrite(file, "WORLD", 5, (off_t)at));
	say("write where only reads are allowed", pwrite(file, "forced", 6, (off_t)(at + PAGE)));
	say("across both", pwrite(file, "abcdef", 6, (off_t)(at + PAGE - 3)));
	say("where nothing is allowed", pread(file, bytes, 4, (off_t)(at + 2 * PAGE)));
	say("up to the end", pread(file, bytes, 2 * PAGE, (off_t)(at + 2 * PAGE)));
	say("where nothing is", pread(file, bytes, 4, (off_t)(at + 3 * PAGE)));
	say("write there", pwrite(file, bytes, 4, (off_t)(at + 3 * PAGE)));
	say("at the bottom", pread(file, bytes, 4, 8));
	say("seek", lseek(file, (off_t)at, SEEK_SET) == (off_t)at ? 0 : -1);
	say("read on", read(file, bytes, 3));
	say("read on", read(file, bytes + 3, 3));
	printf("%.6s at %ld\n", bytes, (long)(lseek(file, 0, SEEK_CUR) - (off_t)at));
	close(file);
}
static void map_of(pid_t process, char *at)
{
	int file = opened(process, "pagemap", O_RDONLY);
	uint64_t words[4];
	say("pages", pread(file, words, sizeof words, (off_t)at / PAGE * 8));
	for (int i = 0; i < 4; i++) printf("%d%d ", (int)(words[i] >> 63), (int)(words[i] >> 61 & 1));
	say("odd place", pread(file, words, 8, (off_t)at / PAGE * 8 + 1));
	say("odd count", pread(file, words, 9, (off_t)at / PAGE * 8));
	say("past the end", pread(file, words, 8, (off_t)1 << 60));
	close(file);
}
static void files_of(pid_t process, const char *name)
{
	char path[64], target[256];
	int found = 0;
	snprintf(path, sizeof path, "/proc/%d/map_files", process);
	DIR *folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
		if (length <= 0) continue;
		target[length] = 0;
		found += strcmp(target, name) == 0 && entry->d_type == DT_LNK;
	}
	if (folder) closedir(folder);
	printf("areas of the file: %d\n", found);
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte = 'x';
	munmap(at + 3 * PAGE, PAGE);
	strcpy(at, "hello");
	mprotect(at + PAGE, PAGE, PROT_READ);
	mprotect(at + 2 * PAGE, PAGE, PROT_NONE);
	int go[2], done[2], file = open("by-files", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (pipe(go) || pipe(done) || ftruncate(file, 2 * PAGE)) return 9;
	char *shown = mmap(0, 2 * PAGE, PROT_READ, MAP_SHARED, file, 0), name[256];
	if (!getcwd(name, sizeof name - 16)) return 9;
	strcat(name, "/by-files");
	pid_t child = fork();
	if (!child) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1) _exit(9);
		printf("the child has %s %s\n", at, at + PAGE);
		_exit(0);
	}
	puts("the child's:");
	memory_of(child, at);
	files_of(child, name);
	if (write(go[1], &byte, 1) != 1) return 9;
	waitpid(child, NULL, 0);
	printf("own is %s\n", at);
	memory_of(getpid(), at);
	printf("own is %.8s %s\n", at, at + PAGE);
	int own = opened(getpid(), "mem", O_RDWR);
	say("into a shared file that is only read", pwrite(own, "x", 1, (off_t)shown));
	map_of(getpid(), at);
	byte = shown[0];
	files_of(getpid(), name);
	for (const char *value = "01569"; *value; value++) {
		int clear = opened(getpid(), "clear_refs", O_WRONLY);
		say("clear", write(clear, value, 1));
		close(clear);
	}
	unlink("by-files");
	return 0;
}
