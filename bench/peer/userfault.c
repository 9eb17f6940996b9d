/*
 * Virtual memory by userfaultfd, Linux's other way to let a program see faults: pages are write-protected by one ioctl for any
 * range, without splitting mappings, and a second thread is told of faults and lets them pass. Beside mprotect and SIGSEGV
 * in the rows of exokernel-sosp95 Table 10.
 */
#include "harness.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096
#define PAGES 100
#define SINGLES 16

static char *region;
static int faults;

static void protect(int first, int pages, int on)
{
	struct uffdio_writeprotect change = {
		.range = {.start = (uintptr_t)region + (uintptr_t)first * PAGE, .len = (uint64_t)pages * PAGE},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};
	checked(ioctl(faults, UFFDIO_WRITEPROTECT, &change), "UFFDIO_WRITEPROTECT");
}

static void all_writable(void)
{
	protect(0, PAGES, 0);
	for (int index = 0; index < PAGES; index++)
		*(volatile char *)(region + index * PAGE) = 1;
}

static void prot1(void)
{
	for (int index = 0; index < SINGLES; index++)
		protect(2 * index + 1, 1, 1);
}

static void prot100(void)
{
	protect(0, PAGES, 1);
}

static void unprot100(void)
{
	protect(0, PAGES, 0);
}

/* Lets each page be written that somebody wants to write, which also wakes him. */
static void *serve(void *unused)
{
	struct uffd_msg message;
	(void)unused;
	while (read(faults, &message, sizeof message) == sizeof message)
		protect((int)((message.arg.pagefault.address - (uintptr_t)region) / PAGE), 1, 0);
	return NULL;
}

static void write_all(void)
{
	for (int index = 0; index < PAGES; index++)
		*(volatile char *)(region + index * 37 % PAGES * PAGE) = 2;
}

static void appel2(void)
{
	prot100();
	write_all();
}

static int open_faults(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	struct uffdio_register range = {
		.range = {.start = (uintptr_t)region, .len = PAGES * PAGE},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	return faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &range) == 0;
}

int main(void)
{
	static const char *const names[] = {"prot1", "prot100", "unprot100", "trap", "appel2"};
	pthread_t server;
	begin();
	region = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	checked(region == MAP_FAILED ? -1 : 0, "mmap");
	memset(region, 1, PAGES * PAGE);
	if (!open_faults()) {
		for (size_t index = 0; index < sizeof names / sizeof *names; index++)
			absent(names[index], "there is no userfaultfd with write protection");
		return 0;
	}
	measure_after(all_writable, "prot1", SINGLES, prot1);
	measure_after(all_writable, "prot100", 1, prot100);
	measure_after(prot100, "unprot100", 1, unprot100);
	pthread_create(&server, NULL, serve, NULL);
	measure_after(prot100, "trap", PAGES, write_all);
	measure_after(all_writable, "appel2", PAGES, appel2);
	return 0;
}
