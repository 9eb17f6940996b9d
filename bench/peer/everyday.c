/*
 * The calls that ordinary programs make all day, each of which asks little of a system: what is measured is the way
 * there and back, and how things are found. No paper has a table of these.
 */
#include "harness.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CALLS 64
#define ROUNDS 16
#define FEW 8
#define PAGE 4096
#define FILE_PAGES 64
#define FILE_NAME "/tmp/measured"
#define LINK_NAME "/tmp/link"
#define FOLDER "/tmp/folder"
#define LARGE_NAME "/tmp/large"
#define NAMES 16

static int file, ends[2], interest, folder, own[2], counter, large;
static char bytes[64];
static volatile int signals_taken;
/* Odd while it is the other thread's turn. */
static volatile uint32_t turn;

static void stats(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(stat(FILE_NAME, &status), "stat");
}

static void statuses_of_descriptor(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(fstat(file, &status), "fstat");
}

static void missing_files(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(stat("/tmp/absent", &status) == 0 ? -1 : 0, "stat of what is not there");
}

static void opens(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(close((int)checked(open(FILE_NAME, O_RDONLY), "open")), "close");
}

static void reads(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(pread(file, bytes, sizeof bytes, 0), "pread");
}

static void writes(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(pwrite(file, bytes, sizeof bytes, 0), "pwrite");
}

static void seeks(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(lseek(file, 0, SEEK_SET), "lseek");
}

static void polls(void)
{
	struct pollfd wanted = { .fd = ends[0], .events = POLLIN };
	for (int call = 0; call < CALLS; call++)
		checked(poll(&wanted, 1, -1), "poll");
}

static void interests(void)
{
	struct epoll_event event;
	for (int call = 0; call < CALLS; call++)
		checked(epoll_wait(interest, &event, 1, -1), "epoll_wait");
}

static void selects(void)
{
	fd_set wanted;
	for (int call = 0; call < CALLS; call++) {
		FD_ZERO(&wanted);
		FD_SET(ends[0], &wanted);
		checked(select(ends[0] + 1, &wanted, NULL, NULL, NULL), "select");
	}
}

static void duplicates(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(close((int)checked(dup(file), "dup")), "close");
}

static void flags(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(fcntl(file, F_GETFL), "fcntl");
}

static void accesses(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(access(FILE_NAME, R_OK), "access");
}

static void links_read(void)
{
	char target[64];
	for (int call = 0; call < CALLS; call++)
		checked(readlink(LINK_NAME, target, sizeof target), "readlink");
}

static void stats_through_link(void)
{
	struct stat status;
	for (int call = 0; call < CALLS; call++)
		checked(stat(LINK_NAME, &status), "stat");
}

static void lists(void)
{
	static char entries[4096];
	for (int call = 0; call < CALLS; call++) {
		checked(lseek(folder, 0, SEEK_SET), "lseek");
		checked(syscall(SYS_getdents64, folder, entries, sizeof entries), "getdents64");
	}
}

static void users(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(getuid(), "getuid");
}

static void pipe_bytes(void)
{
	for (int call = 0; call < CALLS; call++) {
		checked(write(own[1], bytes, sizeof bytes), "write to a pipe");
		checked(read(own[0], bytes, sizeof bytes), "read from a pipe");
	}
}

static void counts(void)
{
	uint64_t count = 1;
	for (int call = 0; call < CALLS; call++) {
		checked(write(counter, &count, sizeof count), "write to an eventfd");
		checked(read(counter, &count, sizeof count), "read from an eventfd");
	}
}

static void makes(void)
{
	for (int call = 0; call < CALLS; call++) {
		checked(close((int)checked(open(FOLDER "/made", O_CREAT | O_EXCL | O_WRONLY, 0644), "create")), "close");
		checked(unlink(FOLDER "/made"), "unlink");
	}
}

static void renames(void)
{
	for (int call = 0; call < CALLS; call++) {
		checked(rename(FOLDER "/0", FOLDER "/renamed"), "rename");
		checked(rename(FOLDER "/renamed", FOLDER "/0"), "rename");
	}
}

static void whole_files(void)
{
	for (int call = 0; call < CALLS; call++) {
		int whole = (int)checked(open(FILE_NAME, O_RDONLY), "open");
		while (checked(read(whole, bytes, sizeof bytes), "read") != 0)
			;
		checked(close(whole), "close");
	}
}

static void mappings(void)
{
	for (int call = 0; call < CALLS; call++) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		checked(page == MAP_FAILED ? -1 : 0, "mmap");
		*page = 1;
		checked(munmap(page, 4096), "munmap");
	}
}

static void actions(void)
{
	struct sigaction action;
	for (int call = 0; call < CALLS; call++)
		checked(sigaction(SIGUSR1, NULL, &action), "sigaction");
}

static void clocks(void)
{
	struct timespec time;
	for (int call = 0; call < CALLS; call++)
		clock_gettime(CLOCK_MONOTONIC, &time);
}

static void take_signal(int signal)
{
	(void)signal;
	signals_taken++;
}

static void signals(void)
{
	for (int call = 0; call < CALLS; call++)
		checked(kill(getpid(), SIGUSR1), "kill");
}

static void masks(void)
{
	sigset_t set;
	sigemptyset(&set);
	for (int call = 0; call < CALLS; call++)
		checked(sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

static void close_both(const int pair[2])
{
	for (int end = 0; end < 2; end++)
		checked(close(pair[end]), "close");
}

static void pipes(void)
{
	int pair[2];
	for (int call = 0; call < FEW; call++) {
		checked(pipe(pair), "pipe");
		close_both(pair);
	}
}

static void socket_pairs(void)
{
	int pair[2];
	for (int call = 0; call < FEW; call++) {
		checked(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		close_both(pair);
	}
}

static void touch_mapped(int flags)
{
	char *mapped = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, flags, large, 0);
	checked(mapped == MAP_FAILED ? -1 : 0, "mmap of a file");
	for (int page = 0; page < FILE_PAGES; page++)
		(void)*(volatile char *)(mapped + page * PAGE);
	checked(munmap(mapped, FILE_PAGES * PAGE), "munmap");
}

static void shared_files(void)
{
	touch_mapped(MAP_SHARED);
}

static void private_files(void)
{
	touch_mapped(MAP_PRIVATE);
}

static void *end_at_once(void *nothing)
{
	return nothing;
}

static void threads(void)
{
	pthread_t thread;
	for (int call = 0; call < FEW; call++) {
		checked(-pthread_create(&thread, NULL, end_at_once, NULL), "pthread_create");
		checked(-pthread_join(thread, NULL), "pthread_join");
	}
}

static void await_turn(uint32_t parity)
{
	for (;;) {
		uint32_t seen = turn;
		if ((seen & 1) == parity)
			return;
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL);
	}
}

static void pass_turn(void)
{
	++turn;
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1);
}

static void *other_thread(void *nothing)
{
	for (;;) {
		await_turn(1);
		pass_turn();
	}
	return nothing;
}

static void turns(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		pass_turn();
		await_turn(0);
	}
}

static void prepare_folder(void)
{
	char name[32];
	checked(mkdir(FOLDER, 0755), "mkdir");
	for (int index = 0; index < NAMES; index++) {
		sprintf(name, FOLDER "/%d", index);
		checked(close((int)checked(open(name, O_CREAT | O_WRONLY, 0644), "create")), "close");
	}
	folder = (int)checked(open(FOLDER, O_RDONLY | O_DIRECTORY), "open");
}

static void prepare(void)
{
	struct sigaction action = { .sa_handler = take_signal };
	struct epoll_event event = { .events = EPOLLIN };
	file = (int)checked(open(FILE_NAME, O_CREAT | O_RDWR | O_TRUNC, 0644), "create");
	checked(write(file, bytes, sizeof bytes), "write");
	checked(pipe(ends), "pipe");
	checked(write(ends[1], bytes, 1), "write to a pipe");
	checked(sigaction(SIGUSR1, &action, NULL), "sigaction");
	checked(symlink(FILE_NAME, LINK_NAME), "symlink");
	prepare_folder();
	large = (int)checked(open(LARGE_NAME, O_CREAT | O_RDWR, 0644), "create");
	for (int index = 0; index < FILE_PAGES * PAGE; index += sizeof bytes)
		checked(write(large, bytes, sizeof bytes), "write");
	checked(pipe(own), "pipe");
	counter = (int)checked(eventfd(0, 0), "eventfd");
	interest = (int)checked(epoll_create1(0), "epoll_create1");
	checked(epoll_ctl(interest, EPOLL_CTL_ADD, ends[0], &event), "epoll_ctl");
}

int main(void)
{
	pthread_t thread;
	begin();
	prepare();
	measure("stat", CALLS, stats);
	measure("stat-absent", CALLS, missing_files);
	measure("fstat", CALLS, statuses_of_descriptor);
	measure("open-close", CALLS, opens);
	measure("read", CALLS, reads);
	measure("write", CALLS, writes);
	measure("seek", CALLS, seeks);
	measure("poll", CALLS, polls);
	measure("epoll", CALLS, interests);
	measure("select", CALLS, selects);
	measure("dup-close", CALLS, duplicates);
	measure("fcntl", CALLS, flags);
	measure("access", CALLS, accesses);
	measure("readlink", CALLS, links_read);
	measure("stat-link", CALLS, stats_through_link);
	measure("getdents", CALLS, lists);
	measure("getuid", CALLS, users);
	measure("pipe-alone", CALLS, pipe_bytes);
	measure("eventfd", CALLS, counts);
	measure("create-unlink", CALLS, makes);
	measure("rename", CALLS, renames);
	measure("whole-file", CALLS, whole_files);
	measure("mmap", CALLS, mappings);
	measure("sigaction", CALLS, actions);
	measure("clock", CALLS, clocks);
	measure("signal", CALLS, signals);
	measure("mask", CALLS, masks);
	checked(-pthread_create(&thread, NULL, other_thread, NULL), "pthread_create");
	measure("futex-threads", ROUNDS, turns);
	measure("pipes", FEW, pipes);
	measure("socket-pairs", FEW, socket_pairs);
	measure("file-shared", FILE_PAGES, shared_files);
	measure("file-private", FILE_PAGES, private_files);
	measure("threads", FEW, threads);
	return 0;
}
