// A program in C, compiled by the host's compiler, and the same on both sides.
// Real-time signals that queue, and RLIMIT_SIGPENDING: sigqueue meets it with EAGAIN, kill does not. Threads under it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int queue_many(const char *what, int signal, int count)
{
	int sent = 0, error = 0;
	for (int index = 0; index < count; index++) {
		if (sigqueue(getpid(), signal, (union sigval){.sival_int = index}) == 0) sent++;
		else error = errno;
	}
	printf("%s: %d of %d queued, %s\n", what, sent, count, error ? strerrorname_np(error) : "no error");
	return sent;
}
static void take_all(const char *what, const sigset_t *set)
{
	struct timespec none = {0, 0};
	siginfo_t information;
	int taken = 0, in_order = 1, last = -1, signal = 0;
	while (sigtimedwait(set, &information, &none) > 0) {
		if (information.si_signo != signal) last = -1;
		if (information.si_code == SI_QUEUE && information.si_value.sival_int <= last) in_order = 0;
		last = information.si_value.sival_int;
		signal = information.si_signo;
		taken++;
	}
	printf("%s: %d taken, %s\n", what, taken, in_order ? "in order" : "OUT OF ORDER");
}
static void limit(rlim_t most)
{
	struct rlimit limits;
	getrlimit(RLIMIT_SIGPENDING, &limits);
	limits.rlim_cur = most;
	printf("limit %d\n", setrlimit(RLIMIT_SIGPENDING, &limits));
}
static void *thread(void *unused)
{
	int sent = 0;
	for (int index = 0; index < 20; index++)
		if (pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = index}) == 0) sent++;
	// Other processes of the user have signals that count on Linux.
	printf("to a thread: %s\n", sent <= 10 ? "10 at most" : "MORE THAN 10");
	return unused;
}
// More than a page has room for: to the process, to a thread, and to a child that blocks them and sleeps or computes.
static void *many_to_thread(void *set)
{
	int sent = 0, refused = 0;
	for (int index = 0; index < 300; index++)
		if (pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = index}) == 0) sent++;
		else refused++;
	printf("to a thread: %d, refused %d\n", sent, refused);
	take_all("the thread", set);
	return set;
}
static void many_to_child(const char *what, int computes, const sigset_t *all)
{
	int ready[2], done[2], sent = 0;
	char byte;
	pipe(ready);
	pipe(done);
	pid_t child = fork();
	if (!child) {
		close(done[1]);
		write(ready[1], "r", 1);
		// The pipe ends once all is sent.
		if (computes) fcntl(done[0], F_SETFL, O_NONBLOCK);
		while (read(done[0], &byte, 1) != 0)
			for (volatile int turn = 0; turn < 1000; turn++);
		take_all(what, all);
		_exit(0);
	}
	read(ready[0], &byte, 1);
	for (int index = 0; index < 400; index++)
		sent += sigqueue(child, SIGRTMIN + index % 3, (union sigval){.sival_int = index / 3}) == 0;
	printf("%s: %d sent\n", what, sent);
	close(done[1]);
	waitpid(child, NULL, 0);
	close(done[0]);
	close(ready[0]);
	close(ready[1]);
}
int main(void)
{
	sigset_t all;
	pthread_t other;
	setvbuf(stdout, NULL, _IONBF, 0);
	sigemptyset(&all);
	for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) sigaddset(&all, signal);
	sigaddset(&all, SIGUSR1);
	sigprocmask(SIG_BLOCK, &all, NULL);
	int failed = 0;
	for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) failed += raise(signal) != 0;
	printf("raised, failed %d\n", failed);
	struct timespec none = {0, 0};
	int taken = 0, ascending = 1, last = 0;
	for (int signal; (signal = sigtimedwait(&all, NULL, &none)) > 0; taken++) {
		if (signal <= last) ascending = 0;
		last = signal;
	}
	printf("taken %d, %s\n", taken, ascending ? "ascending" : "NOT ascending");
	queue_many("before", SIGRTMIN, 60);
	take_all("before", &all);
	queue_many("many", SIGRTMIN + 1, 1000);
	queue_many("others", SIGRTMIN, 100);
	take_all("many", &all);
	pthread_create(&other, NULL, many_to_thread, &all);
	pthread_join(other, NULL);
	many_to_child("a child that sleeps", 0, &all);
	many_to_child("a child that computes", 1, &all);
	queue_many("before the limit", SIGRTMIN, 200);
	limit(100);
	queue_many("above the limit", SIGRTMIN, 3);
	take_all("above the limit", &all);
	limit(0);
	queue_many("none", SIGRTMIN, 3);
	printf("kill %d, raise %d\n", kill(getpid(), SIGRTMIN + 1), raise(SIGUSR1));
	take_all("without room", &all);
	limit(10);
	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	pid_t child = fork();
	if (!child) {
		take_all("the child", &all);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return 0;
}
