// A program in C, compiled by the host's compiler, and the same on both sides.
// Pipes and socket pairs made and closed over and over, by threads that end and with children that hold them: each begins empty, holds what one holds, and is its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;
#define CHECK(what) do { if (!(what)) { failed++; printf("line %d: %s\n", __LINE__, #what); } } while (0)
static int make(int pair[2], int is_socket)
{
	return is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair);
}
static int waiting(int end)
{
	int count = -1;
	return ioctl(end, FIONREAD, &count) ? -2 : count;
}
/* One is made, filled with so many bytes of a value, read again, and closed, one end or the other first. */
static void use(int is_socket, int bytes, char value, int other_first)
{
	static __thread char out[60000], in[60000];
	int pair[2];
	CHECK(make(pair, is_socket) == 0);
	CHECK(waiting(pair[0]) == 0);
	memset(out, value, bytes);
	CHECK(write(pair[1], out, bytes) == bytes && waiting(pair[0]) == bytes);
	int left = bytes / 2;
	CHECK(read(pair[0], in, bytes - left) == bytes - left && memcmp(in, out, bytes - left) == 0);
	CHECK(close(pair[other_first]) == 0 && close(pair[!other_first]) == 0);
}
static void *use_some(void *unused)
{
	(void)unused;
	for (int round = 0; round < 6; round++) use(round & 1, 100 + round * 9000, 'a' + round, round >> 1 & 1);
	return NULL;
}
/* A child holds both ends when its parent has closed them. */
static void share(int is_socket)
{
	int pair[2], back[2], status;
	char byte;
	CHECK(make(pair, is_socket) == 0 && make(back, !is_socket) == 0);
	pid_t child = fork();
	if (!child) {
		CHECK(read(pair[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1);
		CHECK(write(pair[1], "own", 3) == 3 && read(pair[0], (char[3]){0}, 3) == (is_socket ? -1 : 3));
		_exit(failed ? 1 : 0);
	}
	if (!is_socket) CHECK(write(pair[1], "x", 1) == 1);
	else CHECK(write(pair[1], "y", 1) == 1);
	CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
	for (int round = 0; round < 4; round++) use(round & 1, 5000, 'k', 0);
	CHECK(read(back[0], &byte, 1) == 1 && byte == (is_socket ? 'y' : 'x'));
	CHECK(close(back[0]) == 0 && close(back[1]) == 0);
	CHECK(waitpid(child, &status, 0) == child);
	printf("child %d: %x\n", is_socket, status);
}
int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int round = 0; round < 40; round++) use(round % 3 == 0, 1 + round * 1400, 'A' + round, round & 1);
	puts("one after the other");
	int many[12][2];
	for (int round = 0; round < 12; round++) CHECK(make(many[round], round & 1) == 0 && write(many[round][1], &round, sizeof round) == sizeof round);
	for (int round = 0; round < 12; round++) {
		int told = -1;
		CHECK(read(many[round][0], &told, sizeof told) == sizeof told && told == round);
		close(many[round][round & 1]), close(many[round][!(round & 1)]);
	}
	puts("many at once");
	for (int round = 0; round < 8; round++) {
		pthread_t threads[2];
		for (int index = 0; index < 2; index++) CHECK(pthread_create(&threads[index], NULL, use_some, NULL) == 0);
		for (int index = 0; index < 2; index++) CHECK(pthread_join(threads[index], NULL) == 0);
		use_some(NULL);
	}
	puts("by threads that end");
	share(0);
	for (int round = 0; round < 10; round++) use(round & 1, 30000, 'z', 1);
	printf("%d failed\n", failed);
	return 0;
}
