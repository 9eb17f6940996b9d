/*
 * A remote procedure call built on signals: exokernel-sosp95 section 6.1. The client signals the server, which counts up and
 * answers with a signal that carries the counter. Both wait for signals without handlers, the fastest way that Linux has.
 */
#include "harness.h"

#include <signal.h>
#include <sys/wait.h>

#define CALLS 16

static pid_t server;
static sigset_t request, answer;

static void serve(pid_t client)
{
	union sigval counter = {0};
	for (;;) {
		checked(sigwaitinfo(&request, NULL), "sigwaitinfo");
		counter.sival_int++;
		checked(sigqueue(client, SIGUSR2, counter), "sigqueue");
	}
}

static void calls(void)
{
	siginfo_t information;
	for (int call = 0; call < CALLS; call++) {
		checked(kill(server, SIGUSR1), "kill");
		checked(sigwaitinfo(&answer, &information), "sigwaitinfo");
	}
}

int main(void)
{
	sigset_t both;
	pid_t client = getpid();
	begin();
	sigemptyset(&request);
	sigaddset(&request, SIGUSR1);
	sigemptyset(&answer);
	sigaddset(&answer, SIGUSR2);
	sigorset(&both, &request, &answer);
	checked(sigprocmask(SIG_BLOCK, &both, NULL), "sigprocmask");
	server = (pid_t)checked(fork(), "fork");
	if (server == 0)
		serve(client);
	measure("signal-call", CALLS, calls);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return 0;
}
