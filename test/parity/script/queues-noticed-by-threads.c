// A program in C, compiled by the host's compiler, and the same on both sides.
// mq_notify by a thread calls the function once for a message to an empty queue. Notices that are removed; odd requests.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int called, value;
static void function(union sigval given)
{
	value = given.sival_int;
	__atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}
static void wait_for(int least)
{
	for (int turn = 0; turn < 2000 && called < least; turn++) usleep(1000);
}
static void raw(const char *what, mqd_t queue, int kind, int signal, void *cookie)
{
	struct sigevent event = {.sigev_notify = kind, .sigev_signo = signal, .sigev_value.sival_ptr = cookie};
	errno = 0;
	long result = syscall(SYS_mq_notify, queue, &event);
	printf("%s: %ld %s\n", what, result, result ? strerrorname_np(errno) : "");
}
int main(void)
{
	struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 16};
	char bytes[16], cookie[32] = "a cookie of 32 bytes";
	setvbuf(stdout, NULL, _IONBF, 0);
	mq_unlink("/noticed");
	mqd_t queue = mq_open("/noticed", O_RDWR | O_CREAT, 0600, &attributes);
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = function, .sigev_value.sival_int = 7};
	printf("notify %d\n", mq_notify(queue, &event));
	int again = mq_notify(queue, &event);
	printf("again %d %s\n", again, strerrorname_np(errno));
	mq_send(queue, "x", 1, 0);
	wait_for(1);
	printf("called %d with %d\n", called, value);
	mq_send(queue, "x", 1, 0);
	usleep(50000);
	printf("not again: %d\n", called);
	event.sigev_value.sival_int = 8;
	printf("notify %d\n", mq_notify(queue, &event));
	mq_receive(queue, bytes, sizeof bytes, NULL);
	mq_receive(queue, bytes, sizeof bytes, NULL);
	pid_t child = fork();
	if (!child) _exit(mq_send(queue, "y", 1, 0));
	waitpid(child, NULL, 0);
	wait_for(2);
	printf("another process sent: called %d with %d\n", called, value);
	mq_receive(queue, bytes, sizeof bytes, NULL);
	printf("notify %d\n", mq_notify(queue, &event));
	printf("no more %d\n", mq_notify(queue, NULL));
	mq_send(queue, "x", 1, 0);
	usleep(50000);
	printf("removed: %d\n", called);

	int netlink = socket(AF_NETLINK, SOCK_RAW, 0), plain = socket(AF_UNIX, SOCK_STREAM, 0), ends[2];
	if (pipe(ends)) return 9;
	raw("not a socket", queue, SIGEV_THREAD, ends[0], cookie);
	raw("another socket", queue, SIGEV_THREAD, plain, cookie);
	raw("no descriptor", queue, SIGEV_THREAD, 9999, cookie);
	raw("no cookie", queue, SIGEV_THREAD, netlink, (void *)8);
	raw("no queue", ends[0], SIGEV_THREAD, netlink, cookie);
	raw("odd kind", queue, 77, 1, cookie);
	raw("odd signal", queue, SIGEV_SIGNAL, 99, cookie);
	mq_receive(queue, bytes, sizeof bytes, NULL);
	raw("right", queue, SIGEV_THREAD, netlink, cookie);
	memset(cookie, 0, sizeof cookie);
	printf("nothing yet: %zd\n", recv(netlink, cookie, sizeof cookie, MSG_DONTWAIT));
	mq_send(queue, "x", 1, 0);
	printf("received %zd", recv(netlink, cookie, sizeof cookie, 0));
	printf(" %s, %d\n", cookie, cookie[31]);
	mq_receive(queue, bytes, sizeof bytes, NULL);
	raw("right", queue, SIGEV_THREAD, netlink, cookie);
	mq_close(queue);
	printf("closed: received %zd", recv(netlink, cookie, sizeof cookie, MSG_DONTWAIT));
	printf(", %d\n", cookie[31]);
	mq_unlink("/noticed");
	return 0;
}
