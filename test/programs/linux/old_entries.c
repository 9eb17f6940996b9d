// Ways into Linux that old programs use: the vsyscall page, int $0x80 from 64-bit code, numbers of x32. And process 1.
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf back;

static void jump(int signal) { siglongjmp(back, signal); }

static long enter_x32(long number) {
	long result = number | 0x40000000;
	__asm__ volatile("syscall" : "+a"(result) : : "memory", "rcx", "r11");
	return result;
}

static long enter_by_interrupt(long number) {
	long result = number;
	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static int is_listed(const char *folder, const char *name) {
	DIR *listing = opendir(folder);
	struct dirent *entry;
	int found = 0;
	while (listing && (entry = readdir(listing))) found += strcmp(entry->d_name, name) == 0;
	if (listing) closedir(listing);
	return found;
}

static void describe_process_1(void) {
	char target[64] = "", console[64] = "", text[64] = "";
	FILE *name = fopen("/proc/1/comm", "r");
	if (readlink("/proc/1/exe", target, sizeof target - 1) < 0) perror("exe");
	if (readlink("/proc/1/fd/1", console, sizeof console - 1) < 0) perror("fd/1");
	if (!name || !fgets(text, sizeof text, name)) perror("comm");
	printf("listed %d, exe %s, descriptor 2 listed %d, 1 is %s, comm %s", is_listed("/proc", "1"), target,
		is_listed("/proc/1/fd", "2"), console, text);
	if (name) fclose(name);
	fflush(stdout);
	if (fork() == 0) {
		int user = setuid(1000);
		_exit(user != 0 || readlink("/proc/1/exe", target, sizeof target) >= 0 || opendir("/proc/1/fd"));
	}
	int status = -1;
	wait(&status);
	printf("user 1000 sees neither: status %d\n", status);
}

int main(void) {
	int fault, pipes[2], parent = 0;
	signal(SIGSEGV, jump);
	signal(SIGILL, jump);
	if ((fault = sigsetjmp(back, 1))) {
		printf("signal %d\n", fault);
		return 1;
	}
	time_t (*old_time)(time_t *) = (time_t(*)(time_t *))0xffffffffff600400ul;
	printf("the vsyscall page tells the time %d\n", old_time(NULL) - time(NULL) < 2);
	printf("int $0x80 tells the number %d\n", enter_by_interrupt(20) == getpid());
	printf("x32 %ld\n", enter_x32(39));
	printf("process 1: signal 0 %d, group %d, file %d\n", kill(1, 0), getpgid(1), access("/proc/1/stat", R_OK));
	describe_process_1();
	fflush(stdout);
	if (pipe(pipes)) return 1;
	if (fork() == 0) {
		int middle = getpid();
		if (fork()) _exit(0);
		while ((parent = getppid()) == middle) usleep(1000);
		_exit(write(pipes[1], &parent, sizeof parent) < 0);
	}
	wait(NULL);
	if (read(pipes[0], &parent, sizeof parent) < 0) return 1;
	printf("parent of an orphan %d\n", parent);
	return 0;
}
