// A program in C, compiled by the host's compiler, and the same on both sides.
// Mount tables of /proc are polled by poll, select and epoll, before and after changes. Files without names in /proc.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void look(const char *what, int fd, short wanted, int timeout)
{
	struct pollfd polled = {fd, wanted, 0};
	int count = poll(&polled, 1, timeout);
	printf("%s: %d %x\n", what, count, polled.revents);
}
static int exceptional(int fd)
{
	fd_set set;
	struct timeval soon = {0, 100000};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, NULL, NULL, &set, &soon);
}
static void unnamed(const char *folder, int access)
{
	int fd = open(folder, O_TMPFILE | access, 0600);
	printf("without a name in %s: %d %s\n", folder, fd, fd < 0 ? strerrorname_np(errno) : "");
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	const char *const files[] = {"/proc/self/mountinfo", "/proc/mounts", "/proc/self/mounts"};
	mkdir("point", 0755);
	for (int index = 0; index < 3; index++) {
		int fd = open(files[index], O_RDONLY), set = epoll_create1(0);
		struct epoll_event event = {.events = EPOLLPRI | EPOLLET};
		printf("%s\n", files[index]);
		look("before", fd, POLLPRI, 0);
		look("to read", fd, POLLIN | POLLPRI, 0);
		printf("mount %d\n", mount("none", "point", "tmpfs", 0, ""));
		look("after", fd, POLLPRI, 1000);
		look("once more", fd, POLLPRI, 10);
		printf("unmount %d\n", umount("point"));
		look("after", fd, POLLIN, 1000);
		printf("select before %d\n", exceptional(fd));
		pid_t child = fork();
		if (!child) {
			usleep(200000);
			mount("none", "point", "tmpfs", 0, "");
			_exit(0);
		}
		look("waited", fd, POLLPRI, 5000);
		waitpid(child, NULL, 0);
		printf("add %d\n", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
		printf("epoll before %d\n", epoll_wait(set, &event, 1, 10));
		printf("unmount %d\n", umount("point"));
		int come = epoll_wait(set, &event, 1, 1000);
		printf("epoll after %d %x\n", come, event.events);
		close(fd);
		close(set);
	}
	unnamed("/proc", O_RDWR);
	unnamed("/proc/self", O_RDWR);
	unnamed("/proc/self/fd", O_WRONLY);
	unnamed("/proc/nowhere", O_RDWR);
	unnamed("/proc/self/maps", O_RDWR);
	unnamed("/proc", O_RDONLY);
	return 0;
}
