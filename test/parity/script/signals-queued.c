// A program in C, compiled by the host's compiler, and the same on both sides.
// Real-time signals that queue, and RLIMIT_SIGPENDING: sigqueue meets it with EAGAIN, kill does not. Threads under it.
#define _GNU_SOURCE
#include <errno.h>
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
	int taken = 0, in_order = 1, last = -1;
	while (sigtimedwait(set, &information, &none) > 0) {
		if (information.si_code == SI_QUEUE && information.si_value.sival_int <= last) in_order = 0;
		last = information.si_value.sival_int;
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
	printf("to a thread: %d\n", sent);
	return unused;
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
