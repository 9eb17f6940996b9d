// A program in C, compiled by the host's compiler, and the same on both sides.
// Descriptors of processes: pidfd_open, clone with CLONE_PIDFD, poll, waitid, signals; calls that only a privileged process may make.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

static long call(const char *what, long number, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(number, a, b, c, d, e, f);
	if (result < 0) printf("%s: %s\n", what, strerrorname_np(errno));
	else printf("%s: fine\n", what);
	return result;
}
#define TELL(what, number, ...) CALL_(what, number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(what, number, a, b, c, d, e, f, ...) call(what, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static volatile sig_atomic_t got, with, by_us;
static void note(int number, siginfo_t *info, void *context)
{
	got = number, with = info->si_value.sival_int, by_us = info->si_pid == getppid() || info->si_pid == getpid();
}
static const char *ready(int descriptor)
{
	struct pollfd one = {descriptor, POLLIN, 0};
	int count = poll(&one, 1, 0);
	return count == 0 ? "not yet" : one.revents == POLLIN ? "readable" : "else";
}

static void opened(void)
{
	printf("== pidfd_open\n");
	TELL("nobody", SYS_pidfd_open, 999999, 0);
	TELL("0", SYS_pidfd_open, 0, 0);
	TELL("negative", SYS_pidfd_open, -1, 0);
	TELL("flags", SYS_pidfd_open, getpid(), 1);
	int own = TELL("own", SYS_pidfd_open, getpid(), 0);
	char byte;
	TELL("read", SYS_read, own, &byte, 1);
	TELL("write", SYS_write, own, &byte, 1);
	TELL("seek", SYS_lseek, own, 0, SEEK_SET);
	printf("%s, closes at exec: %d\n", ready(own), fcntl(own, F_GETFD) & FD_CLOEXEC);
	TELL("signal 0", SYS_pidfd_send_signal, own, 0, 0, 0);
	TELL("signal to oneself", SYS_pidfd_send_signal, own, SIGUSR1, 0, 0);
	printf("got %d by us %d\n", got == SIGUSR1, by_us);
	TELL("wrong signal", SYS_pidfd_send_signal, own, 65, 0, 0);
	TELL("wrong flags", SYS_pidfd_send_signal, own, 0, 0, 64);
	TELL("no descriptor of a process", SYS_pidfd_send_signal, 1, 0, 0, 0);
	TELL("no descriptor", SYS_pidfd_send_signal, 99, 0, 0, 0);
	siginfo_t info = {.si_signo = SIGUSR2, .si_code = SI_QUEUE};
	info.si_pid = getpid(), info.si_value.sival_int = 77;
	TELL("with a value", SYS_pidfd_send_signal, own, SIGUSR2, &info, 0);
	printf("got %d with %d\n", got == SIGUSR2, with);
	TELL("of another signal", SYS_pidfd_send_signal, own, SIGUSR1, &info, 0);
	char path[64], line[256];
	sprintf(path, "/proc/self/fdinfo/%d", own);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file)) if (!strncmp(line, "Pid:", 4)) printf("told: %d\n", atoi(line + 4) == getpid());
	if (file) fclose(file);
	TELL("wait for oneself", SYS_waitid, P_PIDFD, own, &info, WEXITED, 0);
	TELL("wait for none", SYS_waitid, P_PIDFD, 99, &info, WEXITED, 0);
	TELL("wait for standard output", SYS_waitid, P_PIDFD, 1, &info, WEXITED, 0);
	close(own);
}

static void waited(void)
{
	printf("== a child\n");
	int hold[2];
	if (pipe(hold)) exit(1);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) == 0 ? 5 : 6);
	}
	close(hold[0]);
	int descriptor = TELL("opened", SYS_pidfd_open, child, O_NONBLOCK);
	siginfo_t info = {0};
	TELL("wait, and do not", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED, 0);
	TELL("do not hang", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED | WNOHANG, 0);
	printf("nothing: %d\n", info.si_pid);
	int set = epoll_create1(0);
	struct epoll_event event = {EPOLLIN, {.u32 = 9}}, come;
	printf("epoll takes it: %d, nothing yet: %d\n", epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event), epoll_wait(set, &come, 1, 0));
	printf("%s\n", ready(descriptor));
	close(hold[1]);
	struct pollfd one = {descriptor, POLLIN, 0};
	int count = poll(&one, 1, 20000);
	printf("it ended: %d %d\n", count, one.revents == POLLIN);
	count = epoll_wait(set, &come, 1, 20000);
	printf("epoll says so: %d %u\n", count, come.data.u32);
	TELL("signal to a dead one", SYS_pidfd_send_signal, descriptor, SIGTERM, 0, 0);
	TELL("looked at", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED | WNOWAIT, 0);
	printf("its number: %d, status %d, code %d\n", info.si_pid == child, info.si_status, info.si_code == CLD_EXITED);
	TELL("waited for", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED, 0);
	TELL("again", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED, 0);
	TELL("signal to nobody", SYS_pidfd_send_signal, descriptor, 0, 0, 0);
	close(descriptor), close(set);
}

static void cloned(void)
{
	printf("== clone\n");
	int descriptor = -1;
	long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &descriptor, 0, 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	printf("made: %d, closes at exec: %d\n", descriptor >= 0, fcntl(descriptor, F_GETFD));
	TELL("killed", SYS_pidfd_send_signal, descriptor, SIGKILL, 0, 0);
	siginfo_t info = {0};
	TELL("waited for", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED, 0);
	printf("killed by %d\n", info.si_status);
	close(descriptor);
	TELL("with the number as well", SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &descriptor, 0, 0);
	struct clone_args arguments = {.flags = CLONE_PIDFD | CLONE_VFORK | CLONE_VM, .pidfd = (uintptr_t)&descriptor, .exit_signal = SIGCHLD};
	child = syscall(SYS_clone3, &arguments, sizeof arguments);
	if (child == 0) syscall(SYS_exit, 3);
	TELL("waited for", SYS_waitid, P_PIDFD, descriptor, &info, WEXITED, 0);
	printf("status %d\n", info.si_status);
	close(descriptor);
}

static void memories(void)
{
	printf("== memory of others\n");
	static char text[300000];
	int go[2];
	if (pipe(go)) exit(1);
	strcpy(text, "what the child has"), strcpy(text + 200000, "far behind");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		char byte;
		strcpy(text, "what the child wrote");
		if (write(go[1], "x", 1) != 1) _exit(1);
		while (text[5] != 'W') usleep(1000);
		byte = text[200001];
		_exit(byte == 'a' ? 7 : 8);
	}
	char byte, here[300000], more[64] = "";
	if (read(go[0], &byte, 1) != 1) exit(1);
	struct iovec local[2] = {{here, 100000}, {more, sizeof more}}, remote[3] = {{text, 100000}, {text + 200000, 64}, {(void *)8, 8}};
	printf("%zd bytes: %s, %s\n", process_vm_readv(child, local, 2, remote, 2, 0), here, more);
	printf("own: %zd %s\n", process_vm_readv(getpid(), local, 1, remote, 1, 0), here);
	printf("up to what is not there: %zd\n", process_vm_readv(child, local, 2, remote, 3, 0));
	printf("nothing there: %zd %s\n", process_vm_readv(child, local, 1, remote + 2, 1, 0), strerrorname_np(errno));
	printf("wrong flags: %zd %s\n", process_vm_readv(child, local, 1, remote, 1, 1), strerrorname_np(errno));
	printf("nobody: %zd %s\n", process_vm_readv(999999, local, 1, remote, 1, 0), strerrorname_np(errno));
	printf("no pieces: %zd\n", process_vm_readv(child, local, 0, remote, 0, 0));
	printf("too many pieces: %zd %s\n", process_vm_readv(child, local, 1025, remote, 1, 0), strerrorname_np(errno));
	strcpy(here, "WRITTEN");
	struct iovec from = {here, 7}, to = {text + 5, 7};
	printf("written: %zd\n", process_vm_writev(child, &from, 1, &to, 1, 0));
	siginfo_t info = {0};
	waitid(P_PID, child, &info, WEXITED);
	printf("it saw that: %d; here it is still '%.10s'\n", info.si_status, text);
	printf("gone: %zd %s\n", process_vm_readv(child, local, 1, remote, 1, 0), strerrorname_np(errno));
}

static void refused(void)
{
	printf("== what nobody may\n");
	TELL("acct", SYS_acct, 0);
	TELL("swapon", SYS_swapon, "/tmp", 0);
	TELL("swapoff", SYS_swapoff, "/tmp");
	TELL("reboot", SYS_reboot, 0xfee1dead, 672274793, 0, 0);
	TELL("vhangup", SYS_vhangup, 0);
	TELL("unshare nothing", SYS_unshare, 0);
	TELL("unshare what one thread has anyway", SYS_unshare, CLONE_FILES | CLONE_FS);
	TELL("unshare nonsense", SYS_unshare, 1);
	TELL("setns, no descriptor", SYS_setns, 99, 0);
	TELL("setns, of no name space", SYS_setns, 1, 0);
}

// Descriptors of a child: what it has open is shared with who takes it, as with dup; the ends of pipes count.
static void taken(void)
{
	printf("== pidfd_getfd\n");
	int ready_ends[2], ends[2], pair[2];
	if (pipe(ready_ends)) return;
	pid_t child = fork();
	if (child == 0) {
		int file = open("/tmp/work/taken", O_CREAT | O_RDWR, 0600);
		if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(file, "0123456789", 10) != 10) _exit(1);
		lseek(file, 4, SEEK_SET);
		dup2(file, 50), dup2(ends[1], 51), dup2(pair[0], 52), dup2(eventfd(7, 0), 53);
		close(ends[1]), close(pair[0]), close(file);
		char bytes[16] = {0};
		write(ready_ends[1], "x", 1);
		if (read(ends[0], bytes, 16) != 5) _exit(2);
		close(51);
		int rest = read(ends[0], bytes + 5, 8);
		printf("the child read %s, then %d\n", bytes, rest), fflush(stdout);
		if (read(pair[1], bytes, 16) != 3 || write(pair[1], "back", 4) != 4) _exit(3);
		pause();
	}
	char bytes[16] = {0};
	uint64_t count = 0;
	read(ready_ends[0], bytes, 1);
	int of = TELL("open", SYS_pidfd_open, child, 0);
	int file = TELL("a file", SYS_pidfd_getfd, of, 50, 0), end = TELL("an end of a pipe", SYS_pidfd_getfd, of, 51, 0);
	int socket = TELL("a socket", SYS_pidfd_getfd, of, 52, 0), number = TELL("an eventfd", SYS_pidfd_getfd, of, 53, 0);
	printf("closes at exec: %d, at %ld", fcntl(file, F_GETFD) & FD_CLOEXEC, (long)lseek(file, 0, SEEK_CUR));
	lseek(file, 1, SEEK_SET), read(file, bytes, 3), read(number, &count, 8);
	printf(", read %s and %d\n", bytes, (int)count), fflush(stdout);
	write(end, "hello", 5), usleep(20000), close(end);
	memset(bytes, 0, sizeof bytes);
	write(socket, "out", 3), read(socket, bytes, 16);
	printf("answered %s\n", bytes);
	TELL("none", SYS_pidfd_getfd, of, 99, 0), TELL("flags", SYS_pidfd_getfd, of, 50, 1), TELL("of nothing", SYS_pidfd_getfd, 1, 50, 0);
	kill(child, SIGKILL), waitpid(child, NULL, 0);
	TELL("of the dead", SYS_pidfd_getfd, of, 50, 0);
	close(file), close(socket), close(number), close(of), close(ready_ends[0]), close(ready_ends[1]);
}

int main(void)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, 0), sigaction(SIGUSR2, &action, 0);
	opened(), waited(), cloned(), memories(), refused(), taken();
	return 0;
}
