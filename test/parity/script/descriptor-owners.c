// A program in C, compiled by the host's compiler, and the same on both sides.
// Owners of descriptions: F_SETOWN, F_SETOWN_EX, F_SETSIG, FIOASYNC and O_ASYNC of pipes, sockets, files and devices.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void told(const char *what, long result)
{
	printf("%s: %s\n", what, result >= 0 ? "yes" : strerrorname_np(errno));
}
static long owner(int file)
{
	long number = fcntl(file, F_GETOWN);
	return number == getpid() ? 1 : number == -getpgrp() ? -1 : number;
}
static void owners(const char *name, int file)
{
	struct f_owner_ex who = {F_OWNER_TID, 0};
	int on = 1;
	printf("-- %s\n", name);
	printf("at first %ld %d\n", owner(file), fcntl(file, F_GETSIG));
	told("own", fcntl(file, F_SETOWN, getpid()));
	printf("is %ld\n", owner(file));
	told("group", fcntl(file, F_SETOWN, -getpgrp()));
	told("asked", fcntl(file, F_GETOWN_EX, &who));
	printf("is %ld, kind %d\n", owner(file), who.type);
	told("nobody is that", fcntl(file, F_SETOWN, 4000000));
	told("no group is that", fcntl(file, F_SETOWN, -4000000));
	who = (struct f_owner_ex){3, getpid()};
	told("no kind", fcntl(file, F_SETOWN_EX, &who));
	who = (struct f_owner_ex){F_OWNER_TID, gettid()};
	told("thread", fcntl(file, F_SETOWN_EX, &who));
	told("bad memory", fcntl(file, F_SETOWN_EX, 8));
	printf("is %ld\n", owner(file));
	told("signal", fcntl(file, F_SETSIG, 40));
	told("no signal", fcntl(file, F_SETSIG, 65));
	printf("signal %d\n", fcntl(file, F_GETSIG));
	/* Nothing comes here, so that nobody is told. */
	told("asynchronous", ioctl(file, FIOASYNC, &on));
	printf("flags %o\n", fcntl(file, F_GETFL) & (O_ASYNC | O_APPEND | O_NONBLOCK));
	on = 0;
	told("no more", ioctl(file, FIOASYNC, &on));
	told("by flags", fcntl(file, F_SETFL, O_ASYNC | O_NONBLOCK));
	printf("flags %o\n", fcntl(file, F_GETFL) & (O_ASYNC | O_APPEND | O_NONBLOCK));
	told("not any more", fcntl(file, F_SETFL, 0));
	int same = dup(file);
	printf("flags %o, of a duplicate %ld\n", fcntl(file, F_GETFL) & O_ASYNC, owner(same));
	close(same);
	told("notified of nothing", fcntl(file, F_NOTIFY, DN_MULTISHOT));
	told("nobody", fcntl(file, F_SETOWN, 0));
	printf("is %ld\n", owner(file));
}
int main(void)
{
	int pipes[2], sockets[2];
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
	owners("pipe", pipes[0]);
	owners("socket", sockets[0]);
	owners("file", open("/tmp", O_TMPFILE | O_RDWR, 0600));
	owners("folder", open("/", O_RDONLY));
	owners("null", open("/dev/null", O_RDWR));
	return 0;
}
