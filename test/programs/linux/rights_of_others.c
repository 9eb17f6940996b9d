// Files that one user changes while another looks at them again and again: rights, owners and names hold at once.
//
// The first argument is the directory. User 1000 owns what is there; user 2000 looks.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 8

static const char *const paths[] = {"open/file", "open/deep/file", "open/link"};
#define PATHS (sizeof paths / sizeof *paths)

static void put(const char *path, const char *bytes, mode_t mode)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (file < 0 || write(file, bytes, strlen(bytes)) < 0 || fchmod(file, mode) || close(file))
		printf("put %s: %d\n", path, errno);
}

// What a change does, as user 1000.
static void change(int step)
{
	switch (step) {
	case 0: break;
	case 1: chmod("open/file", 0600); break;
	case 2: chmod("open/file", 0644); break;
	case 3: chmod("open", 0700); break;
	case 4: chmod("open", 0711); break;
	case 5: chmod("open", 0755); break;
	case 6: chmod("open/deep", 0); break;
	case 7: chmod("open/deep", 0755); break;
	case 8: put("secret", "secret", 0600); rename("secret", "open/file"); break;
	case 9: put("shown", "shown", 0604); rename("shown", "open/file"); break;
	case 10: chmod("open/file", 0640); break;
	case 11: chmod("open/file", 0444); break;
	case 12: rename("open", "closed/open"); break;
	case 13: rename("closed/open", "open"); break;
	case 14: unlink("open/link"); symlink("../closed/file", "open/link"); break;
	case 15: chmod("closed", 0711); break;
	case 16: chmod("closed", 0700); break;
	}
}
#define STEPS 17

// What user 2000 sees, which is the same each time.
static void look(int step)
{
	for (unsigned index = 0; index < PATHS; index++) {
		char last[128] = "", line[128];
		for (int time = 0; time < TIMES; time++) {
			char bytes[32] = "";
			struct stat status;
			int told = stat(paths[index], &status) ? errno : 0;
			int may = access(paths[index], R_OK) ? errno : 0;
			int file = open(paths[index], O_RDONLY), failed = file < 0 ? errno : 0;
			if (file >= 0 && (read(file, bytes, sizeof bytes - 1) < 0 || close(file)))
				failed = -errno;
			snprintf(line, sizeof line, "%d %d %s: stat %d access %d open %d %s", step, time ? 1 : 0, paths[index], told,
			         may, failed, bytes);
			if (time < 2 || strcmp(line, last))
				strcmp(line + 4, last + 4) ? puts(line) : 0;
			strcpy(last, line);
		}
	}
}

static pid_t child_of(uid_t user, void (*body)(int), int from, int to)
{
	pid_t child = fork();
	if (child)
		return child;
	if (setgid(user) || setuid(user))
		exit(1);
	char step;
	while (read(from, &step, 1) == 1) {
		body(step);
		fflush(stdout);
		if (write(to, &step, 1) != 1)
			exit(1);
	}
	exit(0);
}

int main(int count, char **arguments)
{
	int ask[2][2], answer[2][2];
	if (count < 2 || chdir(arguments[1]) || mkdir("of1000", 0755) || chdir("of1000") || chown(".", 1000, 1000))
		return 1;
	umask(0);
	mkdir("open", 0755), mkdir("open/deep", 0755), mkdir("closed", 0700);
	put("open/file", "first", 0644), put("open/deep/file", "deep", 0644), put("closed/file", "closed", 0644);
	symlink("deep/file", "open/link");
	const char *const all[] = {"open", "open/deep", "closed", "open/file", "open/deep/file", "closed/file"};
	for (unsigned index = 0; index < sizeof all / sizeof *all; index++)
		if (chown(all[index], 1000, 1000))
			return 1;
	for (int who = 0; who < 2; who++)
		if (pipe2(ask[who], O_CLOEXEC) || pipe2(answer[who], O_CLOEXEC))
			return 1;
	pid_t children[] = {
		child_of(1000, change, ask[0][0], answer[0][1]),
		child_of(2000, look, ask[1][0], answer[1][1]),
	};
	for (char step = 0; step < STEPS; step++)
		for (int who = 0; who < 2; who++) {
			char back;
			if (write(ask[who][1], &step, 1) != 1 || read(answer[who][0], &back, 1) != 1)
				return 1;
		}
	kill(children[0], SIGKILL), kill(children[1], SIGKILL);
	while (wait(NULL) > 0)
		;
	puts("end");
	return 0;
}
