/*
 * A child has what its parent had open when it was made, whatever the parent closes just after that: many directories, closed
 * at different moments while the child begins to ask for them. Others who have files of their own make the server's way to
 * the child longer.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHERS 60
#define FOLDERS 40
/* Steps of the delay after which the parent closes. */
#define MOMENTS 40

static const char *name_of(int number)
{
	static char name[32];
	snprintf(name, sizeof name, "/tmp/folder%d", number);
	return name;
}

static void expect(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

static pid_t begin_other(void)
{
	pid_t other = fork();
	if (other == 0) {
		if (chdir("/tmp") == 0)
			pause();
		_exit(1);
	}
	return other;
}

/* Whether the child could work in each of the folders. */
static int child_has_all(int moment)
{
	int folders[FOLDERS], status;
	for (int i = 0; i < FOLDERS; i++)
		expect((folders[i] = open(name_of(i), O_RDONLY | O_DIRECTORY)) >= 0, "open");
	pid_t child = fork();
	if (child == 0) {
		int failed = 0;
		for (int i = 0; i < FOLDERS; i++)
			failed |= fchdir(folders[i]) != 0;
		_exit(failed);
	}
	for (volatile int i = 0; i < moment * 500; i++)
		;
	for (int i = 0; i < FOLDERS; i++)
		close(folders[i]);
	expect(waitpid(child, &status, 0) == child, "waitpid");
	return status == 0;
}

int main(int count, char **arguments)
{
	int rounds = count > 1 ? atoi(arguments[1]) : 0, without = 0;
	pid_t others[OTHERS];
	for (int i = 0; i < FOLDERS; i++)
		expect(mkdir(name_of(i), 0755) == 0, "mkdir");
	for (int i = 0; i < OTHERS; i++)
		others[i] = begin_other();
	for (int round = 0; round < rounds; round++)
		without += !child_has_all(round % MOMENTS);
	for (int i = 0; i < OTHERS; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	printf("children without what their parent had: %d\n", without);
	return 0;
}
