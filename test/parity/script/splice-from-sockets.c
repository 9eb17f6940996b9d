// A program in C, compiled by the host's compiler, and the same on both sides.
// splice out of Unix-domain sockets: bytes of several messages, none, the end, borders, rights that come along.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result)
{
	printf("%s %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
}
static void contents(int end)
{
	char bytes[100];
	ssize_t count = read(end, bytes, sizeof bytes);
	printf("in the pipe: %.*s\n", (int)(count < 0 ? 0 : count), bytes);
}
static void give(int end, int right)
{
	char byte = 'r', room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec piece = {&byte, 1};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof right), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(header), &right, sizeof right);
	say("rights sent", sendmsg(end, &message, 0));
}
int main(void)
{
	int ends[2], pipes[2], border[2], right[2];
	loff_t place = 0;
	char byte;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || pipe(pipes) || pipe(right)) return 9;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, border)) return 9;
	say("sent", write(ends[0], "abcdef", 6));
	say("spliced", splice(ends[1], NULL, pipes[1], NULL, 4, 0));
	contents(pipes[0]);
	say("the rest", splice(ends[1], NULL, pipes[1], NULL, 100, 0));
	contents(pipes[0]);
	say("nothing there", splice(ends[1], NULL, pipes[1], NULL, 4, SPLICE_F_NONBLOCK));
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	say("of a socket that does not wait", splice(ends[1], NULL, pipes[1], NULL, 4, 0));
	fcntl(ends[1], F_SETFL, 0);
	say("with a place", splice(ends[1], &place, pipes[1], NULL, 4, 0));
	if (!fork()) {
		usleep(100000);
		_exit(write(ends[0], "late", 4) != 4);
	}
	say("waited", splice(ends[1], NULL, pipes[1], NULL, 100, 0));
	contents(pipes[0]);
	wait(NULL);
	give(ends[0], right[1]);
	close(right[1]);
	say("with rights", splice(ends[1], NULL, pipes[1], NULL, 100, 0));
	contents(pipes[0]);
	say("the right is closed", read(right[0], &byte, 1));
	say("a datagram sent", write(border[0], "whole", 5));
	say("datagrams", splice(border[1], NULL, pipes[1], NULL, 2, 0));
	say("into the socket", write(pipes[1], "out", 3));
	say("spliced back", splice(pipes[0], NULL, ends[1], NULL, 3, 0));
	char back[4] = "";
	say("read", read(ends[0], back, 3));
	puts(back);
	close(ends[0]);
	say("at the end", splice(ends[1], NULL, pipes[1], NULL, 4, 0));
	return 0;
}
