// A program in C, compiled by the host's compiler, and the same on both sides.
// Writes to read-only files of the own folder of /proc are refused and change nothing.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void attempt(const char *folder, const char *name)
{
	char path[64], before[4096], after[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int reader = open(path, O_RDONLY);
	ssize_t had = pread(reader, before, sizeof before, 0);
	int writer = open(path, O_WRONLY), both = open(path, O_RDWR);
	// User 0 may open all on Linux, and writes in vain.
	int refused = (writer < 0 || write(writer, "5", 1) < 0) && (both < 0 || write(both, "5\n", 2) < 0);
	int other = open(path, O_RDONLY);
	ssize_t has = pread(other, after, sizeof after, 0);
	printf("%s: %s, %s\n", path, refused ? "refused" : "WRITTEN", had == has && !memcmp(before, after, had > 0 ? had : 0) ? "the same" : "CHANGED");
}
int main(void)
{
	const char *const names[] = {"environ", "auxv", "personality", "maps", "cmdline", "limits", "mountinfo"};
	const char *const folders[] = {"/proc/self", "/proc/thread-self"};
	char score[16] = "";
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int folder = 0; folder < 2; folder++)
		for (unsigned name = 0; name < sizeof names / sizeof *names; name++) attempt(folders[folder], names[name]);
	if (read(open("/proc/self/oom_score_adj", O_RDONLY), score, sizeof score) < 1) return 9;
	printf("score %s", score);
	printf("what may be set: %zd\n", write(open("/proc/self/oom_score_adj", O_WRONLY), "5", 1));
	return 0;
}
