// A program in C, compiled by the host's compiler, and the same on both sides.
// Calls on memory, right and wrong: mmap, munmap, mprotect, mremap, madvise, mincore, mlock, msync, brk, limits, faults, files that are cut by another.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define MUST(what) do { if ((what) < 0) { perror(#what); exit(1); } } while (0)
static char *ground; /* 64 pages that nothing else uses */
static const char *name_of(long address)
{
	static char text[64];
	if (address >= -4095 && address < 0) return strerrorname_np(-address);
	if (address >= (long)ground && address <= (long)ground + 64 * (long)PAGE) {
		sprintf(text, "ground+%ld", (address - (long)ground) / (long)PAGE);
		return text;
	}
	if (address > 4096) return "elsewhere";
	sprintf(text, "%ld", address);
	return text;
}
static long call(const char *what, long number, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(number, a, b, c, d, e, f);
	if (result == -1) result = -errno;
	printf("%s: %s\n", what, name_of(result));
	return result;
}
#define TELL(what, number, ...) CALL_(what, number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(what, number, a, b, c, d, e, f, ...) call(what, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static sigjmp_buf back;
static volatile int fault_signal, fault_code;
static volatile long fault_address;
static void on_fault(int number, siginfo_t *info, void *context)
{
	fault_signal = number, fault_code = info->si_code, fault_address = (long)info->si_addr;
	siglongjmp(back, 1);
}
static const char *touch(volatile char *at, int write)
{
	static char text[64];
	if (sigsetjmp(back, 1)) {
		sprintf(text, "%s code %d at %s", fault_signal == SIGBUS ? "SIGBUS" : "SIGSEGV", fault_code, fault_address == (long)at ? "it" : "another");
		return text;
	}
	if (write) *at = 'w'; else (void)*at;
	return "fine";
}
/* r: read, w: written, -: fault, for pages of the ground */
static void state(const char *what, int from, int to)
{
	printf("%s: ", what);
	for (int page = from; page < to; page++) {
		char *at = ground + page * PAGE;
		int can_read = !strcmp(touch(at + 1, 0), "fine"), can_write = can_read && !strcmp(touch(at + 1, 1), "fine");
		putchar(can_write ? 'w' : can_read ? 'r' : '-');
	}
	putchar('\n');
}
static void fresh(void)
{
	if (mmap(ground, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != ground) abort();
	for (int page = 0; page < 64; page++) sprintf(ground + page * PAGE, "page %d", page);
}
static void hole(int from, int to) { munmap(ground + from * PAGE, (to - from) * PAGE); }
#define AT(page) (ground + (page) * PAGE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)
static int file_of(int bytes)
{
	int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char data[PAGE];
	for (int done = 0; done < bytes; done += PAGE) {
		memset(data, 'a' + done / PAGE, PAGE);
		MUST(write(file, data, bytes - done < PAGE ? bytes - done : PAGE));
	}
	return file;
}

static void maps(void)
{
	printf("== mmap\n");
	int file = file_of(3 * PAGE), reader = open("mapped", O_RDONLY), writer = open("mapped", O_WRONLY), folder = open(".", O_RDONLY), path = open("mapped", O_PATH), pipes[2];
	MUST(pipe(pipes));
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), append = open("mapped", O_RDWR | O_APPEND);
	TELL("no bytes", SYS_mmap, 0, 0, RW, ANON, -1, 0);
	TELL("too many bytes", SYS_mmap, 0, 1UL << 63, RW, ANON, -1, 0);
	TELL("all bytes", SYS_mmap, 0, -1, RW, ANON, -1, 0);
	TELL("128 TiB", SYS_mmap, 0, 1UL << 47, RW, ANON | MAP_NORESERVE, -1, 0);
	TELL("no type", SYS_mmap, 0, PAGE, RW, MAP_ANONYMOUS, -1, 0);
	TELL("both types on nothing", SYS_mmap, 0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0);
	TELL("type 4", SYS_mmap, 0, PAGE, RW, 4 | MAP_ANONYMOUS, -1, 0);
	TELL("validate, unknown flag, file", SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | (1 << 21), file, 0);
	TELL("validate, MAP_SYNC, file", SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000, file, 0);
	TELL("validate, file", SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED_VALIDATE, file, 0);
	TELL("shared, unknown flag, file", SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED | (1 << 27), file, 0);
	TELL("protection of odd bits", SYS_mmap, 0, PAGE, 0xf0, ANON, -1, 0);
	TELL("grows up", SYS_mmap, 0, PAGE, PROT_READ | PROT_GROWSUP, ANON, -1, 0);
	TELL("offset not aligned", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, file, 1);
	TELL("offset not aligned, anonymous", SYS_mmap, 0, PAGE, PROT_READ, ANON, -1, 1);
	TELL("offset aligned, anonymous", SYS_mmap, 0, PAGE, PROT_READ, ANON, -1, PAGE);
	TELL("offset too far", SYS_mmap, 0, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, -PAGE);
	TELL("offset negative", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, file, 1UL << 63);
	TELL("offset beyond the largest file", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, file, (1UL << 63) - PAGE);
	TELL("no such descriptor", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, 999, 0);
	TELL("no such descriptor, no bytes", SYS_mmap, 0, 0, PROT_READ, MAP_PRIVATE, 999, 0);
	TELL("descriptor -1", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, -1, 0);
	TELL("folder", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, folder, 0);
	TELL("path", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, path, 0);
	TELL("pipe", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, pipes[0], 0);
	TELL("pipe's other end", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, pipes[1], 0);
	TELL("null", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, null, 0);
	TELL("zero", SYS_mmap, 0, PAGE, RW, MAP_PRIVATE, zero, 0);
	TELL("zero, shared", SYS_mmap, 0, PAGE, RW, MAP_SHARED, zero, 0);
	int to_read = open("/dev/zero", O_RDONLY);
	char *zeros = mmap(0, 2 * PAGE, PROT_READ, MAP_SHARED, to_read, 0);
	TELL("zero to read, shared, to write", SYS_mmap, 0, PAGE, RW, MAP_SHARED, to_read, 0);
	TELL("zero to read, private, to write", SYS_mmap, 0, PAGE, RW, MAP_PRIVATE, to_read, 0);
	TELL("zero to read, written later", SYS_mprotect, zeros, PAGE, RW);
	TELL("zero to read, executed later", SYS_mprotect, zeros, PAGE, PROT_READ | PROT_EXEC);
	printf("zero to read: %d\n", zeros[0] + zeros[PAGE]);
	munmap(zeros, 2 * PAGE), close(to_read);
	TELL("only to write", SYS_mmap, 0, PAGE, PROT_WRITE, MAP_SHARED, writer, 0);
	TELL("only to write, to read", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, writer, 0);
	TELL("only to read, shared to write", SYS_mmap, 0, PAGE, RW, MAP_SHARED, reader, 0);
	TELL("only to read, shared to read", SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, reader, 0);
	TELL("only to read, private to write", SYS_mmap, 0, PAGE, RW, MAP_PRIVATE, reader, 0);
	TELL("to append, shared to write", SYS_mmap, 0, PAGE, RW, MAP_SHARED, append, 0);
	fresh();
	TELL("fixed", SYS_mmap, AT(3), PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0);
	TELL("fixed, not aligned", SYS_mmap, AT(3) + 1, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0);
	TELL("fixed at 0", SYS_mmap, 0, PAGE, PROT_READ, ANON | MAP_FIXED, -1, -1 & ~4095);
	TELL("fixed at the end", SYS_mmap, (1UL << 47) - PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0);
	TELL("fixed beyond the end", SYS_mmap, 1UL << 47, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0);
	TELL("fixed around", SYS_mmap, -PAGE, 2 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0);
	TELL("not replacing, taken", SYS_mmap, AT(3), PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	hole(5, 7);
	TELL("not replacing, taken in part", SYS_mmap, AT(5), 3 * PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	TELL("not replacing, before in part", SYS_mmap, AT(4), 2 * PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	TELL("not replacing, free", SYS_mmap, AT(5), 2 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	TELL("not replacing, not aligned", SYS_mmap, AT(5) + 5, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	TELL("both, taken", SYS_mmap, AT(5), PAGE, RW, ANON | MAP_FIXED | MAP_FIXED_NOREPLACE, -1, 0);
	TELL("wish that is taken", SYS_mmap, AT(5), PAGE, RW, ANON, -1, 0);
	hole(9, 12);
	TELL("wish that is free", SYS_mmap, AT(9), PAGE, RW, ANON, -1, 0);
	TELL("wish that is not aligned", SYS_mmap, AT(10) + 77, PAGE, RW, ANON, -1, 0);
	TELL("wish with too much behind", SYS_mmap, AT(11), 2 * PAGE, RW, ANON, -1, 0);
	TELL("large pages", SYS_mmap, 0, 1 << 21, RW, ANON | MAP_HUGETLB, -1, 0);
	TELL("locked", SYS_mmap, AT(30), PAGE, RW, ANON | MAP_FIXED | MAP_LOCKED, -1, 0);
	TELL("populated", SYS_mmap, AT(20), 4 * PAGE, RW, ANON | MAP_FIXED | MAP_POPULATE, -1, 0);
	unsigned char there[8] = {0};
	TELL("populated pages are there", SYS_mincore, AT(20), 4 * PAGE, there);
	printf("%d%d%d%d\n", there[0] & 1, there[1] & 1, there[2] & 1, there[3] & 1);
	TELL("stack, denied write, executable, not reserved, uninitialised", SYS_mmap, AT(20), PAGE, RW, ANON | MAP_FIXED | MAP_STACK | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_NORESERVE | 0x4000000, -1, 0);
	TELL("in the lower half", SYS_mmap, 0, PAGE, RW, ANON | MAP_32BIT, -1, 0) ;
	long low = (long)mmap(0, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	printf("low: %d\n", low > 0 && low < 1L << 31);
	TELL("more than the ground, fixed on nothing", SYS_mmap, AT(0), 64 * PAGE, PROT_NONE, ANON | MAP_FIXED | MAP_NORESERVE, -1, 0);
	state("nothing is allowed", 0, 4);
	close(file), close(reader), close(writer), close(folder), close(path), close(pipes[0]), close(pipes[1]), close(null), close(zero), close(append);
}

static void unmaps(void)
{
	printf("== munmap\n");
	fresh();
	TELL("no bytes", SYS_munmap, AT(0), 0);
	TELL("not aligned", SYS_munmap, AT(0) + 1, PAGE);
	TELL("one byte", SYS_munmap, AT(0), 1);
	TELL("again", SYS_munmap, AT(0), 1);
	TELL("too much", SYS_munmap, AT(0), -1);
	TELL("beyond", SYS_munmap, 1UL << 47, PAGE);
	TELL("to the end of all", SYS_munmap, AT(0), (1UL << 47) - (long)AT(0));
	TELL("kernel", SYS_munmap, 0xffffffff80000000, PAGE);
	TELL("over holes", SYS_munmap, AT(0), 4 * PAGE);
	fresh();
	TELL("middle", SYS_munmap, AT(10), 2 * PAGE);
	state("a hole", 8, 14);
	printf("%s\n", touch(AT(10), 0));
	printf("%s\n", touch((char *)0xffff800000000000, 0));
	printf("%s\n", touch(0, 1));
}

static void protects(void)
{
	printf("== mprotect\n");
	fresh();
	TELL("no bytes", SYS_mprotect, AT(0), 0, PROT_READ);
	TELL("no bytes, nothing there", SYS_mprotect, 0x10000, 0, PROT_READ);
	TELL("not aligned", SYS_mprotect, AT(0) + 1, PAGE, PROT_READ);
	TELL("not aligned, no bytes", SYS_mprotect, AT(0) + 1, 0, PROT_READ);
	TELL("odd bits", SYS_mprotect, AT(0), PAGE, 0x70);
	TELL("wrong bits, no bytes", SYS_mprotect, AT(0), 0, 0x70);
	TELL("around", SYS_mprotect, AT(0), -1, PROT_READ);
	TELL("around, aligned", SYS_mprotect, AT(0), -PAGE, PROT_READ);
	TELL("beyond", SYS_mprotect, 1UL << 47, PAGE, PROT_READ);
	TELL("kernel", SYS_mprotect, 0xffffffff80000000, PAGE, PROT_READ);
	TELL("nothing there", SYS_mprotect, 0x10000, PAGE, PROT_READ);
	TELL("one byte", SYS_mprotect, AT(1), 1, PROT_READ);
	hole(4, 6);
	TELL("over a hole", SYS_mprotect, AT(2), 6 * PAGE, PROT_READ);
	state("before the hole, not behind", 0, 9);
	TELL("from a hole", SYS_mprotect, AT(4), 4 * PAGE, PROT_READ);
	TELL("into a hole", SYS_mprotect, AT(3), 2 * PAGE, PROT_NONE);
	state("changed up to it", 0, 9);
	TELL("only write", SYS_mprotect, AT(8), PAGE, PROT_WRITE);
	state("is read, too", 8, 9);
	TELL("nothing", SYS_mprotect, AT(9), PAGE, PROT_NONE);
	printf("%s\n", touch(AT(9), 0));
	TELL("back", SYS_mprotect, AT(9), PAGE, RW);
	printf("contents %s\n", AT(9));
	TELL("grows down, of no stack", SYS_mprotect, AT(12), PAGE, PROT_READ | PROT_GROWSDOWN);
	TELL("grows down and up", SYS_mprotect, AT(12), PAGE, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP);
	TELL("grows up", SYS_mprotect, AT(12), PAGE, PROT_READ | PROT_GROWSUP);
	TELL("semaphores", SYS_mprotect, AT(12), PAGE, PROT_READ | 8);
	int file = file_of(2 * PAGE), reader = open("mapped", O_RDONLY);
	mmap(AT(20), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, reader, 0);
	mmap(AT(22), PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, reader, 0);
	mmap(AT(24), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
	TELL("file shared, opened to read", SYS_mprotect, AT(20), PAGE, RW);
	TELL("file private, opened to read", SYS_mprotect, AT(22), PAGE, RW);
	TELL("file shared, opened to write", SYS_mprotect, AT(24), PAGE, RW);
	TELL("more than what may be", SYS_mprotect, AT(18), 4 * PAGE, PROT_READ | PROT_EXEC);
	TELL("some of it may not be written", SYS_mprotect, AT(18), 4 * PAGE, RW);
	state("what stood before it is changed", 18, 22);
	close(file), close(reader);
	TELL("key of nothing", SYS_pkey_mprotect, AT(12), PAGE, PROT_READ, -1);
	TELL("wrong key", SYS_pkey_mprotect, AT(12), PAGE, PROT_READ, 5);
}

static void remaps(void)
{
	printf("== mremap\n");
	struct { const char *what; long from, old, now, flags, to; } rows[] = {
		{"as it is", 4, 4, 4, 0, 0}, {"smaller", 4, 4, 2, 0, 0}, {"larger, not free", 4, 4, 6, 0, 0}, {"larger, may move", 4, 4, 6, 1, 0},
		{"nothing", 4, 4, 0, 0, 0}, {"from nothing", 4, 0, 4, 0, 0}, {"from nothing, may move", 4, 0, 4, 1, 0},
		{"from nothing, may move, shared", 50, 0, 2, 1, 0}, {"fixed alone", 4, 4, 4, 2, 30}, {"fixed", 4, 4, 4, 3, 30}, {"fixed, smaller", 4, 4, 2, 3, 30},
		{"fixed, larger", 4, 4, 6, 3, 30}, {"fixed, overlapping", 4, 4, 4, 3, 6}, {"fixed, overlapping before", 4, 4, 4, 3, 2}, {"fixed, the same place", 4, 4, 4, 3, 4},
		{"fixed beside", 4, 4, 4, 3, 8}, {"fixed, not aligned", 4, 4, 4, 3, -1}, {"unknown flag", 4, 4, 4, 8, 0}, {"unmap not", 4, 4, 4, 4, 0}, {"unmap not, may move", 4, 4, 4, 5, 0},
		{"unmap not, may move, larger", 4, 4, 5, 5, 0}, {"unmap not, fixed", 4, 4, 4, 7, 30}, {"unmap not, fixed alone", 4, 4, 4, 6, 30}, {"over a hole", 14, 4, 4, 0, 0}, {"over a hole, larger", 14, 4, 6, 1, 0}, {"over a hole, smaller", 14, 4, 1, 0, 0},
		{"in a hole", 16, 1, 1, 0, 0}, {"in a hole, larger", 16, 1, 2, 1, 0}, {"into the hole", 12, 4, 5, 0, 0}, {"all of the hole", 12, 4, 6, 0, 0}, {"more than the hole", 12, 4, 7, 0, 0},
		{"a hole's other side", 18, 2, 2, 3, 16}, {"fixed, far away", 4, 4, 4, 3, 1L << 35}, {"too large", 4, 4, 1L << 34, 1, 0}, {"two areas, smaller", 22, 4, 2, 0, 0}, {"two areas, larger", 22, 4, 6, 1, 0}, {"two areas, as they are", 22, 4, 4, 0, 0},
		{"shared, larger, moved", 50, 2, 4, 1, 0}, {"shared, fixed", 50, 2, 2, 3, 30}, {"shared, unmap not", 50, 2, 2, 5, 0}, {"file, larger", 54, 2, 4, 1, 0}, {"file, fixed", 54, 2, 1, 3, 30}, {"part of an area", 40, 2, 4, 0, 0}, {"part of an area, moved", 40, 2, 4, 1, 0}};
	for (unsigned row = 0; row < sizeof rows / sizeof *rows; row++) {
		fresh();
		hole(16, 18);
		mprotect(AT(24), 8 * PAGE, PROT_READ);
		mmap(AT(50), 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		strcpy(AT(50), "shared 0"), strcpy(AT(51), "shared 1");
		int file = file_of(2 * PAGE);
		mmap(AT(54), 2 * PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0);
		close(file);
		long to = rows[row].to == -1 ? (long)AT(30) + 1 : rows[row].to == 0 ? 0 : rows[row].to > 64 ? rows[row].to * (long)PAGE : (long)AT(rows[row].to);
		long result = TELL(rows[row].what, SYS_mremap, AT(rows[row].from), rows[row].old * PAGE, rows[row].now * PAGE, rows[row].flags, to);
		if (result > 0) {
			char *at = (char *)result;
			printf("  first %s", touch(at, 0));
			if (!strcmp(touch(at, 0), "fine")) printf(" holds %.8s", at);
			if (rows[row].now > 1) printf(", last %s", touch(at + (rows[row].now - 1) * PAGE, 0));
			printf(", behind the old one %s", touch(AT(rows[row].from) , 0));
			if (result < (long)ground || result > (long)AT(64)) munmap(at, rows[row].now * PAGE);
			putchar('\n');
		}
		state("  then", 2, 34);
	}
	fresh();
	TELL("not aligned", SYS_mremap, AT(4) + 1, PAGE, 2 * PAGE, 1);
	TELL("odd length", SYS_mremap, AT(4), PAGE - 1, 100, 0);
	TELL("old length around", SYS_mremap, AT(4), -1, PAGE, 0);
	TELL("new length around", SYS_mremap, AT(4), PAGE, -1, 1);
	TELL("old beyond", SYS_mremap, 1UL << 47, PAGE, PAGE, 1);
	TELL("new beyond", SYS_mremap, AT(4), PAGE, PAGE, 3, (1UL << 47));
	TELL("new at the end", SYS_mremap, AT(4), PAGE, 2 * PAGE, 3, (1UL << 47) - PAGE);
	TELL("nothing there", SYS_mremap, 0x10000, PAGE, PAGE, 1);
	TELL("nothing there, larger", SYS_mremap, 0x10000, PAGE, 2 * PAGE, 1);
	TELL("nothing there, smaller", SYS_mremap, 0x10000, 2 * PAGE, PAGE, 1);
}

static void advises(void)
{
	printf("== madvise\n");
	static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 99, -1, 100, 101};
	for (unsigned n = 0; n < sizeof all / sizeof *all; n++) {
		char what[32];
		if (all[n] == 100 || all[n] == 101 || all[n] == 12 || all[n] == 13 || all[n] == 14 || all[n] == 15 ) continue; /* as the host is configured */
		fresh();
		sprintf(what, "advice %d", all[n]);
		TELL(what, SYS_madvise, AT(4), 2 * PAGE, all[n]);
		if (all[n] != 8) printf("  holds %.8s\n", touch(AT(4), 0) ? AT(4) : "");
		hole(8, 10);
		TELL("  over a hole", SYS_madvise, AT(6), 6 * PAGE, all[n]);
		TELL("  in a hole", SYS_madvise, AT(8), PAGE, all[n]);
		TELL("  no bytes", SYS_madvise, AT(4), 0, all[n]);
		TELL("  not aligned", SYS_madvise, AT(4) + 1, PAGE, all[n]);
		TELL("  around", SYS_madvise, AT(4), -1, all[n]);
		mmap(AT(30), 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		strcpy(AT(30), "shared");
		TELL("  shared", SYS_madvise, AT(30), PAGE, all[n]);
		printf("  holds %.8s\n", AT(30));
		int file = file_of(2 * PAGE);
		mmap(AT(40), 2 * PAGE, RW, MAP_PRIVATE | MAP_FIXED, file, 0);
		strcpy(AT(40), "private");
		TELL("  private file", SYS_madvise, AT(40), PAGE, all[n]);
		printf("  holds %.8s\n", AT(40));
		mmap(AT(42), 2 * PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0);
		strcpy(AT(42), "SHARED");
		TELL("  shared file", SYS_madvise, AT(42), PAGE, all[n]);
		printf("  holds %.8s\n", AT(42));
		mprotect(AT(44), PAGE, PROT_NONE);
		TELL("  closed page", SYS_madvise, AT(44), PAGE, all[n]);
		close(file);
	}
	fresh();
	TELL("not for a child", SYS_madvise, AT(4), PAGE, MADV_DONTFORK);
	TELL("wiped in a child", SYS_madvise, AT(5), PAGE, MADV_WIPEONFORK);
	fflush(stdout);
	if (fork() == 0) {
		printf("child: 4 %s, 5 ", touch(AT(4), 0));
		printf("%s holds '%.8s', 6 holds %.8s\n", touch(AT(5), 0), AT(5), AT(6));
		fflush(stdout);
		if (fork() == 0) {
			printf("grandchild: 4 %s, 5 holds '%.8s'\n", touch(AT(4), 0), AT(5));
			fflush(stdout);
			_exit(0);
		}
		wait(0);
		_exit(0);
	}
	wait(0);
	TELL("kept on fork", SYS_madvise, AT(5), PAGE, MADV_KEEPONFORK);
	TELL("for a child", SYS_madvise, AT(4), PAGE, MADV_DOFORK);
	fflush(stdout);
	if (fork() == 0) {
		printf("child: 4 holds %.8s, 5 holds %.8s\n", AT(4), AT(5));
		fflush(stdout);
		_exit(0);
	}
	wait(0);
}

static void cores(void)
{
	printf("== mincore\n");
	unsigned char there[64];
	fresh();
	TELL("pages", SYS_mincore, AT(0), 4 * PAGE, there);
	printf("%d %d\n", there[0], there[3]);
	TELL("not aligned", SYS_mincore, AT(0) + 1, PAGE, there);
	TELL("no bytes", SYS_mincore, AT(0), 0, there);
	TELL("no bytes, wrong place", SYS_mincore, AT(0), 0, 8);
	TELL("wrong place", SYS_mincore, AT(0), PAGE, 8);
	TELL("around", SYS_mincore, AT(0), -1, there);
	TELL("beyond", SYS_mincore, 1UL << 47, PAGE, there);
	hole(4, 5);
	TELL("over a hole", SYS_mincore, AT(2), 4 * PAGE, there);
	TELL("in a hole", SYS_mincore, AT(4), PAGE, there);
	mmap(AT(8), 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	AT(9)[0] = 1;
	TELL("one of them", SYS_mincore, AT(8), 4 * PAGE, there);
	printf("%d%d%d\n", there[0] & 1, there[1] & 1, there[3] & 1);
}

static void locks(void)
{
	printf("== mlock\n");
	struct rlimit limit = {8 * PAGE, 8 * PAGE};
	fresh();
	setrlimit(RLIMIT_MEMLOCK, &limit);
	struct { unsigned version; int number; } header = {0x20080522, 0};
	struct { unsigned effective, permitted, inheritable; } sets[2];
	syscall(SYS_capget, &header, sets);
	for (int set = 0; set < 2; set++) sets[set].effective = sets[set].permitted = sets[set].inheritable = 0;
	printf("no capabilities: %ld\n", syscall(SYS_capset, &header, sets));
	unsigned char there[8];
	mmap(AT(8), 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	TELL("one page", SYS_mlock, AT(8), 1);
	TELL("is there", SYS_mincore, AT(8), PAGE, there);
	printf("%d\n", there[0] & 1);
	TELL("across two", SYS_mlock, AT(9) - 1, 2);
	TELL("all that may be", SYS_mlock, AT(8), 8 * PAGE);
	TELL("once more", SYS_mlock, AT(8), 8 * PAGE);
	TELL("too much at once", SYS_mlock, AT(20), 9 * PAGE);
	TELL("too much in all", SYS_mlock, AT(20), PAGE);
	TELL("over a hole", SYS_munlock, AT(8), 8 * PAGE);
	hole(30, 31);
	TELL("over a hole", SYS_mlock, AT(28), 4 * PAGE);
	TELL("in a hole", SYS_mlock, AT(30), PAGE);
	TELL("unlocked over a hole", SYS_munlock, AT(28), 4 * PAGE);
	TELL("around", SYS_mlock, AT(28), -1);
	TELL("no bytes", SYS_mlock, AT(28), 0);
	mmap(AT(40), PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0);
	TELL("closed page", SYS_mlock, AT(40), PAGE);
	TELL("unlock it", SYS_munlock, AT(40), PAGE);
	TELL("mlock2", SYS_mlock2, AT(20), PAGE, 0);
	TELL("mlock2 on fault", SYS_mlock2, AT(21), PAGE, 1);
	TELL("mlock2, wrong flag", SYS_mlock2, AT(21), PAGE, 2);
	TELL("locked pages cannot be dropped", SYS_madvise, AT(20), PAGE, MADV_DONTNEED);
	TELL("nor invalidated", SYS_msync, AT(20), PAGE, MS_INVALIDATE);
	TELL("mapped locked", SYS_mmap, AT(44), PAGE, RW, ANON | MAP_FIXED | MAP_LOCKED, -1, 0);
	TELL("mapped locked, too much", SYS_mmap, AT(44), 9 * PAGE, RW, ANON | MAP_FIXED | MAP_LOCKED, -1, 0);
	TELL("locked remap beyond", SYS_mremap, AT(20), PAGE, 9 * PAGE, 1);
	TELL("mlockall, nothing", SYS_mlockall, 0);
	TELL("mlockall, unknown", SYS_mlockall, 8);
	TELL("mlockall, on fault alone", SYS_mlockall, 4);
	TELL("mlockall, too much", SYS_mlockall, MCL_CURRENT);
	TELL("munlockall", SYS_munlockall, 0);
	TELL("dropped then", SYS_madvise, AT(20), PAGE, MADV_DONTNEED);
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	TELL("none may be", SYS_mlock, AT(20), PAGE);
	TELL("none may be, no bytes", SYS_mlock, AT(20), 0);
	TELL("none may be, all", SYS_mlockall, MCL_FUTURE);
	TELL("none may be, mapped", SYS_mmap, 0, PAGE, RW, ANON | MAP_LOCKED, -1, 0);
}

static void syncs(void)
{
	printf("== msync\n");
	fresh();
	int file = file_of(2 * PAGE);
	mmap(AT(4), 2 * PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0);
	for (int flags = -1; flags < 9; flags++) {
		char what[32];
		sprintf(what, "flags %d", flags);
		TELL(what, SYS_msync, AT(4), PAGE, flags);
	}
	TELL("anonymous", SYS_msync, AT(8), PAGE, MS_SYNC);
	TELL("no bytes", SYS_msync, AT(4), 0, MS_SYNC);
	TELL("not aligned", SYS_msync, AT(4) + 1, PAGE, MS_SYNC);
	TELL("around", SYS_msync, AT(4), -1, MS_SYNC);
	TELL("around, aligned", SYS_msync, AT(4), -PAGE, MS_SYNC);
	hole(10, 11);
	TELL("over a hole", SYS_msync, AT(4), 20 * PAGE, MS_SYNC);
	TELL("over a hole, later", SYS_msync, AT(4), 20 * PAGE, MS_ASYNC);
	TELL("in a hole", SYS_msync, AT(10), PAGE, MS_SYNC);
	close(file);
}

static void heap(void)
{
	printf("== brk\n");
	fflush(stdout);
	char *start = (char *)syscall(SYS_brk, 0), *end;
	end = (char *)syscall(SYS_brk, start + 3 * PAGE + 5);
	printf("grown by %ld\n", end - start);
	end[-1] = 1;
	end = (char *)syscall(SYS_brk, 8);
	printf("too low: %ld\n", end - start);
	end = (char *)syscall(SYS_brk, 1UL << 47);
	printf("too high: %ld\n", end - start);
	end = (char *)syscall(SYS_brk, -1);
	printf("around: %ld\n", end - start);
	end = (char *)syscall(SYS_brk, start);
	printf("back: %ld\n", end - start);
	printf("gone: %s\n", touch((char *)(((long)start + 4095) & -4096) + PAGE, 0));
	end = (char *)syscall(SYS_brk, start + 3 * PAGE);
	printf("zero again: %d\n", end[-1]);
	char *above = (char *)(((long)end + 4095) & -4096) + 4 * PAGE;
	if (mmap(above, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) != above) printf("not free\n");
	end = (char *)syscall(SYS_brk, above + PAGE);
	printf("into a mapping: %ld\n", end - start);
	end = (char *)syscall(SYS_brk, above);
	printf("up to a mapping: %d\n", end == above);
	munmap(above, PAGE);
	struct rlimit limit = {20 * PAGE, RLIM_INFINITY};
	setrlimit(RLIMIT_DATA, &limit);
	end = (char *)syscall(SYS_brk, start + 4096 * PAGE);
	printf("beyond the limit of data: %d\n", end < start + 4096 * PAGE);
	TELL("beyond it by mmap", SYS_mmap, 0, 4096 * PAGE, RW, ANON, -1, 0);
	TELL("to read", SYS_mmap, 0, 4096 * PAGE, PROT_READ, ANON, -1, 0);
	TELL("shared", SYS_mmap, 0, 4096 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *quiet = mmap(0, 4096 * PAGE, PROT_READ, ANON, -1, 0);
	TELL("made writable", SYS_mprotect, quiet, 4096 * PAGE, RW);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_DATA, &limit);
	limit.rlim_cur = 1 << 26;
	setrlimit(RLIMIT_AS, &limit);
	TELL("beyond the address space", SYS_mmap, 0, 1 << 27, RW, ANON, -1, 0);
	TELL("beyond it, not reserved", SYS_mmap, 0, 1 << 27, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	TELL("beyond it, from a file", SYS_mmap, 0, 1 << 27, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TELL("beyond it, remapped", SYS_mremap, AT(0), PAGE, 1 << 27, MREMAP_MAYMOVE);
	end = (char *)syscall(SYS_brk, start + (1 << 27));
	printf("brk beyond it: %d\n", end < start + (1 << 27));
	printf("malloc: %d\n", malloc(1 << 27) == 0);
}

static void grows(void)
{
	printf("== grows down\n");
	fresh();
	hole(8, 40);
	char *low = mmap(AT(38), 2 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
	printf("mapped: %d\n", low == AT(38));
	printf("too close to what is below: %s\n", touch(AT(37) + 100, 1));
	TELL("protected with what is below", SYS_mprotect, AT(39), PAGE, PROT_READ | PROT_GROWSDOWN);
	state("all of it", 30, 40);
	char *kept = ground;
	ground = mmap((void *)(1L << 37), 2 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0) - 32 * PAGE;
	printf("just below: %s\n", touch(AT(31) + 100, 1));
	printf("further below: %s\n", touch(AT(20) + 100, 1));
	printf("beyond the limit: %s\n", touch(AT(32) - (9 << 20), 1));
	state("between", 16, 34);
	TELL("protected with what is below", SYS_mprotect, AT(33), PAGE, PROT_READ | PROT_GROWSDOWN);
	state("all of it", 16, 34);
	munmap(AT(0), 64 * PAGE);
	ground = kept;
	fresh();
}

static void cuts(void)
{
	printf("== beyond the end of a file\n");
	fresh();
	int file = file_of(3 * PAGE);
	mmap(AT(4), 6 * PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0);
	printf("within: %s\n", touch(AT(6), 0));
	printf("behind: %s\n", touch(AT(7), 0));
	printf("behind: %s\n", touch(AT(7), 1));
	char byte;
	TELL("read into what is behind", SYS_pread64, file, AT(8), 5, 0);
	TELL("write from what is behind", SYS_write, file, AT(8), 5);
	mmap(AT(12), 6 * PAGE, RW, MAP_PRIVATE | MAP_FIXED, file, 0);
	AT(13)[0] = 'P';
	AT(5)[0] = 'S';
	/* One that nobody has open to write. */
	int quiet = open("quiet", O_WRONLY | O_CREAT, 0644);
	MUST(write(quiet, AT(4), PAGE));
	MUST(close(quiet));
	MUST(quiet = open("quiet", O_RDONLY));
	MUST(mmap(AT(20), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, quiet, 0) == AT(20) ? 0 : -1);
	int ready[2], gone[2];
	MUST(pipe(ready)); MUST(pipe(gone));
	fflush(stdout);
	pid_t cutter = fork();
	if (cutter == 0) {
		munmap(ground, 64 * PAGE);
		MUST(read(ready[0], &byte, 1));
		MUST(ftruncate(file, PAGE + 10));
		MUST(write(gone[1], "x", 1));
		MUST(read(ready[0], &byte, 1));
		MUST(ftruncate(file, 3 * PAGE));
		MUST(write(gone[1], "x", 1));
		/* Opened to be cut: by names that were looked up before, by one that is made where it is not, and within a folder. */
		struct stat status;
		for (int round = 0; round < 20; round++) { MUST(stat("mapped", &status)); MUST(stat("quiet", &status)); }
		long how[3] = {O_RDWR | O_TRUNC, 0, 0};
		for (int way = 0; way < 4; way++) {
			MUST(read(ready[0], &byte, 1));
			int again = way == 0 ? open("quiet", O_WRONLY | O_TRUNC) : way == 1 ? open("mapped", O_WRONLY | O_TRUNC) : way == 2 ? creat("mapped", 0600) : (int)syscall(SYS_openat2, AT_FDCWD, "mapped", how, sizeof how);
			MUST(again);
			MUST(write(gone[1], "x", 1));
			MUST(read(ready[0], &byte, 1));
			MUST(ftruncate(again, 3 * PAGE));
			MUST(close(again));
			MUST(write(gone[1], "x", 1));
		}
		_exit(0);
	}
	MUST(write(ready[1], "x", 1));
	MUST(read(gone[0], &byte, 1));
	printf("cut by another, kept page: %s\n", touch(AT(5), 0));
	printf("its rest: %d %d\n", AT(5)[9], AT(5)[10]);
	printf("cut page: %s\n", touch(AT(6), 0));
	printf("cut page, private: %s\n", touch(AT(14), 0));
	printf("copied page: %s\n", touch(AT(13), 0));
	TELL("read into a cut page", SYS_pread64, file, AT(6), 5, 0);
	MUST(write(ready[1], "x", 1));
	MUST(read(gone[0], &byte, 1));
	printf("grown by another: %s\n", touch(AT(6), 0));
	printf("it holds: %d\n", AT(6)[0]);
	for (int way = 0; way < 4; way++) {
		char *there = way == 0 ? AT(20) : AT(4);
		printf("before: %s, ", touch(there, 0));
		MUST(write(ready[1], "x", 1));
		MUST(read(gone[0], &byte, 1));
		printf("opened to be cut: %s, ", touch(there, 0));
		MUST(write(ready[1], "x", 1));
		MUST(read(gone[0], &byte, 1));
		printf("grown: %s\n", touch(there, 0));
	}
	wait(0);
	close(file), close(quiet), close(ready[0]), close(ready[1]), close(gone[0]), close(gone[1]);
}

int main(void)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	ground = mmap((void *)(1L << 36), 64 * PAGE, RW, ANON, -1, 0);
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, 0), sigaction(SIGBUS, &action, 0);
	maps(), unmaps(), protects(), remaps(), advises(), cores(), locks(), syncs(), grows(), cuts(), heap();
	return 0;
}
