/*
 * The disk itself, /dev/vda, past every cache: blocks of 4 KiB and 64 KiB with O_DIRECT, one request at a time.
 *
 * Linux has ext4 mounted from that disk, and Chitin has an empty volume; it is unmounted first.
 */
#include "harness.h"

#include <fcntl.h>
#include <sys/mount.h>

#define SMALL 4096
#define LARGE 65536
#define SMALLS 64
#define LARGES 16

static char *bytes;
static int disk;

static void read_all(int count, size_t size)
{
	for (int index = 0; index < count; index++)
		checked(pread(disk, bytes, size, (off_t)index * (off_t)size) == (ssize_t)size ? 0 : -1, "pread");
}

static void write_all(int count, size_t size)
{
	for (int index = 0; index < count; index++)
		checked(pwrite(disk, bytes, size, (off_t)index * (off_t)size) == (ssize_t)size ? 0 : -1, "pwrite");
}

static void small_reads(void)
{
	read_all(SMALLS, SMALL);
}

static void large_reads(void)
{
	read_all(LARGES, LARGE);
}

static void small_writes(void)
{
	write_all(SMALLS, SMALL);
}

static void large_writes(void)
{
	write_all(LARGES, LARGE);
}

static void flushed_writes(void)
{
	for (int index = 0; index < LARGES; index++) {
		checked(pwrite(disk, bytes, SMALL, (off_t)index * SMALL) == SMALL ? 0 : -1, "pwrite");
		checked(fsync(disk), "fsync");
	}
}

/* What was written is what is read: a figure of something else would be worth nothing. */
static void compare(void)
{
	memset(bytes, 0x5a, LARGE);
	checked(pwrite(disk, bytes, LARGE, LARGE) == LARGE ? 0 : -1, "pwrite");
	memset(bytes, 0, LARGE);
	checked(pread(disk, bytes, LARGE, LARGE) == LARGE ? 0 : -1, "pread");
	for (int index = 0; index < LARGE; index++) {
		if (bytes[index] != 0x5a) {
			errno = EIO;
			checked(-1, "comparison");
		}
	}
}

int main(void)
{
	begin();
	/* Where nothing is mounted, this fails and there is nothing to do. */
	umount2("/disk", 0);
	bytes = aligned_alloc(SMALL, LARGE);
	memset(bytes, 1, LARGE);
	disk = (int)checked(open("/dev/vda", O_RDWR | O_DIRECT), "open of /dev/vda");
	compare();
	measure("read-4k", SMALLS, small_reads);
	measure("read-64k", LARGES, large_reads);
	measure("write-4k", SMALLS, small_writes);
	measure("write-64k", LARGES, large_writes);
	measure("write-flush-4k", LARGES, flushed_writes);
	return 0;
}
