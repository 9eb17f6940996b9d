/*
 * Files on a disk at /disk: what making, finding, reading, changing and removing them takes. Linux has ext4 there.
 *
 * What is read from the disk is evicted from the page cache by posix_fadvise before.
 */
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>

#define PLACE "/disk/measured"
#define FILES 64
#define SMALL 1024
#define PAGE 4096
#define OVERWRITES 16
#define MEBIBYTE (1 << 20)
#define LARGE 8
#define MANY 10000

static char bytes[MEBIBYTE];
static int large;

static const char *name_of(int index)
{
	static char name[64];
	snprintf(name, sizeof name, PLACE "/file%05d", index);
	return name;
}

static void create_files(int count)
{
	for (int index = 0; index < count; index++) {
		int file = (int)checked(open(name_of(index), O_CREAT | O_EXCL | O_WRONLY, 0644), "create");
		checked(write(file, bytes, SMALL) == SMALL ? 0 : -1, "write");
		checked(close(file), "close");
	}
}

static void read_files(int count)
{
	for (int index = 0; index < count; index++) {
		int file = (int)checked(open(name_of(index), O_RDONLY), "open");
		checked(read(file, bytes, SMALL) == SMALL ? 0 : -1, "read");
		checked(close(file), "close");
	}
}

static void remove_files(int count)
{
	for (int index = 0; index < count; index++)
		checked(unlink(name_of(index)), "unlink");
}

static void nothing_there(void)
{
	for (int index = 0; index < FILES; index++)
		unlink(name_of(index));
	sync();
}

static void files_there(void)
{
	nothing_there();
	create_files(FILES);
	sync();
}

static void creates(void)
{
	create_files(FILES);
}

static void creates_and_sync(void)
{
	create_files(FILES);
	sync();
}

static void unlinks(void)
{
	remove_files(FILES);
}

static void opens_and_reads(void)
{
	read_files(FILES);
}

static void overwrites(void)
{
	for (int index = 0; index < OVERWRITES; index++) {
		checked(pwrite(large, bytes, PAGE, (off_t)index * PAGE * 3) == PAGE ? 0 : -1, "pwrite");
		checked(fsync(large), "fsync");
	}
}

static void no_large_file(void)
{
	if (large)
		checked(close(large), "close");
	unlink(PLACE "/large");
	sync();
	large = (int)checked(open(PLACE "/large", O_CREAT | O_RDWR, 0644), "create");
}

static void write_large(void)
{
	for (int index = 0; index < LARGE; index++)
		checked(pwrite(large, bytes, MEBIBYTE, (off_t)index * MEBIBYTE) == MEBIBYTE ? 0 : -1, "pwrite");
	checked(fsync(large), "fsync");
}

static void evict_large(void)
{
	checked(fsync(large), "fsync");
	checked(-posix_fadvise(large, 0, 0, POSIX_FADV_DONTNEED), "posix_fadvise");
}

static void read_large(void)
{
	for (int index = 0; index < LARGE; index++)
		checked(pread(large, bytes, MEBIBYTE, (off_t)index * MEBIBYTE) == MEBIBYTE ? 0 : -1, "pread");
}

/* One sample alone: a figure of MANY operations. */
static void measure_many(const char *name, void (*body)(int))
{
	uint64_t begun, taken;
	sync();
	MARK_BEGIN();
	begun = now();
	body(MANY);
	taken = now() - begun;
	MARK_END();
	MARK_FIGURE();
	printf("bench: figure %s %d %lu\n", name, MANY, (unsigned long)taken);
	fflush(stdout);
}

int main(void)
{
	begin();
	checked(mkdir(PLACE, 0755), "mkdir");
	measure_after(nothing_there, "create", FILES, creates);
	measure_after(nothing_there, "create-synced", FILES, creates_and_sync);
	measure_after(files_there, "unlink", FILES, unlinks);
	files_there();
	measure("open-read-close", FILES, opens_and_reads);
	nothing_there();
	measure_after(no_large_file, "write-mib", LARGE, write_large);
	measure_after(evict_large, "read-mib", LARGE, read_large);
	measure("overwrite-fsync", OVERWRITES, overwrites);
	measure_many("many-created", create_files);
	measure_many("many-read", read_files);
	measure_many("many-deleted", remove_files);
	return 0;
}
