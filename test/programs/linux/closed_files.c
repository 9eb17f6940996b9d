/*
 * Files that were closed and are opened again: ExOS keeps the last ones, in case that they are, and nobody may notice. What is
 * removed is gone at once, with its pages; who may not open a file any more cannot; locks end with what they belong to;
 * children begin with what their parent has open and nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than are kept. */
#define MANY 80
#define PAGES 400
/* Pages that a process may take for itself meanwhile. */
#define SLACK 100

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void expect(int holds, const char *what)
{
	if (!holds)
		fail(what);
}

static void put(const char *name, const char *text)
{
	int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
	expect(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0, name);
}

static void get(const char *name, const char *text)
{
	char found[64] = "";
	int file = open(name, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, found, sizeof found - 1);
	expect(file >= 0 && length == (ssize_t)strlen(text) && strcmp(found, text) == 0 && close(file) == 0, name);
}

/* Runs `action` in a child, which ends with 0 if all is as it is to be. */
static void in_child(void (*action)(void), const char *what)
{
	int status = -1;
	pid_t child = fork();
	expect(child >= 0, "fork");
	if (child == 0) {
		action();
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child && status == 0, what);
}

static unsigned long free_pages(void)
{
	struct statvfs space;
	expect(statvfs("/tmp", &space) == 0, "statvfs");
	return space.f_bfree;
}

/* Names have been looked up often enough for all that comes. */
static void warm_up(void)
{
	struct stat status;
	put("/tmp/warm", "warm");
	for (int call = 0; call < 8; call++)
		expect(stat("/tmp/warm", &status) == 0, "stat");
}

static void remove_large(void)
{
	expect(unlink("/tmp/large") == 0, "unlink");
}

static void removed_files_are_gone(void)
{
	static char page[4096] = "full";
	unsigned long before = free_pages(), full;
	struct stat status;
	int file = open("/tmp/large", O_CREAT | O_RDWR, 0644);
	for (int index = 0; index < PAGES; index++)
		expect(write(file, page, sizeof page) == sizeof page, "write");
	expect(close(file) == 0 && stat("/tmp/large", &status) == 0, "close");
	for (int call = 0; call < 4; call++)
		get("/tmp/warm", "warm");
	expect((file = open("/tmp/large", O_RDONLY)) >= 0 && close(file) == 0, "open");
	full = free_pages();
	in_child(remove_large, "a child that removes");
	expect(full + PAGES <= before + SLACK, "the file took its pages");
	expect(free_pages() + SLACK >= full + PAGES, "pages of a file that nobody has open");
	expect(open("/tmp/large", O_RDONLY) < 0 && errno == ENOENT, "it is gone");
	put("/tmp/large", "new");
	get("/tmp/large", "new");
	expect(unlink("/tmp/large") == 0, "unlink");
	puts("what is removed is gone");
}

static void open_ones_stay(void)
{
	char found[8] = "";
	int file;
	put("/tmp/open", "old");
	get("/tmp/open", "old");
	file = open("/tmp/open", O_RDONLY);
	expect(unlink("/tmp/open") == 0, "unlink");
	put("/tmp/open", "other");
	expect(pread(file, found, 8, 0) == 3 && strcmp(found, "old") == 0 && close(file) == 0, "what is open stays");
	get("/tmp/open", "other");
	put("/tmp/above", "above");
	get("/tmp/above", "above");
	expect(rename("/tmp/above", "/tmp/open") == 0, "rename");
	get("/tmp/open", "above");
	expect(open("/tmp/above", O_RDONLY) < 0 && errno == ENOENT, "the old name");
	puts("what is open stays, and names lead where they lead");
}

static void many(void)
{
	char name[32];
	int files[MANY];
	for (int round = 0; round < 3; round++) {
		for (int index = 0; index < MANY; index++) {
			sprintf(name, "/tmp/many%d", index);
			if (round == 0)
				put(name, name);
			get(name, name);
			expect((files[index] = open(name, O_RDONLY)) >= 0, name);
		}
		for (int index = 0; index < MANY; index++) {
			int again = dup(files[index]);
			char byte;
			sprintf(name, "/tmp/many%d", index);
			expect(close(files[index]) == 0 && read(again, &byte, 1) == 1 && byte == '/', "a duplicate");
			get(name, name);
			expect(read(again, &byte, 1) == 1 && byte == 't' && close(again) == 0, "a second description");
		}
	}
	for (int index = 0; index < MANY; index++) {
		sprintf(name, "/tmp/many%d", index);
		expect(unlink(name) == 0, "unlink");
	}
	puts("more than are kept");
}

static int inherited;

static void use_inherited(void)
{
	char found[8] = "";
	expect(pread(inherited, found, 7, 0) == 5 && strcmp(found, "child") == 0, "an inherited file");
	get("/tmp/warm", "warm");
	get("/tmp/child", "child");
	expect(close(inherited) == 0, "close");
	get("/tmp/child", "child");
}

static void children(void)
{
	put("/tmp/child", "child");
	get("/tmp/child", "child");
	expect((inherited = open("/tmp/child", O_RDONLY)) >= 0, "open");
	for (int round = 0; round < 4; round++) {
		in_child(use_inherited, "a child that reads");
		get("/tmp/child", "child");
	}
	use_inherited();
	in_child(warm_up, "a child without it");
	puts("children");
}

static void try_as_nobody(void)
{
	int file;
	expect(setgid(1000) == 0 && setuid(1000) == 0, "setuid");
	expect(open("/tmp/secret", O_RDONLY) < 0 && errno == EACCES, "what may not be read");
	get("/tmp/public", "public");
	expect(open("/tmp/public", O_WRONLY) < 0 && errno == EACCES, "what may not be written");
	expect(open("/tmp/public", O_RDWR) < 0 && errno == EACCES, "what may not be written, though read");
	expect((file = open("/tmp", O_RDONLY | O_DIRECTORY)) >= 0 && close(file) == 0, "a directory");
	expect(open("/tmp/public", O_RDONLY | O_DIRECTORY) < 0 && errno == ENOTDIR, "no directory");
	expect(open("/tmp", O_WRONLY) < 0 && errno == EISDIR, "a directory to write");
	expect(access("/tmp/public", R_OK) == 0 && access("/tmp/public", W_OK) < 0 && errno == EACCES, "access");
	expect(access("/tmp/public", X_OK) < 0 && access("/tmp", X_OK) == 0, "access to run");
}

static void permissions(void)
{
	put("/tmp/secret", "secret");
	put("/tmp/public", "public");
	get("/tmp/secret", "secret");
	get("/tmp/public", "public");
	expect(chmod("/tmp/secret", 0600) == 0, "chmod");
	get("/tmp/secret", "secret");
	get("/tmp/public", "public");
	expect(access("/tmp/secret", R_OK | W_OK) == 0 && access("/tmp/secret", X_OK) < 0, "access of user 0");
	in_child(try_as_nobody, "a child without rights");
	puts("permissions");
}

static void lock_as_child(void)
{
	int file = open("/tmp/lock", O_RDWR);
	expect(flock(file, LOCK_EX | LOCK_NB) == 0, "a lock that is free");
	expect(close(file) == 0, "close");
}

static void lock_inherited(void)
{
	expect(flock(inherited, LOCK_EX | LOCK_NB) == 0, "a lock by a child");
}

static void record_lock_as_child(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int file = open("/tmp/lock", O_RDWR);
	expect(fcntl(file, F_SETLK, &lock) == 0 && close(file) == 0, "a record lock that is free");
}

static void locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int file;
	put("/tmp/lock", "lock");
	get("/tmp/lock", "lock");
	/* A child takes it for all who have the description, and is gone. */
	expect((inherited = open("/tmp/lock", O_RDWR)) >= 0, "open");
	in_child(lock_inherited, "a child that locks");
	expect((file = open("/tmp/lock", O_RDWR)) >= 0, "open");
	expect(flock(file, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK, "a lock that the child took");
	expect(close(inherited) == 0 && flock(file, LOCK_SH | LOCK_NB) == 0 && close(file) == 0, "it ended");
	in_child(lock_as_child, "a child that finds it free");
	/* A process loses its record locks with any descriptor of the file. */
	expect((file = open("/tmp/lock", O_RDWR)) >= 0 && fcntl(file, F_SETLK, &lock) == 0, "a record lock");
	get("/tmp/lock", "lock");
	in_child(record_lock_as_child, "the record lock ended");
	/* A duplicate is such a descriptor, too. */
	expect(fcntl(file, F_SETLK, &lock) == 0 && close(dup(file)) == 0, "a duplicate");
	in_child(record_lock_as_child, "the record lock ended with the duplicate");
	expect(fcntl(file, F_SETLK, &lock) == 0 && close(file) == 0, "close");
	puts("locks");
}

/* Long enough for a clock that is kept by ticks. */
static void nap(void)
{
	usleep(20000);
}

static void times(void)
{
	struct stat first, second;
	char byte;
	int file;
	put("/tmp/times", "times");
	get("/tmp/times", "times");
	file = open("/tmp/times", O_RDWR);
	expect(file >= 0 && stat("/tmp/times", &first) == 0, "open");
	nap();
	expect(pwrite(file, "more bytes", 10, 5) == 10 && stat("/tmp/times", &second) == 0, "pwrite");
	expect(second.st_size == 15 && second.st_mtim.tv_nsec != first.st_mtim.tv_nsec, "size and time of a write");
	nap();
	expect(read(file, &byte, 1) == 1 && stat("/tmp/times", &first) == 0, "read");
	expect(first.st_atim.tv_nsec != second.st_atim.tv_nsec, "time of a read");
	expect(first.st_mtim.tv_nsec == second.st_mtim.tv_nsec && first.st_size == 15, "a read changes no more");
	expect(ftruncate(file, 3) == 0 && stat("/tmp/times", &second) == 0 && second.st_size == 3, "ftruncate");
	expect(close(file) == 0, "close");
	expect(stat("/tmp", &first) == 0, "stat of a directory");
	nap();
	put("/tmp/one more", "");
	expect(stat("/tmp", &second) == 0 && first.st_mtim.tv_nsec != second.st_mtim.tv_nsec, "a new name");
	nap();
	expect(unlink("/tmp/one more") == 0 && stat("/tmp", &first) == 0, "unlink");
	expect(first.st_mtim.tv_nsec != second.st_mtim.tv_nsec, "a name less");
	puts("sizes and times");
}

static void links(void)
{
	char target[32] = "";
	struct stat status;
	put("/tmp/one", "one");
	put("/tmp/two", "two");
	expect(symlink("one", "/tmp/to") == 0 && symlink("/tmp/to", "/tmp/further") == 0, "symlink");
	for (int round = 0; round < 3; round++) {
		get("/tmp/further", "one");
		expect(lstat("/tmp/further", &status) == 0 && S_ISLNK(status.st_mode) && status.st_size == 7, "lstat");
		expect(readlink("/tmp/to", target, sizeof target) == 3 && memcmp(target, "one", 3) == 0, "readlink");
		expect(readlink("/tmp/further", target, 2) == 2 && memcmp(target, "/t", 2) == 0, "a part of it");
		expect(readlink("/tmp/one", target, sizeof target) < 0 && errno == EINVAL, "what is no link");
		expect(open("/tmp/further", O_RDONLY | O_NOFOLLOW) < 0 && errno == ELOOP, "O_NOFOLLOW");
	}
	expect(unlink("/tmp/to") == 0 && stat("/tmp/further", &status) < 0 && errno == ENOENT, "a link to nothing");
	expect(symlink("/tmp/two", "/tmp/to") == 0, "symlink");
	get("/tmp/further", "two");
	expect(unlink("/tmp/to") == 0 && symlink("further", "/tmp/to") == 0, "symlink");
	expect(stat("/tmp/further", &status) < 0 && errno == ELOOP, "links in a circle");
	expect(unlink("/tmp/to") == 0 && mkdir("/tmp/to", 0755) == 0, "mkdir");
	put("/tmp/to/below", "below");
	get("/tmp/further/below", "below");
	expect(chmod("/tmp/to", 0700) == 0, "chmod");
	get("/tmp/further/below", "below");
	puts("symbolic links");
}

int main(void)
{
	warm_up();
	removed_files_are_gone();
	open_ones_stay();
	many();
	children();
	permissions();
	locks();
	times();
	links();
	return 0;
}
