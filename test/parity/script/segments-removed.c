// A program in C, compiled by the host's compiler, and the same on both sides.
// Segments of System V that are removed while somebody has them attached: told of, attached again by number, gone with the last one.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY 0x4c494e
static void show(const char *when, int segment)
{
	struct shmid_ds status;
	if (shmctl(segment, IPC_STAT, &status)) {
		printf("%s: %s\n", when, strerrorname_np(errno));
		return;
	}
	printf("%s: mode %o key %x bytes %zu attached %lu\n", when, status.shm_perm.mode, status.shm_perm.__key, status.shm_segsz, status.shm_nattch);
}
static char *attach(int segment)
{
	char *place = shmat(segment, NULL, 0);
	if (place == (void *)-1) printf("shmat: %s\n", strerrorname_np(errno));
	return place;
}
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	int segment = shmget(KEY, 5000, IPC_CREAT | IPC_EXCL | 0640);
	show("made", segment);
	char *first = attach(segment), *second = shmat(segment, NULL, SHM_RDONLY);
	strcpy(first, "first");
	show("attached twice", segment);
	printf("remove %d\n", shmctl(segment, IPC_RMID, NULL));
	show("removed", segment);
	printf("remove again %d\n", shmctl(segment, IPC_RMID, NULL));
	printf("by key: %s\n", shmget(KEY, 0, 0) < 0 ? strerrorname_np(errno) : "found");
	int other = shmget(KEY, 100, IPC_CREAT | IPC_EXCL | 0600);
	printf("another with that key %d\n", other != segment && other >= 0);
	char *third = attach(segment);
	printf("%s %s\n", second, third);
	show("attached once more", segment);
	if (!fork()) {
		show("in a child", segment);
		strcpy(third, "child");
		_exit(0);
	}
	wait(NULL);
	printf("detach %d %d\n", shmdt(first), shmdt(third));
	show("one left", segment);
	printf("%s\n", second);
	printf("detach %d\n", shmdt(second));
	show("none left", segment);
	attach(segment);
	show("the other", other);
	printf("remove %d\n", shmctl(other, IPC_RMID, NULL));
	show("not attached", other);
	return 0;
}
