/*
 * One process changes names, rights and sizes while others look at them, which ExOS answers without asking anybody where it
 * can. Every change has a number. Who changes something says in shared memory which change it begins and which one is done;
 * who looks reads the one that was done before its call and the one that had begun after it. The answer must be what was so
 * after one of these changes, or of those in between: it may be as old as the beginning of the call, and no older.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOKERS 2
#define PLACE "/tmp/raced"
#define MOST 64

static struct {
	atomic_ulong begun, done;
	atomic_int over;
} *shared;

static unsigned long changes = 200;
static const char *trying;

static void fail(const char *what)
{
	printf("%s: %s (%s)\n", trying, what, strerror(errno));
	fflush(stdout);
	exit(1);
}

static void expect(int holds, const char *what)
{
	if (!holds)
		fail(what);
}

/* What a look found: a number that depends on the change, -1 where there was nothing, -2 where it was forbidden. */
typedef long (*looker)(void);
/* What is to be found after a change. */
typedef long (*expectation)(unsigned long change);
typedef void (*changer)(unsigned long change);

static long outcome(int failed, long found)
{
	if (!failed)
		return found;
	if (errno == ENOENT)
		return -1;
	if (errno == EACCES)
		return -2;
	fail("an error that none of the changes explains");
	return 0;
}

static void look(looker found, expectation expected)
{
	unsigned long before = atomic_load(&shared->done);
	long answer = found();
	unsigned long after = atomic_load(&shared->begun);
	for (unsigned long change = before; change <= after; change++)
		if (expected(change) == answer)
			return;
	printf("%s: found %ld, between changes %lu and %lu\n", trying, answer, before, after);
	fflush(stdout);
	exit(1);
}

/* Changes in this process, while others look. */
static void race(const char *name, changer change, looker found, expectation expected, uid_t user)
{
	pid_t children[LOOKERS];
	trying = name;
	atomic_store(&shared->begun, 0);
	atomic_store(&shared->done, 0);
	atomic_store(&shared->over, 0);
	for (int index = 0; index < LOOKERS; index++) {
		children[index] = fork();
		expect(children[index] >= 0, "fork");
		if (children[index] == 0) {
			expect(user == 0 || setuid(user) == 0, "setuid");
			while (!atomic_load(&shared->over)) {
				for (int times = 0; times < 5; times++)
					look(found, expected);
				sched_yield();
			}
			look(found, expected);
			_exit(0);
		}
	}
	for (unsigned long number = 1; number <= changes; number++) {
		atomic_store(&shared->begun, number);
		change(number);
		atomic_store(&shared->done, number);
		/* Now and then somebody gets the CPU in between; the next change mostly comes at once. */
		if (number % 3 == 0)
			sched_yield();
	}
	atomic_store(&shared->over, 1);
	for (int index = 0; index < LOOKERS; index++) {
		int status = -1;
		waitpid(children[index], &status, 0);
		expect(status == 0, "one of those who looked was told what never was so");
	}
	puts(name);
	fflush(stdout);
}

static void make(const char *name, off_t size, mode_t mode)
{
	int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
	expect(file >= 0 && ftruncate(file, size) == 0 && fchmod(file, mode) == 0 && close(file) == 0, name);
}

static long size_of(const char *name)
{
	struct stat status;
	int failed = stat(name, &status);
	return outcome(failed, failed ? 0 : (long)status.st_size);
}

/* The same by opening. */
static long opened_size_of(const char *name)
{
	struct stat status = { 0 };
	int file = open(name, O_RDONLY);
	if (file >= 0)
		expect(fstat(file, &status) == 0 && close(file) == 0, "fstat and close");
	return outcome(file < 0, (long)status.st_size);
}

/* A file goes from one name to another and back. */
static void move(unsigned long change)
{
	const char *names[2] = { PLACE "/here", PLACE "/there" };
	expect(rename(names[(change + 1) % 2], names[change % 2]) == 0, "rename");
}
static long is_here(void)
{
	return size_of(PLACE "/here");
}
static long is_there_opened(void)
{
	return opened_size_of(PLACE "/there");
}
static long here_after(unsigned long change)
{
	return change % 2 ? -1 : 7;
}
static long there_after(unsigned long change)
{
	return change % 2 ? 7 : -1;
}

/* A name comes and goes; each time the file has another size. */
static void come_and_go(unsigned long change)
{
	if (change % 2 == 0) {
		expect(unlink(PLACE "/comes") == 0, "unlink");
		return;
	}
	expect(truncate(PLACE "/always", (off_t)change) == 0, "truncate");
	expect(link(PLACE "/always", PLACE "/comes") == 0, "link");
}
static long is_come(void)
{
	return size_of(PLACE "/comes");
}
static long is_come_opened(void)
{
	return opened_size_of(PLACE "/comes");
}
static long come_after(unsigned long change)
{
	return change % 2 ? (long)change : -1;
}

/* A file is replaced by another one: the name is always there. */
static void replace(unsigned long change)
{
	make(PLACE "/fresh", (off_t)change, 0644);
	expect(rename(PLACE "/fresh", PLACE "/replaced") == 0, "rename");
}
static long which_is_it(void)
{
	return size_of(PLACE "/replaced");
}
static long which_is_opened(void)
{
	return opened_size_of(PLACE "/replaced");
}
static long number_itself(unsigned long change)
{
	return (long)change;
}

/* Rights of a file. */
static void change_mode(unsigned long change)
{
	expect(chmod(PLACE "/mode", change & 0777) == 0, "chmod");
}
static long mode_now(void)
{
	struct stat status;
	expect(stat(PLACE "/mode", &status) == 0, "stat");
	return status.st_mode & 0777;
}
static long mode_after(unsigned long change)
{
	return change & 0777;
}

/* A file grows by writes through a descriptor. */
static int growing;
static void grow(unsigned long change)
{
	expect(pwrite(growing, "x", 1, (off_t)change - 1) == 1, "pwrite");
}
static long grown(void)
{
	return size_of(PLACE "/grows");
}
static long grown_read(void)
{
	char byte;
	long size = 0;
	int file = open(PLACE "/grows", O_RDONLY);
	expect(file >= 0, "open");
	while (read(file, &byte, 1) == 1)
		size++;
	expect(close(file) == 0, "close");
	return size;
}

/* Who may search a directory. */
static void change_search(unsigned long change)
{
	const mode_t modes[3] = { 0755, 0700, 0711 };
	expect(chmod(PLACE "/folder", modes[change % 3]) == 0, "chmod");
}
static long found_in_folder(void)
{
	return size_of(PLACE "/folder/file");
}
static long opened_in_folder(void)
{
	return opened_size_of(PLACE "/folder/file");
}
static long absent_in_folder(void)
{
	return size_of(PLACE "/folder/absent");
}
static long search_after(unsigned long change)
{
	return change % 3 == 1 ? -2 : 5;
}
static long absent_after(unsigned long change)
{
	return change % 3 == 1 ? -2 : -1;
}

/* Whose a file is: only its owner may open it. */
static void change_owner(unsigned long change)
{
	expect(chown(PLACE "/owned", change % 2 ? 1000 : 0, 0) == 0, "chown");
}
static long open_owned(void)
{
	return opened_size_of(PLACE "/owned");
}
static long owned_after(unsigned long change)
{
	return change % 2 ? 3 : -2;
}

/* A directory and a symbolic link to another one change places. */
static void exchange(unsigned long change)
{
	(void)change;
	expect(renameat2(AT_FDCWD, PLACE "/one", AT_FDCWD, PLACE "/other", RENAME_EXCHANGE) == 0, "renameat2");
}
static long file_in_one(void)
{
	return size_of(PLACE "/one/file");
}
static long kind_of_one(void)
{
	struct stat status;
	expect(lstat(PLACE "/one", &status) == 0, "lstat");
	return S_ISLNK(status.st_mode) ? 2 : 1;
}
static long exchanged_after(unsigned long change)
{
	return change % 2 ? 2 : 1;
}

/* A file system is mounted on a directory, and taken away. */
static void change_mount(unsigned long change)
{
	if (change % 2)
		expect(mount("none", PLACE "/covered", "tmpfs", 0, "") == 0, "mount");
	else
		/* Who is just looking keeps it busy for a moment. */
		while (umount(PLACE "/covered") != 0)
			expect(errno == EBUSY, "umount");
}
static long covered(void)
{
	return size_of(PLACE "/covered/file");
}
static long covered_opened(void)
{
	return opened_size_of(PLACE "/covered/file");
}
static long covered_after(unsigned long change)
{
	return change % 2 ? -1 : 4;
}

/* Who lists a directory piece by piece meets each name that stays exactly once. */
static void change_listed(unsigned long change)
{
	char name[64];
	for (int index = 0; index < 8; index++) {
		snprintf(name, sizeof name, PLACE "/listed/comes%lu", (change * 5 + (unsigned)index) % 40);
		if (unlink(name) != 0)
			make(name, 0, 0644);
	}
}
static long list_all(void)
{
	char buffer[256];
	int met[MOST] = { 0 }, all = 0;
	int folder = open(PLACE "/listed", O_RDONLY | O_DIRECTORY);
	long length;
	expect(folder >= 0, "open");
	while ((length = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
		for (long at = 0; at < length;) {
			const char *name = buffer + at + offsetof(struct dirent64, d_name);
			uint16_t bytes;
			int index;
			if (sscanf(name, "stays%d", &index) == 1)
				met[index]++;
			memcpy(&bytes, buffer + at + offsetof(struct dirent64, d_reclen), sizeof bytes);
			at += bytes;
		}
	expect(length == 0 && close(folder) == 0, "getdents64 and close");
	for (int index = 0; index < MOST; index++)
		all += met[index] == 1;
	return all;
}
static long all_of_them(unsigned long change)
{
	(void)change;
	return MOST;
}

/* A copy of this program, which makes user 0 of who executes it. */
static void install(const char *name)
{
	struct stat status;
	int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_CREAT | O_WRONLY, 0700);
	expect(from >= 0 && to >= 0 && fstat(from, &status) == 0, name);
	expect(sendfile(to, from, NULL, (size_t)status.st_size) == status.st_size && close(from) == 0, name);
	expect(fchmod(to, 04755) == 0 && close(to) == 0, name);
}

/* What a program sees that begins with another root, in whatever environment. */
static int look_from_inside(void)
{
	trying = "a program that is somebody else, with another root";
	expect(geteuid() == 0 && getuid() == 1000, "who it is");
	for (int times = 0; times < 20; times++)
		expect(size_of("/file") == 11 && size_of("/tmp/raced") == -1, "names outside");
	return 0;
}

/* A process that has looked at names gets another root: nothing outside is found any more. */
static void try_root(void)
{
	int status = -1;
	pid_t child;
	trying = "another root";
	expect(mkdir(PLACE "/jail", 0755) == 0 && mkdir(PLACE "/jail/tmp", 0755) == 0, "mkdir");
	make(PLACE "/jail/file", 11, 0644);
	make("/file", 12, 0644);
	install(PLACE "/jail/raced");
	child = fork();
	expect(child >= 0, "fork");
	if (child == 0) {
		for (int times = 0; times < 20; times++)
			expect(size_of("/file") == 12 && size_of(PLACE "/jail/file") == 11, "before");
		expect(chdir(PLACE) == 0 && chroot(PLACE "/jail") == 0, "chroot");
		for (int times = 0; times < 20; times++) {
			expect(size_of("/file") == 11 && opened_size_of("/file") == 11, "the root's own file");
			expect(size_of(PLACE "/jail/file") == -1 && size_of("/tmp/raced") == -1, "names outside");
			expect(size_of("/../../file") == 11, "above the root");
			expect(size_of("jail/file") == 11, "the working directory lies outside still");
		}
		expect(setuid(1000) == 0 && chdir("/") == 0, "setuid");
		execl("/raced", "raced", "inside", NULL);
		fail("execl");
	}
	waitpid(child, &status, 0);
	expect(status == 0, "the child");
	expect(unlink("/file") == 0, "unlink");
	puts(trying);
}

/* What looks like a short name and is none, and paths with everything in them. */
static void try_spellings(void)
{
	const char *same[] = { PLACE "/mode", "/tmp//raced/mode", "/tmp/./raced/mode", "/./tmp/raced/./mode",
		"//tmp/raced/mode", "/tmp/raced/folder/../mode", "/tmp/raced/../raced/mode", "tmp/raced/mode", "./tmp/raced/mode" };
	const char *none[] = { PLACE "/mod", PLACE "/mode2", PLACE "/Mode", "/tmp/raced/ mode" };
	struct stat first, other;
	trying = "spellings";
	expect(chdir("/") == 0 && chmod(PLACE "/folder", 0755) == 0 && stat(same[0], &first) == 0, "stat");
	for (int times = 0; times < 6; times++) {
		for (unsigned index = 0; index < sizeof same / sizeof *same; index++)
			expect(stat(same[index], &other) == 0 && other.st_ino == first.st_ino, same[index]);
		for (unsigned index = 0; index < sizeof none / sizeof *none; index++)
			expect(stat(none[index], &other) != 0 && errno == ENOENT, none[index]);
		expect(stat(PLACE "/mode/", &other) != 0 && errno == ENOTDIR, "a slash behind a file");
		expect(stat(PLACE "/mode/.", &other) != 0 && errno == ENOTDIR, "a dot behind a file");
		expect(stat("", &other) != 0 && errno == ENOENT, "an empty path");
		expect(stat("/", &other) == 0 && S_ISDIR(other.st_mode), "the root");
		expect(stat(".", &first) == 0 && first.st_ino == other.st_ino, "the working directory");
		expect(stat(same[0], &first) == 0, "stat");
	}
	puts(trying);
}

/* A name of each length that is shown, and of some that are not. */
static void try_lengths(void)
{
	char name[64], longer[66];
	trying = "names of all lengths";
	expect(mkdir(PLACE "/lengths", 0755) == 0 && chdir(PLACE "/lengths") == 0, "mkdir");
	for (int length = 1; length <= 40; length++) {
		memset(name, 'a' + length % 26, sizeof name);
		name[length] = 0;
		make(name, length, 0644);
		snprintf(longer, sizeof longer, "%sx", name);
		for (int times = 0; times < 3; times++)
			expect(size_of(name) == length && size_of(longer) == -1, name);
		expect(rename(name, longer) == 0 && size_of(name) == -1 && size_of(longer) == length, longer);
		expect(unlink(longer) == 0 && size_of(longer) == -1, longer);
	}
	expect(chdir("/") == 0, "chdir");
	puts(trying);
}

static void prepare(void)
{
	char name[64];
	expect(mkdir(PLACE, 0755) == 0 && mkdir(PLACE "/folder", 0755) == 0 && mkdir(PLACE "/one", 0755) == 0, "mkdir");
	expect(mkdir(PLACE "/two", 0755) == 0 && symlink("two", PLACE "/other") == 0, "symlink");
	expect(mkdir(PLACE "/covered", 0755) == 0 && mkdir(PLACE "/listed", 0755) == 0, "mkdir");
	make(PLACE "/here", 7, 0644);
	make(PLACE "/always", 0, 0644);
	make(PLACE "/replaced", 0, 0644);
	make(PLACE "/mode", 0, 0);
	make(PLACE "/grows", 0, 0644);
	make(PLACE "/folder/file", 5, 0644);
	make(PLACE "/owned", 3, 0600);
	make(PLACE "/one/file", 1, 0644);
	make(PLACE "/two/file", 2, 0644);
	make(PLACE "/covered/file", 4, 0644);
	for (int index = 0; index < MOST; index++) {
		snprintf(name, sizeof name, PLACE "/listed/stays%d", index);
		make(name, 0, 0644);
	}
	growing = open(PLACE "/grows", O_WRONLY);
	expect(growing >= 0, "open");
}

int main(int count, char **arguments)
{
	if (count > 1 && strcmp(arguments[1], "inside") == 0)
		return look_from_inside();
	if (count > 1)
		changes = strtoul(arguments[1], NULL, 10) & ~1UL;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	trying = "preparation";
	expect(shared != MAP_FAILED, "mmap");
	prepare();
	race("a file moves", move, is_here, here_after, 0);
	race("a file moves, and is opened", move, is_there_opened, there_after, 0);
	race("a name comes and goes", come_and_go, is_come, come_after, 0);
	race("a name comes and goes, and is opened", come_and_go, is_come_opened, come_after, 0);
	race("a file is replaced", replace, which_is_it, number_itself, 0);
	replace(0);
	race("a file is replaced, and opened", replace, which_is_opened, number_itself, 0);
	race("a mode", change_mode, mode_now, mode_after, 0);
	race("a size", grow, grown, number_itself, 0);
	expect(ftruncate(growing, 0) == 0, "ftruncate");
	race("bytes", grow, grown_read, number_itself, 0);
	race("who may search", change_search, found_in_folder, search_after, 1000);
	expect(chmod(PLACE "/folder", 0755) == 0, "chmod");
	race("who may open below", change_search, opened_in_folder, search_after, 1000);
	expect(chmod(PLACE "/folder", 0755) == 0, "chmod");
	race("who may learn that there is nothing", change_search, absent_in_folder, absent_after, 1000);
	race("whose a file is", change_owner, open_owned, owned_after, 1000);
	race("a link for a directory", exchange, file_in_one, exchanged_after, 0);
	race("a link for a directory, itself", exchange, kind_of_one, exchanged_after, 0);
	race("a mount", change_mount, covered, covered_after, 0);
	race("a mount, and what it covers opened", change_mount, covered_opened, covered_after, 0);
	race("a list in pieces", change_listed, list_all, all_of_them, 0);
	try_root();
	try_spellings();
	try_lengths();
	return 0;
}
