/* All of the memory in use: by one process, by files, by both at once. Who wants more is refused, or killed by SIGKILL, and by nothing
 * else; all others go on; and what was taken is there again. */
#include "census.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define PAGE 4096l
#define MIB (1l << 20)

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			printf("line %d: %s (%s)\n", __LINE__, #condition, strerror(errno));      \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

enum { REFUSED = 7, USER = 1000 };

static long kilobytes(const char *format)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[200];
	long found = -1;
	while (found < 0 && fgets(line, sizeof line, file))
		sscanf(line, format, &found);
	fclose(file);
	return found;
}

/* Takes so many bytes by touching them. */
static void touch(long bytes)
{
	char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (region == MAP_FAILED)
		_exit(REFUSED);
	for (long at = 0; at < bytes; at += PAGE)
		region[at] = 1;
	for (long at = 0; at < bytes; at += PAGE)
		CHECK(region[at] == 1);
}

static void touch_all(void)
{
	while (1)
		touch(8 * MIB);
}

/* As much as can be taken without being killed for it; then it stays until it is killed. */
static void stay_with_nearly_all(int ready)
{
	long left;
	while ((left = kilobytes("MemAvailable: %ld")) > 2048)
		touch(left > 20 * 1024 ? 8 * MIB : 256 * 1024);
	CHECK(write(ready, "x", 1) == 1);
	pause();
}

static pid_t begin(void (*work)(void))
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		setpgid(0, 0);
		work();
		_exit(0);
	}
	return child;
}

static int end_of(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static int is_killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* A hog that ends in another way says how: the line of CHECK alone does not. */
static void check_killed(int status)
{
	if (!is_killed(status)) {
		printf("a hog ended with status %#x instead of SIGKILL\n", status);
		_exit(1);
	}
}

static int is_refused(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == REFUSED;
}

/* What it had is there again, but for a few pages that are kept for the next ones. */
static void is_back(long before)
{
	long now = free_when_quiet(), lost = before - now;
	if (lost > 6 * 1024) {
		printf("%ld KiB were free, now %ld\n", before, now);
		_exit(1);
	}
}

/* Answers what comes, with a child, a file and a little memory each time, so that it needs what there is for everybody. */
static void serve(int from, int to)
{
	char byte;
	while (read(from, &byte, 1) == 1) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(3);
		CHECK(WEXITSTATUS(end_of(child)) == 3);
		int file = open("/tmp/served", O_CREAT | O_RDWR | O_TRUNC, 0600);
		CHECK(file >= 0 && write(file, &byte, 1) == 1 && close(file) == 0);
		CHECK(write(to, &byte, 1) == 1);
	}
	_exit(0);
}

static pid_t server(int *to, int *from)
{
	int there[2], back[2];
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(there[1]);
		close(back[0]);
		serve(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	*to = there[1];
	*from = back[0];
	return child;
}

static void answers(int to, int from)
{
	char byte;
	CHECK(write(to, "x", 1) == 1 && read(from, &byte, 1) == 1 && byte == 'x');
}

static void touch_all_as_user(void)
{
	CHECK(setgid(USER) == 0 && setuid(USER) == 0);
	touch_all();
}

static void one_takes_all(void)
{
	int to, from;
	long before = free_when_quiet();
	pid_t other = server(&to, &from);
	for (int as_user = 0; as_user < 2; as_user++) {
		pid_t hog = begin(as_user ? touch_all_as_user : touch_all);
		int status = -1;
		pid_t ended;
		while ((ended = waitpid(hog, &status, WNOHANG)) == 0)
			answers(to, from);
		CHECK(ended == hog);
		check_killed(status);
		answers(to, from);
	}
	close(to);
	CHECK(end_of(other) == 0);
	close(from);
	is_back(before);
	puts("who takes all is killed");
}

static void touch_most(void)
{
	touch(free_kilobytes() * 1024 / 100 * 85);
}

static void one_takes_most(void)
{
	CHECK(end_of(begin(touch_most)) == 0);
	puts("one can have 85 of 100 that are free");
}

static void map_much(void)
{
	for (long i = 0;; i++)
		if (mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			_exit(errno == ENOMEM ? REFUSED : 1);
}

static void make_pipes(void)
{
	int ends[2];
	while (pipe(ends) == 0)
		;
	_exit(errno == ENOMEM || errno == EMFILE || errno == ENFILE ? REFUSED : 1);
}

static void make_children(void)
{
	pid_t child;
	while ((child = fork()) > 0)
		;
	if (child == 0)
		while (1)
			pause();
	_exit(errno == ENOMEM || errno == EAGAIN ? REFUSED : 1);
}

static void make_folders(void)
{
	char name[40];
	CHECK(mkdir("/tmp/many", 0700) == 0 || errno == EEXIST || errno == ENOMEM || errno == ENOSPC);
	for (long i = 0;; i++) {
		snprintf(name, sizeof name, "/tmp/many/%ld", i);
		if (mkdir(name, 0700) != 0 && errno != EEXIST)
			_exit(errno == ENOMEM || errno == ENOSPC ? REFUSED : 1);
	}
}

static void lock_much(void)
{
	int file = open("/tmp/locked", O_CREAT | O_RDWR, 0600);
	if (file < 0)
		_exit(errno == ENOMEM || errno == ENOSPC ? REFUSED : 1);
	for (long i = 0; i < 3000; i++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * i, .l_len = 1 };
		if (fcntl(file, F_SETLK, &lock) != 0)
			_exit(errno == ENOMEM || errno == ENOLCK ? REFUSED : 1);
	}
	_exit(REFUSED);
}

static void remove_folders(void)
{
	char name[40];
	for (long i = 0;; i++) {
		snprintf(name, sizeof name, "/tmp/many/%ld", i);
		if (rmdir(name) != 0)
			break;
	}
	rmdir("/tmp/many");
	unlink("/tmp/locked");
}

/* Beside one who has nearly all: what takes memory of the library's own, or of the server's, is refused, or ends as by SIGKILL. */
static void many_of_everything(void)
{
	void (*all[])(void) = { map_much, make_pipes, make_children, make_folders, lock_much };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		int ready[2];
		char byte;
		CHECK(pipe(ready) == 0);
		pid_t hog = fork();
		CHECK(hog >= 0);
		if (hog == 0)
			stay_with_nearly_all(ready[1]);
		close(ready[1]);
		CHECK(read(ready[0], &byte, 1) == 1);
		close(ready[0]);
		pid_t child = begin(all[i]);
		int status = end_of(child);
		if (!is_killed(status) && !is_refused(status)) {
			printf("the %zu. ended with %#x\n", i + 1, status);
			_exit(1);
		}
		/* Its children. */
		kill(-child, SIGKILL);
		CHECK(waitpid(hog, NULL, WNOHANG) == 0);
		CHECK(kill(hog, SIGKILL) == 0 && is_killed(end_of(hog)));
		remove_folders();
		free_when_quiet();
	}
	puts("many of everything");
}

static void write_all(void)
{
	static char bytes[64 * 1024];
	ssize_t count;
	memset(bytes, 7, sizeof bytes);
	int file = open("/tmp/all", O_CREAT | O_RDWR | O_TRUNC, 0600);
	if (file < 0)
		_exit(errno == ENOMEM || errno == ENOSPC ? REFUSED : 1);
	while ((count = write(file, bytes, sizeof bytes)) > 0)
		;
	_exit(errno == ENOSPC ? REFUSED : 1);
}

static void files_take_all(void)
{
	struct statvfs space;
	long before = free_when_quiet();
	CHECK(is_refused(end_of(begin(write_all))));
	CHECK(statvfs("/tmp", &space) == 0 && space.f_bavail == 0);
	long most = space.f_blocks * space.f_frsize / 1024, now = free_kilobytes();
	CHECK(most > before / 100 * 40 && most < before / 100 * 60);
	CHECK(before - now > before / 100 * 40);
	/* Processes have the rest. */
	CHECK(WEXITSTATUS(system("test \"$(echo some)\" = some && exit 3")) == 3);
	CHECK(unlink("/tmp/all") == 0);
	is_back(before);
	CHECK(end_of(begin(touch_most)) == 0);
	puts("files take all that files may have");
}

static void both_at_once(void)
{
	int to, from;
	long before = free_when_quiet();
	pid_t other = server(&to, &from);
	for (int round = 0; round < 2; round++) {
		pid_t writer = begin(write_all), hog = begin(touch_all);
		int status = end_of(writer);
		CHECK(is_refused(status) || is_killed(status));
		/* Where the writer was first there may be too little to begin with. */
		status = end_of(hog);
		CHECK(is_killed(status) || is_refused(status));
		CHECK(unlink("/tmp/all") == 0 || errno == ENOENT);
		answers(to, from);
	}
	close(to);
	CHECK(end_of(other) == 0);
	close(from);
	is_back(before);
	puts("files and a process at once");
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	one_takes_all();
	one_takes_most();
	many_of_everything();
	files_take_all();
	both_at_once();
	return 0;
}
