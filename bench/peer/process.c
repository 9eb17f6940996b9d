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

/* What a child, which shares its parent's memory or not, executes; its parent waits for it. */
static void execute(pid_t child, const char *path, char *const arguments[])
{
	if (child == 0) {
		execv(path, arguments);
		_exit(127);
	}
	wait_for(child);
}

static void fork_exec(void)
{
	execute(fork(), "/bench/nothing", (char *[]){"nothing", NULL});
}

static void vfork_exec(void)
{
	execute(vfork(), "/bench/nothing", (char *[]){"nothing", NULL});
}

static void vfork_exec_bare(void)
{
	execute(vfork(), "/bench/bare", (char *[]){"bare", NULL});
}

static void fork_shell(void)
{
	execute(fork(), "/bin/sh", (char *[]){"sh", "-c", "/bench/nothing", NULL});
}

static void vfork_exec_dynamic(void)
{
	execute(vfork(), "/bin/true", (char *[]){"true", NULL});
}

/* The shell makes a child for its one command. */
static void fork_shell_dynamic(void)
{
	execute(fork(), "/bin/dash", (char *[]){"sh", "-c", "/bin/true", NULL});
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
