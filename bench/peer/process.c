/*
 * Processes that come and go: xok-exos-sosp97 section 6.2 (fork), l4linux-sosp97 Table 3 (null process, simple process,
 * /bin/sh process). Each ends before the next begins, and is waited for. What is executed is static, but for Debian's own `true` and
 * `dash`, for which the dynamic linker maps and relocates the C library anew each time.
 */
#include "harness.h"

#include <sys/wait.h>

static void wait_for(pid_t child)
{
	int status;
	checked(waitpid((pid_t)checked(child, "fork"), &status, 0), "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		errno = ECHILD;
		checked(-1, "a child");
	}
}

static void fork_exit(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	wait_for(child);
}

static void vfork_exit(void)
{
	pid_t child = vfork();
	if (child == 0)
		_exit(0);
	wait_for(child);
}

static void fork_exec(void)
{
	pid_t child = fork();
	if (child == 0) {
		execl("/bench/nothing", "nothing", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

static void vfork_exec(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execl("/bench/nothing", "nothing", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

static void vfork_exec_bare(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execl("/bench/bare", "bare", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

static void fork_shell(void)
{
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "/bench/nothing", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

static void vfork_exec_dynamic(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

/* The shell executes its one command in its own place. */
static void fork_shell_dynamic(void)
{
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/dash", "sh", "-c", "/bin/true", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
}

int main(void)
{
	begin();
	measure("fork-exit", 1, fork_exit);
	measure("vfork-exit", 1, vfork_exit);
	measure("fork-exec", 1, fork_exec);
	measure("vfork-exec", 1, vfork_exec);
	measure("vfork-exec-bare", 1, vfork_exec_bare);
	measure("fork-shell", 1, fork_shell);
	measure("vfork-exec-dynamic", 1, vfork_exec_dynamic);
	measure("fork-shell-dynamic", 1, fork_shell_dynamic);
	return 0;
}
