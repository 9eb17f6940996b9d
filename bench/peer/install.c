/*
 * Installing a large program on a disk at /disk, with Debian's own binaries: the eleven steps of Table 1 of
 * xok-exos-sosp97, and the five phases of a Modified Andrew Benchmark. Linux has ext4 there.
 *
 * The sources of tcc stand for those of lcc: /usr/src/tcc. Each step is one sample. Compiling makes object files: it
 * links nothing. The tree that is copied lies on the disk, too.
 */
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PLACE "/disk/install"
#define CONFIG "#define TCC_VERSION \"0.9.27\"\n#define CONFIG_TCCDIR \"/usr/lib/tcc\"\n"

/* How both benchmarks compile. */
#define OPTIONS "gcc", "-c", "-O1", "-w", "-DONE_SOURCE=0", "-DTCC_TARGET_X86_64"

/* Runs a program in a folder and awaits its success; its output is thrown away. */
static void run(const char *folder, char *const words[])
{
	int status;
	pid_t child = (pid_t)checked(fork(), "fork");
	if (child == 0) {
		int sink = open("/dev/null", O_WRONLY);
		if (sink < 0 || chdir(folder) < 0 || dup2(sink, 1) < 0)
			_exit(126);
		execvp(words[0], words);
		_exit(127);
	}
	checked(waitpid(child, &status, 0), "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		printf("bench: failed %s ended with status %x\n", words[0], status);
		fflush(stdout);
		_exit(1);
	}
}

#define RUN(folder, ...) run(folder, (char *const[]){__VA_ARGS__, NULL})
/* One sample: what the words run. */
#define STEP(name, folder, ...)                                                                                        \
	do {                                                                                                           \
		uint64_t begun, taken;                                                                                 \
		sync();                                                                                                \
		MARK_BEGIN();                                                                                          \
		begun = now();                                                                                         \
		RUN(folder, __VA_ARGS__);                                                                              \
		taken = now() - begun;                                                                                 \
		MARK_END();                                                                                            \
		MARK_FIGURE();                                                                                         \
		printf("bench: figure %s 1 %lu\n", name, (unsigned long)taken);                                        \
		fflush(stdout);                                                                                        \
	} while (0)

static void write_config(const char *name)
{
	int file = (int)checked(open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644), "create");
	checked(write(file, CONFIG, sizeof CONFIG - 1) == sizeof CONFIG - 1 ? 0 : -1, "write");
	checked(close(file), "close");
}

/* What both systems begin with: the tree and its compressed archive on the disk, and each program run once. */
static void prepare(void)
{
	setenv("PATH", "/usr/bin:/bin", 1);
	checked(mkdir(PLACE, 0755), "mkdir");
	RUN(PLACE, "cp", "-r", "/usr/src/tcc", "tcc");
	write_config(PLACE "/tcc/config.h");
	RUN(PLACE, "tar", "--sort=name", "-cf", "source.tar", "tcc");
	RUN(PLACE, "gzip", "source.tar");
	RUN(PLACE, "mv", "tcc", "origin");
	RUN(PLACE "/origin", OPTIONS, "-o", "warm.o", "tccrun.c");
	RUN(PLACE, "diff", "/etc/passwd", "/etc/passwd");
	RUN(PLACE, "rm", "origin/warm.o");
	RUN(PLACE, "du", "-s", ".");
	RUN(PLACE, "ls", ".");
	RUN(PLACE, "grep", "-q", "root", "/etc/passwd");
}

static void install(void)
{
	STEP("copy-small", PLACE, "cp", "source.tar.gz", "copy.tar.gz");
	STEP("uncompress", PLACE, "gzip", "-d", "copy.tar.gz");
	STEP("copy-large", PLACE, "cp", "copy.tar", "large.tar");
	STEP("unpack", PLACE, "tar", "-xf", "large.tar");
	STEP("copy-tree", PLACE, "cp", "-r", "tcc", "tree");
	STEP("diff-tree", PLACE, "diff", "-r", "tcc", "tree");
	STEP("compile", PLACE "/tcc", OPTIONS, "tccasm.c", "x86_64-link.c");
	STEP("delete-objects", PLACE "/tcc", "rm", "tccasm.o", "x86_64-link.o");
	STEP("pack", PLACE, "tar", "-cf", "packed.tar", "tcc");
	STEP("compress", PLACE, "gzip", "packed.tar");
	STEP("delete-tree", PLACE, "rm", "-r", "tcc");
}

static void andrew(void)
{
	STEP("andrew-folders", PLACE, "mkdir", "-p", "m/1/2/3", "m/4/5/6", "m/7/8/9", "m/a/b/c", "m/d/e/f", "m/g/h/i");
	STEP("andrew-copy", PLACE, "cp", "-r", "origin", "m/source");
	STEP("andrew-status", PLACE, "ls", "-lR", "m");
	STEP("andrew-read", PLACE, "grep", "-rc", "int", "m/source");
	STEP("andrew-compile", PLACE "/m/source", OPTIONS, "tccrun.c");
}

int main(void)
{
	begin();
	prepare();
	install();
	andrew();
	return 0;
}
