/*
 * The first process of the Linux peer: runs the programs named in /bench/list, one after the other, each in a session of
 * its own and within a time limit, and stops the machine as a guest of Chitin does, through the debug-exit port.
 *
 *     bench: program NAME       it begins
 *     bench: status NAME N      it ended with this status, as a shell would tell it
 *     bench: done               all of them ended
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* The port and value of abi/src/host_channel.rs for a stop in order. */
#define STOP_PORT 0xf4
#define STOP_IN_ORDER 0x10

static void open_console(void)
{
	int console = open("/dev/console", O_RDWR);
	if (console < 0)
		return;
	for (int descriptor = 0; descriptor < 3; descriptor++)
		dup2(console, descriptor);
}

static void mount_file_systems(void)
{
	mount("none", "/proc", "proc", 0, NULL);
	mount("none", "/sys", "sysfs", 0, NULL);
	mount("none", "/tmp", "tmpfs", 0, NULL);
}

static void load_drivers(void)
{
	char path[64];
	for (int module = 0;; module++) {
		int file;
		snprintf(path, sizeof path, "/bench/module%d.ko", module);
		file = open(path, O_RDONLY);
		if (file < 0)
			break;
		if (syscall(SYS_finit_module, file, "", 0) < 0)
			printf("bench: failed %s: %s\n", path, strerror(errno));
		close(file);
	}
}

/* ext4 at /disk, where there is such a folder; the kernel hands the mount options on from its command line. -1: no
 * disk. */
static int mount_disk(void)
{
	if (access("/disk", F_OK) < 0)
		return 0;
	for (int attempt = 0; attempt < 100 && access("/dev/vda", F_OK) < 0; attempt++)
		usleep(10000);
	if (mount("/dev/vda", "/disk", "ext4", getenv("disk_noatime") ? MS_NOATIME : 0, getenv("disk_options")) < 0)
		return -1;
	return 0;
}

static int run(const char *name)
{
	char path[256];
	int status;
	pid_t child;
	snprintf(path, sizeof path, "/bench/%s", name);
	child = fork();
	if (child == 0) {
		setsid();
		execl(path, path, (char *)NULL);
		printf("bench: failed %s: %s\n", name, strerror(errno));
		_exit(127);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	/* What a program left behind must not disturb the next. */
	kill(-child, SIGKILL);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void)
{
	char name[128];
	struct utsname system;
	FILE *list;
	int has_disk;
	mkdir("/dev", 0755);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	open_console();
	mount_file_systems();
	load_drivers();
	has_disk = mount_disk() == 0;
	uname(&system);
	printf("bench: system Linux %s %s\n", system.release, system.version);
	list = fopen("/bench/list", "r");
	while (list && fscanf(list, "%127s", name) == 1) {
		printf("bench: program %s\n", name);
		if (!has_disk)
			printf("bench: failed mount of /disk: %s\n", strerror(errno));
		fflush(stdout);
		printf("bench: status %s %d\n", name, has_disk ? run(name) : 1);
		fflush(stdout);
	}
	printf("bench: done\n");
	fflush(stdout);
	fsync(1);
	/* What stands in the serial line's buffer goes out first. */
	sleep(1);
	if (ioperm(STOP_PORT, 4, 1) == 0)
		outb(STOP_IN_ORDER, STOP_PORT);
	for (;;)
		pause();
}
