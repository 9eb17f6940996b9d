// Many pipes, or Unix sockets, in one wait: epoll by level and by edge, poll and select. Idle ones take no time of the
// CPU. Then another process writes to them in random order, closes some, and is killed or executes a program. At last it
// waits for room in many that are full. No wake-up is lost. With "bytes" it prints nanoseconds for each byte instead.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 200, TURNS = 400, PATIENCE = 5000, FULL = 20 };
#include "waits.h"

/* Writes a byte for each that it is asked for, or closes an end, or all by execve. */
static void writer(int ask)
{
	char go;
	for (int turn = 0; read(ask, &go, 1) == 1; turn++) {
		int at = draw(COUNT);
		while (to[at] < 0) at = (at + 1) % COUNT;
		if (go == 'e') {
			for (int i = 0; i < COUNT; i++) if (to[i] >= 0) fcntl(to[i], F_SETFD, FD_CLOEXEC);
			execl("/proc/self/exe", "pipes_many", "pause", NULL);
		}
		if (go == 'c') close(to[at]), to[at] = -1;
		else if (write(to[at], "x", 1) != 1) exit(1);
	}
	pause();
}

static void exchanges(const char *what, int pairs, int way, int timed, int bytes)
{
	int ask[2], ready[COUNT], bad = 0, closed = 0, ended = 0;
	CHECK(set = epoll_create1(0));
	CHECK(pipe(ask));
	for (int i = 0; i < COUNT; i++) {
		int ends[2];
		if (pairs) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		else CHECK(pipe(ends));
		from[i] = ends[0], to[i] = ends[1];
		struct epoll_event event = {.events = EPOLLIN | (way == EDGE ? EPOLLET : 0), .data.fd = i};
		if (way <= EDGE) CHECK(epoll_ctl(set, EPOLL_CTL_ADD, from[i], &event));
	}
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < COUNT; i++) close(from[i]);
		close(ask[1]);
		writer(ask[0]);
	}
	close(ask[0]);
	for (int i = 0; i < COUNT; i++) close(to[i]);
	long before = now(CLOCK_PROCESS_CPUTIME_ID);
	int found = waits(way, 1000, ready);
	long spent = now(CLOCK_PROCESS_CPUTIME_ID) - before;
	if (!timed || spent < 5000000) printf("%s, %s: %d events in a second, idle\n", what, names[way], found);
	else printf("%s, %s: %d events in a second, %ld us\n", what, names[way], found, spent / 1000);
	before = now(CLOCK_MONOTONIC);
	for (int turn = 0; turn < TURNS; turn++) {
		int closes = !bytes && turn % 20 == 7;
		char byte, go = closes ? 'c' : 'w';
		CHECK(write(ask[1], &go, 1));
		found = waits(way, PATIENCE, ready);
		if (found != 1) { bad++; continue; }
		int got = read(from[ready[0]], &byte, 1);
		if (got != !closes) bad++;
		if (got == 0) close(from[ready[0]]), from[ready[0]] = -1, closed++;
	}
	spent = now(CLOCK_MONOTONIC) - before;
	if (bytes) printf("%s, %s: %ld ns for a byte\n", what, names[way], spent / TURNS);
	/* Killed while the other one sleeps, or it executes a program. */
	pid_t killer = fork();
	if (killer == 0) {
		usleep(20000);
		if (pairs) CHECK(write(ask[1], "e", 1));
		else kill(child, SIGKILL);
		_exit(0);
	}
	while (ended < COUNT - closed && (found = waits(way, PATIENCE, ready)) > 0) {
		ended += found;
		for (int i = 0; i < found; i++) close(from[ready[i]]), from[ready[i]] = -1;
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0), waitpid(killer, NULL, 0);
	printf("%s, %s: %d closed, %d ended, %d wrong\n", what, names[way], closed, ended, bad);
	close(set), close(ask[1]);
}

/* The child waits for room in many, and says where there was some. */
static void room(const char *what, int pairs)
{
	static char block[65536];
	int said[2], go[2], lost = 0;
	CHECK(pipe(said));
	CHECK(pipe(go));
	for (int i = 0; i < FULL; i++) {
		int ends[2];
		if (pairs) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		else CHECK(pipe(ends));
		from[i] = ends[0], to[i] = ends[1];
		fcntl(to[i], F_SETFL, O_NONBLOCK), fcntl(from[i], F_SETFL, O_NONBLOCK);
		while (write(to[i], block, sizeof block) > 0) {}
	}
	pid_t child = fork();
	if (child == 0) {
		for (int turn = 0; turn < 50; turn++) {
			struct pollfd polled[FULL];
			for (int i = 0; i < FULL; i++) polled[i] = (struct pollfd){to[i], POLLOUT, 0};
			char which = -1;
			if (poll(polled, FULL, PATIENCE) > 0)
				for (int i = 0; i < FULL; i++) if (polled[i].revents & POLLOUT) which = i;
			CHECK(write(said[1], &which, 1));
			char next;
			CHECK(read(go[0], &next, 1));
			if (which >= 0) while (write(to[(int)which], block, sizeof block) > 0) {}
			CHECK(write(said[1], &next, 1));
		}
		_exit(0);
	}
	for (int turn = 0; turn < 50; turn++) {
		int at = draw(FULL);
		char which = -1;
		if (turn % 3 == 0) usleep(2000);
		while (read(from[at], block, sizeof block) > 0) {}
		CHECK(read(said[0], &which, 1));
		lost += which < 0;
		CHECK(write(go[1], "", 1));
		CHECK(read(said[0], &which, 1));
	}
	waitpid(child, NULL, 0);
	printf("%s: room was not found %d times\n", what, lost);
	for (int i = 0; i < FULL; i++) close(from[i]), close(to[i]);
	close(said[0]), close(said[1]), close(go[0]), close(go[1]);
}

int main(int arguments, char **argument)
{
	/* Where the clock counts instructions: the time of the host means nothing. */
	if (arguments > 1 && !strcmp(argument[1], "pause")) return pause();
	int timed = arguments > 1, bytes = timed && !strcmp(argument[1], "bytes");
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int way = LEVEL; way < WAYS; way++) {
		exchanges("pipes", 0, way, timed, bytes);
		exchanges("pairs", 1, way, timed, bytes);
	}
	room("pipes", 0), room("pairs", 1);
}
