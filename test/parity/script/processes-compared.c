// A program in C, compiled by the host's compiler, and the same on both sides.
// What two processes have in common (kcmp): descriptors, memory, signal handlers; of threads and of children; wrong arguments.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Which of two comes first is nobody's affair. */
static const char *compared(pid_t one, pid_t other, int kind, unsigned long first, unsigned long second)
{
	long outcome = syscall(SYS_kcmp, one, other, kind, first, second);
	return outcome < 0 ? strerrorname_np(errno) : outcome == 0 ? "same" : "other";
}

static const int kinds[] = { KCMP_VM, KCMP_FILES, KCMP_FS, KCMP_SIGHAND };

static void everything(const char *what, pid_t one, pid_t other)
{
	printf("%s:", what);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) printf(" %s", compared(one, other, kinds[i], 0, 0));
	printf("\n");
}

static int go_on[2];
static void wait_for_end(void)
{
	char byte;
	close(go_on[1]);
	while (read(go_on[0], &byte, 1) > 0);
	_exit(0);
}

static void *thread(void *unused)
{
	everything("a thread", gettid(), getpid());
	printf("its descriptors: %s\n", compared(gettid(), getpid(), KCMP_FILE, 1, 1));
	return 0;
}

static void descriptors(void)
{
	pid_t self = getpid();
	int file = open("compared", O_RDWR | O_CREAT, 0600), again = open("compared", O_RDWR), copy = dup(file);
	int pair[2], ends[2], count = eventfd(0, 0), count_copy = fcntl(count, F_DUPFD, 50);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(1);
	printf("itself %s\n", compared(self, self, KCMP_FILE, file, file));
	printf("copied %s\n", compared(self, self, KCMP_FILE, file, copy));
	printf("opened again %s\n", compared(self, self, KCMP_FILE, file, again));
	printf("two ends %s, a pair %s\n", compared(self, self, KCMP_FILE, ends[0], ends[1]), compared(self, self, KCMP_FILE, pair[0], pair[1]));
	printf("a counter %s\n", compared(self, self, KCMP_FILE, count, count_copy));
	printf("a place %s\n", compared(self, self, KCMP_FILE, open("/", O_PATH), open("/", O_PATH)));
	int before = syscall(SYS_kcmp, self, self, KCMP_FILE, file, again), behind = syscall(SYS_kcmp, self, self, KCMP_FILE, again, file);
	printf("an order %d\n", before + behind == 3);
	pid_t child = fork();
	if (!child) wait_for_end();
	everything("a child", self, child);
	printf("inherited %s, copied %s, opened again %s\n", compared(self, child, KCMP_FILE, file, file),
		compared(child, self, KCMP_FILE, copy, file), compared(child, self, KCMP_FILE, again, file));
	printf("within it %s\n", compared(child, child, KCMP_FILE, file, copy));
	printf("not there %s %s\n", compared(child, self, KCMP_FILE, 77, file), compared(child, self, KCMP_FILE, file, 77));
	int later = dup(again);
	printf("later %s\n", compared(self, child, KCMP_FILE, later, again));
	printf("later, there %s\n", compared(self, child, KCMP_FILE, later, later));
	char byte = 0;
	if (write(go_on[1], &byte, 1) < 0) exit(1);
	kill(child, SIGKILL), waitpid(child, 0, 0);
	printf("gone %s\n", compared(self, child, KCMP_FILE, file, file));
	unlink("compared");
}

static void wrong(void)
{
	pid_t self = getpid();
	printf("of no kind %s %s\n", compared(self, self, 99, 0, 0), compared(self, self, -1, 0, 0));
	printf("no descriptor %s %s\n", compared(self, self, KCMP_FILE, 99, 1), compared(self, self, KCMP_FILE, 1, -1));
	printf("nobody %s %s\n", compared(self, 4000000, KCMP_VM, 0, 0), compared(0, self, KCMP_VM, 0, 0));
}

int main(void)
{
	if (pipe(go_on)) return 1;
	everything("oneself", getpid(), getpid());
	pthread_t other;
	pthread_create(&other, 0, thread, 0), pthread_join(other, 0);
	fflush(stdout);
	descriptors(), wrong();
	return 0;
}
