// Two processes that change each other's files, names and modes: the next open, read and stat of each sees it.
// Each looks many times, so that what a system caches is in use when it changes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 8
#define MANY 80

static const char *const paths[] = {"d/file", "d/other", "d/e/deep", "d/link", "moved/e/deep", "d/none"};
#define PATHS (sizeof paths / sizeof *paths)

static int held;
static char *shared;

// One look at a path: what stat says, and the bytes.
static void see(const char *path, char *line, size_t size)
{
	char bytes[64] = "";
	struct stat status = {0};
	int found = stat(path, &status) ? errno : 0;
	int file = open(path, O_RDONLY), failed = file < 0 ? errno : 0;
	ssize_t got = file < 0 ? -1 : read(file, bytes, sizeof bytes - 1);
	if (file >= 0)
		close(file);
	if (found)
		memset(&status, 0, sizeof status);
	snprintf(line, size, "%s: stat %d, size %ld, mode %o, links %lu; open %d, %zd bytes: %s", path, found,
	         (long)status.st_size, status.st_mode, (unsigned long)status.st_nlink, failed, got, bytes);
}

// All paths many times; what differs from the look before is printed, so that what is old shows.
static void look(const char *who)
{
	char last[PATHS][256] = {""}, line[256];
	for (int time = 0; time < TIMES; time++)
		for (unsigned index = 0; index < PATHS; index++) {
			see(paths[index], line, sizeof line);
			if (strcmp(line, last[index]))
				printf("  %s %d %s\n", who, time, line);
			strcpy(last[index], line);
		}
	char bytes[32] = "";
	ssize_t got = pread(held, bytes, sizeof bytes - 1, 0);
	printf("  %s held %zd: %s\n", who, got, bytes);
}

static void put(const char *path, int flags, const char *bytes)
{
	int file = open(path, O_WRONLY | flags, 0644);
	ssize_t done = write(file, bytes, strlen(bytes));
	close(file);
	if (done < 0)
		printf("  put %s: %d\n", path, errno);
}

static void change(int step)
{
	switch (step) {
	case 0: put("d/file", 0, "FIRST"); break;
	case 1: put("d/file", O_TRUNC, "cut"); break;
	case 2: put("d/file", O_APPEND, " and more"); break;
	case 3: unlink("d/file"); break;
	case 4: put("d/file", O_CREAT | O_EXCL, "made again"); break;
	case 5: rename("d/other", "d/file"); break;
	case 6: put("d/other", O_CREAT, "another other"); break;
	case 7: chmod("d/file", 0); break;
	case 8: chmod("d/file", 0444); break;
	case 9: chmod("d", 0600); break;
	case 10: chmod("d", 0755); break;
	case 11: rename("d", "moved"); break;
	case 12: mkdir("d", 0755); put("d/file", O_CREAT, "of the new one"); break;
	case 13: unlink("d/file"); rmdir("d"); rename("moved", "d"); break;
	case 14: unlink("d/link"); symlink("other", "d/link"); break;
	case 15: put("d/none", O_CREAT, "there now"); break;
	case 16: truncate("d/other", 3); break;
	case 17: truncate("d/other", 10); break;
	case 18: link("d/other", "d/other2"); break;
	case 19: unlink("d/other2"); break;
	case 20: shared[1] = 'S'; msync(shared, 4096, MS_SYNC); break;
	case 21: chmod("d/e", 0); break;
	case 22: chmod("d/e", 0711); break;
	case 23: rename("d/none", "d/other"); break;
	case 24: posix_fadvise(held, 0, 0, POSIX_FADV_DONTNEED); break;
	case 25: fallocate(held, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2); break;
	case 26: rename("d/e", "d/f"); break;
	case 27: rename("d/f", "d/e"); break;
	}
}
#define STEPS 28
#define ROUNDS 4

static const char *name_of(int index)
{
	static char name[32];
	snprintf(name, sizeof name, "many/%04d", index);
	return name;
}

// Many files: what both read is what was written last.
// Many files: what a process reads is what was written last.
static void read_many(const char *who, int round)
{
	int wrong = 0;
	for (int time = 0; time < 5; time++)
		for (int index = 0; index < MANY; index++) {
			char bytes[32] = "", wanted[32];
			int file = open(name_of(index), O_RDONLY);
			ssize_t got = read(file, bytes, sizeof bytes - 1);
			close(file);
			snprintf(wanted, sizeof wanted, "%d of %d", index, index % 3 ? 0 : round);
			wrong += got != (ssize_t)strlen(wanted) || strcmp(bytes, wanted);
		}
	printf("  %s: %d wrong\n", who, wrong);
}

static void change_many(int round)
{
	for (int index = 0; index < MANY; index += 3) {
		char bytes[32];
		snprintf(bytes, sizeof bytes, "%d of %d", index, round);
		if (index % 2) {
			put(name_of(index), 0, bytes);
		} else {
			put("many/new", O_CREAT | O_TRUNC, bytes);
			rename("many/new", name_of(index));
		}
	}
}

// The two change things in turn. After each change both look, the one that changed it first.
static void turns(const char *who, int is_first, int from, int to)
{
	char token = 't';
	for (int step = 0; step < STEPS + ROUNDS; step++) {
		int changes = step % 2 == !is_first, round = step - STEPS + 1;
		if (!changes && read(from, &token, 1) != 1)
			exit(1);
		if (changes)
			printf("step %d, by the %s\n", step, who);
		if (changes && round <= 0)
			change(step);
		else if (changes)
			change_many(round);
		if (round <= 0)
			look(who);
		else
			read_many(who, round);
		fflush(stdout);
		if (write(to, &token, 1) != 1 || (changes && read(from, &token, 1) != 1))
			exit(1);
	}
}

int main(void)
{
	int down[2], up[2];
	mkdir("d", 0755), mkdir("d/e", 0755), mkdir("many", 0755);
	put("d/file", O_CREAT, "first"), put("d/other", O_CREAT, "other"), put("d/e/deep", O_CREAT, "deep down");
	symlink("file", "d/link");
	put("d/held", O_CREAT, "held by both");
	for (int index = 0; index < MANY; index++) {
		char bytes[32];
		snprintf(bytes, sizeof bytes, "%d of 0", index);
		put(name_of(index), O_CREAT, bytes);
	}
	held = open("d/held", O_RDWR);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, held, 0);
	if (pipe(down) || pipe(up) || shared == MAP_FAILED)
		return 1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		turns("child", 0, down[0], up[1]);
		return 0;
	}
	turns("parent", 1, up[0], down[1]);
	int status;
	waitpid(child, &status, 0);
	printf("ended %d\n", status);
	return 0;
}
